//! Partial calls: the call goes on without lost ids.
//!
//! Beyond the source, which ends a call at its first failure. A stage that fails affects its id alone. If a child is
//! lost, its parent adopts its children, each with its original slice. An adopted id does not execute again, and sends
//! its retained answer. Coverage has the status of every id.

use gpc_trees::sorting::sort_by_key;
use gpc_trees::{Groups, Id, adopted};

use super::call::{Call, ChildAnswer, Origin, OwnPart};
use super::recorder::End;
use super::retained_answers::{RETENTION, RetainedAnswer};
use super::slot::Slot;
use super::{Node, Output, answer_checks, gather};
use crate::wire::message::{Answer, Partial, Response, SubtreeReply};
use crate::wire::{
    CallId, Cause, CauseKind, Coverage, Failure, Message, Reason, Report, Request, Stage, Status,
};

impl Node {
    /// Handles a failed stage at this id.
    pub(super) fn stage_failed(&mut self, slot: Slot, cause: Cause) {
        let Some(call) = self.calls.get_mut(slot) else { return };
        if !call.request.partial {
            return self.fail(slot, cause);
        }
        call.own_failed(cause);
        self.advance(slot);
    }

    /// Handles a lost link to a child; `unreached` is whether no link was ever up.
    pub(super) fn child_cut_off(&mut self, slot: Slot, index: usize, unreached: bool, cause: Cause) {
        let child = self.calls.get(slot).and_then(|call| call.children.as_ref()?.get(index));
        // Another parent's request may have reached it.
        let unreached = unreached && child.is_some_and(|child| child.fresh);
        let status = if unreached { Status::Unreached } else { Status::Unknown };
        self.child_lost(slot, index, status, unreached, cause);
    }

    /// Removes a child that no longer takes part, and adopts its children; `fresh` is whether it has surely not sent
    /// the request to them.
    fn child_lost(&mut self, slot: Slot, index: usize, status: Status, fresh: bool, cause: Cause) {
        let Some(call) = self.calls.get_mut(slot) else { return };
        let (most, parent) = (self.config.adopted_max, call.parent());
        // Adopted children are counted over all calls of one peer.
        let adopted = parent.map_or(call.partial.orphans, |parent| self.load.adopted(parent));
        // After the deadline no answer is useful, and this id's own answer goes up within this input.
        let groups = match call.deadline <= self.now {
            true => Some(Groups::new()),
            false => adoptable(call, index, most.saturating_sub(adopted)),
        };
        // A few bytes of ids can name any number of ids that do not exist, and each would leave its children to this
        // id.
        call.add_cause(if groups.is_some() { cause } else { not_adopted(cause, parent, most) });
        let groups = groups.unwrap_or_default();
        let skipped = call.replace_lost(index, status, groups.len() as u32);
        self.report_child(slot, index);
        parent.iter().for_each(|&parent| self.load.adopt(parent, groups.len() as u32));
        if !groups.is_empty() {
            self.ask_children(slot, groups, skipped, fresh);
        }
        if let Some(call) = self.calls.get_mut(slot) {
            call.settle_order();
        }
        self.advance(slot);
    }

    /// Handles a child's answer to a partial call.
    pub(super) fn partial_response(&mut self, slot: Slot, index: usize, answer: Answer) {
        let Some(call) = self.calls.get_mut(slot) else { return };
        let Some(child) = call.children.as_ref().and_then(|children| children.get(index)) else { return };
        let from = child.id;
        let Partial { reply, report } = match answer_checks::partial_answer(&call.request, child, answer) {
            Ok(Ok(partial)) => *partial,
            Ok(Err(failure)) => return self.partial_refused(slot, index, *failure),
            Err(error) => {
                let cause = Cause::new(from, Stage::Reply, CauseKind::BadReply, error);
                return self.child_lost(slot, index, Status::Unknown, false, cause);
            }
        };
        if let Err(cause) = self.reserve_for_reply(slot, &reply) {
            return self.child_lost(slot, index, Status::Unknown, false, cause);
        }
        let Some(call) = self.calls.get_mut(slot) else { return };
        match (call.request.callback, call.request.reply_wanted) {
            (_, false) => call.child_done(index, None),
            (None, true) => call.child_done(index, Some(reply)),
            (Some(_), true) => match gather::parts(reply) {
                Some(parts) => call.child_parts(index, parts),
                None => {
                    let cause = bad_values(from);
                    return self.child_lost(slot, index, Status::Unknown, false, cause);
                }
            },
        }
        // Only for a child that stays: the children of a lost one report for themselves.
        call.child_reports(index, report);
        self.report_child(slot, index);
        self.advance(slot);
    }

