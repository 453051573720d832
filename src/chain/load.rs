//! The work that requests of peers cause at one id, and the part of it that is delayed so that other work need not
//! wait.
//!
//! A request of a hundred bytes can name billions of ids. Each costs a message, and state if it cannot be reached. So
//! the children to which requests of peers are forwarded are counted. Those over the bound of one moment wait, in a
//! queue for each parent, and so do this parent's next requests.
//!
//! [`Input::Tick`](super::Input::Tick) processes a part of the queues, taking the parents in turn. A waiting request
//! has not begun, and is dropped if the link that it came on is lost. Time is constant within a turn of the driver, so
//! one moment is one turn.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use gpc_trees::{Group, Groups, Id, send_order};

use super::Time;
use super::reservation::Reservation;
use crate::wire::{CallId, Request};

/// A tick does the work of one moment divided by this; the rest of the turn is for other work.
const TICK_PARTS: u32 = 8;

/// A waiting request.
#[derive(Debug)]
pub(super) struct Delayed {
    pub(super) request: Arc<Request>,
    /// When it arrived.
    pub(super) came: Time,
    /// The memory that it reserves while it waits.
    _held: Reservation,
}

/// The next item of waiting work.
#[derive(Debug)]
pub(super) enum WaitingWork {
    /// Continue sending this call's request to its children.
    Call(CallId),
    /// Begin this request.
    Request(Delayed),
}

/// The waiting work of one parent. The credit of its link bounds the requests; the calls in flight bound the calls.
#[derive(Debug, Default)]
struct Queue {
    calls: VecDeque<CallId>,
    requests: VecDeque<Delayed>,
}

/// Children of one call that have not been sent the request yet, the largest subtree first.
#[derive(Debug)]
pub(super) struct Unasked {
    groups: Groups,
    asked: usize,
    /// Number of parents given up between this id and them.
    pub(super) skipped: u32,
    /// Whether surely no other parent has sent them the request.
    pub(super) fresh: bool,
}

impl Unasked {
    pub(super) fn new(groups: Groups, skipped: u32, fresh: bool) -> Unasked {
        let groups = send_order(&groups).into_iter().map(|index| groups[index]).collect();
        Unasked { groups, asked: 0, skipped, fresh }
    }

    /// The groups that are left.
    pub(super) fn left(&self) -> &[Group] {
        &self.groups[self.asked..]
    }

    /// Removes up to `most` groups.
    pub(super) fn take(&mut self, most: usize) -> Groups {
        let next: Groups = self.left().iter().take(most).copied().collect();
        self.asked += next.len();
        next
    }
}

/// Work of one node for its peers.
#[derive(Debug)]
pub(super) struct Load {
    /// Children that were sent requests at this moment, plus calls and requests that were continued.
    spent: u32,
    /// Limit of one moment.
    most: u32,
    queues: BTreeMap<Id, Queue>,
    /// The parents with waiting work, in the order of their turns.
    turns: VecDeque<Id>,
    /// The parent whose turn it is.
    current: Option<Id>,
    /// Number of lost ids' children that the calls in flight of each parent have adopted.
    adopted: BTreeMap<Id, u32>,
}

impl Load {
    pub(super) fn new(most: u16) -> Load {
        let most = u32::from(most.max(1));
        let (queues, turns, adopted) = Default::default();
        Load { spent: 0, most, queues, turns, current: None, adopted }
    }

    /// Renews the limit after time has advanced.
    pub(super) fn renew(&mut self) {
        self.spent = 0;
    }

    /// Counts children that are sent a request.
    #[inline(always)]
    pub(super) fn spend(&mut self, count: usize) {
        self.spent = self.spent.saturating_add(count as u32);
    }

    /// Whether further children of this parent's calls must wait: behind earlier work, or because the limit of this
    /// moment is reached. Work whose turn it is goes on.
    #[inline(always)]
    pub(super) fn delays(&self, parent: Id) -> bool {
        match self.current {
            Some(current) => current != parent,
            None => self.spent >= self.most || self.has_waiting(parent),
        }
    }

    /// Whether work of this parent waits.
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

    /// Adds a waiting request of this parent.
    pub(super) fn delay(&mut self, parent: Id, request: Arc<Request>, came: Time, reservation: Reservation) {
        self.queue(parent).requests.push_back(Delayed { request, came, _held: reservation });
    }

    /// Adds a waiting call of this parent.
    pub(super) fn delay_call(&mut self, parent: Id, call: CallId) {
        self.queue(parent).calls.push_back(call);
    }

    /// Returns the next item and its parent; calls that have begun come first. `None` if the tick has done its part, or
    /// nothing waits.
    pub(super) fn next(&mut self) -> Option<(Id, WaitingWork)> {
        self.current = None;
        if self.is_over_tick() {
            return None;
        }
        let parent = self.turns.pop_front()?;
        let queue = self.queues.get_mut(&parent)?;
        let call = queue.calls.pop_front().map(WaitingWork::Call);
        let next = call.or_else(|| queue.requests.pop_front().map(WaitingWork::Request));
        match queue.calls.is_empty() && queue.requests.is_empty() {
            true => drop(self.queues.remove(&parent)),
            false => self.turns.push_back(parent),
        }
        self.spend(1);
        self.current = Some(parent);
        next.map(|next| (parent, next))
    }

    /// Whether any work waits.
    #[inline(always)]
    pub(super) fn is_waiting(&self) -> bool {
        !self.turns.is_empty()
    }

    /// The parents with waiting work.
    pub(super) fn parents(&self) -> impl Iterator<Item = Id> + '_ {
        self.turns.iter().copied()
    }

    /// Removes a waiting request.
    pub(super) fn take_request(&mut self, parent: Id, call: CallId) -> Option<Delayed> {
        let requests = &mut self.queues.get_mut(&parent)?.requests;
        let place = requests.iter().position(|delayed| delayed.request.call == call)?;
        let taken = requests.remove(place);
        self.drop_if_empty(parent);
        taken
    }

    /// Removes a waiting request whose data had no memory, and returns its parent.
    pub(super) fn take_refused(&mut self, call: CallId) -> Option<(Id, Delayed)> {
        let is_refused = |it: &Delayed| it.request.call == call && it.request.body().is_refused();
        let of = self.queues.iter().find(|(_, queue)| queue.requests.iter().any(is_refused));
        let parent = *of?.0;
        Some((parent, self.take_request(parent, call)?))
    }

    /// Drops the waiting requests of a parent whose link is lost.
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

    /// Number of lost ids' children that the calls of a parent have adopted.
    pub(super) fn adopted(&self, parent: Id) -> u32 {
        self.adopted.get(&parent).copied().unwrap_or(0)
    }

    /// Counts children that a call of this parent has adopted.
    pub(super) fn adopt(&mut self, parent: Id, count: u32) {
        if count > 0 {
            let adopted = self.adopted.entry(parent).or_default();
            *adopted = adopted.saturating_add(count);
        }
    }

    /// Subtracts the adopted children of a call that no longer belongs to this parent.
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

    /// Number of requests and calls whose work is delayed.
    #[cfg(feature = "snapshot")]
    pub(super) fn delayed(&self) -> usize {
        self.queues.values().map(|queue| queue.calls.len() + queue.requests.len()).sum()
    }

    /// Number of leaked entries: parents counted although nothing of theirs is in flight, and turns of removed queues.
    pub(super) fn leaks(&self, calls: usize) -> usize {
        let adopters = if calls == 0 { self.adopted.len() } else { 0 };
        adopters + self.turns.len().abs_diff(self.queues.len())
    }
}
