//! Partial calls: the call goes on without those that are lost.
//!
//! Beyond the source, which ends a call at its first failure. A stage that fails counts for its id alone. Of a child that is lost the parent adopts the children, each with the slice it always
//! had; an adopted id does not execute again, and gives the answer that it kept. Coverage says what became of every id.

use gpc_trees::{Group, Id, adopted, send_order};

use super::call::{Call, Child, ChildAnswer, Origin, Own};
use super::kept::{KEEP, Kept};
use super::{Node, Output, gather};
use crate::wire::message::{Answer, Response, SubtreeReply};
use crate::wire::{CallId, Cause, Failure, Message, Report, Request, Stage, Status};

impl Node {
    /// A stage failed at this id.
    pub(super) fn stage_failed(&mut self, id: CallId, cause: Cause) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        if !call.request.partial {
            return self.fail(id, cause);
        }
        call.own_failed(cause);
        self.advance(id);
    }

    /// A child is lost, or says that it cannot do its part: its children are adopted.
    pub(super) fn child_lost(&mut self, id: CallId, index: usize, status: Status, cause: Cause) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        call.report.add(cause);
        let groups = adoptable(call, index);
        call.replace_lost(index, status, &groups);
        for place in send_order(&groups) {
            self.send_request(id, groups[place], true);
        }
        self.advance(id);
    }

    /// A child of a partial call answers.
    pub(super) fn partial_response(&mut self, id: CallId, index: usize, answer: Answer) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        let Some(child) = call.children.as_mut().and_then(|children| children.get_mut(index)) else { return };
        let from = child.id;
        let (reply, report) = match answer {
            Answer::Partial(partial) if partial.report.coverage.len() == u64::from(child.group.len) => {
                (partial.reply, partial.report)
            }
            Answer::Failed(failure) => return self.partial_refused(id, index, *failure),
            Answer::Completed | Answer::Reply(_) | Answer::Partial(_) => {
                let cause =
                    Cause::new(from, Stage::Reply, "its answer does not report on the ids it was sent to");
                return self.child_lost(id, index, Status::Unknown, cause);
            }
        };
        child.report = report;
        match (call.request.callback, call.request.reply_wanted) {
            (None, wanted) => call.child_done(index, Some(reply).filter(|_| wanted)),
            (Some(_), _) => match gather::parts(reply) {
                Some(parts) => call.child_parts(index, parts),
                None => {
                    let cause = Cause::new(from, Stage::Reply, "its values are no level-1 data");
                    return self.child_lost(id, index, Status::Unknown, cause);
                }
            },
        }
        self.advance(id);
    }

    /// A request for a call that this id knows or has known, from a parent that has adopted it. Says whether that settles it.
    pub(super) fn adopted_by(&mut self, from: Id, request: &Request) -> bool {
        let id = request.call;
        let old = match (self.calls.get_mut(&id), self.kept.get_mut(&id)) {
            (Some(call), _) if call.request.partial && call.request.ids == request.ids => {
                match &mut call.origin {
                    Origin::Parent { id: parent, credit_owed } => {
                        // The credit of the old link is of no use; the new request is consumed at once, since func has its turn already.
                        *credit_owed = false;
                        std::mem::replace(parent, from)
                    }
                    Origin::Here { .. } => return false,
                }
            }
            (None, Some(kept)) if kept.ids == request.ids => std::mem::replace(&mut kept.parent, from),
            _ => return false,
        };
        self.emit(Output::Consumed { from });
        if old != from {
            self.emit(Output::Send { to: old, message: Message::Moved(id) });
        }
        if let Some(answer) = self.kept.get(&id).map(|kept| kept.answer.clone()) {
            self.emit(Output::Send { to: from, message: Message::Response(Response { call: id, answer }) });
        }
        true
    }

    /// A child has another parent: this id was given up for lost, and nobody waits for its part.
    pub(super) fn moved(&mut self, from: Id, id: CallId) {
        if self.calls.get(&id).is_some_and(|call| call.parent().is_some() && call.has_child(from)) {
            self.remove(id);
        }
        if self.kept.get(&id).is_some_and(|kept| kept.children.contains(&from)) {
            self.drop_kept(id);
        }
    }

    /// The root has what it needs.
    pub(super) fn released(&mut self, from: Id, id: CallId) {
        if self.kept.get(&id).is_some_and(|kept| kept.parent == from)
            && let Some(kept) = self.drop_kept(id)
        {
            self.release(id, &kept.children);
        }
    }

    pub(super) fn release(&mut self, id: CallId, children: &[Id]) {
        for &to in children {
            self.emit(Output::Send { to, message: Message::Release(id) });
        }
    }

    pub(super) fn drop_kept(&mut self, id: CallId) -> Option<Kept> {
        let kept = self.kept.remove(&id)?;
        self.deadlines.remove(kept.until, id);
        self.recent.add(id);
        Some(kept)
    }

    /// Answers with what there is: everything, or what came within the time limit.
    pub(super) fn respond_partial(&mut self, id: CallId) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        let awaited: Vec<Id> = call.awaited_ids().collect();
        let partial = gather::partial(call, self.config.reply_max);
        let Some(call) = self.remove(id) else { return };
        for to in awaited {
            self.emit(Output::Send { to, message: Message::Cancel(id) });
        }
        let children = call.answered_ids();
        match call.origin {
            Origin::Here { ticket, watch } => {
                self.release(id, &children);
                let mut report = partial.report;
                if watch {
                    report.coverage = report.coverage.without_first();
                }
                let reply = Some(partial.reply).filter(|_| call.request.reply_wanted);
                self.emit(Output::Finished { ticket, call: id, result: Ok(reply), report: Some(report) });
            }
            Origin::Parent { id: parent, .. } => {
                let answer = Answer::Partial(Box::new(partial));
                let until = call.deadline.plus(KEEP);
                let ids = call.request.ids.clone();
                self.kept.insert(id, Kept { parent, answer: answer.clone(), ids, children, until });
                self.deadlines.add(until, id);
                let message = Message::Response(Response { call: id, answer });
                self.emit(Output::Send { to: parent, message });
            }
        }
    }

    /// The time limit of a partial call has passed: what is not there by now is left out.
    pub(super) fn expire_partial(&mut self, id: CallId, cause: Cause) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        match call.own {
            Own::Ready(_) | Own::Failed => call.report.add(cause),
            Own::Pending | Own::Deferred | Own::Lent => call.own_failed(cause),
        }
        self.respond_partial(id);
    }

    /// A child says that its whole subtree failed: of a partial call that is its own part alone.
    pub(super) fn partial_refused(&mut self, id: CallId, index: usize, failure: Failure) {
        let status = failure.coverage.statuses().next().unwrap_or(Status::Failed);
        let status = if status == Status::Done { Status::Unknown } else { status };
        self.child_lost(id, index, status, failure.cause);
    }

    /// Whether this run of the id began too late to be asked by an adopter: an earlier run may have executed the call.
    pub(super) fn too_young(&self, request: &Request) -> Option<Cause> {
        let age = self.now.since(self.config.started);
        let young = request.adopted && age < request.age.saturating_add(self.config.restart_margin);
        let message = "this run of the id may have begun after the call: an earlier one may have executed it";
        young.then(|| Cause::new(self.config.me, Stage::Setup, message))
    }
}