    /// Handles a request for a partial call that is in flight here, or whose answer is retained. Returns whether the
    /// request is settled.
    ///
    /// Of two parents the one that stands higher counts: it has given up the other. So the lower one's request may
    /// arrive first or last.
    pub(super) fn known_partial(&mut self, from: Id, request: &Request) -> bool {
        let id = request.call;
        let (old, skipped, ids) = match (self.calls.named(id), self.retained.get(id)) {
            (Some(Call { request, origin: Origin::Parent { id, skipped, .. }, .. }), _)
                if request.partial =>
            {
                (*id, *skipped, &request.ids)
            }
            (None, Some(retained)) => (retained.parent, retained.skipped, &retained.ids),
            _ => return false,
        };
        if *ids != request.ids || request.skipped == skipped {
            return false;
        }
        self.emit(Output::Consumed { from });
        if request.skipped < skipped {
            self.emit(Output::Send { to: from, message: Message::Moved(id) });
            return true;
        }
        self.emit(Output::Send { to: old, message: Message::Moved(id) });
        self.switch_parent(from, request);
        true
    }

    /// Switches to the parent that has adopted this id: it gets the answer, at once if there is one.
    fn switch_parent(&mut self, from: Id, request: &Request) {
        let id = request.call;
        if let Some(retained) = self.retained.get_mut(id) {
            (retained.parent, retained.skipped) = (from, request.skipped);
            retained.answer.report.coverage = retained.answer.report.coverage.doubted();
            let answer = Answer::Partial(retained.answer.clone());
            self.emit(Output::Send { to: from, message: Message::Response(Response { call: id, answer }) });
            return;
        }
        let Some(slot) = self.calls.find(id) else { return };
        self.pay_credit(slot);
        if let Some(call) = self.calls.get_mut(slot) {
            call.parent().iter().for_each(|&old| self.load.release(old, call.partial.orphans));
            self.load.adopt(from, call.partial.orphans);
            call.origin = Origin::Parent { id: from, skipped: request.skipped, credit_owed: false };
            call.partial.adopted = true;
            // The old parent will not send the rest of the data.
            call.request.body().follow(request.body());
            self.advance(slot);
        }
    }

    /// Handles that a child has another parent: this id was given up as lost, and can only contribute its own part.
    ///
    /// The parent that gave it up ignores its answer. A parent that has adopted it since, without knowing, must learn
    /// that it does not answer for its children.
    pub(super) fn moved(&mut self, from: Id, id: CallId) {
        let given_up = |call: &Call| call.request.partial && call.has_child(from);
        if let Some(slot) = self.calls.find(id)
            && let Some(parent) =
                self.calls.get(slot).filter(|call| given_up(call)).and_then(|call| call.parent())
            && let Some(call) = self.remove(slot, End::Cancelled)
        {
            let me = self.config.me;
            let message = format!("it was given up: id {from} has another parent");
            let cause = Cause::new(me, Stage::Link, CauseKind::SecondParent, message);
            let coverage = Coverage::all(Status::Unknown, call.request.ids.len());
            let answer = Answer::Failed(Box::new(Failure { cause, coverage }));
            self.emit(Output::Send { to: parent, message: Message::Response(Response { call: id, answer }) });
        }
        if self.retained.get(id).is_some_and(|retained| retained.children.contains(&from)) {
            self.retained.remove(id);
        }
    }

    /// Handles a release: the root has its result.
    pub(super) fn released(&mut self, from: Id, id: CallId) {
        if self.retained.get(id).is_some_and(|retained| retained.parent == from)
            && let Some(retained) = self.retained.remove(id)
        {
            self.release(id, &retained.children);
        }
    }

    pub(super) fn release(&mut self, id: CallId, children: &[Id]) {
        for &to in children {
            self.emit(Output::Send { to, message: Message::Release(id) });
        }
    }

