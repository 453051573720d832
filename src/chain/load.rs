//! The work that requests of peers cause at one id, and what of it is delayed so that nothing else waits for it.
//!
//! A request of a hundred bytes can name billions of ids. Each of them costs a message, and some state where it cannot be reached. So the children that requests of peers are sent on to are counted. Those over the bound of one moment wait, in a queue for each parent, and so do the
//! next requests of this parent. [`Input::Tick`](super::Input::Tick) takes a part of what waits, the parents in turn. A request that waits has not begun, and goes with the link that it came on. Time stands still within a turn of the driver, so one moment is one turn.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use gpc_trees::{Group, Groups, Id, send_order};

use super::Time;
use super::holding::Held;
use crate::wire::{CallId, Request};

/// A tick takes one part in so many of what one moment takes: others have the rest of the turn.
const TICK_PARTS: u32 = 8;

/// A request that waits.
#[derive(Debug)]
pub(super) struct Delayed {
    pub(super) request: Arc<Request>,
    /// When it came.
    pub(super) came: Time,
    /// What it takes meanwhile.
    _held: Held,
}

/// What is next.
#[derive(Debug)]
pub(super) enum Next {
    /// This call goes on asking its children.
    Call(CallId),
    /// This request begins.
    Request(Delayed),
}

/// What waits of one parent. A link has credit for so many requests; calls are bounded by those in flight.
#[derive(Debug, Default)]
struct Queue {
    calls: VecDeque<CallId>,
    requests: VecDeque<Delayed>,
}

/// Children of one call that are still to be asked, the largest subtree first.
#[derive(Debug)]
pub(super) struct Unasked {
    groups: Groups,
    asked: usize,
    /// How many parents were given up between this id and them.
    pub(super) skipped: u32,
    /// Whether surely no other parent has sent them the request.
    pub(super) fresh: bool,
}

impl Unasked {
    pub(super) fn new(groups: Groups, skipped: u32, fresh: bool) -> Unasked {
        let groups = send_order(&groups).into_iter().map(|index| groups[index]).collect();
        Unasked { groups, asked: 0, skipped, fresh }
    }

    /// Those that are left.
    pub(super) fn left(&self) -> &[Group] {
        &self.groups[self.asked..]
    }

    /// Takes out so many at most.
    pub(super) fn take(&mut self, most: usize) -> Groups {
        let next: Groups = self.left().iter().take(most).copied().collect();
        self.asked += next.len();
        next
    }
}

/// The work of one node.
#[derive(Debug)]
pub(super) struct Load {
    /// Children that were asked at this moment, and calls and requests that have gone on.
    spent: u32,
    /// How many one moment takes.
    most: u32,
    queues: BTreeMap<Id, Queue>,
    /// The parents in whose queues there is something, in the order of their turns.
    turns: VecDeque<Id>,
    /// The parent whose turn it is.
    current: Option<Id>,
    /// Children of lost ids that calls in flight of each parent have adopted.
    adopted: BTreeMap<Id, u32>,
}

impl Load {
    pub(super) fn new(most: u16) -> Load {
        let most = u32::from(most.max(1));
        let (queues, turns, adopted) = Default::default();
        Load { spent: 0, most, queues, turns, current: None, adopted }
    }

    /// Time has moved on.
    pub(super) fn renew(&mut self) {
        self.spent = 0;
    }

    /// So many children are asked.
    #[inline(always)]
    pub(super) fn spend(&mut self, count: usize) {
        self.spent = self.spent.saturating_add(count as u32);
    }

    /// Whether more children of this parent's calls wait: for what is before them, or since this moment has taken enough. What has its turn goes on.
    #[inline(always)]
    pub(super) fn delays(&self, parent: Id) -> bool {
        match self.current {
            Some(current) => current != parent,
            None => self.spent >= self.most || self.has_waiting(parent),
        }
    }

    /// Whether something of this parent waits.
    #[inline(always)]
    pub(super) fn has_waiting(&self, parent: Id) -> bool {
        self.is_waiting() && self.queues.contains_key(&parent)
    }

    fn is_over_tick(&self) -> bool {
        self.spent >= self.most.div_ceil(TICK_PARTS)
    }

