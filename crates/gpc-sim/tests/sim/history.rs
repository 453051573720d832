//! Histories for the checkers: the observations of a call that goes well, and changes to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chained_gpc::chain::{Job, Reply, Time, Work};
use chained_gpc::wire::level::{Leveled, aggregate};
use chained_gpc::wire::message::{Answer, Response, SubtreeReply};
use chained_gpc::wire::{
    Body, CallId, Cause, CauseKind, Coverage, Failure, Message, Reason, Report, Request, Stage, Status,
};
use chained_gpc::{Id, IdList, Tree};
use gpc_sim::Fault;
use gpc_sim::check::{Checkers, FunctionEnd, Held, Limits, Observation, Outcome, Plan};
use gpc_trees::Group;

/// Name of the call.
pub(super) const CALL: CallId = CallId { root: 0, sequence: 7 };
/// Time between two observations.
const STEP_NS: u64 = 1_000;
/// Limit of the call, and what is left of it at its two hops.
pub(super) const LIMIT_NS: u64 = 1_000_000;
pub(super) const FIRST_NS: u64 = 998_000;
pub(super) const SECOND_NS: u64 = 996_000;
/// Longer than a call with this limit may wait for reports.
pub(super) const EXTRA_NS: u64 = 110_000_000;

/// An owned form of an observation, which tests can change.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    Started(Plan),
    Executed(Id, u32),
    Began(Id),
    /// The same for a function that is given its limit.
    BeganUntil(Id, u64),
    /// A function ends; whether it deferred its reply.
    Ran(Id, bool),
    /// A function ends with a failure.
    Failed(Id),
    /// func has taken its data so far.
    Took(Id),
    TokenUsed(Id),
    Stopped(Id),
    Heard(Id, Id),
    Sent(Id, Id, Message),
    Received(Id, Id, Message),
    Requested(Id, Id),
    DataCame(Id, Id),
    DataGone(Id, Id),
    Consumed(Id, Id),
    Heartbeat(u64, u64),
    Limits(Limits),
    PingLeft(Id, Id),
    Abandoned(Id, Id),
    GivenUp,
    /// The caller takes the replies of children as they arrive.
    Followed,
    /// It gets the reply of these places, without statuses.
    ChildReply(Group, SubtreeReply),
    LinkEnded(Id, Id),
    Unreached(Id, Id),
    Injected(Fault, Vec<Id>),
    /// The bytes of a reply are garbled.
    Garbled(Id),
    /// An invalid request.
    Misdirected(Id, Id),
    /// Id, then the contents of its job: own id, parent, and the child whose reply is merged.
    Job(Id, Id, Option<Id>, Option<Id>),
    Ended(Id),
    Resumed(Id),
    Held(Id, Held),
    Involved(Id, BTreeSet<Id>),
    Needs(u64),
    Finished(Outcome),
    Quiet(Vec<(Id, Held)>),
    /// No observation for so many nanoseconds.
    Later(u64),
    /// The next observation is made at the same time as the last.
    AtOnce,
}

/// Plan of the call: a chain of the ids 0, 1, 2.
pub(super) fn plan(partial: bool) -> Plan {
    Plan {
        ids: IdList::range(0..3),
        tree: Tree::Chain,
        partial,
        watch: false,
        reply_wanted: true,
        callback: false,
        forward_first: false,
        data_bytes: 0,
        limit_ns: LIMIT_NS,
        reply_bytes: 4,
        carries: Default::default(),
    }
}

pub(super) fn request(ids: std::ops::Range<Id>, limit_ns: u64, skipped: u32) -> Message {
    Message::Request(Arc::new(Request {
        call: CALL,
        position: ids.start,
        total: 3,
        func: 1,
        callback: None,
        local: Default::default(),
        reply_limits: Default::default(),
        reply_wanted: true,
        forward_first: false,
        partial: skipped > 0,
        adopted: skipped > 0,
        skipped,
        limit: Duration::from_nanos(limit_ns),
        age: Duration::ZERO,
        left: Duration::from_nanos(LIMIT_NS),
        tree: Ok(Tree::Chain),
        ids: IdList::range(ids),
        header: Bytes::new(),
        data: Body::default(),
        parts: None,
    }))
}