    /// Sends the available answer: everything, or what arrived within the time limit.
    pub(super) fn respond_partial(&mut self, slot: Slot) {
        let me = self.config.me;
        let Some(call) = self.calls.get_mut(slot) else { return };
        let awaited: Vec<Id> = call.awaited_ids().collect();
        let too_late = call.late.then(|| call.too_late(me));
        let mut partial = gather::partial(call, self.config.reply_max);
        call.add_trace(&mut partial.reply, self.config.reply_max, self.now);
        let is_done = u64::from(partial.report.coverage.counts().done) == partial.report.coverage.len();
        let end = if is_done { End::Done } else { End::Partial };
        let Some(call) = self.remove(slot, end) else { return };
        let id = call.request.call;
        for to in awaited {
            self.emit(Output::Send { to, message: Message::Cancel(id) });
        }
        let children = call.answered_ids();
        match call.origin {
            Origin::Application { ticket, watch, .. } => {
                self.release(id, &children);
                let mut report = partial.report;
                if let (true, Some(cause)) = (report.causes.is_empty(), too_late) {
                    report.add(cause);
                }
                if watch {
                    report.coverage = report.coverage.without_first();
                }
                let reply = Some(partial.reply).filter(|_| call.request.reply_wanted);
                self.emit(Output::Finished {
                    ticket,
                    call: id,
                    result: Ok(reply),
                    report: Some(report.into()),
                });
            }
            Origin::Parent { id: parent, skipped, .. } => {
                let answer = Box::new(partial);
                let (ids, until) = (call.request.ids.clone(), call.until.plus(RETENTION));
                let share = self.retained.share();
                let retained =
                    RetainedAnswer { parent, skipped, answer: answer.clone(), ids, children, until, share };
                self.retained.insert(id, retained, self.config.calls_max);
                let answer = Answer::Partial(answer);
                let message = Message::Response(Response { call: id, answer });
                self.emit(Output::Send { to: parent, message });
            }
        }
    }

    /// Handles that the time limit of a partial call has passed, or the time for reports after it. If this id's own
    /// part is missing, it is left out, and so are the children that have not answered by the end.
    pub(super) fn expire_partial(&mut self, slot: Slot, cause: Cause) {
        let Some(call) = self.calls.get_mut(slot) else { return };
        let waits = call.awaited > 0 && !call.late;
        match call.own {
            OwnPart::Ready(_) | OwnPart::Failed if waits => {}
            OwnPart::Ready(_) | OwnPart::Failed => call.add_cause(cause),
            _ => self.own_part_expires(slot, cause),
        }
        match waits {
            true => self.await_reports(slot),
            false => self.respond_partial(slot),
        }
    }

    /// Handles a child's failure of its whole subtree: in a partial call it affects only the child itself.
    pub(super) fn partial_refused(&mut self, slot: Slot, index: usize, failure: Failure) {
        let child = self.calls.get(slot).and_then(|call| call.children.as_ref()?.get(index));
        let (fresh, len) = child.map_or((false, 0), |child| (child.fresh, u64::from(child.group.len)));
        let Failure { cause, coverage } = failure;
        // If the coverage has another length than the child's group, its unreached entries are not trusted.
        let fresh = fresh && coverage.len() == len;
        let status = match coverage.statuses().next().unwrap_or(Status::Failed) {
            Status::Failed => Status::Failed,
            Status::Unreached if fresh => Status::Unreached,
            Status::Done | Status::Unknown | Status::Unreached => Status::Unknown,
        };
        let below = coverage.without_first();
        let fresh = fresh && below.counts().unreached as u64 == below.len();
        self.child_lost(slot, index, status, fresh, cause);
    }

    /// Rejects a request that another parent may have sent to an earlier run of this id. Ages are rounded up at every
    /// hop, so a young node may seem younger than the call. The first run has nothing to compare with.
    pub(super) fn old_enough(&self, request: &Request) -> Result<(), Cause> {
        let age = self.now.since(self.config.started);
        let only_run = self.config.first_run || !request.adopted;
        if only_run || age >= request.age.saturating_add(self.config.restart_margin) {
            return Ok(());
        }
        let message = "this run of the id may have begun after the call: an earlier one may have executed it";
        Err(Cause::new(self.config.me, Stage::Setup, CauseKind::LostIncarnation, message))
    }
}

