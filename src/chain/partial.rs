//! Partial calls: the call goes on without those that are lost.
//!
//! Beyond the source, which ends a call at its first failure. A stage that fails counts for its id alone. Of a child that is lost the parent adopts the children, each with the slice it always
//! had; an adopted id does not execute again, and gives the answer that it kept. Coverage says what became of every id.

use gpc_trees::{Groups, Id, adopted};

use super::call::{Call, ChildAnswer, Origin, Own};
use super::kept::{KEEP, Kept};
use super::slot::Slot;
use super::{Node, Output, gather, lies};
use crate::wire::message::{Answer, Partial, Response, SubtreeReply};
use crate::wire::{
    CallId, Cause, CauseKind, Coverage, Failure, Message, Reason, Report, Request, Stage, Status,
};

impl Node {
    /// A stage failed at this id.
    pub(super) fn stage_failed(&mut self, slot: Slot, cause: Cause) {
        let Some(call) = self.calls.get_mut(slot) else { return };
        if !call.request.partial {
            return self.fail(slot, cause);
        }
        call.own_failed(cause);
        self.advance(slot);
    }

    /// The link to a child is lost; `unreached` when none ever came up.
    pub(super) fn child_cut_off(&mut self, slot: Slot, index: usize, unreached: bool, cause: Cause) {
        let child = self.calls.get(slot).and_then(|call| call.children.as_ref()?.get(index));
        // Another parent's request may have reached it.
        let unreached = unreached && child.is_some_and(|child| child.fresh);
        let status = if unreached { Status::Unreached } else { Status::Unknown };
        self.child_lost(slot, index, status, unreached, cause);
    }

    /// A child does not take part any more: its children are adopted, `fresh` when it has surely asked none of them.
    fn child_lost(&mut self, slot: Slot, index: usize, status: Status, fresh: bool, cause: Cause) {
        let Some(call) = self.calls.get_mut(slot) else { return };
        let (most, parent) = (self.config.adopted_max, call.parent());
        // What one peer has adopted is counted over all of its calls.
        let adopted = parent.map_or(call.orphans, |parent| self.load.adopted(parent));
        // Past the deadline nobody can answer any more, and this id's own answer goes up before this input is over.
        let groups = match call.deadline <= self.now {
            true => Some(Groups::new()),
            false => adoptable(call, index, most.saturating_sub(adopted)),
        };
        // A few bytes of ids can name any number that nobody has, and each would leave its children to this id.
        call.add_cause(if groups.is_some() { cause } else { not_adopted(cause, parent, most) });
        let groups = groups.unwrap_or_default();
        let skipped = call.replace_lost(index, status, groups.len() as u32);
        parent.iter().for_each(|&parent| self.load.adopt(parent, groups.len() as u32));
        if !groups.is_empty() {
            self.ask_children(slot, groups, skipped, fresh);
        }
        if let Some(call) = self.calls.get_mut(slot) {
            call.settle_order();
        }
        self.advance(slot);
    }

