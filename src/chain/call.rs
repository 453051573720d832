//! One call at one id: what has happened, and which step is next.
//!
//! The whole order of the source's steps is in [`Call::next_step`]; everything else records facts.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use gpc_trees::{Group, Id};
use smallvec::SmallVec;

use super::arrived::{Arrived, Placed};
use super::holding::Held;
use super::list_order::ListOrder;
use super::load::Unasked;
use super::plans::{Plan, PlannedChild};
use super::rising::Rising;
use super::runs::Turn;
use super::{Reply, Taken, Time};
use crate::wire::message::{Merging, SubtreeReply};
use crate::wire::{Coverage, Reason, Report, Request, Status};

/// Where a call came from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin {
    /// It was started here.
    Here { ticket: u64, watch: bool },
    /// A parent sent it, who has given up so many between it and this id; `credit_owed` until its request counts as consumed.
    Parent { id: Id, skipped: u32, credit_owed: bool },
}

/// The node's own part.
#[derive(Debug)]
pub(super) enum Own {
    /// func has not begun, or runs for the first time.
    Pending,
    /// func takes its data as they come, and has begun; `None` while it runs.
    Taking(Option<Taken>),
    /// func has ended and will answer later.
    Deferred,
    /// func has ended, and this is the reply so far.
    Ready(Reply),
    /// The reply is with a callback that runs.
    Lent,
    /// It is with a callback that has ended and will answer later.
    LentLater,
    /// It has gone up, with replies whose data are still arriving.
    Given,
    /// Of a partial call: it contributes nothing.
    Failed,
}

/// When a call that has begun here must have ended here, and at its root.
fn ends(request: &Request, begun: Time) -> (Time, Time) {
    (begun.plus(request.limit), begun.plus(request.left.max(request.limit)))
}

impl Own {
    /// Where func has not run; a root that only watches has nothing to run.
    fn begin(origin: &Origin) -> Own {
        match origin {
            Origin::Here { watch: true, .. } => Own::Ready(Reply::default()),
            _ => Own::Pending,
        }
    }
}

/// The one job that a call may have at a time.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum JobState {
    Idle,
    Queued(Turn),
    Running,
}

/// The children of a call. Most ids have a few, and then they cost no allocation.
pub(super) type Children = SmallVec<[Child; 4]>;

/// So many children are looked through one by one; more are searched.
const LOOKED_THROUGH: usize = 16;

/// A child and what it has answered.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) id: Id,
    pub(super) group: Group,
    pub(super) answer: ChildAnswer,
    /// Of a partial call: how many parents were given up between this id and the child.
    pub(super) skipped: u32,
    /// Of a partial call: whether surely no other parent has sent it the request.
    pub(super) fresh: bool,
    /// Of a partial call: what it says of the ids of its group, when it has answered.
    pub(super) report: Option<Box<Report>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ChildAnswer {
    /// Nothing yet.
    Awaited,
    /// Its whole subtree is done, and the data of its reply are still arriving.
    Arriving,
    /// Its whole subtree is done.
    Done,
    /// Of a partial call: it does not take part any more, and its children stand behind it if they could be adopted.
    Lost(Status),
}

impl ChildAnswer {
    /// Whether something is still to come from the child.
    fn is_due(self) -> bool {
        matches!(self, ChildAnswer::Awaited | ChildAnswer::Arriving)
    }
}

/// What to do next for a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Func,
    Forward,
    Callback,
    Respond,
    /// Fail: all have answered, the last one after the time limit.
    TooLate,
    Wait,
}

/// One call at one id.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) request: Arc<Request>,
    pub(super) origin: Origin,
    pub(super) deadline: Time,
    /// Its limit has passed, and it waits for the reports of its children.
    pub(super) late: bool,
    /// The index of the child that answered last.
    pub(super) last: u32,
    /// When the root's time limit passes, and nobody asks for the call any more.
    pub(super) until: Time,
    pub(super) own: Own,
    /// A deferred reply that has overtaken the end of func: its token may be used while func still runs.
    pub(super) early: Option<Box<Result<Reply, Box<Reason>>>>,
    pub(super) job: JobState,
    /// `None` until the request has been forwarded; then in list order, or as they were asked where that takes several batches, and behind them those that were adopted, as they came.
    pub(super) children: Option<Children>,
    /// Of more than [`LOOKED_THROUGH`] children the indexes: a flat tree may have a million children, and each of them answers, or is lost and has its children adopted.
    by_id: BTreeMap<Id, u32>,
    /// Children that are still to be asked: those of a request of a peer that has many, or of whose work too much is under way.
    #[allow(clippy::box_collection, reason = "seldom there, and a million ids may have a call")]
    pub(super) unasked: Option<Box<VecDeque<Unasked>>>,
    /// Whether it waits for a tick to go on with them.
    pub(super) is_delayed: bool,
    /// How many children have not answered, or have still to be asked.
    pub(super) awaited: usize,
    /// Replies that wait to be merged or aggregated, as they came, and the place in the list of the child whose they are.
    pub(super) arrived: Arrived,
    /// Where callback merges in list order, they wait here.
    order: Option<Box<ListOrder>>,
    /// Replies whose data are still arriving.
    pub(super) rising: Option<Box<Rising>>,
    /// Of a partial call: replies that have been merged, for the case that this id's own part fails and they must go up without it.
    pub(super) merged: Vec<SubtreeReply>,
    /// Of a partial call: why ids are left out, the first one first.
    pub(super) report: Option<Box<Report>>,
    /// Of a partial call: how many children were adopted.
    pub(super) orphans: u32,
    /// Of a partial call: whether another parent may have had this id before, or its own was lost and may have given it up.
    pub(super) adopted: bool,
    /// When it came here.
    pub(super) begun: Time,
    /// What it takes of the node's memory.
    pub(super) held: Held,
}

