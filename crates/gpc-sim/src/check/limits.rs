//! Checks time limits at every id. An id has answered by the limit of its request, or, if it waits for children, by the
//! end of its extra time. Then it holds nothing of the call. No call ends early, no hop withholds time, and no call is
//! done that took longer than its limit.
//!
//! A paused id is judged when it resumes. The limit counts from the arrival of the request: time on links is excluded.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gpc_trees::Id;

use super::book::Book;
use super::findings::Findings;
use super::refusing::{is_refusal, takes_no_more};
use super::{Observation, Outcome};
use crate::faults::Fault;
use crate::large::LARGE;
use crate::ranges::{NAMES, forget};
use chained_gpc::wire::{CallId, Cause, CauseKind, Message, Request, Response, Status};

const NAME: &str = "limits";

/// Latest answer of an id after its limit: timers are exact here, and frames carry limits in whole microseconds.
const LATE_NS: u64 = 2_000;

/// A call at an id.
struct CallLimit {
    /// Limit of the first request, and latest limit of all requests.
    first: u64,
    last: u64,
    /// Whether `last` includes the time for its children's reports.
    waits: bool,
    /// Ids that have asked and have no outcome; and the number of requests.
    requesters: Vec<Id>,
    requests: u32,
}

/// Calls whose limits have not all passed.
#[derive(Default)]
pub(super) struct Limits {
    calls: BTreeMap<(Id, CallId), CallLimit>,
    /// Times at which calls are checked; a call that was postponed or ended may be here several times.
    due: BTreeSet<(u64, Id, CallId)>,
    /// Paused ids.
    still: BTreeSet<Id>,
    /// Number of calls that an id holds, as far as their limits are known.
    held: BTreeMap<Id, usize>,
    /// Calls that are checked; none after a large one has started.
    watched: BTreeSet<CallId>,
    /// Whether a large one has started.
    blind: bool,
}

impl Limits {
    #[inline(always)]
    pub(super) fn observe(&mut self, book: &Book, seen: &Observation<'_>, findings: &mut Findings) {
        let now = findings.at;
        self.judge_those_due(book, now, findings);
        match seen {
            Observation::Started { call, plan } if !self.blind && plan.ids.len() <= LARGE => {
                self.watched.insert(*call);
                if let Some(root) = plan.ids.first() {
                    // The caller counts as the asking id.
                    self.asked(root, root, *call, now.saturating_add(plan.limit_ns));
                }
            }
            // Ids hold calls that are unknown here, so their number can no longer be checked.
            Observation::Started { .. } => *self = Limits { blind: true, ..Limits::default() },
            _ if self.watched.is_empty() => {}
            Observation::Finished { call, outcome } => {
                if let Some(root) = book.calls.get(call).and_then(|record| record.root()) {
                    self.note_reported(root, root, *call);
                }
                let early = self.early(book, *call, outcome.result.as_ref().err().map(|it| &it.cause), now);
                let late = late(book, *call, outcome, now);
                early.into_iter().chain(late).for_each(|what| findings.add(NAME, what));
            }
            Observation::Received { at, from, message: Message::Request(request) } => {
                self.asked(*at, *from, request.call, now.saturating_add(nanos(request)));
            }
            Observation::Began { id, call, until: Some(until) } => {
                let late =
                    (*until <= now).then(|| format!("runs a function of call {call} whose limit has passed"));
                let wrong = late.or_else(|| self.check_given(book, *id, *call, *until, now));
                wrong.into_iter().for_each(|what| findings.add(NAME, format!("id {id} {what}")));
            }
            Observation::Received { at, from, message: Message::Cancel(call) } => {
                self.note_reported(*at, *from, *call);
            }
            // After the head of a reply, its data or a failure follow; until then the id holds the call.
            Observation::Sent { from, to, message: Message::Response(response) } => {
                self.note_reported(*from, *to, response.call);
                // A refused request has no limit here, if it was the only one.
                let known = self.calls.get(&(*from, response.call));
                if known.is_some_and(|state| state.requests == 1) && refuses(*from, response) {
                    self.calls.remove(&(*from, response.call));
                }
            }
            Observation::Sent { from, to, message: Message::Moved(call) } => {
                self.note_reported(*from, *to, *call)
            }
            Observation::Sent { from, message: Message::Request(request), .. } => {
                let wrong = self.kept_back(*from, request, now);
                wrong.into_iter().for_each(|what| findings.add(NAME, format!("id {from} {what}")));
            }
            Observation::LinkEnded { at, peer, .. } | Observation::Abandoned { at, peer } => {
                for (_, state) in self.at(*at) {
                    state.requesters.retain(|requester| requester != peer || *peer == *at);
                }
            }
            Observation::Injected { fault: Fault::Pause | Fault::Announced, ids } => {
                self.still.extend(ids.iter())
            }
            Observation::Resumed { id } => self.goes_on(*id, now),
            Observation::Ended { id } => {
                self.still.remove(id);
                self.held.remove(id);
                forget(&mut self.calls, (*id, NAMES[0])..=(*id, NAMES[1]));
            }
            Observation::Held { id, held, .. } => self.holds(*id, held.calls, findings),
            _ => {}
        }
    }

