//! The steps of a call: func, forward, callback, response.
//!
//! Source: the ARMCI design of chained GPC (2007), "A chained GPC's propagation works in the following steps" and "The
//! action for any response".

use std::sync::Arc;
use std::time::Duration;

use gpc_trees::{Group, Groups, Id, TreeError, send_order};

use super::call::{Call, Children, JobState, Origin, OwnPart, Step};
use super::load::{Delayed, Unasked, WaitingWork};
use super::recorder::{End, Ending};
use super::retained_answers::RETENTION;
use super::slot::Slot;
use super::{Job, JobResult, Node, Output, Reply, Work, answer_checks, gather};
use crate::wire::message::{Answer, Local, Response};
use crate::wire::{CallId, Cause, CauseKind, Message, Reason, Request, Stage};

/// Maximum fan-out of a peer's request: no process has links for more, and a few bytes of ids can name any number.
const FAN_OUT_FOR_PEERS: u32 = 1 << 16;

impl Node {
    /// Takes every step of a call that is possible now.
    pub(super) fn advance(&mut self, slot: Slot) {
        // Ends: each step advances the call, by forwarding once, then one job at a time, then the end.
        let now = self.now;
        while let Some(call) = self.calls.get_mut(slot) {
            if call.begins_late(now) {
                return self.await_reports(slot);
            }
            match call.next_step() {
                // The time limit ends the call within this input; a process that was stopped must not send requests any
                // more.
                Step::Forward if call.deadline <= now && call.request.ids.len() > 1 => return,
                Step::Forward => {
                    if self.delay_if_busy(slot) {
                        return;
                    }
                    self.forward(slot);
                }
                Step::Func => {
                    call.job = JobState::Queued(self.run_queue.enter(call.request.local.classes.func, slot));
                    return;
                }
                // After the time for reports, callback merges nothing more.
                Step::Callback if call.late && call.is_over(now) => return,
                Step::Callback => {
                    call.job =
                        JobState::Queued(self.run_queue.enter(call.request.local.classes.callback, slot));
                    return;
                }
                Step::Respond => return self.respond(slot),
                Step::TooLate => {
                    let cause = call.too_late(self.config.me);
                    return self.fail(slot, cause);
                }
                Step::Wait => return,
            }
        }
    }

    /// Starts jobs while a worker is free.
    pub(super) fn run_ready(&mut self) {
        while let Some((class, slot)) = self.run_queue.take() {
            let me = self.config.me;
            let now = self.now;
            let Some(call) = self.calls.get_mut(slot) else { continue };
            // It waited too long for a worker: the call ends within this input.
            if call.is_over(now) && matches!(call.own, OwnPart::Ready(_)) {
                call.job = JobState::Idle;
                continue;
            }
            let Some(job) = next_job(me, call) else { continue };
            match job.work {
                Work::Func => call.times.func_begins(now),
                Work::Callback { .. } => call.times.callback_begins(now),
                Work::More(_) => {}
            }
            self.run_queue.begin(class, job.call);
            self.emit(Output::Run(job));
        }
    }

    /// Handles the end of a job. A func that waits for more of its data has not ended, so its request is not consumed
    /// yet.
    pub(super) fn ran(&mut self, id: CallId, result: JobResult) {
        self.run_queue.done(id);
        // If the call failed meanwhile, it is gone, and the result of its job is ignored.
        let Some(slot) = self.calls.find(id) else { return };
        self.check_limit(slot);
        let Some(call) = self.calls.get_mut(slot) else { return };
        if matches!(call.own, OwnPart::Failed) {
            // Partial call whose time for its own part is over.
            return self.pay_credit(slot);
        }
        call.job = JobState::Idle;
        if !matches!(result, JobResult::Deferred) {
            // An answer without a deferred job.
            call.early = None;
        }
        let stage = match call.own {
            OwnPart::Lent => Stage::Callback,
            _ => Stage::Func,
        };
        if !matches!(result, JobResult::Taken(_) | JobResult::Deferred) {
            call.times.function_ends(self.now);
        }
        if !matches!(result, JobResult::Taken(_)) {
            self.pay_credit(slot);
        }
        let me = self.config.me;
        match (result, stage) {
            (JobResult::Replied(reply), _) => self.own_reply(slot, OwnPart::Ready(reply)),
            (JobResult::Deferred, Stage::Func) => self.own_later(slot, OwnPart::Deferred),
            (JobResult::Deferred, _) => self.own_later(slot, OwnPart::LentLater),
            (JobResult::Taken(taken), Stage::Func) => self.own_reply(slot, OwnPart::Taking(Some(taken))),
            (JobResult::Taken(_), _) => {
                let reason = Reason::new(CauseKind::WrongFunction, "a callback takes no data as they come");
                self.stage_failed(slot, Cause::of(me, stage, reason));
            }
            (JobResult::Failed(reason), _) => self.stage_failed(slot, Cause::of(me, stage, *reason)),
            (JobResult::Refused(reason), _) => {
                self.stage_failed(slot, Cause::of(me, Stage::Setup, *reason));
            }
        }
    }