/// Returns the cause for a reply that no callback below can have produced.
fn bad_values(from: Id) -> Cause {
    Cause::new(from, Stage::Reply, CauseKind::BadReply, "its values are no level-1 data")
}

/// Returns the groups of a lost child's children; `None` if they are more than `most`. Empty if its split is invalid,
/// which its parent would have reported.
fn adoptable(call: &Call, index: usize, most: u32) -> Option<Groups> {
    let (Ok(tree), Some(children)) = (&call.request.tree, &call.children) else { return Some(Groups::new()) };
    let lost = children[index].group;
    // Checked before groups are allocated.
    if tree.fan_out(lost.len).is_some_and(|count| count > most) {
        return None;
    }
    let groups = adopted(tree, lost).unwrap_or_default();
    (groups.len() <= most as usize).then_some(groups)
}

/// Returns the cause for a lost child whose children are not adopted because there would be too many.
fn not_adopted(cause: Cause, parent: Option<Id>, most: u32) -> Cause {
    let Cause { id, stage, kind, code, message, detail, straggler } = cause;
    let of = parent.map_or("of this call".to_string(), |parent| format!("of the calls of id {parent}"));
    let message = format!(
        "{message}; the children of id {id} are not adopted: more than {most} ids {of} would be adopted at one id"
    );
    Cause { straggler, ..Cause::of(id, stage, Reason { kind, code, message, detail }) }
}

impl Call {
    /// Adds the cause of an id that is left out.
    pub(super) fn add_cause(&mut self, cause: Cause) {
        self.partial.report.get_or_insert_default().add(cause);
    }

    /// Marks the id's own part as failed: replies merged into it go up by themselves.
    pub(super) fn own_failed(&mut self, cause: Cause) {
        self.add_cause(cause);
        self.own = OwnPart::Failed;
    }

    /// Records that a child's subtree is done, with values that wait for callback.
    pub(super) fn child_parts(&mut self, index: usize, parts: Vec<SubtreeReply>) {
        let Some(children) = self.children.as_mut() else { return };
        let child = &mut children[index];
        child.answer = ChildAnswer::Done;
        let place = child.group.start;
        parts.into_iter().for_each(|part| self.reply_came(place, part));
        self.awaited -= 1;
        self.settle_order();
    }

    /// Stores a child's report on the ids of its group.
    fn child_reports(&mut self, index: usize, report: Report) {
        if let Some(child) = self.children.as_mut().and_then(|children| children.get_mut(index)) {
            child.report = Some(Box::new(report));
        }
    }

    /// Marks a child as lost. `adopted` of its children replace it; the others, or all if none are adopted, stay in its
    /// group. Returns the number of parents given up between this id and them.
    pub(super) fn replace_lost(&mut self, index: usize, status: Status, adopted: u32) -> u32 {
        let Some(children) = self.children.as_mut() else { return 0 };
        let lost = &mut children[index];
        lost.answer = ChildAnswer::Lost(status);
        let skipped = lost.skipped.saturating_add(1);
        if adopted > 0 {
            lost.group.len = 1;
        }
        self.awaited -= 1;
        self.partial.orphans = self.partial.orphans.saturating_add(adopted);
        skipped
    }

    /// Returns the known status of every id of the slice when the call ends here.
    pub(super) fn take_report(&mut self) -> Report {
        let mut report = self.partial.report.take().map_or_else(Report::default, |report| *report);
        self.leave_unasked();
        let own = match self.own {
            OwnPart::Ready(_) => Status::Done,
            _ => Status::Failed,
        };
        report.coverage.push(own, 1);
        let Some(children) = self.children.as_mut() else {
            report.coverage.push(Status::Unreached, self.request.ids.len() - 1);
            return self.doubted(report);
        };
        // The call ends, so no index of a child is used any more.
        sort_by_key(children, |child| child.group.start);
        for child in children {
            match child.report.take() {
                Some(below) => report.append(*below),
                None => child.cover(&mut report.coverage),
            }
        }
        self.pad(&mut report.coverage);
        self.doubted(report)
    }

    /// If the id has had another parent, that parent may have adopted the children before it was given up itself: ids
    /// that were not reached from here may have been reached from there.
    fn doubted(&self, mut report: Report) -> Report {
        if self.partial.adopted {
            report.coverage = report.coverage.doubted();
        }
        report
    }
}