    /// Calls at an id.
    fn at(&mut self, id: Id) -> impl Iterator<Item = (CallId, &mut CallLimit)> {
        self.calls.range_mut((id, NAMES[0])..=(id, NAMES[1])).map(|((_, call), state)| (*call, state))
    }

    fn asked(&mut self, at: Id, from: Id, call: CallId, until: u64) {
        let new =
            || CallLimit { first: until, last: until, waits: false, requesters: Vec::new(), requests: 0 };
        let state = self.calls.entry((at, call)).or_insert_with(new);
        state.last = state.last.max(until);
        state.requests = state.requests.saturating_add(1);
        if !state.requesters.contains(&from) {
            state.requesters.push(from);
        }
        self.due.insert((state.last, at, call));
    }

    /// An id has reported the outcome to an id that asked, or that id does not want it.
    fn note_reported(&mut self, at: Id, requester: Id, call: CallId) {
        let state = self.calls.get_mut(&(at, call));
        state.into_iter().for_each(|state| state.requesters.retain(|id| *id != requester));
    }

    /// Checks the limit that a function is given.
    fn check_given(&self, book: &Book, id: Id, call: CallId, until: u64, now: u64) -> Option<String> {
        // With several requests only the id knows which one counts.
        let state = self.calls.get(&(id, call)).filter(|state| state.requests == 1)?;
        let (given, left) = (until.saturating_sub(now), state.first.saturating_sub(now));
        // A callback may merge replies until the time for reports is over.
        let reports = book.time_for_reports(id, call);
        let exact = state.first.abs_diff(until) <= LATE_NS;
        let behind = reports.is_some_and(|(least, most)| {
            (state.first + least..=state.first + most + LATE_NS).contains(&(until + LATE_NS))
                && now >= state.first
        });
        (!exact && !behind)
            .then(|| format!("tells a function of call {call} that {given} ns are left, and {left} are"))
    }

    /// An id resumes: checks postponed by its pause are due now.
    fn goes_on(&mut self, id: Id, now: u64) {
        self.still.remove(&id);
        let put_off: Vec<CallId> =
            self.at(id).filter(|(_, state)| state.last < now).map(|(call, _)| call).collect();
        for call in put_off {
            self.calls.get_mut(&(id, call)).into_iter().for_each(|state| state.last = now);
            self.due.insert((now, id, call));
        }
    }

    /// Mostly nothing is due.
    #[inline]
    fn judge_those_due(&mut self, book: &Book, now: u64, findings: &mut Findings) {
        if !self.due.is_empty() {
            self.judge_the_first(book, now, findings);
        }
    }