    /// Handles that func or callback has ended and answers later, or has already answered.
    fn own_later(&mut self, slot: Slot, own: OwnPart) {
        let early = self.calls.get_mut(slot).and_then(|call| call.early.take());
        self.own_reply(slot, own);
        if let Some(result) = early {
            self.answered_at(slot, *result);
        }
    }

    /// Handles a deferred reply, or the loss of its token.
    pub(super) fn answered(&mut self, id: CallId, result: Result<Reply, Box<Reason>>) {
        if let Some(slot) = self.calls.find(id) {
            self.check_limit(slot);
            self.answered_at(slot, result);
        }
    }

    fn answered_at(&mut self, slot: Slot, result: Result<Reply, Box<Reason>>) {
        let Some(call) = self.calls.get_mut(slot) else { return };
        if matches!(call.own, OwnPart::Deferred | OwnPart::LentLater) {
            call.times.function_ends(self.now);
        }
        match (&call.own, result) {
            (OwnPart::Deferred | OwnPart::LentLater, Ok(reply)) => {
                self.own_reply(slot, OwnPart::Ready(reply))
            }
            (OwnPart::Deferred, Err(reason)) => {
                self.stage_failed(slot, Cause::of(self.config.me, Stage::Func, *reason));
            }
            (OwnPart::LentLater, Err(reason)) => {
                self.stage_failed(slot, Cause::of(self.config.me, Stage::Callback, *reason));
            }
            (OwnPart::Pending | OwnPart::Taking(_) | OwnPart::Lent, result)
                if call.job == JobState::Running =>
            {
                call.early.get_or_insert_with(|| Box::new(result));
            }
            // A second answer to the same token, with no other deferred job of the call: the first one counts.
            _ => {}
        }
    }

    fn own_reply(&mut self, slot: Slot, own: OwnPart) {
        if let OwnPart::Ready(reply) = &own
            && let Err(cause) = self.reply_fits(slot, reply)
        {
            return self.stage_failed(slot, cause);
        }
        if let Some(call) = self.calls.get_mut(slot) {
            call.own = own;
            self.advance(slot);
        }
    }

    /// Checks a reply that func or callback has just written.
    fn reply_fits(&mut self, slot: Slot, reply: &Reply) -> Result<(), Cause> {
        let call = self.calls.get(slot);
        call.map_or(Ok(()), |call| call.within_reply_limits(self.config.me, reply))?;
        self.reserve_for_own_reply(slot, reply)
    }

    /// Sends the request to the children, the largest subtree first.
    fn forward(&mut self, slot: Slot) {
        let Some(call) = self.calls.get_mut(slot) else { return };
        let most = match call.origin {
            Origin::Application { .. } => self.config.trees.fan_out,
            Origin::Parent { .. } => self.config.trees.fan_out.min(FAN_OUT_FOR_PEERS),
        };
        let groups = match split(&call.request, most) {
            Ok(groups) => groups,
            Err(reason) => {
                return self.not_forwarded(slot, Cause::of(self.config.me, Stage::Forward, reason));
            }
        };
        if let Err(cause) = self.reserve_for_children(slot, groups.len()) {
            return self.not_forwarded(slot, cause);
        }
        let Some(call) = self.calls.get_mut(slot) else { return };
        call.children.get_or_insert_default();
        self.ask_children(slot, groups, 0, true);
    }