/// Adapts a request to the caller's plan.
pub(super) fn meant(plan: &Plan, message: Message) -> Message {
    match message {
        Message::Request(request) => {
            let (partial, callback) = (plan.partial, plan.callback.then_some(2));
            let forward_first = plan.forward_first;
            let meant = Request { partial, callback, forward_first, ..Request::clone(&request) };
            Message::Request(Arc::new(meant))
        }
        other => other,
    }
}

/// A job of an id, with these contents.
fn job(id: Id, me: Id, parent: Option<Id>, merged: Option<Id>) -> Job {
    let Message::Request(request) = request(id..3, FIRST_NS, 0) else { unreachable!("it is one") };
    let work = match merged {
        Some(from) => Work::Callback { from, child: Box::default(), own: Reply::default() },
        None => Work::Func,
    };
    Job { call: CALL, me, parent, request, until: Time::from_nanos(LIMIT_NS), work }
}

pub(super) fn completed() -> Message {
    Message::Response(Response { call: CALL, answer: Answer::Completed })
}

/// A cause as it would be true if the fault of its stage had been injected: simulated functions use another code at
/// each id.
pub(super) fn cause(id: Id, stage: Stage) -> Cause {
    let failed = |what: &str| {
        let (code, detail) = (!i64::from(id), id.to_le_bytes()[..(id % 5) as usize].to_vec());
        let message = format!("{what} at id {id}");
        Cause::of(id, stage, Reason { kind: CauseKind::Failed, code, message, detail })
    };
    match stage {
        Stage::Func => failed("fail"),
        Stage::Callback => failed("callback"),
        Stage::Setup => Cause::new(id, stage, CauseKind::SecondParent, "as told"),
        Stage::Link => Cause::new(id, stage, CauseKind::LinkLost, "as told"),
        Stage::Cancelled => Cause::new(id, stage, CauseKind::Cancelled, "as told"),
        _ => Cause::new(id, stage, CauseKind::TimeLimit, "as told"),
    }
}

pub(super) fn failed(id: Id, stage: Stage) -> Message {
    let own = if stage == Stage::Cancelled { Status::Unknown } else { Status::Failed };
    let failure = Failure { cause: cause(id, stage), coverage: runs(&[(own, 1)]) };
    Message::Response(Response { call: CALL, answer: Answer::Failed(Box::new(failure)) })
}

/// A reply with the parts of these ids, each one level above the next.
pub(super) fn reply(ids: &[Id]) -> SubtreeReply {
    let part = |id: Id| Some(Bytes::copy_from_slice(&id.to_le_bytes()));
    let over = |below: Option<Leveled>, id: &Id| aggregate(part(*id), below.as_slice()).ok();
    let whole = ids.iter().rev().fold(None, over).expect("a few levels");
    SubtreeReply { level: whole.level, data: whole.data, ..SubtreeReply::default() }
}

pub(super) fn well(ids: &[Id]) -> Outcome {
    Outcome { result: Ok(Some(reply(ids))), report: None }
}

pub(super) fn blamed(id: Id, stage: Stage, coverage: &[(Status, u32)]) -> Outcome {
    Outcome { result: Err(Failure { cause: cause(id, stage), coverage: runs(coverage) }), report: None }
}

pub(super) fn partly(ids: &[Id], causes: &[(Id, Stage)], coverage: &[(Status, u32)]) -> Outcome {
    let causes = causes.iter().map(|(id, stage)| cause(*id, *stage)).collect();
    Outcome { result: Ok(Some(reply(ids))), report: Some(Report { causes, coverage: runs(coverage) }) }
}

pub(super) fn runs(of: &[(Status, u32)]) -> Coverage {
    let mut coverage = Coverage::new();
    of.iter().for_each(|(status, count)| coverage.push(*status, *count));
    coverage
}

