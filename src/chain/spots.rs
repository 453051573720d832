//! The calls on the fast path that are in flight at one id, waiting for nothing but their children's answers.
//!
//! A call lies where its name says: the roots count their calls up, so those in flight lie beside each other, and most of them are found by looking once. One whose place is taken takes the general path.

use std::hash::BuildHasher;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use gpc_trees::{Id, IdList};
use smallvec::SmallVec;

use super::plans::{Plan, Plans};
use super::seeded_hash::Seeded;
use super::short_replies::{ShortAnswer, ShortReplies};
use super::sizes::Sizes;
use super::timeline::Timeline;
use super::{Reply, Time};
use crate::hint::{likely, unlikely};
use crate::wire::CallId;

/// Places of the table: as many as a link has credit for, from several parents.
const PLACES_MAX: usize = 4096;

/// Places that the first call makes.
const PLACES_MIN: usize = 4;

/// A table grows while at least every so manieth place is taken; calls that meet in one that is emptier take the general path.
const SPARSE: usize = 8;

/// Ended calls whose room is kept.
const SPARE_MAX: usize = 128;

/// Room for the replies of children that ended calls keep together, bytes: twice what 64 calls over 64 ids take that reply with a line each.
const ROOM_KEPT: usize = 1 << 20;

/// The same, of a node that nothing has come to for a while.
const ROOM_IDLE: usize = 64 << 10;

/// Room of a reply that is kept for the next one, bytes.
const REPLY_KEPT: usize = 1024;

/// Who asks for a call on the fast path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asker {
    /// The application, under this name.
    Here {
        /// As in [`Input::Start`](super::Input::Start).
        ticket: u64,
        /// The root only watches.
        watch: bool,
    },
    /// This parent.
    Parent(Id),
}

/// One call whose func has run, and whose children have been asked.
#[derive(Debug)]
pub(super) struct Spot {
    pub(super) call: CallId,
    pub(super) asker: Asker,
    pub(super) plan: Arc<Plan>,
    /// When it came here, and what followed.
    pub(super) times: Timeline,
    pub(super) deadline: Time,
    /// When the root's time limit passes.
    pub(super) until: Time,
    /// How long ago it had begun when it came here, milliseconds.
    pub(super) age: u32,
    /// Of this id in the whole tree.
    pub(super) position: u32,
    /// Places of the whole tree.
    pub(super) total: u32,
    pub(super) own: Reply,
    /// Which children have answered, by their indexes.
    answered: SmallVec<[u64; 2]>,
    /// How many have not.
    awaited: u32,
    pub(super) replies: ShortReplies,
}

impl Spot {
    fn new(plan: Arc<Plan>) -> Spot {
        let call = CallId { root: 0, sequence: 0 };
        let (times, deadline, until) = Default::default();
        let (own, answered, replies) = Default::default();
        let (asker, age, awaited) = (Asker::Parent(0), 0, 0);
        let (position, total) = (0, 0);
        Spot {
            call,
            asker,
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

    /// Waits for all children of its plan.
    #[inline(always)]
    pub(super) fn wait_for_all(&mut self) {
        let children = self.plan.children.len();
        self.answered.clear();
        // One word for most trees.
        (0..children.div_ceil(64)).for_each(|_| self.answered.push(0));
        if self.plan.reply_wanted {
            self.replies.expect(children);
        }
        self.awaited = children as u32;
    }

    /// The index of a child that has not answered yet.
    pub(super) fn awaited_child(&self, id: Id) -> Option<usize> {
        self.plan.child(id).filter(|&index| !self.has_answered(index))
    }

    /// The same of one that is perhaps at this place.
    #[inline(always)]
    pub(super) fn awaited_child_at(&self, place: usize, id: Id) -> Option<usize> {
        let there = self.plan.children.get(place).is_some_and(|child| child.id == id);
        let index = if there { Some(place) } else { self.plan.child(id) };
        index.filter(|&index| !self.has_answered(index))
    }

    pub(super) fn has_answered(&self, index: usize) -> bool {
        self.answered[index / 64] >> (index % 64) & 1 == 1
    }

    /// Notes that a child has answered; says whether all have.
    pub(super) fn answered(&mut self, index: usize) -> bool {
        self.answered[index / 64] |= 1 << (index % 64);
        self.awaited -= 1;
        self.awaited == 0
    }

    /// Number of children that have not answered yet.
    pub(super) fn awaited(&self) -> u32 {
        self.awaited
    }

    /// The ids of the children that have not answered yet.
    pub(super) fn awaited_ids(&self) -> impl Iterator<Item = Id> + '_ {
        let children = self.plan.children.iter().enumerate();
        children.filter(|(index, _)| !self.has_answered(*index)).map(|(_, child)| child.id)
    }

    /// Whether long replies are passed on as they come, and not needed whole; the first one has the call taken over.
    pub(super) fn passes_on(&self) -> bool {
        matches!(self.asker, Asker::Parent(_)) && self.plan.reply_wanted
    }

    /// The answer, when all children have given theirs.
    pub(super) fn answer(&self) -> ShortAnswer<'_> {
        let watches = matches!(self.asker, Asker::Here { watch: true, .. });
        ShortAnswer {
            call: self.call,
            own: Some(&self.own).filter(|_| !watches),
            replies: &self.replies,
            merged: self.plan.key().callback().is_some(),
            wanted: self.plan.reply_wanted,
        }
    }
}

