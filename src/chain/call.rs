//! The state of one call at one id, and its next step.
//!
//! [`Call::next_step`] contains the whole order of the source's steps; everything else records events.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use gpc_trees::sorting::sort_by_key;
use gpc_trees::{Group, Id};
use smallvec::SmallVec;

use super::arrived::{Arrived, PlacedReply};
use super::list_order::ListOrder;
use super::load::Unasked;
use super::plans::{Plan, PlannedChild};
use super::reservation::Reservation;
use super::run_queue::QueuePosition;
use super::streaming_replies::StreamingReplies;
use super::timeline::Timeline;
use super::{FuncState, Reply, Time};
use crate::wire::message::{Merging, SubtreeReply};
use crate::wire::trace::ChildTrace;
use crate::wire::{Coverage, Reason, Report, Request, Status};

/// Origin of a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin {
    /// Started here. `followed` is whether the application gets the replies of the children as they arrive.
    Application { ticket: u64, watch: bool, followed: bool },
    /// Sent by a parent, with `skipped` parents given up between it and this id. `credit_owed` is true until the
    /// request counts as consumed.
    Parent { id: Id, skipped: u32, credit_owed: bool },
}

/// The node's own part of a call.
#[derive(Debug)]
pub(super) enum OwnPart {
    /// func has not begun, or runs for the first time.
    Pending,
    /// func takes its data as they arrive, and has begun; `None` while it runs.
    Taking(Option<FuncState>),
    /// func has ended and will answer later.
    Deferred,
    /// func has ended; this is the reply so far.
    Ready(Reply),
    /// A running callback holds the reply.
    Lent,
    /// A callback that has ended and will answer later holds the reply.
    LentLater,
    /// The reply has gone up, with replies whose data are still arriving.
    Given,
    /// Partial call: the node contributes nothing.
    Failed,
}

/// Returns when a call that has begun here must have ended at this id, and at its root.
fn ends(request: &Request, begun: Time) -> (Time, Time) {
    (begun.plus(request.limit), begun.plus(request.left.max(request.limit)))
}

impl OwnPart {
    /// The initial part of a new call; a root that only watches has no func to run.
    fn begin(origin: &Origin) -> OwnPart {
        match origin {
            Origin::Application { watch: true, .. } => OwnPart::Ready(Reply::default()),
            _ => OwnPart::Pending,
        }
    }
}

/// State of the single job that a call may have at a time.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum JobState {
    Idle,
    Queued(QueuePosition),
    Running,
}

/// The children of a call. Most ids have a few, which need no allocation.
pub(super) type Children = SmallVec<[Child; 4]>;

/// Up to this many children are searched linearly; more are indexed.
const LOOKED_THROUGH: usize = 16;

/// A child and its answer.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) id: Id,
    pub(super) group: Group,
    pub(super) answer: ChildAnswer,
    /// Partial call: number of parents given up between this id and the child.
    pub(super) skipped: u32,
    /// Partial call: whether surely no other parent has sent the child the request.
    pub(super) fresh: bool,
    /// Partial call: the child's report on the ids of its group, once it has answered.
    pub(super) report: Option<Box<Report>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ChildAnswer {
    /// No answer yet.
    Awaited,
    /// Its whole subtree is done, and the data of its reply are still arriving.
    Arriving,
    /// Its whole subtree is done.
    Done,
    /// Partial call: the child no longer takes part. If its children could be adopted, they follow it in the list.
    Lost(Status),
}

impl ChildAnswer {
    /// Whether the child has still to send something.
    fn is_due(self) -> bool {
        matches!(self, ChildAnswer::Awaited | ChildAnswer::Arriving)
    }
}

/// The next step of a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Func,
    Forward,
    Callback,
    Respond,
    /// Fail: all children have answered, the last one after the time limit.
    TooLate,
    Wait,
}

