//! Failure of a call: the first cause goes up, a cancel goes down, and later messages are ignored.
//!
//! Source: the ARMCI design of chained GPC (2007), "Exceptions" 2 and 3.

use std::time::Duration;

use gpc_trees::Id;
use gpc_trees::sorting::sort_by;

use super::call::{Call, JobState, Origin, OwnPart};
use super::recorder::End;
use super::run_queue::RunQueue;
use super::slot::Slot;
use super::{Node, Output, Start};
use crate::wire::message::Answer;
use crate::wire::{
    CallId, CallState, Cause, CauseKind, Coverage, Failure, Message, Stage, Status, Straggler,
};

/// Message of a call that its caller has cancelled.
const GIVEN_UP: &str = "the caller gave the call up";

/// Number of ids named in the message of a time limit: enough to investigate, short enough to read.
const NAMED: usize = 8;

impl Node {
    /// Fails a call because a stage failed here, or an id below is lost.
    pub(super) fn fail(&mut self, slot: Slot, cause: Cause) {
        // A cancel by the caller gives no information about this id's own part.
        let own_failed = cause.id == self.config.me && cause.stage != Stage::Cancelled;
        self.fail_covering(slot, cause, own_failed, None);
    }

    /// Handles a child's report of a failure in its subtree.
    pub(super) fn child_failed(&mut self, slot: Slot, index: usize, failure: Failure) {
        self.fail_covering(slot, failure.cause, false, Some((index, &failure.coverage)));
    }

    /// Handles a child's reply for which there is no memory; the part that has arrived is dropped.
    pub(super) fn reply_refused(&mut self, from: Id, id: CallId, why: &str) {
        let Some(slot) = self.find(id) else { return };
        let Some(call) = self.calls.get(slot) else { return };
        let (partial, Some(index)) = (call.request.partial, call.awaited_child(from)) else { return };
        let cause = Cause::new(self.config.me, Stage::Reply, CauseKind::NoMemory, why);
        let failure = Failure { cause, coverage: Coverage::new() };
        match partial {
            true => self.partial_refused(slot, index, failure),
            false => self.child_failed(slot, index, failure),
        }
    }

    /// Ends a call in any mode.
    fn fail_covering(
        &mut self,
        slot: Slot,
        cause: Cause,
        own_failed: bool,
        failed: Option<(usize, &Coverage)>,
    ) {
        let Some(call) = self.calls.get_mut(slot) else { return };
        call.leave_unasked();
        let id = call.request.call;
        let mut coverage = call.coverage(own_failed, failed);
        if let Origin::Application { watch: true, .. } = call.origin {
            coverage = coverage.without_first();
        }
        let culprit = failed.and_then(|(index, _)| call.children.as_ref().map(|children| children[index].id));
        let lost = Some(cause.id).filter(|_| cause.stage == Stage::Link);
        let reachable = |child: &Id| Some(*child) != culprit && Some(*child) != lost;
        let cancelled: Vec<Id> = call.awaited_ids().filter(reachable).collect();
        // Children that have answered retain something only for a partial call.
        let answered = if call.request.partial { call.answered_ids() } else { Vec::new() };
        self.end(slot, Answer::Failed(Box::new(Failure { cause, coverage })));
        self.cancel(id, cancelled);
        self.release(id, &answered);
    }

    fn cancel(&mut self, id: CallId, children: Vec<Id>) {
        for to in children {
            self.emit(Output::Send { to, message: Message::Cancel(id) });
        }
    }

    /// Handles a cancel of the parent: drops the call and cancels it at the children.
    pub(super) fn cancelled(&mut self, from: Id, id: CallId) {
        if self.load.take_request(from, id).is_some() {
            return self.emit(Output::Consumed { from });
        }
        if let Some(slot) = self.find(id)
            && self.calls.get(slot).is_some_and(|call| call.parent() == Some(from))
        {
            self.forget(slot);
        }
        // An answer that crossed the cancel is retained for an adopter until it expires.
    }

