//! The calls in flight on the fast path at one id. They wait only for answers of children.
//!
//! The place of a call in the table follows from its name. A root numbers its calls upwards, so its calls in flight
//! have neighbouring places. If a place is taken, the next call uses the general path.

use std::hash::BuildHasher;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use gpc_trees::sorting::sort_by;
use gpc_trees::{Id, IdList};
use smallvec::SmallVec;

use super::plans::{Plan, Plans};
use super::seeded_hash::Seeded;
use super::short_replies::{ShortAnswer, ShortReplies};
use super::sizes::Sizes;
use super::timeline::Timeline;
use super::{Reply, Time};
use crate::branch_hint::{likely, unlikely};
use crate::wire::CallId;

/// Maximum number of places: enough for the credit of several parents, by default 256 requests each.
const PLACES_MAX: usize = 4096;

/// Number of places for the first call.
const PLACES_MIN: usize = 4;

/// The table grows if a place is taken while at least one in this many places is in use. In a sparser table the call
/// uses the general path.
const SPARSE: usize = 8;

/// Maximum number of ended calls whose memory is kept for reuse.
const SPARE_MAX: usize = 128;

/// Maximum memory for replies in all spare calls, in bytes: twice the replies of 64 calls over 64 ids with one line
/// each.
const ROOM_KEPT: usize = 1 << 20;

/// The same at an idle node.
const ROOM_IDLE: usize = 64 << 10;

/// Maximum memory of one reply that is kept for reuse, in bytes.
const REPLY_KEPT: usize = 1024;

/// Origin of a call on the fast path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallOrigin {
    /// The application.
    Application {
        /// Ticket of the [start](super::Input::Start).
        ticket: u64,
        /// Whether the root only watches.
        watch: bool,
    },
    /// A parent.
    Parent(Id),
}

/// A call whose func has run, and whose children have the request.
#[derive(Debug)]
pub(super) struct FastCall {
    pub(super) call: CallId,
    pub(super) origin: CallOrigin,
    pub(super) plan: Arc<Plan>,
    /// When the call arrived here, and what followed.
    pub(super) times: Timeline,
    pub(super) deadline: Time,
    /// When the root's time limit passes.
    pub(super) until: Time,
    /// Age of the call at its arrival, in milliseconds.
    pub(super) age: u32,
    /// Position of this id in the whole tree.
    pub(super) position: u32,
    /// Number of places in the whole tree.
    pub(super) total: u32,
    pub(super) own: Reply,
    /// Bits of the children that have answered, by index.
    answered: SmallVec<[u64; 2]>,
    /// Number of children without an answer.
    awaited: u32,
    pub(super) replies: ShortReplies,
}

impl FastCall {
    fn new(plan: Arc<Plan>) -> FastCall {
        let call = CallId { root: 0, sequence: 0 };
        let (times, deadline, until) = Default::default();
        let (own, answered, replies) = Default::default();
        let (origin, age, awaited) = (CallOrigin::Parent(0), 0, 0);
        let (position, total) = (0, 0);
        FastCall {
            call,
            origin,
            plan,
            times,
            deadline,
            until,
            age,
            position,
            total,
            own,
            answered,
            awaited,
            replies,
        }
    }

    /// Waits for all children of the plan.
    #[inline(always)]
    pub(super) fn wait_for_all(&mut self) {
        let children = self.plan.children.len();
        self.answered.clear();
        // One word in most trees.
        (0..children.div_ceil(64)).for_each(|_| self.answered.push(0));
        if self.plan.reply_wanted {
            self.replies.expect(children);
        }
        self.awaited = children as u32;
    }

    /// Returns the index of a child that has not answered.
    pub(super) fn awaited_child(&self, id: Id) -> Option<usize> {
        self.plan.child(id).filter(|&index| !self.has_answered(index))
    }

    /// The same, trying this index first.
    #[inline(always)]
    pub(super) fn awaited_child_at(&self, place: usize, id: Id) -> Option<usize> {
        let there = self.plan.children.get(place).is_some_and(|child| child.id == id);
        let index = if there { Some(place) } else { self.plan.child(id) };
        index.filter(|&index| !self.has_answered(index))
    }

