//! What a node has recorded, as typed records: the calls in flight, and the last ones that ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gpc_trees::Id;
use gpc_trees::sorting::sort_by;

use super::call::{Call, JobState, OwnPart};
use super::call_record::CallRecord;
use super::fast_calls::{CallOrigin, FastCall};
use super::recorder::{AnswerRecord, End};
use super::timeline::Timeline;
use super::{Node, Time};
use crate::wire::{CallId, CallState, Straggler};

/// Most children of a call that a recording lists as awaited. A few show which subtree is late.
const AWAITED_MAX: usize = 64;

/// What a node has recorded: see [`Node::recorder`](crate::Node::recorder).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Recording {
    /// The node's id.
    pub me: Id,
    /// The last calls that ended here, in the order in which they ended, and then those in flight, the oldest first.
    pub calls: Vec<RecordedCall>,
}

/// One call at one id. A duration without another origin counts from when the call came to this id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordedCall {
    /// Identifier of the call.
    pub call: CallId,
    /// Number of func: a hash of its name.
    pub func: u64,
    /// Name of func, if the node has registered it.
    pub func_name: Option<Arc<str>>,
    /// The parent; `None` if the call was started here.
    pub parent: Option<Id>,
    /// What the call waits for, or how it ended.
    pub state: CallState,
    /// How long ago the call came.
    pub age: Duration,
    /// When func began.
    pub began: Option<Duration>,
    /// When func had its reply. Of several functions that take less than 2 us and run in one turn of the node, the
    /// first, the last and one of eight between them are timed; the others count as no time.
    pub ended: Option<Duration>,
    /// How long callbacks have run, all together.
    pub callbacks: Duration,
    /// The child that answered last, and when.
    pub last: Option<(Id, Duration)>,
    /// The answers of children that are still recorded, and when they came.
    pub answers: Vec<(Id, Duration)>,
    /// When this id answered; for a call that ends with its func, when [that ended](Self::ended).
    pub answered: Option<Duration>,
    /// The first 64 children of a call in flight that have not answered.
    pub awaited: Vec<Id>,
    /// Number of children that have not answered.
    pub awaited_count: u32,
}

/// What a call that was started here waits for: see [`CallHandle::progress`](crate::CallHandle::progress).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The call at its root.
    pub call: RecordedCall,
    /// Awaited children that have not answered a heartbeat request, and for how long they have been silent.
    pub silent: Vec<(Id, Duration)>,
    /// The id that the call waits for, as last reported with heartbeats: this one, a silent child, or one further down.
    pub straggler: Straggler,
}

impl RecordedCall {
    /// How long the call has waited for what its [state](Self::state) says; for an ended call, how long ago it ended.
    pub fn since(&self) -> Duration {
        let begun = match self.state {
            CallState::Func => self.began,
            CallState::Deferred | CallState::Forward => self.ended,
            CallState::Children => self.last.map(|(_, at)| at).max(self.ended),
            CallState::CallbackQueue | CallState::Callback | CallState::Streaming => {
                self.last.map(|(_, at)| at)
            }
            CallState::Data | CallState::Queue => None,
            _ => self.answered,
        };
        self.age.saturating_sub(begun.unwrap_or_default())
    }
}

impl Node {
    /// What this node has recorded.
    pub fn recording(&self, now: Time) -> Recording {
        let mut answers = BTreeMap::<u64, Vec<(Id, Duration)>>::new();
        for AnswerRecord { sequence, child, at } in self.recorder.answers() {
            answers.entry(*sequence).or_default().push((*child, at.duration().unwrap_or_default()));
        }
        let fast_calls = self.fast_calls.iter().flat_map(|fast_calls| fast_calls.iter());
        let mut in_flight: Vec<RecordedCall> = self.calls.iter().map(|call| of_call(call, now)).collect();
        in_flight.extend(fast_calls.map(|fast_call| of_fast_call(fast_call, now)));
        sort_by(&mut in_flight, |one, other| other.age.cmp(&one.age).then(one.call.cmp(&other.call)));
        let me = self.config.me;
        let ended = self.recorder.calls().map(|record| of_record(record, me, now));
        let mut calls: Vec<RecordedCall> = ended.chain(in_flight).collect();
        for call in &mut calls {
            call.answers = answers.get(&call.call.sequence).cloned().unwrap_or_default();
        }
        Recording { me, calls }
    }
}