    fn forget(&mut self, slot: Slot) {
        if let Some(call) = self.remove(slot, End::Cancelled) {
            let id = call.request.call;
            self.cancel(id, call.awaited_ids().collect());
            if call.request.partial {
                self.release(id, &call.answered_ids());
            }
        }
    }

    /// Handles a cancel of the application.
    pub(super) fn give_up(&mut self, ticket: u64) {
        let call = self.tickets.get(ticket).copied();
        if let Some(slot) = call.and_then(|id| self.find(id)) {
            let (me, kind) = (self.config.me, CauseKind::Cancelled);
            self.fail(slot, Cause::new(me, Stage::Cancelled, kind, GIVEN_UP));
        }
    }

    /// Returns the result of a call that the application cancelled before it began.
    pub fn given_up(&self, start: &Start) -> Box<Failure> {
        let cause = Cause::new(self.config.me, Stage::Cancelled, CauseKind::Cancelled, GIVEN_UP);
        let asked = start.ids.len() - u32::from(start.watch && !start.ids.is_empty());
        Box::new(Failure { cause, coverage: Coverage::all(Status::Unreached, asked) })
    }

    /// Returns the classes of workers that a call started here still needs, one bit for each; 0 if it has ended.
    pub fn needs_workers(&self, ticket: u64) -> u64 {
        let call = self.tickets.get(ticket).and_then(|id| self.calls.named(*id));
        let Some(call) = call else { return 0 };
        let classes = call.request.local.classes;
        let func = matches!(call.own, OwnPart::Pending | OwnPart::Taking(_));
        let callback = call.request.callback.is_some() && call.request.ids.len() > 1;
        let bit = |needed: bool, class: u8| u64::from(needed) << class.min(63);
        bit(func, classes.func) | bit(callback, classes.callback)
    }

    /// Handles a lost link: calls that wait for the peer fail, and calls from it are dropped; partial calls go on
    /// without it.
    pub(super) fn link_lost(&mut self, peer: Id, kind: CauseKind, why: &str, unreached: bool) {
        self.completed.unlinked(peer);
        self.liveness.lost(peer);
        self.load.drop_requests(peer);
        let on_fast_path =
            self.fast_calls.as_ref().map_or(Vec::new(), |fast_calls| fast_calls.concerned(peer));
        for id in on_fast_path {
            self.take_over(id);
        }
        let concerned = |call: &Call| call.parent() == Some(peer) || call.awaited_child(peer).is_some();
        let concerned = self.calls.iter().filter(|call| concerned(call));
        let mut calls: Vec<CallId> = concerned.map(|call| call.request.call).collect();
        sort_by(&mut calls, Ord::cmp);
        for id in calls {
            let Some(slot) = self.calls.find(id) else { continue };
            let Some(call) = self.calls.get_mut(slot) else { continue };
            let mut orphaned = false;
            if let Origin::Parent { id: parent, credit_owed, .. } = &mut call.origin
                && *parent == peer
            {
                // Credit belongs to the lost link.
                *credit_owed = false;
                orphaned = true;
                // The parent may be alive, have given this id up, and send the request to its children itself.
                call.partial.adopted = true;
            }
            let cause = Cause::new(peer, Stage::Link, kind, why);
            match (call.request.partial, call.awaited_child(peer)) {
                (true, Some(index)) => self.child_cut_off(slot, index, unreached, cause),
                // An adopter will ask for the answer.
                (true, None) => {}
                (false, _) if orphaned => self.forget(slot),
                (false, Some(index)) if unreached => self.child_unreached(slot, index, cause),
                (false, _) => self.fail(slot, cause),
            }
        }
    }

    /// Handles a request of this call that could not be sent to a child. It touches only this call: a request may name
    /// any number of such children.
    pub(super) fn unreachable(&mut self, peer: Id, id: CallId, why: &str) {
        let Some(slot) = self.find(id) else { return };
        let Some(call) = self.calls.get(slot) else { return };
        let (partial, Some(index)) = (call.request.partial, call.awaited_child(peer)) else { return };
        let cause = Cause::new(peer, Stage::Link, CauseKind::Unreachable, why);
        match partial {
            true => self.child_cut_off(slot, index, true, cause),
            false => self.child_unreached(slot, index, cause),
        }
    }