/// The state that only a partial call has.
#[derive(Debug, Default)]
pub(super) struct PartialState {
    /// Replies that have been merged. If this id's own part fails, they go up without it.
    pub(super) merged: Vec<SubtreeReply>,
    /// Why ids are left out, the first cause first.
    pub(super) report: Option<Box<Report>>,
    /// Number of adopted children.
    pub(super) orphans: u32,
    /// Whether another parent may have had this id before, or its own parent was lost and may have given it up.
    pub(super) adopted: bool,
}

/// One call at one id.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) request: Arc<Request>,
    pub(super) origin: Origin,
    pub(super) deadline: Time,
    /// Whether its limit has passed and it waits for the reports of its children.
    pub(super) late: bool,
    /// The traces of children that have answered.
    pub(super) traces: Vec<ChildTrace>,
    /// When the root's time limit passes; later no parent asks for the call.
    pub(super) until: Time,
    pub(super) own: OwnPart,
    /// A deferred reply that arrived before func ended: the token may be used while func is still running.
    pub(super) early: Option<Box<Result<Reply, Box<Reason>>>>,
    pub(super) job: JobState,
    /// `None` until the request has been forwarded. Then in list order, or in send order if sending takes several
    /// batches, followed by adopted children in order of adoption.
    pub(super) children: Option<Children>,
    /// Indexes by id, used above [`LOOKED_THROUGH`] children: a flat tree may have a million children, and each
    /// answers, or is lost and has its children adopted.
    by_id: BTreeMap<Id, u32>,
    /// Children that have not been sent the request yet: because a peer's request has many, or because too much of the
    /// peer's work is in progress.
    #[allow(clippy::box_collection, reason = "seldom there, and a million ids may have a call")]
    pub(super) unasked: Option<Box<VecDeque<Unasked>>>,
    /// Whether a later tick continues sending to them.
    pub(super) is_delayed: bool,
    /// Number of children that have not answered or have not been sent the request.
    pub(super) awaited: usize,
    /// Replies that wait to be merged or aggregated, in order of arrival, each with the place of its child in the list.
    pub(super) arrived: Arrived,
    /// Replies that wait for their turn, if callback merges in list order.
    order: Option<Box<ListOrder>>,
    /// Streaming replies: those whose data are still arriving.
    pub(super) streaming: Option<Box<StreamingReplies>>,
    pub(super) partial: PartialState,
    /// When the call arrived here, and what followed.
    pub(super) times: Timeline,
    /// The memory that the call reserves.
    pub(super) reservation: Reservation,
}

impl Child {
    /// Appends the known status of the ids of the child's group.
    pub(super) fn cover(&self, coverage: &mut Coverage) {
        match (&self.answer, &self.report) {
            (ChildAnswer::Done | ChildAnswer::Arriving, Some(report)) => coverage.append(&report.coverage),
            // All ids of its group are done, whatever happens to its reply.
            (ChildAnswer::Done | ChildAnswer::Arriving, None) => coverage.push(Status::Done, self.group.len),
            (ChildAnswer::Awaited, _) => coverage.push(Status::Unknown, self.group.len),
            (ChildAnswer::Lost(status), _) => {
                // The child's status does not hold for the ids below it: they were either surely not sent the request,
                // or their state is unknown.
                let below = if *status == Status::Unreached { Status::Unreached } else { Status::Unknown };
                coverage.push(*status, self.group.len.min(1));
                coverage.push(below, self.group.len.saturating_sub(1));
            }
        }
    }
}

impl Call {
    pub(super) fn new(request: Arc<Request>, origin: Origin, begun: Time) -> Call {
        let own = OwnPart::begin(&origin);
        let (job, children, arrived) = (JobState::Idle, None, Arrived::default());
        let by_id = BTreeMap::new();
        let (deadline, until) = ends(&request, begun);
        Call {
            partial: PartialState { adopted: request.adopted, ..PartialState::default() },
            deadline,
            late: false,
            traces: Vec::new(),
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
            streaming: None,
            times: Timeline::since(begun),
            reservation: Reservation::default(),
        }
    }