    /// Sends the request to the heads of these groups: all at once, or, for a request of a peer, so few at a time that
    /// other work need not wait.
    pub(super) fn ask_children(&mut self, slot: Slot, groups: Groups, skipped: u32, fresh: bool) {
        let most = usize::from(self.config.sizes.batch.max(1));
        let Some(call) = self.calls.get_mut(slot) else { return };
        call.awaited += groups.len();
        match call.parent() {
            Some(parent) if groups.len() > most || self.load.delays(parent) => {
                call.unasked.get_or_insert_default().push_back(Unasked::new(groups, skipped, fresh));
                if !self.load.delays(parent) {
                    self.ask_more(slot);
                }
                self.delay_call(slot);
            }
            Some(_) => {
                self.load.spend(groups.len());
                self.ask_all(slot, &groups, skipped, fresh);
            }
            None => self.ask_all(slot, &groups, skipped, fresh),
        }
    }

    /// Sends the request to the next children of a call.
    fn ask_more(&mut self, slot: Slot) {
        let most = usize::from(self.config.sizes.batch.max(1));
        let Some(call) = self.calls.get_mut(slot) else { return };
        let Some(unasked) = call.unasked.as_mut().and_then(|unasked| unasked.front_mut()) else { return };
        let (groups, skipped, fresh) = (unasked.take(most), unasked.skipped, unasked.fresh);
        call.drop_asked();
        self.load.spend(groups.len());
        self.ask_all(slot, &groups, skipped, fresh);
    }

    /// Sends the request to these groups, the largest subtree first.
    fn ask_all(&mut self, slot: Slot, groups: &[Group], skipped: u32, fresh: bool) {
        let Some(call) = self.calls.get_mut(slot) else { return };
        call.asks(groups, skipped, fresh);
        for index in send_order(groups) {
            self.send_request(slot, groups[index], skipped, fresh);
        }
    }

    /// Delays a call if other work must have its turn first: a later tick continues it. Returns whether it is delayed.
    fn delay_if_busy(&mut self, slot: Slot) -> bool {
        let call = self.calls.get(slot).filter(|call| call.request.ids.len() > 1);
        let delays = call.and_then(Call::parent).is_some_and(|parent| self.load.delays(parent));
        if delays {
            self.delay_call(slot);
        }
        delays
    }

    /// Continues a call with a later tick, if it has something left to send.
    fn delay_call(&mut self, slot: Slot) {
        let Some(call) = self.calls.get_mut(slot) else { return };
        let more = call.unasked.is_some() || call.children.is_none();
        if let (Some(parent), true, false) = (call.parent(), more, call.is_delayed) {
            call.is_delayed = true;
            self.load.delay_call(parent, call.request.call);
        }
    }

    /// Processes part of the waiting work.
    pub(super) fn go_on_with_delayed(&mut self) {
        self.load.renew();
        // Ends: each item uses up part of the work of one tick.
        while let Some((parent, next)) = self.load.next() {
            match next {
                WaitingWork::Request(Delayed { request, came, .. }) => self.begin(parent, request, came),
                WaitingWork::Call(id) => {
                    let Some(slot) = self.calls.find(id) else { continue };
                    let Some(call) = self.calls.get_mut(slot) else { continue };
                    call.is_delayed = false;
                    // After its time limit no answer is useful.
                    if call.deadline <= self.now {
                        continue;
                    }
                    if call.unasked.is_some() {
                        self.ask_more(slot);
                        self.delay_call(slot);
                    }
                    self.advance(slot);
                }
            }
        }
    }

    /// Fails the forward stage: no id below is sent the request.
    fn not_forwarded(&mut self, slot: Slot, cause: Cause) {
        let Some(call) = self.calls.get_mut(slot) else { return };
        call.forwarded(Children::new());
        if call.request.partial && matches!(call.own, OwnPart::Deferred) {
            // Its own part fails now, so the end of the call will not notify the holder of the token.
            let id = call.request.call;
            self.emit(Output::Stopped(id));
        }
        self.stage_failed(slot, cause);
    }