/// Observations of a call that goes well.
pub(super) fn honest() -> Vec<Entry> {
    vec![
        Entry::Started(plan(false)),
        Entry::Executed(0, 0),
        Entry::Sent(0, 1, request(1..3, FIRST_NS, 0)),
        Entry::Requested(1, 0),
        Entry::Executed(1, 0),
        Entry::Consumed(1, 0),
        Entry::Sent(1, 2, request(2..3, SECOND_NS, 0)),
        Entry::Requested(2, 1),
        Entry::Executed(2, 0),
        Entry::Consumed(2, 1),
        Entry::Held(2, Held::default()),
        Entry::Sent(2, 1, completed()),
        Entry::Sent(1, 0, completed()),
        Entry::Finished(well(&[0, 1, 2])),
        Entry::Quiet(vec![(0, Held::default()), (1, Held::default())]),
    ]
}

/// Observations of a partial call in which id 1 crashed and id 2 was adopted.
pub(super) fn honest_partial() -> Vec<Entry> {
    vec![
        Entry::Started(plan(true)),
        Entry::Executed(0, 0),
        Entry::Sent(0, 1, meant(&plan(true), request(1..3, FIRST_NS, 0))),
        Entry::Injected(Fault::Crash, vec![1]),
        Entry::Ended(1),
        Entry::LinkEnded(0, 1),
        Entry::Sent(0, 2, request(2..3, SECOND_NS, 1)),
        Entry::Requested(2, 0),
        Entry::Executed(2, 0),
        Entry::Consumed(2, 0),
        Entry::Sent(2, 0, completed()),
        Entry::Finished(partly(
            &[0, 2],
            &[(1, Stage::Link)],
            &[(Status::Done, 1), (Status::Unknown, 1), (Status::Done, 1)],
        )),
        Entry::Sent(0, 2, Message::Release(CALL)),
        Entry::Quiet(vec![(0, Held::default()), (2, Held::default())]),
    ]
}