    pub(super) fn has_answered(&self, index: usize) -> bool {
        self.answered[index / 64] >> (index % 64) & 1 == 1
    }

    /// Records the answer of a child. Returns whether all children have answered.
    pub(super) fn answered(&mut self, index: usize) -> bool {
        self.answered[index / 64] |= 1 << (index % 64);
        self.awaited -= 1;
        self.awaited == 0
    }

    /// Number of children that have not answered.
    pub(super) fn awaited(&self) -> u32 {
        self.awaited
    }

    /// Ids of the children that have not answered.
    pub(super) fn awaited_ids(&self) -> impl Iterator<Item = Id> + '_ {
        let children = self.plan.children.iter().enumerate();
        children.filter(|(index, _)| !self.has_answered(*index)).map(|(_, child)| child.id)
    }

    /// Whether long replies may be streamed to the parent. The first one moves the call into the tables.
    pub(super) fn passes_on(&self) -> bool {
        matches!(self.origin, CallOrigin::Parent(_)) && self.plan.reply_wanted
    }

    /// The answer, once all children have answered.
    pub(super) fn answer(&self) -> ShortAnswer<'_> {
        let watches = matches!(self.origin, CallOrigin::Application { watch: true, .. });
        ShortAnswer {
            call: self.call,
            own: Some(&self.own).filter(|_| !watches),
            replies: &self.replies,
            merged: self.plan.key().callback().is_some(),
            wanted: self.plan.reply_wanted,
        }
    }
}

/// Empties a reply but keeps its memory, up to a limit.
#[inline(always)]
fn empty(reply: &mut Reply) {
    if unlikely(reply.header.capacity() + reply.data.capacity() > REPLY_KEPT) {
        *reply = Reply::default();
    }
    reply.header.clear();
    reply.data.clear();
    if unlikely(!reply.shared.is_empty()) {
        reply.shared = Bytes::new();
    }
}

/// A place in the table of calls on the fast path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FastSlot(u32);

/// The table of calls on the fast path, with the plans and the reusable memory.
#[derive(Debug)]
pub(super) struct FastCalls {
    pub(super) plans: Plans,
    /// Empty, or a power of two of places.
    #[allow(clippy::vec_box, reason = "a call stays where it is while its box goes from place to place")]
    table: Vec<Option<Box<FastCall>>>,
    len: usize,
    seeded: Seeded,
    #[allow(clippy::vec_box, reason = "as above")]
    spare: Vec<Box<FastCall>>,
    /// The next call with children, empty except for the reply of its func: func writes the reply where it stays.
    next: Option<Box<FastCall>>,
    /// Memory for replies in the spare calls, in bytes.
    room: usize,
    /// Reusable memory for the reply of a leaf.
    pub(super) spare_reply: Reply,
    /// Reusable memory for a frame that several children get.
    pub(super) frame: BytesMut,
    /// No deadline is earlier.
    soonest: Option<Time>,
    /// Index of the child that answered last: the answers of one child to many calls arrive together.
    pub(super) last_child: usize,
}

impl FastCalls {
    #[cold]
    pub(super) fn boxed(seed: u64, sizes: &Sizes) -> Box<FastCalls> {
        Box::new(FastCalls::new(seed, sizes))
    }

    pub(super) fn new(seed: u64, sizes: &Sizes) -> FastCalls {
        FastCalls {
            plans: Plans::new(seed, sizes),
            table: Vec::new(),
            len: 0,
            seeded: Seeded::new(seed),
            spare: Vec::new(),
            next: None,
            room: 0,
            spare_reply: Reply::default(),
            frame: BytesMut::new(),
            soonest: None,
            last_child: 0,
        }
    }

    #[inline(always)]
    fn place(&self, call: CallId) -> Option<usize> {
        let last = self.table.len().checked_sub(1)?;
        let begin = self.seeded.hash_one(call.root);
        Some(begin.wrapping_add(call.sequence) as usize & last)
    }