    /// Reports ids that owe an answer after their limit.
    fn judge_the_first(&mut self, book: &Book, now: u64, findings: &mut Findings) {
        while let Some(&(until, id, call)) = self.due.first().filter(|(until, ..)| until + LATE_NS < now) {
            self.due.pop_first();
            if self.still.contains(&id) || self.calls.get(&(id, call)).is_none_or(|state| state.last > until)
            {
                continue;
            }
            if let (true, Some(state)) = (book.has_forwarded(id, call), self.calls.get_mut(&(id, call)))
                && !std::mem::replace(&mut state.waits, true)
                && let Some((_, most)) = book.time_for_reports(id, call)
            {
                state.last += most;
                self.due.insert((state.last, id, call));
                continue;
            }
            let Some(state) = self.calls.remove(&(id, call)) else { continue };
            if state.requesters.is_empty() {
                // It has answered all ids that asked, perhaps by a head whose data still arrive. It holds the call
                // until they have arrived.
                let held = self.held.get(&id).copied().unwrap_or_default();
                self.holds_more(id, held, findings);
            }
            for requester in state.requesters {
                findings.add(
                    NAME,
                    format!(
                        "id {id} has not answered {requester} when the limit of call {call} has passed there"
                    ),
                );
            }
        }
    }

    /// Checks that an id holds no call whose limit has passed.
    fn holds(&mut self, id: Id, calls: usize, findings: &mut Findings) {
        if calls == 0 {
            self.held.remove(&id);
            return;
        }
        self.held.insert(id, calls);
        self.holds_more(id, calls, findings);
    }

    fn holds_more(&mut self, id: Id, calls: usize, findings: &mut Findings) {
        let open = self.at(id).count();
        if calls > open {
            findings.add(
                NAME,
                format!("id {id} holds {calls} calls, and the limits of all but {open} have passed there"),
            );
        }
    }

    /// Checks the limit that a request gives to a child.
    fn kept_back(&self, from: Id, request: &Request, now: u64) -> Option<String> {
        let (call, child) = (request.call, request.ids.first()?);
        let state = self.calls.get(&(from, call))?;
        if state.requests == 1 && state.first < now {
            return Some(format!("asks {child} in call {call} with no time left"));
        }
        let (left, given) = (state.first.saturating_sub(now), nanos(request));
        (state.requests == 1 && left.abs_diff(given) > LATE_NS).then(|| {
            format!("gives {child} a limit of {given} ns in call {call}, of which {left} ns are left")
        })
    }

    /// Whether a call ends for its time limit before the limit has passed.
    fn early(&self, book: &Book, call: CallId, cause: Option<&Cause>, now: u64) -> Option<String> {
        let record = book.calls.get(&call)?;
        let (limit, took) = (record.plan.limit_ns, now - record.started);
        let kept = LATE_NS * (1 + u64::from(record.depth));
        let of_time = cause.is_some_and(|cause| cause.kind == CauseKind::TimeLimit);
        (of_time && took + kept < limit)
            .then(|| format!("call {call} ends after {took} ns because its time limit of {limit} has passed"))
    }
}

/// Whether an id has refused a request, for any reason.
fn refuses(from: Id, response: &Response) -> bool {
    takes_no_more(from, response) || is_refusal(from, response)
}

/// Checks a call that is done after its limit.
fn late(book: &Book, call: CallId, outcome: &Outcome, now: u64) -> Option<String> {
    let record = book.calls.get(&call)?;
    let (limit, took) = (record.plan.limit_ns, now - record.started);
    let report = outcome.report.as_ref();
    let whole = report.is_none_or(|report| {
        report.causes.is_empty() && report.coverage.statuses().all(|status| status == Status::Done)
    });
    (outcome.result.is_ok() && whole && took >= limit)
        .then(|| format!("call {call} is done after {took} ns, and its time limit is {limit}"))
}

/// Limit of a request.
fn nanos(request: &Request) -> u64 {
    in_nanos(request.limit)
}

fn in_nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