    /// Sends a group its request: the same call for its slice, with the time that is left.
    pub(super) fn send_request(&mut self, slot: Slot, group: Group, skipped: u32, fresh: bool) {
        let Some(call) = self.calls.get(slot) else { return };
        let request = &call.request;
        let parts = request.parts.as_ref().map(|parts| Box::new(parts.slice(group)));
        // Built field by field: a clone would copy a list, a tree and the data only to overwrite them.
        let child = Request {
            call: request.call,
            position: request.position.saturating_add(group.start),
            total: request.total,
            func: request.func,
            callback: request.callback,
            // Each id sets its own.
            local: Local { trace: request.local.trace, ..Local::default() },
            reply_wanted: request.reply_wanted,
            reply_limits: request.reply_limits,
            forward_first: request.forward_first,
            partial: request.partial,
            limit: Duration::from_micros(whole_us(call.deadline.since(self.now))),
            left: call.until.since(self.now),
            age: request.age.saturating_add(self.now.since(call.times.came)),
            // Another parent that had this id before, or still has it without knowing, may have adopted its children.
            adopted: !fresh || call.partial.adopted,
            skipped,
            tree: request.tree.as_ref().map(|tree| tree.subtree(group)).map_err(|unknown| *unknown),
            ids: request.ids.slice(group),
            header: request.header.clone(),
            data: parts.as_ref().map_or_else(|| request.data.fork(), |parts| parts.own()),
            parts,
        };
        let to = child.ids.first().unwrap_or_default();
        self.emit(Output::Send { to, message: Message::Request(Arc::new(child)) });
    }

    /// Handles a child's answer.
    pub(super) fn response(&mut self, from: Id, id: CallId, mut answer: Answer) {
        // Ignores unknown calls and children that have answered: "ignoring all subsequent responses".
        let Some(slot) = self.find(id) else { return };
        if !matches!(answer, Answer::Failed(_)) {
            self.check_limit(slot);
        }
        let Some(call) = self.calls.get_mut(slot) else { return };
        let Some(index) = call.awaited_child(from) else { return };
        let at = call.times.child_answers(from, self.now);
        self.recorder.child_answered(id, from, at);
        call.take_trace(index, &mut answer, self.now);
        if call.request.partial {
            return self.partial_response(slot, index, answer);
        }
        let wanted = call.request.reply_wanted;
        let reply = match answer {
            Answer::Failed(mut failure) => {
                let child = call.children.as_ref().and_then(|children| children.get(index));
                let cause = &mut failure.cause;
                return match child.and_then(|child| answer_checks::in_failure(&call.request, child, cause)) {
                    Some(error) => {
                        self.fail(slot, Cause::new(from, Stage::Reply, CauseKind::BadReply, error))
                    }
                    None => self.child_failed(slot, index, *failure),
                };
            }
            // While its reply is arriving, a child may only send a failure.
            _ if call.is_streaming(index) => return,
            Answer::Completed if !wanted => None,
            Answer::Reply(reply) => {
                if let Some(error) = answer_checks::in_reply(&call.request, &reply) {
                    return self.fail(slot, Cause::new(from, Stage::Reply, CauseKind::BadReply, error));
                }
                Some(reply).filter(|_| wanted)
            }
            Answer::Arriving(reply) => return self.reply_begun(slot, index, from, *reply),
            Answer::Completed | Answer::Partial(_) => {
                let message = match answer {
                    Answer::Completed => "it sent a bare completion where a reply was asked for",
                    _ => "it sent a partial reply where a whole one was asked for",
                };
                return self.fail(slot, Cause::new(from, Stage::Reply, CauseKind::BadReply, message));
            }
        };
        let room = reply.as_ref().map_or(Ok(()), |reply| self.reserve_for_reply(slot, reply));
        let Some(call) = self.calls.get_mut(slot) else { return };
        // Its subtree is done, whatever happens to the reply.
        call.child_done(index, reply.filter(|_| room.is_ok()));
        if let Err(cause) = room {
            return self.fail(slot, cause);
        }
        self.report_child(slot, index);
        self.advance(slot);
    }

    /// Answers the parent or the application: the whole subtree is done.
    fn respond(&mut self, slot: Slot) {
        let Some(call) = self.calls.get_mut(slot) else { return };
        if call.request.partial {
            return self.respond_partial(slot);
        }
        if self.respond_streaming(slot) {
            return;
        }
        let Some(call) = self.calls.get_mut(slot) else { return };
        match gather::answer(call, self.config.reply_max) {
            Err(cause) => self.fail(slot, cause),
            Ok(mut answer) => {
                if let Answer::Reply(reply) = &mut answer {
                    call.add_trace(reply, self.config.reply_max, self.now);
                }
                self.end(slot, answer);
            }
        }
    }

