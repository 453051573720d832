//! One call at one id: what has happened, and which step is next.
//!
//! The whole order of the source's steps is in [`Call::next_step`]; everything else records facts.

use std::collections::VecDeque;
use std::sync::Arc;

use gpc_trees::{Group, Id};
use smallvec::SmallVec;

use super::runs::Turn;
use super::{Reply, Time};
use crate::wire::message::SubtreeReply;
use crate::wire::{Coverage, Request, Status};

/// Where a call came from.
#[derive(Debug)]
pub(super) enum Origin {
    /// It was started here.
    Here { ticket: u64, watch: bool },
    /// A parent sent it; `credit_owed` until its request counts as consumed.
    Parent { id: Id, credit_owed: bool },
}

/// The node's own part.
#[derive(Debug)]
pub(super) enum Own {
    /// func has not ended.
    Pending,
    /// func has ended and will answer later.
    Deferred,
    /// func has ended, and this is the reply so far.
    Ready(Reply),
    /// The reply is with a callback that runs.
    Lent,
}

/// The one job that a call may have at a time.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum JobState {
    Idle,
    Queued(Turn),
    Running,
}

/// A child and what it has answered.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) id: Id,
    pub(super) group: Group,
    pub(super) answer: ChildAnswer,
}

#[derive(Debug)]
pub(super) enum ChildAnswer {
    /// Nothing yet.
    Awaited,
    /// Its whole subtree is done; the reply waits to be merged or aggregated (`None` when it is merged, or none was asked for).
    Done(Option<SubtreeReply>),
}

/// What to do next for a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Func,
    Forward,
    Callback,
    Respond,
    Wait,
}

/// One call at one id.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) request: Arc<Request>,
    pub(super) origin: Origin,
    pub(super) deadline: Time,
    pub(super) own: Own,
    /// A deferred reply that has overtaken the end of func: its token may be used while func still runs.
    pub(super) early: Option<Result<Reply, String>>,
    pub(super) job: JobState,
    /// `None` until the request has been forwarded; then in list order.
    pub(super) children: Option<SmallVec<[Child; 2]>>,
    /// The children's ids, sorted, and their indexes: a flat tree may have a million children, and each of them answers.
    pub(super) by_id: SmallVec<[(Id, usize); 2]>,
    /// How many children have not answered.
    pub(super) awaited: usize,
    /// Children, by index, whose replies wait for callback, as they came.
    pub(super) arrived: VecDeque<usize>,
}

impl Call {
    pub(super) fn new(request: Request, origin: Origin, deadline: Time) -> Call {
        let own = match origin {
            Origin::Here { watch: true, .. } => Own::Ready(Reply::default()),
            _ => Own::Pending,
        };
        let request = Arc::new(request);
        let (job, children, arrived) = (JobState::Idle, None, VecDeque::new());
        let by_id = SmallVec::new();
        Call { request, origin, deadline, own, early: None, job, children, by_id, awaited: 0, arrived }
    }

    /// The source's order: func, forward, callbacks, response; with the option, forward before func.
    pub(super) fn next_step(&self) -> Step {
        let executed = !matches!(self.own, Own::Pending);
        if self.children.is_none() && (executed || self.request.forward_first) {
            return Step::Forward;
        }
        match (&self.job, &self.own) {
            (JobState::Idle, Own::Pending) if self.request.data.bytes().is_some() => Step::Func,
            (JobState::Idle, Own::Ready(_)) if !self.arrived.is_empty() => Step::Callback,
            (JobState::Idle, Own::Ready(_)) if self.children.is_some() && self.awaited == 0 => Step::Respond,
            _ => Step::Wait,
        }
    }

    pub(super) fn parent(&self) -> Option<Id> {
        match self.origin {
            Origin::Here { .. } => None,
            Origin::Parent { id, .. } => Some(id),
        }
    }

    /// The index of a child that has not answered yet.
    pub(super) fn awaited_child(&self, id: Id) -> Option<usize> {
        let place = self.by_id.binary_search_by_key(&id, |&(id, _)| id).ok()?;
        let (_, index) = self.by_id[place];
        let child = self.children.as_ref()?.get(index)?;
        matches!(child.answer, ChildAnswer::Awaited).then_some(index)
    }

    /// The request goes to these children.
    pub(super) fn forwarded(&mut self, children: SmallVec<[Child; 2]>) {
        self.by_id = children.iter().enumerate().map(|(index, child)| (child.id, index)).collect();
        self.by_id.sort_unstable();
        self.awaited = children.len();
        self.children = Some(children);
    }

    /// The ids of the children that have not answered yet.
    pub(super) fn awaited_ids(&self) -> impl Iterator<Item = Id> + '_ {
        let children = self.children.as_deref().unwrap_or_default();
        children.iter().filter(|child| matches!(child.answer, ChildAnswer::Awaited)).map(|child| child.id)
    }

    /// A child's subtree is done. The callback runs for any response, with an empty reply where none was asked for.
    pub(super) fn child_done(&mut self, index: usize, reply: Option<SubtreeReply>) {
        let Some(children) = self.children.as_mut() else { return };
        let merges = self.request.callback.is_some();
        if merges {
            self.arrived.push_back(index);
        }
        children[index].answer = ChildAnswer::Done(reply.or_else(|| merges.then(SubtreeReply::default)));
        self.awaited -= 1;
    }

    /// What is known of each id of the slice when the call fails here: at this id itself (`own_failed`), or in the subtree of the child
    /// that has just reported `failed`.
    pub(super) fn coverage(&self, own_failed: bool, failed: Option<(usize, &Coverage)>) -> Coverage {
        let own = match (&self.own, &self.job) {
            _ if own_failed => Status::Failed,
            (Own::Ready(_) | Own::Lent, _) => Status::Done,
            (Own::Pending, JobState::Idle | JobState::Queued(_)) => Status::Unreached,
            (Own::Pending, JobState::Running) | (Own::Deferred, _) => Status::Unknown,
        };
        let mut coverage = Coverage::all(own, 1);
        let Some(children) = &self.children else {
            coverage.push(Status::Unreached, self.request.ids.len() - 1);
            return coverage;
        };
        for (index, child) in children.iter().enumerate() {
            match (&child.answer, failed) {
                (_, Some((culprit, known)))
                    if culprit == index && known.len() == u64::from(child.group.len) =>
                {
                    coverage.append(known);
                }
                (ChildAnswer::Done(_), _) => coverage.push(Status::Done, child.group.len),
                (ChildAnswer::Awaited, _) => coverage.push(Status::Unknown, child.group.len),
            }
        }
        coverage
    }
}