impl Child {
    /// Appends what is known of the ids of the child's group.
    pub(super) fn cover(&self, coverage: &mut Coverage) {
        match (&self.answer, &self.report) {
            (ChildAnswer::Done | ChildAnswer::Arriving, Some(report)) => coverage.append(&report.coverage),
            // What it says of its ids is true, whatever becomes of its reply.
            (ChildAnswer::Done | ChildAnswer::Arriving, None) => coverage.push(Status::Done, self.group.len),
            (ChildAnswer::Awaited, _) => coverage.push(Status::Unknown, self.group.len),
            (ChildAnswer::Lost(status), _) => {
                // What it says of itself is not true of those below: of them this id knows no more than that they were not asked, or perhaps were.
                let below = if *status == Status::Unreached { Status::Unreached } else { Status::Unknown };
                coverage.push(*status, self.group.len.min(1));
                coverage.push(below, self.group.len.saturating_sub(1));
            }
        }
    }
}

impl Call {
    pub(super) fn new(request: Arc<Request>, origin: Origin, begun: Time) -> Call {
        let own = Own::begin(&origin);
        let (job, children, arrived) = (JobState::Idle, None, Arrived::default());
        let by_id = BTreeMap::new();
        let (deadline, until) = ends(&request, begun);
        Call {
            orphans: 0,
            adopted: request.adopted,
            deadline,
            late: false,
            last: 0,
            until,
            request,
            origin,
            own,
            early: None,
            job,
            children,
            by_id,
            unasked: None,
            is_delayed: false,
            awaited: 0,
            arrived,
            order: None,
            rising: None,
            merged: Vec::new(),
            report: None,
            begun,
            held: Held::default(),
        }
    }

    /// Makes one that has ended and been [emptied](Self::empty) into one that begins.
    pub(super) fn renew(&mut self, request: Arc<Request>, origin: Origin, begun: Time) {
        (self.adopted, self.late, self.last) = (request.adopted, false, 0);
        (self.deadline, self.until) = ends(&request, begun);
        self.own = Own::begin(&origin);
        (self.request, self.origin, self.begun) = (request, origin, begun);
    }

    /// Drops what one that has ended holds, but not its room; `nothing` stands for its request.
    pub(super) fn empty(&mut self, nothing: &Arc<Request>) {
        self.request = Arc::clone(nothing);
        (self.own, self.held) = (Own::Lent, Held::default());
        (self.early, self.job, self.children, self.rising) = (None, JobState::Idle, None, None);
        self.by_id.clear();
        (self.unasked, self.is_delayed) = (None, false);
        self.arrived.empty();
        self.order = None;
        self.merged = Vec::new();
        (self.report, self.awaited, self.orphans) = (None, 0, 0);
    }

    /// Whether it waits for its func or for a few children, and nothing unusual has happened to it: all that it has is what a [`Plain`](super::waiting::Plain) one has.
    pub(super) fn is_plain(&self) -> bool {
        let queued = matches!(self.job, JobState::Queued(_));
        let none = !self.late
            && self.early.is_none()
            && self.order.is_none()
            && self.rising.is_none()
            && self.report.is_none();
        let mut children = self.children.iter().flatten();
        let usual = children.all(|child| child.skipped == 0 && child.report.is_none());
        none && usual
            && !queued
            && self.unasked.is_none()
            && !self.is_delayed
            && self.by_id.is_empty()
            && self.merged.is_empty()
            && self.orphans == 0
    }

