//! How a call fails: the first cause goes up, a cancel goes down, and what comes late finds nothing.
//!
//! Source: the ARMCI design of chained GPC (2007), "Exceptions" 2 and 3.

use std::time::Duration;

use gpc_trees::Id;

use super::call::{Call, JobState, Origin, Own};
use super::runs::Runs;
use super::slot::Slot;
use super::{Node, Output, Start};
use crate::wire::message::Answer;
use crate::wire::{CallId, Cause, CauseKind, Coverage, Failure, Message, Stage, Status};

/// What is said of a call that its caller wants no more.
const GIVEN_UP: &str = "the caller gave the call up";

/// Ids named in the message of a time limit: enough to look at, short enough to read.
const NAMED: usize = 8;

impl Node {
    /// A stage failed here, or an id below is lost.
    pub(super) fn fail(&mut self, slot: Slot, cause: Cause) {
        // A caller who gives up says nothing about what this id has done.
        let own_failed = cause.id == self.config.me && cause.stage != Stage::Cancelled;
        self.fail_covering(slot, cause, own_failed, None);
    }

    /// A child reports a failure in its subtree.
    pub(super) fn child_failed(&mut self, slot: Slot, index: usize, failure: Failure) {
        self.fail_covering(slot, failure.cause, false, Some((index, &failure.coverage)));
    }

    /// There is no memory here for a child's reply, and what has come of it is dropped.
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

    /// Ends a call whatever its mode.
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
        if let Origin::Here { watch: true, .. } = call.origin {
            coverage = coverage.without_first();
        }
        let culprit = failed.and_then(|(index, _)| call.children.as_ref().map(|children| children[index].id));
        let lost = Some(cause.id).filter(|_| cause.stage == Stage::Link);
        let reachable = |child: &Id| Some(*child) != culprit && Some(*child) != lost;
        let cancelled: Vec<Id> = call.awaited_ids().filter(reachable).collect();
        // Those that have answered keep nothing but for a partial call.
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

    /// The parent cancels: forget, and pass it on.
    pub(super) fn cancelled(&mut self, from: Id, id: CallId) {
        if self.load.take_request(from, id).is_some() {
            return self.emit(Output::Consumed { from });
        }
        if let Some(slot) = self.find(id)
            && self.calls.get(slot).is_some_and(|call| call.parent() == Some(from))
        {
            self.forget(slot);
        }
        // An answer that has crossed the cancel stays for an adopter; it goes with its time.
    }

    fn forget(&mut self, slot: Slot) {
        if let Some(call) = self.remove(slot) {
            let id = call.request.call;
            self.cancel(id, call.awaited_ids().collect());
            if call.request.partial {
                self.release(id, &call.answered_ids());
            }
        }
    }

    /// The application gives up.
    pub(super) fn give_up(&mut self, ticket: u64) {
        let call = self.tickets.get(&ticket).copied();
        if let Some(slot) = call.and_then(|id| self.find(id)) {
            let (me, kind) = (self.config.me, CauseKind::Cancelled);
            self.fail(slot, Cause::new(me, Stage::Cancelled, kind, GIVEN_UP));
        }
    }

    /// What a call comes to that the application has given up before it began.
    pub fn given_up(&self, start: &Start) -> Box<Failure> {
        let cause = Cause::new(self.config.me, Stage::Cancelled, CauseKind::Cancelled, GIVEN_UP);
        let asked = start.ids.len() - u32::from(start.watch && !start.ids.is_empty());
        Box::new(Failure { cause, coverage: Coverage::all(Status::Unreached, asked) })
    }

    /// Which classes of workers a call still needs that was started here, a bit for each: none if it has ended.
    pub fn needs_workers(&self, ticket: u64) -> u64 {
        let call = self.tickets.get(&ticket).and_then(|id| self.calls.named(*id));
        let Some(call) = call else { return 0 };
        let classes = call.request.classes;
        let func = matches!(call.own, Own::Pending | Own::Taking(_));
        let callback = call.request.callback.is_some() && call.request.ids.len() > 1;
        let bit = |needed: bool, class: u8| u64::from(needed) << class.min(63);
        bit(func, classes.func) | bit(callback, classes.callback)
    }