/// Empties a reply, and keeps its room, if it is not too much.
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

/// A place of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place(u32);

/// The calls, and what they have in common.
#[derive(Debug)]
pub(super) struct Spots {
    pub(super) plans: Plans,
    /// As many as a power of two says, or none.
    #[allow(clippy::vec_box, reason = "a call stays where it is while its box goes from place to place")]
    table: Vec<Option<Box<Spot>>>,
    len: usize,
    seeded: Seeded,
    #[allow(clippy::vec_box, reason = "as above")]
    spare: Vec<Box<Spot>>,
    /// The next call that waits for children, with nothing in it but what its func replies: that is written where it stays.
    next: Option<Box<Spot>>,
    /// What those have room for.
    room: usize,
    /// An empty reply for a parent's call that waits for nobody, whose room is used again.
    pub(super) spare_reply: Reply,
    /// Room for the frame that several children get; that of a short request.
    pub(super) frame: BytesMut,
    /// No deadline is sooner than this.
    soonest: Option<Time>,
    /// The index of the child that answered last: of many calls its answers come together.
    pub(super) last_child: usize,
}

impl Spots {
    #[cold]
    pub(super) fn boxed(seed: u64, sizes: &Sizes) -> Box<Spots> {
        Box::new(Spots::new(seed, sizes))
    }