    /// The source's order: func, forward, callbacks, response; with the option, forward before func. A whole call that is late merges nothing any more.
    pub(super) fn next_step(&self) -> Step {
        if self.late && !self.request.partial {
            let all = self.awaited == 0 && matches!(self.own, Own::Ready(_));
            return if all { Step::TooLate } else { Step::Wait };
        }
        let executed = !matches!(self.own, Own::Pending | Own::Taking(_));
        if self.children.is_none() && (executed || self.request.forward_first) {
            return Step::Forward;
        }
        match (&self.job, &self.own) {
            (JobState::Idle, Own::Pending | Own::Taking(_)) if self.request.data.is_due() => Step::Func,
            (JobState::Idle, Own::Ready(_)) if self.waits_for_callback() => Step::Callback,
            (JobState::Idle, Own::Ready(_) | Own::Failed) if self.children.is_some() && self.awaited == 0 => {
                Step::Respond
            }
            _ => Step::Wait,
        }
    }

    /// Whether a reply waits to be merged by callback; without one, replies wait for the last of them.
    fn waits_for_callback(&self) -> bool {
        match &self.order {
            // A child that is still to be asked may come before it in the list.
            Some(order) => order.has_next() && self.unasked.is_none(),
            None => self.request.callback.is_some() && !self.arrived.is_empty(),
        }
    }

    /// Takes the reply that callback merges next, and its child's place.
    pub(super) fn next_reply(&mut self) -> Option<Placed> {
        match &mut self.order {
            Some(order) => order.pop(),
            None => self.arrived.pop_front(),
        }
    }

    /// Takes all that callback has not merged: in list order, or as they came where it merges so.
    pub(super) fn unmerged(&mut self) -> Vec<SubtreeReply> {
        match &mut self.order {
            Some(order) => order.drain().collect(),
            None => self.arrived.drain().collect(),
        }
    }

    /// A reply is there.
    pub(super) fn reply_came(&mut self, place: u32, reply: SubtreeReply) {
        match &mut self.order {
            Some(order) => order.hold(place, reply),
            None => self.arrived.push(place, reply),
        }
    }

    /// A child has answered, or is lost, and those that take its place are known.
    pub(super) fn settle_order(&mut self) {
        if let (Some(order), Some(children)) = (&mut self.order, &self.children) {
            order.settle(|index| children.get(index as usize).is_some_and(|child| child.answer.is_due()));
        }
    }

    pub(super) fn parent(&self) -> Option<Id> {
        match self.origin {
            Origin::Here { .. } => None,
            Origin::Parent { id, .. } => Some(id),
        }
    }

    /// The index of a child that has not answered yet, or not all of it.
    pub(super) fn awaited_child(&self, id: Id) -> Option<usize> {
        let index = self.child_index(id)?;
        let child = self.children.as_ref()?.get(index)?;
        child.answer.is_due().then_some(index)
    }

    fn child_index(&self, id: Id) -> Option<usize> {
        if self.by_id.is_empty() {
            return self.children.as_ref()?.iter().position(|child| child.id == id);
        }
        self.by_id.get(&id).map(|index| *index as usize)
    }

    /// func has run, and the request has gone to the children of a plan.
    pub(super) fn take_over(&mut self, plan: &Plan, own: Reply) {
        self.own = Own::Ready(own);
        let child = |child: &PlannedChild| Child {
            id: child.id,
            group: child.group,
            answer: ChildAnswer::Awaited,
            skipped: 0,
            fresh: true,
            report: None,
        };
        self.forwarded(plan.children.iter().map(child).collect());
    }

    /// The request goes to these children.
    pub(super) fn forwarded(&mut self, children: Children) {
        self.awaited = children.len();
        self.children = Some(children);
        self.index_from(0);
    }

    /// The request goes to the children of these groups, which are [awaited](Self::awaited) already.
    pub(super) fn asks(&mut self, groups: &[Group], skipped: u32, fresh: bool) {
        let request = &self.request;
        let Some(children) = self.children.as_mut() else { return };
        let before = children.len();
        children.extend(groups.iter().map(|&group| Child {
            id: request.ids.id(group.start).unwrap_or_default(),
            group,
            answer: ChildAnswer::Awaited,
            skipped,
            fresh,
            report: None,
        }));
        self.index_from(before);
    }

    /// Forgets the groups whose children have all been asked.
    pub(super) fn drop_asked(&mut self) {
        if let Some(unasked) = &mut self.unasked
            && unasked.front().is_some_and(|first| first.left().is_empty())
        {
            unasked.pop_front();
        }
        self.unasked.take_if(|unasked| unasked.is_empty());
    }

    /// The call ends: children that were still to be asked stay in its coverage.
    pub(super) fn leave_unasked(&mut self) {
        let (Some(unasked), Some(children)) = (self.unasked.take(), self.children.as_mut()) else { return };
        for unasked in *unasked {
            let status = if unasked.fresh { Status::Unreached } else { Status::Unknown };
            self.awaited -= unasked.left().len();
            children.extend(unasked.left().iter().map(|&group| Child {
                id: self.request.ids.id(group.start).unwrap_or_default(),
                group,
                answer: ChildAnswer::Lost(status),
                skipped: unasked.skipped,
                fresh: unasked.fresh,
                report: None,
            }));
        }
    }