    /// Fails a call because a child surely received no request.
    fn child_unreached(&mut self, slot: Slot, index: usize, cause: Cause) {
        let below = self.calls.get(slot).map_or(0, |call| call.group_len(index));
        let coverage = Coverage::all(Status::Unreached, below);
        self.fail_covering(slot, cause, false, Some((index, &coverage)));
    }
}

/// Returns what a function itself waits for, as the end of a message.
fn waiting(what: Option<&str>) -> String {
    what.map_or(String::new(), |what| format!(": {what}"))
}

/// Returns the cause for a time limit that passed at this id during an activity.
fn passed(me: Id, limit: Duration, stage: Stage, doing: &str) -> Cause {
    let message = match limit.is_zero() {
        true => "nothing of the time limit was left when the request came".into(),
        false => format!("the time limit ({limit:?} here) passed {doing}"),
    };
    Cause::new(me, stage, CauseKind::TimeLimit, message)
}

/// Returns the cause for a func that took longer than its call's limit.
pub(super) fn outlasted(me: Id, limit: Duration) -> Cause {
    let straggler = Some(Box::new(Straggler::new(me, CallState::Func, limit)));
    Cause { straggler, ..passed(me, limit, Stage::Func, "while func was running") }
}

/// Returns the cause for a passed time limit: what the call was waiting for.
pub(super) fn expiry(me: Id, call: &Call, run_queue: &RunQueue) -> Cause {
    let limit = call.request.limit;
    let here = |stage, doing: String| passed(me, limit, stage, &doing);
    match (&call.own, &call.job) {
        (OwnPart::Pending | OwnPart::Taking(_), JobState::Running) => here(
            Stage::Func,
            format!("while func was running{}", waiting(run_queue.awaited_by(call.request.call))),
        ),
        (OwnPart::Pending | OwnPart::Taking(_), JobState::Queued(position)) => here(
            Stage::Func,
            format!(
                "while func waited for its turn behind other functions of this id{}",
                waiting(run_queue.awaited_before(*position))
            ),
        ),
        (OwnPart::Pending | OwnPart::Taking(_), JobState::Idle) => {
            let data = &call.request.data;
            here(Stage::Setup, format!("when {} of {} bytes of data had arrived", data.arrived(), data.len()))
        }
        (OwnPart::Deferred, _) => here(Stage::Func, "before the deferred reply was given".into()),
        (OwnPart::Given, _) => call.held_up(me),
        (OwnPart::LentLater, _) => {
            here(Stage::Callback, "before the deferred reply of callback was given".into())
        }
        (OwnPart::Lent, _) => here(
            Stage::Callback,
            format!("while callback was running{}", waiting(run_queue.awaited_by(call.request.call))),
        ),
        (OwnPart::Ready(_), JobState::Queued(position)) => here(
            Stage::Callback,
            format!(
                "while callback waited for its turn behind other functions of this id{}",
                waiting(run_queue.awaited_before(*position))
            ),
        ),
        (OwnPart::Ready(_) | OwnPart::Failed, _) if call.children.is_none() => {
            here(Stage::Forward, "before the request was passed on".into())
        }
        (OwnPart::Ready(_) | OwnPart::Failed, JobState::Idle) if call.awaited == 0 => {
            here(Stage::Callback, "before callback merged what came last".into())
        }
        (OwnPart::Ready(_) | OwnPart::Failed, _) => {
            let awaited: Vec<Id> = call.silent_ids().take(NAMED).collect();
            let first = awaited.first().copied().unwrap_or(me);
            let more = match call.awaited.saturating_sub(awaited.len()) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let message =
                format!("no reply came to id {me} within {limit:?}; it still waits for {awaited:?}{more}");
            Cause::new(first, Stage::Reply, CauseKind::TimeLimit, message)
        }
    }
}