    /// Number of leaked entries: names without a plan, and uncounted calls.
    pub(super) fn leaks(&self) -> usize {
        self.plans.leaks() + self.table.iter().flatten().count().abs_diff(self.len)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub(super) fn find(&self, call: CallId) -> Option<FastSlot> {
        let place = self.place(call)?;
        let found = self.table[place].as_ref().is_some_and(|fast_call| fast_call.call == call);
        found.then_some(FastSlot(place as u32))
    }

    pub(super) fn get(&self, FastSlot(place): FastSlot) -> Option<&FastCall> {
        self.table.get(place as usize)?.as_deref()
    }

    pub(super) fn get_mut(&mut self, FastSlot(place): FastSlot) -> Option<&mut FastCall> {
        self.table.get_mut(place as usize)?.as_deref_mut()
    }

    /// Grows the table if the place of a call is taken. Returns whether the place is free now.
    #[inline(always)]
    pub(super) fn make_room(&mut self, call: CallId) -> bool {
        loop {
            match self.place(call) {
                Some(place) if likely(self.table[place].is_none()) => return true,
                _ if self.table.len() >= PLACES_MAX || self.len * SPARSE < self.table.len() => return false,
                // Terminates: the table doubles each time.
                _ => self.grow(),
            }
        }
    }

    #[cold]
    fn grow(&mut self) {
        let places = (self.table.len() * 2).max(PLACES_MIN);
        let old = std::mem::take(&mut self.table);
        self.table.resize_with(places, || None);
        for fast_call in old.into_iter().flatten() {
            // Two calls with different places keep different places in a larger table.
            if let Some(place) = self.place(fast_call.call) {
                self.table[place] = Some(fast_call);
            }
        }
    }

    /// The ids of the last found plan, and an empty reply for its func in the [next call](Self::fresh).
    #[inline(always)]
    pub(super) fn reply_room(&mut self) -> Option<(&IdList, &mut Reply)> {
        let FastCalls { plans, spare, next, .. } = self;
        let plan = plans.found()?;
        let fast_call = next.get_or_insert_with(|| match spare.pop() {
            Some(fast_call) => fast_call,
            None => Box::new(FastCall::new(plan.clone())),
        });
        Some((&plan.ids, &mut fast_call.own))
    }

    /// Returns a call of the last found plan, empty except for the [reply](Self::reply_room) of func. The caller
    /// [puts](Self::put) it into the table.
    #[inline(always)]
    pub(super) fn fresh(&mut self) -> Option<Box<FastCall>> {
        if unlikely(self.next.is_none()) {
            self.reply_room()?;
        }
        let (mut call, plan) = (self.next.take()?, self.plans.found()?);
        self.room -= call.replies.room();
        if unlikely(!Arc::ptr_eq(&call.plan, plan)) {
            call.plan = plan.clone();
        }
        Some(call)
    }

    /// Length of the [reply](Self::reply_room) of func, in bytes.
    #[inline(always)]
    pub(super) fn reply_len(&self) -> usize {
        self.next.as_ref().map_or(0, |fast_call| fast_call.own.len())
    }

    /// Takes the reply of func out of the next call.
    pub(super) fn take_reply(&mut self) -> Reply {
        self.next.as_mut().map(|fast_call| std::mem::take(&mut fast_call.own)).unwrap_or_default()
    }

    /// Puts a call into its [free place](Self::make_room). The place is valid until the table grows.
    #[inline(always)]
    pub(super) fn put(&mut self, call: Box<FastCall>) -> Option<FastSlot> {
        let place = self.place(call.call)?;
        self.soonest = Some(self.soonest.map_or(call.deadline, |soonest| soonest.min(call.deadline)));
        self.table[place] = Some(call);
        self.len += 1;
        Some(FastSlot(place as u32))
    }

    /// Removes a call.
    #[inline(always)]
    pub(super) fn remove(&mut self, FastSlot(place): FastSlot) -> Option<Box<FastCall>> {
        let call = self.table.get_mut(place as usize)?.take()?;
        self.len -= 1;
        if self.len == 0 {
            self.soonest = None;
        }
        Some(call)
    }

    /// Keeps the memory of an ended call, without its contents. Drops it if enough is kept, or if the plan is no longer
    /// stored.
    #[inline(always)]
    pub(super) fn recycle(&mut self, mut call: Box<FastCall>) {
        if self.spare.len() < SPARE_MAX && self.plans.holds(&call.plan) {
            call.replies.clear();
            if unlikely(self.room + call.replies.room() > ROOM_KEPT) {
                call.replies = ShortReplies::default();
            }
            self.room += call.replies.room();
            empty(&mut call.own);
            self.spare.push(call);
        }
    }

    /// Whether the spare calls hold more memory than an idle node keeps.
    pub(super) fn has_spare_memory(&self) -> bool {
        self.room > ROOM_IDLE
    }

    /// Frees the memory of ended calls.
    pub(super) fn release_spare_memory(&mut self) {
        self.spare = Vec::new();
        self.next = None;
        self.room = 0;
        self.frame = BytesMut::new();
        self.spare_reply = Reply::default();
        if self.len == 0 {
            self.table = Vec::new();
        }
    }

    /// Empties the spare reply but keeps its memory.
    #[inline(always)]
    pub(super) fn empty_reply(&mut self) {
        empty(&mut self.spare_reply);
    }

    /// All calls, in arbitrary order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &FastCall> {
        self.table.iter().filter_map(Option::as_deref)
    }