    /// Notes the places of the children from one on, where callback merges by them, and their indexes when there are many.
    fn index_from(&mut self, first: usize) {
        let children = self.children.as_deref().unwrap_or_default();
        if self.request.callback.is_some() && self.request.merging == Merging::InListOrder {
            let order = self.order.get_or_insert_default();
            let new = children[first..].iter().zip(first as u32..);
            new.for_each(|(child, index)| order.expect(child.group.start, index));
        }
        if children.len() > LOOKED_THROUGH {
            let first = if self.by_id.is_empty() { 0 } else { first };
            self.by_id
                .extend(children[first..].iter().zip(first as u32..).map(|(child, index)| (child.id, index)));
        }
    }

    /// The children with their indexes, as they stand in the list.
    fn in_list_order(children: &[Child]) -> Vec<(usize, &Child)> {
        let mut ordered: Vec<(usize, &Child)> = children.iter().enumerate().collect();
        ordered.sort_by_key(|(_, child)| child.group.start);
        ordered
    }

    /// The ids of the children that have not answered yet, or not all of it.
    pub(super) fn awaited_ids(&self) -> impl Iterator<Item = Id> + '_ {
        let children = self.children.as_deref().unwrap_or_default();
        children.iter().filter(|child| child.answer.is_due()).map(|child| child.id)
    }

    /// The ids of the children that have not answered anything yet.
    pub(super) fn silent_ids(&self) -> impl Iterator<Item = Id> + '_ {
        let children = self.children.as_deref().unwrap_or_default();
        children.iter().filter(|child| child.answer == ChildAnswer::Awaited).map(|child| child.id)
    }

    /// The ids of the children whose whole subtree is done.
    pub(super) fn answered_ids(&self) -> Vec<Id> {
        let children = self.children.as_deref().unwrap_or_default();
        let answered = children.iter().filter(|child| child.answer == ChildAnswer::Done);
        answered.map(|child| child.id).collect()
    }

    /// Whether the request went to this id from here.
    pub(super) fn has_child(&self, id: Id) -> bool {
        self.child_index(id).is_some()
    }

    /// A child's subtree is done. The callback runs for any response, with an empty reply where none was asked for.
    pub(super) fn child_done(&mut self, index: usize, reply: Option<SubtreeReply>) {
        let Some(children) = self.children.as_mut() else { return };
        let child = &mut children[index];
        (child.answer, self.last) = (ChildAnswer::Done, index as u32);
        let reply = reply.or_else(|| self.request.callback.map(|_| SubtreeReply::default()));
        let place = child.group.start;
        if let Some(reply) = reply {
            self.reply_came(place, reply);
        }
        self.awaited -= 1;
        self.settle_order();
    }

    /// How many ids a child's group has.
    pub(super) fn group_len(&self, index: usize) -> u32 {
        self.children.as_ref().and_then(|children| children.get(index)).map_or(0, |child| child.group.len)
    }

    /// What is known of each id of the slice when the call fails here: at this id itself (`own_failed`), or in the subtree of the child
    /// that has just reported `failed`.
    pub(super) fn coverage(&self, own_failed: bool, failed: Option<(usize, &Coverage)>) -> Coverage {
        let own = match (&self.own, &self.job) {
            _ if own_failed => Status::Failed,
            (Own::Failed, _) => Status::Failed,
            (Own::Ready(_) | Own::Lent | Own::LentLater | Own::Given, _) => Status::Done,
            (Own::Pending, JobState::Idle | JobState::Queued(_)) => Status::Unreached,
            (Own::Pending, JobState::Running) | (Own::Taking(_) | Own::Deferred, _) => Status::Unknown,
        };
        let mut coverage = Coverage::all(own, 1);
        let Some(children) = &self.children else {
            coverage.push(Status::Unreached, self.request.ids.len() - 1);
            return coverage;
        };
        for (index, child) in Call::in_list_order(children) {
            match (&child.answer, failed) {
                (_, Some((culprit, known)))
                    if culprit == index && known.len() == u64::from(child.group.len) =>
                {
                    coverage.append(known);
                }
                _ => child.cover(&mut coverage),
            }
        }
        self.pad(&mut coverage);
        coverage
    }

    /// A split that failed here reaches nobody.
    pub(super) fn pad(&self, coverage: &mut Coverage) {
        let covered = u32::try_from(coverage.len()).unwrap_or(u32::MAX);
        coverage.push(Status::Unreached, self.request.ids.len().saturating_sub(covered));
    }
}