    pub(super) fn new(seed: u64, sizes: &Sizes) -> Spots {
        Spots {
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

    /// Names of plans that are gone, and calls that are not counted.
    pub(super) fn leaks(&self) -> usize {
        self.plans.leaks() + self.table.iter().flatten().count().abs_diff(self.len)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub(super) fn find(&self, call: CallId) -> Option<Place> {
        let place = self.place(call)?;
        let found = self.table[place].as_ref().is_some_and(|spot| spot.call == call);
        found.then_some(Place(place as u32))
    }

    pub(super) fn get(&self, Place(place): Place) -> Option<&Spot> {
        self.table.get(place as usize)?.as_deref()
    }

    pub(super) fn get_mut(&mut self, Place(place): Place) -> Option<&mut Spot> {
        self.table.get_mut(place as usize)?.as_deref_mut()
    }

    /// Whether there is a place for a call; makes room if that helps.
    #[inline(always)]
    pub(super) fn has_room(&mut self, call: CallId) -> bool {
        loop {
            match self.place(call) {
                Some(place) if likely(self.table[place].is_none()) => return true,
                _ if self.table.len() >= PLACES_MAX || self.len * SPARSE < self.table.len() => return false,
                // Ends: it doubles each time.
                _ => self.grow(),
            }
        }
    }

    #[cold]
    fn grow(&mut self) {
        let places = (self.table.len() * 2).max(PLACES_MIN);
        let old = std::mem::take(&mut self.table);
        self.table.resize_with(places, || None);
        for spot in old.into_iter().flatten() {
            // Those that lay apart still do.
            if let Some(place) = self.place(spot.call) {
                self.table[place] = Some(spot);
            }
        }
    }

    /// The ids of the plan that was found last, and an empty reply for its func, in the [call](Self::fresh) that comes next.
    #[inline(always)]
    pub(super) fn reply_room(&mut self) -> Option<(&IdList, &mut Reply)> {
        let Spots { plans, spare, next, .. } = self;
        let plan = plans.found()?;
        let spot = next.get_or_insert_with(|| match spare.pop() {
            Some(spot) => spot,
            None => Box::new(Spot::new(plan.clone())),
        });
        Some((&plan.ids, &mut spot.own))
    }

    /// A call of the plan that was found last, with nothing in it but what func has [replied](Self::reply_room), to be [put](Self::put) into the table.
    #[inline(always)]
    pub(super) fn fresh(&mut self) -> Option<Box<Spot>> {
        if unlikely(self.next.is_none()) {
            self.reply_room()?;
        }
        let (mut spot, plan) = (self.next.take()?, self.plans.found()?);
        self.room -= spot.replies.room();
        if unlikely(!Arc::ptr_eq(&spot.plan, plan)) {
            spot.plan = plan.clone();
        }
        Some(spot)
    }

    /// How long what func has [replied](Self::reply_room) is.
    #[inline(always)]
    pub(super) fn reply_len(&self) -> usize {
        self.next.as_ref().map_or(0, |spot| spot.own.len())
    }

    /// Takes what func has replied out of the call that comes next.
    pub(super) fn take_reply(&mut self) -> Reply {
        self.next.as_mut().map(|spot| std::mem::take(&mut spot.own)).unwrap_or_default()
    }

    /// Puts a call where there is [room](Self::has_room) for it. Where it lies holds until room is made again.
    #[inline(always)]
    pub(super) fn put(&mut self, spot: Box<Spot>) -> Option<Place> {
        let place = self.place(spot.call)?;
        self.soonest = Some(self.soonest.map_or(spot.deadline, |soonest| soonest.min(spot.deadline)));
        self.table[place] = Some(spot);
        self.len += 1;
        Some(Place(place as u32))
    }

    /// Takes a call out.
    #[inline(always)]
    pub(super) fn remove(&mut self, Place(place): Place) -> Option<Box<Spot>> {
        let spot = self.table.get_mut(place as usize)?.take()?;
        self.len -= 1;
        if self.len == 0 {
            self.soonest = None;
        }
        Some(spot)
    }

    /// Keeps the room of a call that has ended, and nothing that it held; nor its plan, when that is no longer one of the node's.
    #[inline(always)]
    pub(super) fn recycle(&mut self, mut spot: Box<Spot>) {
        if self.spare.len() < SPARE_MAX && self.plans.holds(&spot.plan) {
            spot.replies.clear();
            if unlikely(self.room + spot.replies.room() > ROOM_KEPT) {
                spot.replies = ShortReplies::default();
            }
            self.room += spot.replies.room();
            empty(&mut spot.own);
            self.spare.push(spot);
        }
    }

    /// Whether ended calls keep more room than an idle node is to.
    pub(super) fn has_spare_memory(&self) -> bool {
        self.room > ROOM_IDLE
    }

    /// Gives the room of ended calls back.
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

    /// Keeps the room of the spare reply, and nothing that it holds.
    #[inline(always)]
    pub(super) fn empty_reply(&mut self) {
        empty(&mut self.spare_reply);
    }

    /// All of them, in no order that means anything.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Spot> {
        self.table.iter().filter_map(Option::as_deref)
    }

    /// The calls that this peer has sent, or is asked by.
    pub(super) fn concerned(&self, peer: Id) -> Vec<CallId> {
        let sent = |spot: &Spot| spot.asker == Asker::Parent(peer);
        let asked = |spot: &Spot| spot.awaited_child(peer).is_some();
        self.iter().filter(|spot| sent(spot) || asked(spot)).map(|spot| spot.call).collect()
    }

    /// When to look whose deadline has come: then, or later.
    pub(super) fn next(&self) -> Option<Time> {
        self.soonest
    }

    /// The calls whose deadline has come. Looks at all of them, but not again before the next deadline.
    pub(super) fn expired(&mut self, now: Time) -> Vec<CallId> {
        if self.soonest.is_none_or(|soonest| soonest > now) {
            return Vec::new();
        }
        let (due, later): (Vec<_>, Vec<_>) =
            self.iter().map(|spot| (spot.deadline, spot.call)).partition(|(deadline, _)| *deadline <= now);
        self.soonest = later.into_iter().map(|(deadline, _)| deadline).min();
        let mut due: Vec<CallId> = due.into_iter().map(|(_, call)| call).collect();
        due.sort_unstable();
        due
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use gpc_trees::{IdList, Tree};
    use proptest::prelude::*;

    use super::*;
    use crate::wire::short::{PlanKey, PlanParts};

    fn spots(seed: u64) -> Spots {
        let (mut spots, ids) = (Spots::new(seed, &Sizes::default()), IdList::range(1..9));
        let of = PlanParts {
            func: 1,
            callback: None,
            tree: &Tree::Binomial,
            ids: &ids,
            reply_wanted: true,
            forward_first: false,
        };
        let mut room = Vec::new();
        let key = PlanKey::new(&of, &mut room).unwrap();
        assert!(spots.plans.find(1, &key, true).is_some());
        spots
    }

    fn put(spots: &mut Spots, call: CallId, deadline: u64) -> Place {
        let mut spot = spots.fresh().unwrap();
        (spot.call, spot.deadline) = (call, Time::from_nanos(deadline));
        spot.wait_for_all();
        spots.put(spot).unwrap()
    }

    proptest! {
        /// Whatever comes and ends: a call that has found room lies there, and its deadline is not missed.
        #[test]
        fn it_is_a_map(
            deeds in prop::collection::vec((0u8..4, 0u32..3, 0u64..40, 1u64..100), 0..200), seed: u64,
        ) {
            let (mut spots, mut model) = (spots(seed), BTreeMap::new());
            for (deed, root, sequence, deadline) in deeds {
                let call = CallId { root, sequence };
                match deed {
                    0 | 1 if !model.contains_key(&call) && spots.has_room(call) => {
                        put(&mut spots, call, deadline);
                        model.insert(call, deadline);
                    }
                    2 if model.remove(&call).is_some() => {
                        let gone = spots.find(call).and_then(|place| spots.remove(place)).unwrap();
                        prop_assert_eq!(gone.call, call);
                        spots.recycle(gone);
                    }
                    3 => {
                        let now = Time::from_nanos(deadline);
                        let due: Vec<CallId> =
                            model.iter().filter(|(_, at)| **at <= deadline).map(|(call, _)| *call).collect();
                        prop_assert_eq!(spots.expired(now), due.clone());
                        for call in due {
                            model.remove(&call);
                            prop_assert!(spots.find(call).and_then(|place| spots.remove(place)).is_some());
                        }
                    }
                    _ => {}
                }
                for (call, deadline) in &model {
                    let there = spots.find(*call).and_then(|place| spots.get(place));
                    prop_assert!(there.is_some_and(|spot| spot.call == *call));
                    prop_assert!(spots.next().is_some_and(|next| next <= Time::from_nanos(*deadline)));
                }
                prop_assert_eq!((spots.len(), spots.iter().count()), (model.len(), model.len()));
                prop_assert!(!model.is_empty() || spots.next().is_none());
                let absent = CallId { root: 9, sequence };
                prop_assert_eq!(spots.find(absent), None);
            }
        }
    }

    /// The calls of one root, as many as a link has credit for, all find room.
    #[test]
    fn consecutive_calls_never_meet() {
        let mut spots = spots(5);
        for sequence in 1000..1000 + PLACES_MAX as u64 {
            let call = CallId { root: 3, sequence };
            assert!(spots.has_room(call), "{sequence}");
            put(&mut spots, call, 1);
        }
        assert!(!spots.has_room(CallId { root: 3, sequence: 1 }) && spots.table.len() == PLACES_MAX);
    }

    /// Calls whose replies take much room, as many as there may be: what they had room for is used again, but no more is kept than the bound says.
    #[test]
    fn the_room_of_ended_calls_is_kept_within_its_bound() {
        let mut spots = spots(5);
        let calls = || (0..SPARE_MAX as u64).map(|sequence| CallId { root: 3, sequence });
        for round in 0..3 {
            for call in calls() {
                assert!(spots.has_room(call));
                let place = put(&mut spots, call, 1);
                assert!(spots.get_mut(place).unwrap().replies.push(2, 0, b"", &[7; 10 << 10]));
            }
            assert_eq!(spots.room, 0, "all of it is in use");
            for call in calls() {
                let gone = spots.find(call).and_then(|place| spots.remove(place)).unwrap();
                spots.recycle(gone);
                let held: usize = spots.spare.iter().map(|spot| spot.replies.room()).sum();
                assert_eq!(spots.room, held);
                assert!(held <= ROOM_KEPT);
            }
            assert!(spots.room > ROOM_KEPT / 2 && spots.spare.len() == SPARE_MAX);
            assert!(spots.has_spare_memory());
            if round == 1 {
                spots.release_spare_memory();
                assert!(spots.room == 0 && spots.spare.is_empty() && !spots.has_spare_memory());
            }
        }
    }

    /// A child's answer counts once, whichever place it is looked for at.
    #[test]
    fn each_child_is_awaited_once() {
        let mut spots = spots(5);
        let call = CallId { root: 3, sequence: 1 };
        assert!(spots.has_room(call));
        let place = put(&mut spots, call, 1);
        let spot = spots.get_mut(place).unwrap();
        let ids: Vec<Id> = spot.awaited_ids().collect();
        assert_eq!(ids, [2, 3, 5]);
        for (answered, id) in ids.iter().enumerate() {
            for guess in 0..5 {
                assert_eq!(spot.awaited_child_at(guess, *id), Some(answered));
                assert_eq!(spot.awaited_child_at(guess, 77), None);
            }
            assert_eq!(spot.answered(answered), answered == 2);
            assert!(spot.awaited_child(*id).is_none() && spot.awaited_child_at(answered, *id).is_none());
        }
    }
}