    /// Removes a call and reports its result.
    pub(super) fn end(&mut self, slot: Slot, answer: Answer) {
        let end = if matches!(answer, Answer::Failed(_)) { End::Failed } else { End::Done };
        let Some(call) = self.remove(slot, end) else { return };
        let id = call.request.call;
        match (&call.origin, answer) {
            (&Origin::Parent { id: to, .. }, answer) => {
                self.emit(Output::Send { to, message: Message::Response(Response { call: id, answer }) });
            }
            (&Origin::Application { ticket, .. }, answer) => {
                let result = answer.into_result();
                self.emit(Output::Finished { ticket, call: id, result, report: None });
            }
        }
        self.calls.recycle(call);
    }

    /// Removes a call from every table, and records how it ended.
    pub(super) fn remove(&mut self, slot: Slot, end: End) -> Option<Box<Call>> {
        self.pay_credit(slot);
        let call = self.calls.remove(slot)?;
        let id = call.request.call;
        let ending = Ending { call: id, func: call.request.func, parent: call.parent(), end };
        self.recorder.call_ended(&ending, &call.times, self.now);
        match call.late {
            true => self.deadlines.remove_late(call.due(), id),
            false => self.deadlines.remove(call.deadline, id),
        }
        call.parent().iter().for_each(|&parent| self.load.release(parent, call.partial.orphans));
        match call.request.partial {
            true => self.completed.partial.add(id, call.until.plus(RETENTION)),
            false => self.completed.add(id),
        }
        match (&call.job, &call.own) {
            (JobState::Queued(position), _) => self.run_queue.leave(*position),
            (JobState::Running, _) | (_, OwnPart::Deferred | OwnPart::LentLater) => {
                self.emit(Output::Stopped(id))
            }
            (JobState::Idle, _) => {}
        }
        if let Origin::Application { ticket, .. } = call.origin {
            self.tickets.remove(ticket);
        }
        self.end_if_idle();
        Some(call)
    }

    /// Reports the call's request as consumed, once: its func has run, or will not run.
    pub(super) fn pay_credit(&mut self, slot: Slot) {
        if let Some(call) = self.calls.get_mut(slot)
            && let Origin::Parent { id: from, credit_owed: owed @ true, .. } = &mut call.origin
        {
            *owed = false;
            let from = *from;
            self.emit(Output::Consumed { from });
        }
    }
}

/// Returns the job that a call is queued for, and marks it as running.
fn next_job(me: Id, call: &mut Call) -> Option<Job> {
    let work = match std::mem::replace(&mut call.own, OwnPart::Lent) {
        OwnPart::Ready(own) => {
            let (place, child) = call.next_reply()?;
            let from = call.request.ids.id(place).unwrap_or_default();
            if call.request.partial {
                call.partial.merged.push(child.clone());
            } else {
                call.reservation.merged(&child);
            }
            Work::Callback { from, child: Box::new(child), own }
        }
        OwnPart::Taking(Some(taken)) => {
            call.own = OwnPart::Taking(None);
            Work::More(taken)
        }
        other => {
            call.own = other;
            Work::Func
        }
    };
    call.job = JobState::Running;
    let (request, until) = (call.request.clone(), call.due());
    Some(Job { call: request.call, me, parent: call.parent(), request, until, work })
}

/// Microseconds, the unit of time limits on the wire.
fn whole_us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the children's groups, or the reason for a failure.
fn split(request: &Request, fan_out_max: u32) -> Result<Groups, Reason> {
    let unknown = |id| Reason::new(CauseKind::UnknownTree, format!("no tree is registered under {id:#x}"));
    let tree = request.tree.as_ref().map_err(unknown)?;
    let bad = |error: TreeError| {
        let limit = matches!(error, TreeError::FanOut { .. } | TreeError::Depth { .. });
        let kind = if limit { CauseKind::OverLimit } else { CauseKind::BadTree };
        Reason::new(kind, error.to_string())
    };
    let over = |count: usize| {
        let message = format!("{count} children are over the limit of {fan_out_max}");
        Err(Reason::new(CauseKind::OverLimit, message))
    };
    // A few bytes can name any number of children, so the fan-out is checked before groups are allocated.
    if let Some(count) = tree.fan_out(request.ids.len()).filter(|&count| count > fan_out_max) {
        return over(count as usize);
    }
    let groups = tree.split(request.ids.len()).map_err(bad)?;
    if groups.len() > fan_out_max as usize { over(groups.len()) } else { Ok(groups) }
}