    /// The calls that this peer has sent, or whose answer it owes.
    pub(super) fn concerned(&self, peer: Id) -> Vec<CallId> {
        let sent = |call: &FastCall| call.origin == CallOrigin::Parent(peer);
        let asked = |call: &FastCall| call.awaited_child(peer).is_some();
        self.iter().filter(|call| sent(call) || asked(call)).map(|call| call.call).collect()
    }

    /// Earliest time at which a deadline can pass.
    pub(super) fn next(&self) -> Option<Time> {
        self.soonest
    }

    /// Returns the calls whose deadline has passed. Examines all calls, at most once for each deadline.
    pub(super) fn expired(&mut self, now: Time) -> Vec<CallId> {
        if self.soonest.is_none_or(|soonest| soonest > now) {
            return Vec::new();
        }
        let (due, later): (Vec<_>, Vec<_>) =
            self.iter().map(|call| (call.deadline, call.call)).partition(|(deadline, _)| *deadline <= now);
        self.soonest = later.into_iter().map(|(deadline, _)| deadline).min();
        let mut due: Vec<CallId> = due.into_iter().map(|(_, call)| call).collect();
        sort_by(&mut due, Ord::cmp);
        due
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use gpc_trees::{IdList, Tree};
    use proptest::prelude::*;

    use super::*;
    use crate::wire::short::{KeyBuffer, PlanKey, PlanParts};

    fn table(seed: u64) -> FastCalls {
        let (mut fast_calls, ids) = (FastCalls::new(seed, &Sizes::default()), IdList::range(1..9));
        let mut room = KeyBuffer::default();
        let key = PlanKey::new(&PlanParts::of(1, &Tree::Binomial, &ids), &mut room).unwrap();
        assert!(fast_calls.plans.find(1, &key, true).is_some());
        fast_calls
    }

    fn put(fast_calls: &mut FastCalls, call: CallId, deadline: u64) -> FastSlot {
        let mut fast_call = fast_calls.fresh().unwrap();
        (fast_call.call, fast_call.deadline) = (call, Time::from_nanos(deadline));
        fast_call.wait_for_all();
        fast_calls.put(fast_call).unwrap()
    }

    proptest! {
        /// For any order of starts and ends: a call stays in the place that it found, and its deadline is reported.
        #[test]
        fn it_is_a_map(
            deeds in prop::collection::vec((0u8..4, 0u32..3, 0u64..40, 1u64..100), 0..200), seed: u64,
        ) {
            let (mut fast_calls, mut model) = (table(seed), BTreeMap::new());
            for (deed, root, sequence, deadline) in deeds {
                let call = CallId { root, sequence };
                match deed {
                    0 | 1 if !model.contains_key(&call) && fast_calls.make_room(call) => {
                        put(&mut fast_calls, call, deadline);
                        model.insert(call, deadline);
                    }
                    2 if model.remove(&call).is_some() => {
                        let gone = fast_calls.find(call).and_then(|place| fast_calls.remove(place)).unwrap();
                        prop_assert_eq!(gone.call, call);
                        fast_calls.recycle(gone);
                    }
                    3 => {
                        let now = Time::from_nanos(deadline);
                        let due: Vec<CallId> =
                            model.iter().filter(|(_, at)| **at <= deadline).map(|(call, _)| *call).collect();
                        prop_assert_eq!(fast_calls.expired(now), due.clone());
                        for call in due {
                            model.remove(&call);
                            prop_assert!(fast_calls.find(call).and_then(|place| fast_calls.remove(place)).is_some());
                        }
                    }
                    _ => {}
                }
                for (call, deadline) in &model {
                    let there = fast_calls.find(*call).and_then(|place| fast_calls.get(place));
                    prop_assert!(there.is_some_and(|fast_call| fast_call.call == *call));
                    prop_assert!(fast_calls.next().is_some_and(|next| next <= Time::from_nanos(*deadline)));
                }
                prop_assert_eq!((fast_calls.len(), fast_calls.iter().count()), (model.len(), model.len()));
                prop_assert!(!model.is_empty() || fast_calls.next().is_none());
                let absent = CallId { root: 9, sequence };
                prop_assert_eq!(fast_calls.find(absent), None);
            }
        }
    }

    /// All calls of one root find a place, up to the size of the table.
    #[test]
    fn consecutive_calls_never_meet() {
        let mut fast_calls = table(5);
        for sequence in 1000..1000 + PLACES_MAX as u64 {
            let call = CallId { root: 3, sequence };
            assert!(fast_calls.make_room(call), "{sequence}");
            put(&mut fast_calls, call, 1);
        }
        assert!(
            !fast_calls.make_room(CallId { root: 3, sequence: 1 }) && fast_calls.table.len() == PLACES_MAX
        );
    }

    /// The memory of calls with long replies is reused, and at most the limit is kept.
    #[test]
    fn the_room_of_ended_calls_is_kept_within_its_bound() {
        let mut fast_calls = table(5);
        let calls = || (0..SPARE_MAX as u64).map(|sequence| CallId { root: 3, sequence });
        for round in 0..3 {
            for call in calls() {
                assert!(fast_calls.make_room(call));
                let place = put(&mut fast_calls, call, 1);
                assert!(fast_calls.get_mut(place).unwrap().replies.push(2, 0, b"", &[7; 10 << 10]));
            }
            assert_eq!(fast_calls.room, 0, "all of it is in use");
            for call in calls() {
                let gone = fast_calls.find(call).and_then(|place| fast_calls.remove(place)).unwrap();
                fast_calls.recycle(gone);
                let held: usize = fast_calls.spare.iter().map(|fast_call| fast_call.replies.room()).sum();
                assert_eq!(fast_calls.room, held);
                assert!(held <= ROOM_KEPT);
            }
            assert!(fast_calls.room > ROOM_KEPT / 2 && fast_calls.spare.len() == SPARE_MAX);
            assert!(fast_calls.has_spare_memory());
            if round == 1 {
                fast_calls.release_spare_memory();
                assert!(
                    fast_calls.room == 0 && fast_calls.spare.is_empty() && !fast_calls.has_spare_memory()
                );
            }
        }
    }

    /// A child's answer counts once, at any index that is tried first.
    #[test]
    fn each_child_is_awaited_once() {
        let mut fast_calls = table(5);
        let call = CallId { root: 3, sequence: 1 };
        assert!(fast_calls.make_room(call));
        let place = put(&mut fast_calls, call, 1);
        let fast_call = fast_calls.get_mut(place).unwrap();
        let ids: Vec<Id> = fast_call.awaited_ids().collect();
        assert_eq!(ids, [2, 3, 5]);
        for (answered, id) in ids.iter().enumerate() {
            for guess in 0..5 {
                assert_eq!(fast_call.awaited_child_at(guess, *id), Some(answered));
                assert_eq!(fast_call.awaited_child_at(guess, 77), None);
            }
            assert_eq!(fast_call.answered(answered), answered == 2);
            assert!(
                fast_call.awaited_child(*id).is_none() && fast_call.awaited_child_at(answered, *id).is_none()
            );
        }
    }
}