    /// Reuses an ended, [emptied](Self::empty) call for a new one.
    pub(super) fn renew(&mut self, request: Arc<Request>, origin: Origin, begun: Time) {
        (self.partial.adopted, self.late) = (request.adopted, false);
        (self.deadline, self.until) = ends(&request, begun);
        self.own = OwnPart::begin(&origin);
        (self.request, self.origin, self.times) = (request, origin, Timeline::since(begun));
    }

    /// Drops the contents of an ended call but keeps its allocations; `nothing` replaces its request.
    pub(super) fn empty(&mut self, nothing: &Arc<Request>) {
        self.request = Arc::clone(nothing);
        (self.own, self.reservation) = (OwnPart::Lent, Reservation::default());
        (self.early, self.job, self.children, self.streaming) = (None, JobState::Idle, None, None);
        self.by_id.clear();
        (self.unasked, self.is_delayed, self.traces) = (None, false, Vec::new());
        self.arrived.empty();
        self.order = None;
        self.partial.merged = Vec::new();
        (self.partial.report, self.awaited, self.partial.orphans) = (None, 0, 0);
    }

    /// The order of the source: func, forward, callbacks, response; with the option, forward before func. A late call
    /// that is not partial merges nothing more.
    pub(super) fn next_step(&self) -> Step {
        if self.late && !self.request.partial {
            let all = self.awaited == 0 && matches!(self.own, OwnPart::Ready(_));
            return if all { Step::TooLate } else { Step::Wait };
        }
        let executed = !matches!(self.own, OwnPart::Pending | OwnPart::Taking(_));
        if self.children.is_none() && (executed || self.request.forward_first) {
            return Step::Forward;
        }
        match (&self.job, &self.own) {
            (JobState::Idle, OwnPart::Pending | OwnPart::Taking(_)) if self.request.data.is_due() => {
                Step::Func
            }
            (JobState::Idle, OwnPart::Ready(_)) if self.waits_for_callback() => Step::Callback,
            (JobState::Idle, OwnPart::Ready(_) | OwnPart::Failed)
                if self.children.is_some() && self.awaited == 0 =>
            {
                Step::Respond
            }
            _ => Step::Wait,
        }
    }

    /// Whether a reply waits to be merged by callback; without a callback, replies wait until the last one has arrived.
    fn waits_for_callback(&self) -> bool {
        match &self.order {
            // A child that has not been sent the request yet may precede it in the list.
            Some(order) => order.has_next() && self.unasked.is_none(),
            None => self.request.callback.is_some() && !self.arrived.is_empty(),
        }
    }

    /// Takes the reply that callback merges next, and its child's place.
    pub(super) fn next_reply(&mut self) -> Option<PlacedReply> {
        match &mut self.order {
            Some(order) => order.pop(),
            None => self.arrived.pop_front(),
        }
    }

    /// Takes all replies that callback has not merged: in list order, or in order of arrival if callback merges that
    /// way.
    pub(super) fn unmerged(&mut self) -> Vec<SubtreeReply> {
        match &mut self.order {
            Some(order) => order.drain().collect(),
            None => self.arrived.drain().collect(),
        }
    }

    /// Adds a reply that has arrived.
    pub(super) fn reply_came(&mut self, place: u32, reply: SubtreeReply) {
        match &mut self.order {
            Some(order) => order.add(place, reply),
            None => self.arrived.push(place, reply),
        }
    }

    /// Updates the list order after a child has answered, or is lost and its replacements are known.
    pub(super) fn settle_order(&mut self) {
        if let (Some(order), Some(children)) = (&mut self.order, &self.children) {
            order.settle(|index| children.get(index as usize).is_some_and(|child| child.answer.is_due()));
        }
    }

    pub(super) fn parent(&self) -> Option<Id> {
        match self.origin {
            Origin::Application { .. } => None,
            Origin::Parent { id, .. } => Some(id),
        }
    }

    /// Returns the index of a child whose answer is not complete.
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

