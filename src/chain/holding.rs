//! What calls hold in memory: requests of peers, the node's own replies and those that have come, of the budget that the node's driver gives it.
//!
//! What does not fit is refused: a request before anything is executed, a reply as a failure of its call. Nothing waits for memory. Each call has a [`Share`], which ends with it.

use gpc_trees::Tree;

use super::call::{Call, Own};
use super::slot::Slot;
use super::{Node, Reply};
use crate::wire::budget::{Budget, Share};
use crate::wire::message::{Answer, SubtreeReply};
use crate::wire::short::SHORT_MAX;
use crate::wire::{CallId, Cause, CauseKind, Request, Stage, Status};

/// What the state of a call takes, bytes.
const CALL: u64 = 1 << 10;

/// What a run of ids takes, in the request and in what is made of it for children.
const RUN: u64 = 16;

/// What a child of a call takes until it has answered: its place, and its request.
const CHILD: u64 = 512;

/// What a call holds.
#[derive(Debug, Default)]
pub(super) struct Held {
    share: Share,
    /// Of that, the node's own reply.
    own: u64,
}

impl Held {
    /// Nothing yet, of a budget.
    pub(super) fn of(budget: &Budget) -> Held {
        Held { share: budget.share(), own: 0 }
    }

    /// The node's own reply takes so many bytes now; false where they are not there.
    fn own(&mut self, bytes: u64) -> bool {
        let rest = self.share.bytes().saturating_sub(self.own);
        let held = self.share.hold(rest.saturating_add(bytes));
        if held {
            self.own = bytes;
        }
        held
    }

    /// A reply has been merged, and is gone.
    pub(super) fn merged(&mut self, reply: &SubtreeReply) {
        let _ = self.share.hold(self.share.bytes().saturating_sub(reply.len()));
    }
}

impl Node {
    /// Room for a request of a peer.
    pub(super) fn room_for(&self, request: &Request) -> Result<Held, Cause> {
        let shape = match &request.tree {
            Ok(Tree::Explicit(shape)) => 4 * shape.sizes().len() as u64,
            _ => 0,
        };
        // Of longer data each body has a share.
        let data = if request.data.len() <= SHORT_MAX as u64 { request.data.len() } else { 0 };
        let runs = request.ids.runs().count() as u64;
        let mut share = self.config.memory.share();
        match share.grow(CALL + RUN * runs + shape + request.header.len() as u64 + data) {
            true => Ok(Held { share, own: 0 }),
            false => Err(self.over_memory(Stage::Setup)),
        }
    }

    /// Room for so many children of a call.
    pub(super) fn room_for_children(&mut self, slot: Slot, children: usize) -> Result<(), Cause> {
        let room = |held: &mut Held| held.share.grow(CHILD * children as u64);
        self.room(slot, Stage::Forward, room)
    }

    /// Room for the node's own reply, in place of that before.
    pub(super) fn room_for_own(&mut self, slot: Slot, reply: &Reply) -> Result<(), Cause> {
        let bytes = reply.len() as u64;
        self.room(slot, Stage::Reply, |held| held.own(bytes))
    }

    /// Room for a reply that has come.
    pub(super) fn room_for_reply(&mut self, slot: Slot, reply: &SubtreeReply) -> Result<(), Cause> {
        self.room(slot, Stage::Reply, |held| held.share.grow(reply.len()))
    }

    /// The answer of a call on the fast path that has no memory for the long reply of its func: before it is sent on.
    #[cold]
    pub(super) fn no_room_for_long_reply(&mut self, ids: u32) -> Option<Answer> {
        let (reply, mut share) = (self.spots().reply_len(), self.config.memory.share());
        if share.grow(CALL + reply as u64) {
            return None;
        }
        drop(self.spots().take_reply());
        Some(self.failed_alone(ids, self.over_memory(Stage::Reply)))
    }

    /// Has such a call counted like those in the tables.
    pub(super) fn take_over_long(&mut self, id: CallId) {
        let Some(slot) = self.take_over(id) else { return };
        let bytes = match self.calls.get(slot).map(|call| &call.own) {
            Some(Own::Ready(reply)) => reply.len() as u64,
            _ => 0,
        };
        if let Err(cause) = self.room(slot, Stage::Reply, |held| held.own(bytes)) {
            self.stage_failed(slot, cause);
        }
    }

    fn room(&mut self, slot: Slot, stage: Stage, take: impl FnOnce(&mut Held) -> bool) -> Result<(), Cause> {
        match self.calls.get_mut(slot).is_none_or(|call| take(&mut call.held)) {
            true => Ok(()),
            false => Err(self.over_memory(stage)),
        }
    }

    /// There is no memory for the data of a request, unless another parent sends them.
    pub(super) fn data_refused(&mut self, id: CallId, why: String) {
        let refused = |call: &Call| call.request.data.is_refused();
        if let Some(slot) = self.calls.find(id)
            && self.calls.get(slot).is_some_and(refused)
        {
            self.fail(slot, Cause::new(self.config.me, Stage::Setup, CauseKind::NoMemory, why));
        } else if let Some((from, delayed)) = self.load.take_refused(id) {
            let cause = Cause::new(self.config.me, Stage::Setup, CauseKind::NoMemory, why);
            let below = if delayed.request.adopted { Status::Unknown } else { Status::Unreached };
            self.refuse_covering(from, &delayed.request, cause, below);
        }
    }

    fn over_memory(&self, stage: Stage) -> Cause {
        Cause::new(self.config.me, stage, CauseKind::NoMemory, self.config.memory.refusal())
    }
}
