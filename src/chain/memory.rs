//! Memory reservations of calls: requests of peers, the node's own replies and received replies, within the budget from
//! the driver.
//!
//! Reservations over the budget fail: a request before anything is executed, a reply as a failure of its call. Nothing
//! waits for memory. Each call has a [`Reservation`], which ends with it.

use gpc_trees::Tree;

use super::call::{Call, OwnPart};
use super::reservation::Reservation;
use super::slot::Slot;
use super::{Node, Reply};
use crate::wire::message::{Answer, SubtreeReply};
use crate::wire::short::SHORT_MAX;
use crate::wire::{CallId, Cause, CauseKind, Request, Stage, Status};

/// Size of a call's state, in bytes.
const CALL: u64 = 1 << 10;

/// Size of a run of ids, in bytes, in the request and in the requests to children.
const RUN: u64 = 16;

/// Size of the length of an id's part in a scatter call, in bytes.
const LENGTH: u64 = 8;

/// Size of a child until it has answered, in bytes: its place, and its request.
const CHILD: u64 = 512;

impl Node {
    /// Reserves memory for a request of a peer.
    pub(super) fn reserve_for_request(&self, request: &Request) -> Result<Reservation, Cause> {
        let shape = match &request.tree {
            Ok(Tree::Explicit(shape)) => 4 * shape.sizes().len() as u64,
            _ => 0,
        };
        // Longer data have a share in their body.
        let data = if request.body().len() <= SHORT_MAX as u64 { request.body().len() } else { 0 };
        let parts = request.parts.as_ref().map_or(0, |parts| LENGTH * u64::from(parts.count()));
        let runs = request.ids.runs().count() as u64;
        let mut share = self.config.memory.share();
        match share.grow(CALL + RUN * runs + shape + request.header.len() as u64 + data + parts) {
            true => Ok(Reservation { share, own: 0 }),
            false => Err(self.over_memory(Stage::Setup)),
        }
    }

    /// Reserves memory for the children of a call.
    pub(super) fn reserve_for_children(&mut self, slot: Slot, children: usize) -> Result<(), Cause> {
        let grow = |reservation: &mut Reservation| reservation.share.grow(CHILD * children as u64);
        self.reserve(slot, Stage::Forward, grow)
    }

    /// Reserves memory for the node's own reply, in place of the previous one.
    pub(super) fn reserve_for_own_reply(&mut self, slot: Slot, reply: &Reply) -> Result<(), Cause> {
        let bytes = reply.len() as u64;
        self.reserve(slot, Stage::Reply, |reservation| reservation.own(bytes))
    }

    /// Reserves memory for a received reply.
    pub(super) fn reserve_for_reply(&mut self, slot: Slot, reply: &SubtreeReply) -> Result<(), Cause> {
        self.reserve(slot, Stage::Reply, |reservation| reservation.share.grow(reply.len()))
    }

    /// Returns the answer of a call on the fast path if there is no memory for the long reply of its func, before it is
    /// sent.
    #[cold]
    pub(super) fn no_memory_for_long_reply(&mut self, ids: u32) -> Option<Answer> {
        let (reply, mut share) = (self.fast_calls().reply_len(), self.config.memory.share());
        if share.grow(CALL + reply as u64) {
            return None;
        }
        drop(self.fast_calls().take_reply());
        Some(self.failed_alone(ids, self.over_memory(Stage::Reply)))
    }

    /// Moves a call with a long reply from the fast path to the tables, and reserves its memory there.
    pub(super) fn take_over_long(&mut self, id: CallId) {
        let Some(slot) = self.take_over(id) else { return };
        let bytes = match self.calls.get(slot).map(|call| &call.own) {
            Some(OwnPart::Ready(reply)) => reply.len() as u64,
            _ => 0,
        };
        if let Err(cause) = self.reserve(slot, Stage::Reply, |reservation| reservation.own(bytes)) {
            self.stage_failed(slot, cause);
        }
    }

    fn reserve(
        &mut self,
        slot: Slot,
        stage: Stage,
        take: impl FnOnce(&mut Reservation) -> bool,
    ) -> Result<(), Cause> {
        match self.calls.get_mut(slot).is_none_or(|call| take(&mut call.reservation)) {
            true => Ok(()),
            false => Err(self.over_memory(stage)),
        }
    }

    /// Handles a request whose data had no memory, unless another parent sends them.
    pub(super) fn data_refused(&mut self, id: CallId, why: String) {
        let refused = |call: &Call| call.request.body().is_refused();
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