/// The groups of a lost child's children; none where its split is bad, which its parent would have said.
fn adoptable(call: &Call, index: usize) -> gpc_trees::Groups {
    let (Ok(tree), Some(children)) = (&call.request.tree, &call.children) else { return Default::default() };
    adopted(tree, children[index].group).unwrap_or_default()
}

impl Call {
    /// The id's own part has failed: what has been merged into it goes up by itself.
    pub(super) fn own_failed(&mut self, cause: Cause) {
        self.report.add(cause);
        self.own = Own::Failed;
    }

    /// A child's subtree is done, with values that wait for callback.
    pub(super) fn child_parts(&mut self, index: usize, parts: Vec<SubtreeReply>) {
        let Some(children) = self.children.as_mut() else { return };
        let child = &mut children[index];
        child.answer = ChildAnswer::Done(None);
        let id = child.id;
        self.arrived.extend(parts.into_iter().map(|part| (id, part)));
        self.awaited -= 1;
    }

    /// Puts the children of a lost child in its place.
    pub(super) fn replace_lost(&mut self, index: usize, status: Status, groups: &[Group]) {
        let ids = &self.request.ids;
        let Some(children) = self.children.as_mut() else { return };
        let lost = &mut children[index];
        lost.answer = ChildAnswer::Lost(status);
        // Its own place alone, unless nobody could be adopted.
        if !groups.is_empty() {
            lost.group.len = 1;
        }
        let orphan = |&group: &Group| Child {
            id: ids.id(group.start).unwrap_or_default(),
            group,
            answer: ChildAnswer::Awaited,
            report: Report::default(),
        };
        children.insert_many(index + 1, groups.iter().map(orphan));
        let children = std::mem::take(children);
        self.forwarded(children);
    }

    /// What is known of every id of the slice, when the call ends here.
    pub(super) fn take_report(&mut self) -> Report {
        let mut report = std::mem::take(&mut self.report);
        let own = match self.own {
            Own::Ready(_) => Status::Done,
            _ => Status::Failed,
        };
        report.coverage.push(own, 1);
        let Some(children) = self.children.as_mut() else {
            report.coverage.push(Status::Unreached, self.request.ids.len() - 1);
            return report;
        };
        for child in children {
            match child.answer {
                ChildAnswer::Done(_) => report.append(std::mem::take(&mut child.report)),
                ChildAnswer::Lost(status) => report.coverage.push(status, child.group.len),
                ChildAnswer::Awaited => report.coverage.push(Status::Unknown, child.group.len),
            }
        }
        // A split that failed here reaches nobody.
        let covered = u32::try_from(report.coverage.len()).unwrap_or(u32::MAX);
        report.coverage.push(Status::Unreached, self.request.ids.len().saturating_sub(covered));
        report
    }
}