    /// A child of a partial call answers.
    pub(super) fn partial_response(&mut self, slot: Slot, index: usize, answer: Answer) {
        let Some(call) = self.calls.get_mut(slot) else { return };
        let Some(child) = call.children.as_ref().and_then(|children| children.get(index)) else { return };
        let from = child.id;
        let Partial { reply, report } = match lies::partial_answer(&call.request, child, answer) {
            Ok(Ok(partial)) => *partial,
            Ok(Err(failure)) => return self.partial_refused(slot, index, *failure),
            Err(lie) => {
                let cause = Cause::new(from, Stage::Reply, CauseKind::BadReply, lie);
                return self.child_lost(slot, index, Status::Unknown, false, cause);
            }
        };
        if let Err(cause) = self.room_for_reply(slot, &reply) {
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
        // Only of one that stays: the children of a lost one speak for themselves.
        call.child_reports(index, report);
        self.advance(slot);
    }

    /// A request for a partial call that is in flight here, or whose answer is kept. Says whether that settles it.
    ///
    /// Of two parents the one counts that stands higher: it has given up the other one. So the lower one's request may come first or last.
    pub(super) fn known_partial(&mut self, from: Id, request: &Request) -> bool {
        let id = request.call;
        let (old, skipped, ids) = match (self.calls.named(id), self.kept.get(id)) {
            (Some(Call { request, origin: Origin::Parent { id, skipped, .. }, .. }), _)
                if request.partial =>
            {
                (*id, *skipped, &request.ids)
            }
            (None, Some(kept)) => (kept.parent, kept.skipped, &kept.ids),
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

    /// Another parent has adopted this id: it gets the answer, at once if there is one.
    fn switch_parent(&mut self, from: Id, request: &Request) {
        let id = request.call;
        if let Some(kept) = self.kept.get_mut(id) {
            (kept.parent, kept.skipped) = (from, request.skipped);
            kept.answer.report.coverage = kept.answer.report.coverage.doubted();
            let answer = Answer::Partial(kept.answer.clone());
            self.emit(Output::Send { to: from, message: Message::Response(Response { call: id, answer }) });
            return;
        }
        let Some(slot) = self.calls.find(id) else { return };
        self.pay_credit(slot);
        if let Some(call) = self.calls.get_mut(slot) {
            call.parent().iter().for_each(|&old| self.load.release(old, call.orphans));
            self.load.adopt(from, call.orphans);
            call.origin = Origin::Parent { id: from, skipped: request.skipped, credit_owed: false };
            call.adopted = true;
            // What the old parent has not sent of the data, it never will.
            call.request.data.follow(&request.data);
            self.advance(slot);
        }
    }

    /// A child has another parent: this id was given up for lost, and can do no more than its own part.
    ///
    /// Whoever gave it up ignores what it says. One who has adopted it since, without knowing, must hear that it does not answer for its children.
    pub(super) fn moved(&mut self, from: Id, id: CallId) {
        let given_up = |call: &Call| call.request.partial && call.has_child(from);
        if let Some(slot) = self.calls.find(id)
            && let Some(parent) =
                self.calls.get(slot).filter(|call| given_up(call)).and_then(|call| call.parent())
            && let Some(call) = self.remove(slot)
        {
            let me = self.config.me;
            let message = format!("it was given up: id {from} has another parent");
            let cause = Cause::new(me, Stage::Link, CauseKind::SecondParent, message);
            let coverage = Coverage::all(Status::Unknown, call.request.ids.len());
            let answer = Answer::Failed(Box::new(Failure { cause, coverage }));
            self.emit(Output::Send { to: parent, message: Message::Response(Response { call: id, answer }) });
        }
        if self.kept.get(id).is_some_and(|kept| kept.children.contains(&from)) {
            self.kept.remove(id);
        }
    }

    /// The root has what it needs.
    pub(super) fn released(&mut self, from: Id, id: CallId) {
        if self.kept.get(id).is_some_and(|kept| kept.parent == from)
            && let Some(kept) = self.kept.remove(id)
        {
            self.release(id, &kept.children);
        }
    }

    pub(super) fn release(&mut self, id: CallId, children: &[Id]) {
        for &to in children {
            self.emit(Output::Send { to, message: Message::Release(id) });
        }
    }

    /// Answers with what there is: everything, or what came within the time limit.
    pub(super) fn respond_partial(&mut self, slot: Slot) {
        let me = self.config.me;
        let Some(call) = self.calls.get_mut(slot) else { return };
        let awaited: Vec<Id> = call.awaited_ids().collect();
        let too_late = call.late.then(|| call.too_late(me));
        let partial = gather::partial(call, self.config.reply_max);
        let Some(call) = self.remove(slot) else { return };
        let id = call.request.call;
        for to in awaited {
            self.emit(Output::Send { to, message: Message::Cancel(id) });
        }
        let children = call.answered_ids();
        match call.origin {
            Origin::Here { ticket, watch } => {
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
                let (ids, until) = (call.request.ids.clone(), call.until.plus(KEEP));
                let share = self.kept.share();
                let kept = Kept { parent, skipped, answer: answer.clone(), ids, children, until, share };
                self.kept.insert(id, kept, self.config.calls_max);
                let answer = Answer::Partial(answer);
                let message = Message::Response(Response { call: id, answer });
                self.emit(Output::Send { to: parent, message });
            }
        }
    }

    /// The time limit of a partial call has passed, or the time for reports behind it: this id's own part is left out if it is not there, and what the children have not answered by the end.
    pub(super) fn expire_partial(&mut self, slot: Slot, cause: Cause) {
        let Some(call) = self.calls.get_mut(slot) else { return };
        let waits = call.awaited > 0 && !call.late;
        match call.own {
            Own::Ready(_) | Own::Failed if waits => {}
            Own::Ready(_) | Own::Failed => call.add_cause(cause),
            _ => self.own_part_expires(slot, cause),
        }
        match waits {
            true => self.await_reports(slot),
            false => self.respond_partial(slot),
        }
    }

    /// A child says that its whole subtree failed: of a partial call that is its own part alone.
    pub(super) fn partial_refused(&mut self, slot: Slot, index: usize, failure: Failure) {
        let child = self.calls.get(slot).and_then(|call| call.children.as_ref()?.get(index));
        let (fresh, len) = child.map_or((false, 0), |child| (child.fresh, u64::from(child.group.len)));
        let Failure { cause, coverage } = failure;
        // Who speaks of more or fewer ids than it was sent to says of nobody that it has done nothing.
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

    /// Refuses a request that another parent may have sent to an earlier run of this id. Ages are rounded up at every hop, so that a young node may seem younger than the call; the first run has nothing to compare.
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

/// A reply that a callback made below cannot be one.
fn bad_values(from: Id) -> Cause {
    Cause::new(from, Stage::Reply, CauseKind::BadReply, "its values are no level-1 data")
}

/// The groups of a lost child's children; `None` where they are over `most`. There are none where its split is bad, which its parent would have said.
fn adoptable(call: &Call, index: usize, most: u32) -> Option<Groups> {
    let (Ok(tree), Some(children)) = (&call.request.tree, &call.children) else { return Some(Groups::new()) };
    let lost = children[index].group;
    // Before there is a group for each.
    if tree.fan_out(lost.len).is_some_and(|count| count > most) {
        return None;
    }
    let groups = adopted(tree, lost).unwrap_or_default();
    (groups.len() <= most as usize).then_some(groups)
}

/// Why a child is lost whose children this id does not adopt, since it would have too many.
fn not_adopted(cause: Cause, parent: Option<Id>, most: u32) -> Cause {
    let Cause { id, stage, kind, code, message } = cause;
    let of = parent.map_or("of this call".to_string(), |parent| format!("of the calls of id {parent}"));
    let message = format!(
        "{message}; the children of id {id} are not adopted: more than {most} ids {of} would be adopted at one id"
    );
    Cause::of(id, stage, Reason { kind, code, message })
}

impl Call {
    /// Why some id is left out.
    pub(super) fn add_cause(&mut self, cause: Cause) {
        self.report.get_or_insert_default().add(cause);
    }

    /// The id's own part has failed: what has been merged into it goes up by itself.
    pub(super) fn own_failed(&mut self, cause: Cause) {
        self.add_cause(cause);
        self.own = Own::Failed;
    }

    /// A child's subtree is done, with values that wait for callback.
    pub(super) fn child_parts(&mut self, index: usize, parts: Vec<SubtreeReply>) {
        let Some(children) = self.children.as_mut() else { return };
        let child = &mut children[index];
        (child.answer, self.last) = (ChildAnswer::Done, index as u32);
        let place = child.group.start;
        parts.into_iter().for_each(|part| self.reply_came(place, part));
        self.awaited -= 1;
        self.settle_order();
    }

    /// What a child says of the ids of its group.
    fn child_reports(&mut self, index: usize, report: Report) {
        if let Some(child) = self.children.as_mut().and_then(|children| children.get_mut(index)) {
            child.report = Some(Box::new(report));
        }
    }

    /// A child is lost. So many of its children are asked in its place; the others, or all where there are none, stay in its group. Returns how many parents are given up between this id and them.
    pub(super) fn replace_lost(&mut self, index: usize, status: Status, adopted: u32) -> u32 {
        let Some(children) = self.children.as_mut() else { return 0 };
        let lost = &mut children[index];
        lost.answer = ChildAnswer::Lost(status);
        let skipped = lost.skipped.saturating_add(1);
        if adopted > 0 {
            lost.group.len = 1;
        }
        self.awaited -= 1;
        self.orphans = self.orphans.saturating_add(adopted);
        skipped
    }

    /// What is known of every id of the slice, when the call ends here.
    pub(super) fn take_report(&mut self) -> Report {
        let mut report = self.report.take().map_or_else(Report::default, |report| *report);
        self.leave_unasked();
        let own = match self.own {
            Own::Ready(_) => Status::Done,
            _ => Status::Failed,
        };
        report.coverage.push(own, 1);
        let Some(children) = self.children.as_mut() else {
            report.coverage.push(Status::Unreached, self.request.ids.len() - 1);
            return self.doubted(report);
        };
        // The call ends: nobody asks for a child by its index any more.
        children.sort_by_key(|child| child.group.start);
        for child in children {
            match child.report.take() {
                Some(below) => report.append(*below),
                None => child.cover(&mut report.coverage),
            }
        }
        self.pad(&mut report.coverage);
        self.doubted(report)
    }

    /// Of an id that has had another parent, that one may have adopted the children, before it was given up itself: what was
    /// not reached from here may have been reached from there.
    fn doubted(&self, mut report: Report) -> Report {
        if self.adopted {
            report.coverage = report.coverage.doubted();
        }
        report
    }
}