impl Node {
    /// What a call waits for that was started here under this ticket; `None` if it has ended.
    pub fn progress(&self, ticket: u64, now: Time) -> Option<Progress> {
        let call = self.call_in_flight(*self.tickets.get(ticket)?, now)?;
        let silent =
            call.awaited.iter().filter_map(|child| Some((*child, self.liveness.silence(*child, now)?)));
        let silent = silent.collect();
        let straggler = self.straggler_of(call.clone(), now);
        Some(Progress { call, silent, straggler })
    }

    /// The record of a call in flight.
    pub(super) fn call_in_flight(&self, id: CallId, now: Time) -> Option<RecordedCall> {
        if let Some(call) = self.calls.named(id) {
            return Some(of_call(call, now));
        }
        let fast_calls = self.fast_calls.as_ref()?;
        Some(of_fast_call(fast_calls.get(fast_calls.find(id)?)?, now))
    }
}

fn of_times(call: CallId, func: u64, parent: Option<Id>, times: &Timeline, now: Time) -> RecordedCall {
    RecordedCall {
        call,
        func,
        func_name: None,
        parent,
        state: CallState::Children,
        age: now.since(times.came),
        began: times.began.duration(),
        ended: times.ended.duration(),
        callbacks: Duration::from_nanos(times.callbacks_ns),
        last: times.last(),
        answers: Vec::new(),
        answered: None,
        awaited: Vec::new(),
        awaited_count: 0,
    }
}

pub(super) fn of_call(call: &Call, now: Time) -> RecordedCall {
    let request = &call.request;
    let recorded = of_times(request.call, request.func, call.parent(), &call.times, now);
    RecordedCall {
        state: state(call),
        awaited: call.awaited_ids().take(AWAITED_MAX).collect(),
        awaited_count: u32::try_from(call.awaited).unwrap_or(u32::MAX),
        ..recorded
    }
}

fn of_fast_call(fast_call: &FastCall, now: Time) -> RecordedCall {
    let parent = match fast_call.origin {
        CallOrigin::Application { .. } => None,
        CallOrigin::Parent(parent) => Some(parent),
    };
    let recorded = of_times(fast_call.call, fast_call.plan.key().func(), parent, &fast_call.times, now);
    let awaited = fast_call.awaited_ids().take(AWAITED_MAX).collect();
    RecordedCall { awaited, awaited_count: fast_call.awaited(), ..recorded }
}

fn of_record(record: &CallRecord, me: Id, now: Time) -> RecordedCall {
    let call = CallId { root: record.root, sequence: record.sequence };
    let parent = Some(record.parent).filter(|parent| *parent != me);
    let recorded = of_times(call, record.func, parent, &Timeline::since(record.came), now);
    RecordedCall {
        state: match record.end {
            End::Done => CallState::Done,
            End::Partial => CallState::Partial,
            End::Failed => CallState::Failed,
            End::Cancelled => CallState::Cancelled,
            End::Refused => CallState::Refused,
        },
        began: record.began.duration(),
        ended: record.ended.duration(),
        callbacks: record.callbacks.duration().unwrap_or_default(),
        last: record.last_at.duration().map(|at| (record.last, at)),
        answered: record.answered.duration(),
        ..recorded
    }
}

/// What a call in the tables waits for.
fn state(call: &Call) -> CallState {
    match (&call.own, &call.job) {
        (OwnPart::Pending | OwnPart::Taking(_), JobState::Running) => CallState::Func,
        (OwnPart::Pending | OwnPart::Taking(_), JobState::Queued(_)) => CallState::Queue,
        (OwnPart::Pending | OwnPart::Taking(_), JobState::Idle) => CallState::Data,
        (OwnPart::Deferred, _) => CallState::Deferred,
        (OwnPart::Given, _) => CallState::Streaming,
        (OwnPart::Lent | OwnPart::LentLater, _) => CallState::Callback,
        (OwnPart::Ready(_) | OwnPart::Failed, JobState::Queued(_)) => CallState::CallbackQueue,
        (OwnPart::Ready(_) | OwnPart::Failed, _) if call.children.is_none() => CallState::Forward,
        (OwnPart::Ready(_) | OwnPart::Failed, _) => CallState::Children,
    }
}