    /// Takes over a call from the fast path: func has run, and the request has been sent to the children of a plan.
    pub(super) fn take_over(&mut self, plan: &Plan, own: Reply) {
        self.own = OwnPart::Ready(own);
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

    /// Records that the request goes to these children.
    pub(super) fn forwarded(&mut self, children: Children) {
        self.awaited = children.len();
        self.children = Some(children);
        self.index_from(0);
    }

    /// Adds the children of these groups, which already count as [awaited](Self::awaited).
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

    /// Drops the groups whose children have all been sent the request.
    pub(super) fn drop_asked(&mut self) {
        if let Some(unasked) = &mut self.unasked
            && unasked.front().is_some_and(|first| first.left().is_empty())
        {
            unasked.pop_front();
        }
        self.unasked.take_if(|unasked| unasked.is_empty());
    }

    /// Adds the children that were not sent the request, so that the coverage of the ending call includes them.
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

    /// Records the places of the children from index `first` on, if callback merges by place, and their indexes if
    /// there are many.
    fn index_from(&mut self, first: usize) {
        let children = self.children.as_deref().unwrap_or_default();
        if self.request.callback.is_some() && self.request.local.merging == Merging::InListOrder {
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

    /// Returns the children with their indexes, in list order.
    fn in_list_order(children: &[Child]) -> Vec<(usize, &Child)> {
        let mut ordered: Vec<(usize, &Child)> = children.iter().enumerate().collect();
        sort_by_key(&mut ordered, |(_, child)| child.group.start);
        ordered
    }

    /// The ids of the children whose answer is not complete.
    pub(super) fn awaited_ids(&self) -> impl Iterator<Item = Id> + '_ {
        let children = self.children.as_deref().unwrap_or_default();
        children.iter().filter(|child| child.answer.is_due()).map(|child| child.id)
    }

    /// The ids of the children that have not answered at all.
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

    /// Whether this id has sent the request to `id`.
    pub(super) fn has_child(&self, id: Id) -> bool {
        self.child_index(id).is_some()
    }

    /// Records that a child's subtree is done. The callback runs for any response, with an empty reply if no reply was
    /// requested.
    pub(super) fn child_done(&mut self, index: usize, reply: Option<SubtreeReply>) {
        let Some(children) = self.children.as_mut() else { return };
        let child = &mut children[index];
        child.answer = ChildAnswer::Done;
        let reply = reply.or_else(|| self.request.callback.map(|_| SubtreeReply::default()));
        let place = child.group.start;
        if let Some(reply) = reply {
            self.reply_came(place, reply);
        }
        self.awaited -= 1;
        self.settle_order();
    }

    /// Number of ids in a child's group.
    pub(super) fn group_len(&self, index: usize) -> u32 {
        self.children.as_ref().and_then(|children| children.get(index)).map_or(0, |child| child.group.len)
    }

    /// Returns the known status of each id of the slice when the call fails here: either at this id itself
    /// (`own_failed`), or in the subtree of the child that has just reported `failed`.
    pub(super) fn coverage(&self, own_failed: bool, failed: Option<(usize, &Coverage)>) -> Coverage {
        let own = match (&self.own, &self.job) {
            _ if own_failed => Status::Failed,
            (OwnPart::Failed, _) => Status::Failed,
            (OwnPart::Ready(_) | OwnPart::Lent | OwnPart::LentLater | OwnPart::Given, _) => Status::Done,
            (OwnPart::Pending, JobState::Idle | JobState::Queued(_)) => Status::Unreached,
            (OwnPart::Pending, JobState::Running) | (OwnPart::Taking(_) | OwnPart::Deferred, _) => {
                Status::Unknown
            }
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

    /// Fills up with unreached: after a failed split no child is sent the request.
    pub(super) fn pad(&self, coverage: &mut Coverage) {
        let covered = u32::try_from(coverage.len()).unwrap_or(u32::MAX);
        coverage.push(Status::Unreached, self.request.ids.len().saturating_sub(covered));
    }
}