/// Runs the checkers over a history, with a microsecond between observations; returns the names of those that complain.
pub(super) fn judged(history: &[Entry]) -> Vec<&'static str> {
    let mut checkers = Checkers::new();
    let (mut at, mut asked) = (0, BTreeMap::new());
    for seen in history {
        at += STEP_NS;
        let observation = match seen {
            Entry::Started(plan) => Observation::Started { call: CALL, plan: Arc::new(plan.clone()) },
            Entry::Executed(id, run) => Observation::Executed { id: *id, run: *run, call: CALL },
            Entry::Began(id) => Observation::Began { id: *id, call: CALL, until: None },
            Entry::BeganUntil(id, until) => Observation::Began { id: *id, call: CALL, until: Some(*until) },
            Entry::Ran(id, deferred) => {
                let end = if *deferred { FunctionEnd::Deferred } else { FunctionEnd::Through };
                Observation::Ran { id: *id, call: CALL, end }
            }
            Entry::Failed(id) => Observation::Ran { id: *id, call: CALL, end: FunctionEnd::Failed },
            Entry::Took(id) => Observation::Ran { id: *id, call: CALL, end: FunctionEnd::Unfinished },
            Entry::TokenUsed(id) => Observation::TokenUsed { id: *id, call: CALL },
            Entry::Stopped(id) => Observation::Stopped { id: *id, call: CALL },
            Entry::Heard(at, from) => Observation::Heard { at: *at, from: *from },
            Entry::Sent(from, to, message) => {
                if matches!(message, Message::Ping) {
                    asked.insert((*from, *to), at);
                }
                Observation::Sent { from: *from, to: *to, message }
            }
            Entry::Received(at, from, message) => Observation::Received { at: *at, from: *from, message },
            Entry::Heartbeat(every_ns, dead_after_ns) => {
                Observation::Heartbeat { every_ns: *every_ns, dead_after_ns: *dead_after_ns }
            }
            Entry::Limits(limits) => Observation::Limits(*limits),
            Entry::PingLeft(id, peer) => {
                let asked_ns = asked.get(&(*id, *peer)).copied().unwrap_or_default();
                Observation::PingLeft { at: *id, peer: *peer, asked_ns }
            }
            Entry::Abandoned(at, peer) => Observation::Abandoned { at: *at, peer: *peer },
            Entry::GivenUp => Observation::GivenUp { call: CALL },
            Entry::Followed => Observation::Followed { call: CALL },
            Entry::ChildReply(group, reply) => {
                Observation::ChildReply { call: CALL, group: *group, reply, report: None }
            }
            Entry::DataCame(at, from) => Observation::DataCame { at: *at, from: *from, call: CALL },
            Entry::DataGone(at, from) => Observation::DataGone { at: *at, from: *from, call: CALL },
            Entry::Requested(at, from) => Observation::Requested { at: *at, from: *from },
            Entry::Consumed(at, from) => Observation::Consumed { at: *at, from: *from },
            Entry::LinkEnded(at, peer) => Observation::LinkEnded { at: *at, peer: *peer, unreached: false },
            Entry::Unreached(at, peer) => Observation::LinkEnded { at: *at, peer: *peer, unreached: true },
            Entry::Injected(fault, ids) => Observation::Injected { fault: *fault, ids },
            Entry::Garbled(from) => Observation::Malformed { from: *from, call: CALL, garbled: true },
            Entry::Misdirected(at, from) => Observation::Misdirected { at: *at, from: *from, call: CALL },
            Entry::Job(id, me, parent, merged) => {
                checkers.observe(at, &Observation::Job { id: *id, job: &job(*id, *me, *parent, *merged) });
                continue;
            }
            Entry::Ended(id) => Observation::Ended { id: *id },
            Entry::Resumed(id) => Observation::Resumed { id: *id },
            Entry::Held(id, held) => Observation::Held { id: *id, held: *held, workers: [1, 1] },
            Entry::Needs(classes) => Observation::Needs { call: CALL, classes: *classes },
            Entry::Involved(id, with) => Observation::Involved { id: *id, with },
            Entry::Finished(outcome) => Observation::Finished { call: CALL, outcome },
            Entry::Quiet(held) => Observation::Quiet { held },
            Entry::Later(ns) => {
                at = at + ns - STEP_NS;
                continue;
            }
            Entry::AtOnce => {
                at -= 2 * STEP_NS;
                continue;
            }
        };
        checkers.observe(at, &observation);
    }
    let mut names: Vec<&str> = checkers.violations().iter().map(|violation| violation.checker).collect();
    names.dedup();
    names
}

/// Replaces one observation of a history.
pub(super) fn with(mut history: Vec<Entry>, place: usize, seen: Entry) -> Vec<Entry> {
    history[place] = seen;
    history
}

pub(super) fn without(mut history: Vec<Entry>, place: usize) -> Vec<Entry> {
    history.remove(place);
    history
}

pub(super) fn and(mut history: Vec<Entry>, place: usize, seen: Entry) -> Vec<Entry> {
    history.insert(place, seen);
    history
}

/// State of an idle id, observed after each input.
pub(super) fn input(id: Id) -> Entry {
    Entry::Held(id, Held::default())
}

/// Observations of a request on its way down a chain of three ids.
pub(super) fn down(plan: Plan) -> Vec<Entry> {
    let first = meant(&plan, request(1..3, FIRST_NS, 0));
    let second = meant(&plan, request(2..3, SECOND_NS, 0));
    vec![
        Entry::Started(plan),
        Entry::Executed(0, 0),
        Entry::Sent(0, 1, first.clone()),
        input(0),
        Entry::Received(1, 0, first),
        Entry::Executed(1, 0),
        Entry::Sent(1, 2, second.clone()),
        input(1),
        Entry::Received(2, 1, second),
        Entry::Executed(2, 0),
        input(2),
    ]
}

/// Appends observations to a history.
pub(super) fn then(mut history: Vec<Entry>, more: &[Entry]) -> Vec<Entry> {
    history.extend_from_slice(more);
    history
}