    fn queue(&mut self, parent: Id) -> &mut Queue {
        let turns = &mut self.turns;
        self.queues.entry(parent).or_insert_with(|| {
            turns.push_back(parent);
            Queue::default()
        })
    }

    /// A request of this parent waits.
    pub(super) fn delay(&mut self, parent: Id, request: Arc<Request>, came: Time, held: Held) {
        self.queue(parent).requests.push_back(Delayed { request, came, _held: held });
    }

    /// A call of this parent waits.
    pub(super) fn delay_call(&mut self, parent: Id, call: CallId) {
        self.queue(parent).calls.push_back(call);
    }

    /// What is next, and whose it is: what has begun before what has not. None when a tick has taken enough, or nothing waits.
    pub(super) fn next(&mut self) -> Option<(Id, Next)> {
        self.current = None;
        if self.is_over_tick() {
            return None;
        }
        let parent = self.turns.pop_front()?;
        let queue = self.queues.get_mut(&parent)?;
        let call = queue.calls.pop_front().map(Next::Call);
        let next = call.or_else(|| queue.requests.pop_front().map(Next::Request));
        match queue.calls.is_empty() && queue.requests.is_empty() {
            true => drop(self.queues.remove(&parent)),
            false => self.turns.push_back(parent),
        }
        self.spend(1);
        self.current = Some(parent);
        next.map(|next| (parent, next))
    }

    /// Whether anything waits.
    #[inline(always)]
    pub(super) fn is_waiting(&self) -> bool {
        !self.turns.is_empty()
    }

    /// The parents of whom something waits.
    pub(super) fn parents(&self) -> impl Iterator<Item = Id> + '_ {
        self.turns.iter().copied()
    }

    /// Takes out a request that waits.
    pub(super) fn take_request(&mut self, parent: Id, call: CallId) -> Option<Delayed> {
        let requests = &mut self.queues.get_mut(&parent)?.requests;
        let place = requests.iter().position(|delayed| delayed.request.call == call)?;
        let taken = requests.remove(place);
        self.drop_if_empty(parent);
        taken
    }

    /// Takes out a request that waits for whose data there is no memory, and says whose it is.
    pub(super) fn take_refused(&mut self, call: CallId) -> Option<(Id, Delayed)> {
        let is_refused = |it: &Delayed| it.request.call == call && it.request.data.is_refused();
        let of = self.queues.iter().find(|(_, queue)| queue.requests.iter().any(is_refused));
        let parent = *of?.0;
        Some((parent, self.take_request(parent, call)?))
    }

    /// The link to a parent is gone: what it has asked for and has not begun is dropped.
    pub(super) fn drop_requests(&mut self, parent: Id) {
        if let Some(queue) = self.queues.get_mut(&parent) {
            queue.requests.clear();
            self.drop_if_empty(parent);
        }
    }

    fn drop_if_empty(&mut self, parent: Id) {
        let empty = |queue: &Queue| queue.calls.is_empty() && queue.requests.is_empty();
        if self.queues.get(&parent).is_some_and(empty) {
            self.queues.remove(&parent);
            self.turns.retain(|turn| *turn != parent);
        }
    }

    /// How many children of lost ids the calls of a parent have adopted.
    pub(super) fn adopted(&self, parent: Id) -> u32 {
        self.adopted.get(&parent).copied().unwrap_or(0)
    }

    /// A call of this parent has adopted so many more.
    pub(super) fn adopt(&mut self, parent: Id, count: u32) {
        if count > 0 {
            let adopted = self.adopted.entry(parent).or_default();
            *adopted = adopted.saturating_add(count);
        }
    }

    /// A call that has adopted so many is not this parent's any more.
    pub(super) fn release(&mut self, parent: Id, count: u32) {
        if count > 0
            && let Some(adopted) = self.adopted.get_mut(&parent)
        {
            *adopted = adopted.saturating_sub(count);
            if *adopted == 0 {
                self.adopted.remove(&parent);
            }
        }
    }

    /// Whether nothing waits, and nothing is counted of any parent.
    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty() && self.adopted.is_empty()
    }

    /// Parents that are counted though nothing of theirs is in flight, and turns of queues that are gone.
    pub(super) fn strays(&self, calls: usize) -> usize {
        let adopters = if calls == 0 { self.adopted.len() } else { 0 };
        adopters + self.turns.len().abs_diff(self.queues.len())
    }
}