    /// Calls that wait on the peer fail, and calls that it sent are forgotten; partial ones go on without it.
    pub(super) fn link_lost(&mut self, peer: Id, kind: CauseKind, why: &str, unreached: bool) {
        self.recent.unlinked(peer);
        self.liveness.lost(peer);
        self.load.drop_requests(peer);
        let on_the_spot = self.spots.as_ref().map_or(Vec::new(), |spots| spots.concerned(peer));
        for id in on_the_spot {
            self.take_over(id);
        }
        let concerned = |call: &Call| call.parent() == Some(peer) || call.awaited_child(peer).is_some();
        let concerned = self.calls.iter().filter(|call| concerned(call));
        let mut calls: Vec<CallId> = concerned.map(|call| call.request.call).collect();
        calls.sort_unstable();
        for id in calls {
            let Some(slot) = self.calls.find(id) else { continue };
            let Some(call) = self.calls.get_mut(slot) else { continue };
            let mut orphaned = false;
            if let Origin::Parent { id: parent, credit_owed, .. } = &mut call.origin
                && *parent == peer
            {
                // Credit belongs to the link that is gone.
                *credit_owed = false;
                orphaned = true;
                // The parent may live, have given this id up, and ask its children itself.
                call.adopted = true;
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

    /// A request of this call could not be sent to a child. No other call is looked at: a request may name any number of such children.
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

    /// A child that surely got no request fails its call.
    fn child_unreached(&mut self, slot: Slot, index: usize, cause: Cause) {
        let below = self.calls.get(slot).map_or(0, |call| call.group_len(index));
        let coverage = Coverage::all(Status::Unreached, below);
        self.fail_covering(slot, cause, false, Some((index, &coverage)));
    }
}

/// What a function waits for itself, behind what is said of it.
fn waiting(what: Option<&str>) -> String {
    what.map_or(String::new(), |what| format!(": {what}"))
}

/// The time limit passed at this id, which was doing something.
fn passed(me: Id, limit: Duration, stage: Stage, doing: &str) -> Cause {
    let message = match limit.is_zero() {
        true => "nothing of the time limit was left when the request came".into(),
        false => format!("the time limit ({limit:?} here) passed {doing}"),
    };
    Cause::new(me, stage, CauseKind::TimeLimit, message)
}

/// func has taken longer than its call may.
pub(super) fn outlasted(me: Id, limit: Duration) -> Cause {
    passed(me, limit, Stage::Func, "while func was running")
}

/// What a call was waiting for when its time limit passed.
pub(super) fn expiry(me: Id, call: &Call, runs: &Runs) -> Cause {
    let limit = call.request.limit;
    let here = |stage, doing: String| passed(me, limit, stage, &doing);
    match (&call.own, &call.job) {
        (Own::Pending | Own::Taking(_), JobState::Running) => here(
            Stage::Func,
            format!("while func was running{}", waiting(runs.awaited_by(call.request.call))),
        ),
        (Own::Pending | Own::Taking(_), JobState::Queued(turn)) => here(
            Stage::Func,
            format!(
                "while func waited for its turn behind other functions of this id{}",
                waiting(runs.awaited_before(*turn))
            ),
        ),
        (Own::Pending | Own::Taking(_), JobState::Idle) => {
            let data = &call.request.data;
            here(Stage::Setup, format!("when {} of {} bytes of data had arrived", data.arrived(), data.len()))
        }
        (Own::Deferred, _) => here(Stage::Func, "before the deferred reply was given".into()),
        (Own::Given, _) => call.held_up(me),
        (Own::LentLater, _) => {
            here(Stage::Callback, "before the deferred reply of callback was given".into())
        }
        (Own::Lent, _) => here(
            Stage::Callback,
            format!("while callback was running{}", waiting(runs.awaited_by(call.request.call))),
        ),
        (Own::Ready(_), JobState::Queued(turn)) => here(
            Stage::Callback,
            format!(
                "while callback waited for its turn behind other functions of this id{}",
                waiting(runs.awaited_before(*turn))
            ),
        ),
        (Own::Ready(_) | Own::Failed, _) if call.children.is_none() => {
            here(Stage::Forward, "before the request was passed on".into())
        }
        (Own::Ready(_) | Own::Failed, JobState::Idle) if call.awaited == 0 => {
            here(Stage::Callback, "before callback merged what came last".into())
        }
        (Own::Ready(_) | Own::Failed, _) => {
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
