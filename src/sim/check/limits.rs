//! Time limits, at every id: whoever has a request has answered it when the limit of that request has passed, or, where it waits for its children, when its part of the extra time has passed, too; it holds nothing of
//! the call any more then; not only the root. None ends early, no hop keeps anything of the limit back, and no call is done that took longer than its limit.
//!
//! An id that stands still is judged when it goes on. What an id answers to is the limit that the request had when it came: the time on links is not counted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gpc_trees::Id;

use super::book::Book;
use super::{Findings, NAMES, Observation, Outcome, forget, is_refusal, takes_no_more};
use crate::sim::faults::Fault;
use crate::sim::world::LARGE;
use crate::wire::{CallId, Cause, CauseKind, Message, Request, Response, Status};

const NAME: &str = "limits";

/// How long past its limit an id may answer: timers are exact here, and what a frame says of a limit is in whole microseconds.
const LATE_NS: u64 = 2_000;

/// A call at an id.
struct Here {
    /// When the limit passes of the request that came first, and of the one whose limit is the last.
    first: u64,
    last: u64,
    /// The time for reports of its children is in this.
    waits: bool,
    /// Who has asked and has not been told what came of it; and how often it was asked.
    askers: Vec<Id>,
    requests: u32,
}

/// The calls of which some limit has not passed yet.
#[derive(Default)]
pub(super) struct Limits {
    calls: BTreeMap<(Id, CallId), Here>,
    /// When each is to be looked at; of one that has been put off, or is over, more than once.
    due: BTreeSet<(u64, Id, CallId)>,
    /// Who stands still.
    still: BTreeSet<Id>,
    /// How many calls an id holds, of which its limits are known.
    held: BTreeMap<Id, usize>,
    /// The calls that are looked at; none after a large one has begun.
    watched: BTreeSet<CallId>,
    /// Whether a large one has begun.
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
                    // Its caller asks.
                    self.asked(root, root, *call, now.saturating_add(plan.limit_ns));
                }
            }
            // Its ids hold a call of which nothing is known here, so what they may hold is not known any more.
            Observation::Started { .. } => *self = Limits { blind: true, ..Limits::default() },
            _ if self.watched.is_empty() => {}
            Observation::Finished { call, outcome } => {
                if let Some(root) = book.calls.get(call).and_then(|record| record.root()) {
                    self.told(root, root, *call);
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
                let wrong = late.or_else(|| self.tells(book, *id, *call, *until, now));
                wrong.into_iter().for_each(|what| findings.add(NAME, format!("id {id} {what}")));
            }
            Observation::Received { at, from, message: Message::Cancel(call) } => {
                self.told(*at, *from, *call);
            }
            // Of a reply whose head has gone up the data are to follow, or a failure; until then the call is held.
            Observation::Sent { from, to, message: Message::Response(response) } => {
                self.told(*from, *to, response.call);
                // What it never took on has no limit there: it has refused the one request that came.
                let known = self.calls.get(&(*from, response.call));
                if known.is_some_and(|here| here.requests == 1) && refuses(*from, response) {
                    self.calls.remove(&(*from, response.call));
                }
            }
            Observation::Sent { from, to, message: Message::Moved(call) } => self.told(*from, *to, *call),
            Observation::Sent { from, message: Message::Request(request), .. } => {
                let wrong = self.kept_back(*from, request, now);
                wrong.into_iter().for_each(|what| findings.add(NAME, format!("id {from} {what}")));
            }
            Observation::LinkEnded { at, peer, .. } | Observation::Abandoned { at, peer } => {
                for (_, here) in self.at(*at) {
                    here.askers.retain(|asker| asker != peer || *peer == *at);
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

    /// The calls at an id.
    fn at(&mut self, id: Id) -> impl Iterator<Item = (CallId, &mut Here)> {
        let least = CallId { root: 0, sequence: 0 };
        let most = CallId { root: Id::MAX, sequence: u64::MAX };
        self.calls.range_mut((id, least)..=(id, most)).map(|((_, call), here)| (*call, here))
    }

    fn asked(&mut self, at: Id, from: Id, call: CallId, until: u64) {
        let new = || Here { first: until, last: until, waits: false, askers: Vec::new(), requests: 0 };
        let here = self.calls.entry((at, call)).or_insert_with(new);
        here.last = here.last.max(until);
        here.requests = here.requests.saturating_add(1);
        if !here.askers.contains(&from) {
            here.askers.push(from);
        }
        self.due.insert((here.last, at, call));
    }

    /// An id has told another what came of its request, or that one does not want to hear it.
    fn told(&mut self, at: Id, asker: Id, call: CallId) {
        let here = self.calls.get_mut(&(at, call));
        here.into_iter().for_each(|here| here.askers.retain(|id| *id != asker));
    }

    /// What is wrong with the limit that an id tells a function.
    fn tells(&self, book: &Book, id: Id, call: CallId, until: u64, now: u64) -> Option<String> {
        // Of one that was asked more than once only itself knows which request counts.
        let here = self.calls.get(&(id, call)).filter(|here| here.requests == 1)?;
        let (told, left) = (until.saturating_sub(now), here.first.saturating_sub(now));
        // A callback may merge what comes in the time for reports, until that is over.
        let reports = book.time_for_reports(id, call);
        let exact = here.first.abs_diff(until) <= LATE_NS;
        let behind = reports.is_some_and(|(least, most)| {
            (here.first + least..=here.first + most + LATE_NS).contains(&(until + LATE_NS))
                && now >= here.first
        });
        (!exact && !behind)
            .then(|| format!("tells a function of call {call} that {told} ns are left, and {left} are"))
    }

    /// An id goes on: what was due while it stood still is due now.
    fn goes_on(&mut self, id: Id, now: u64) {
        self.still.remove(&id);
        let put_off: Vec<CallId> =
            self.at(id).filter(|(_, here)| here.last < now).map(|(call, _)| call).collect();
        for call in put_off {
            self.calls.get_mut(&(id, call)).into_iter().for_each(|here| here.last = now);
            self.due.insert((now, id, call));
        }
    }

    /// At most times nothing is.
    #[inline]
    fn judge_those_due(&mut self, book: &Book, now: u64, findings: &mut Findings) {
        if !self.due.is_empty() {
            self.judge_the_first(book, now, findings);
        }
    }

    /// Whoever owes an answer when its limit has passed is late.
    fn judge_the_first(&mut self, book: &Book, now: u64, findings: &mut Findings) {
        while let Some(&(until, id, call)) = self.due.first().filter(|(until, ..)| until + LATE_NS < now) {
            self.due.pop_first();
            if self.still.contains(&id) || self.calls.get(&(id, call)).is_none_or(|here| here.last > until) {
                continue;
            }
            if let (true, Some(here)) = (book.has_forwarded(id, call), self.calls.get_mut(&(id, call)))
                && !std::mem::replace(&mut here.waits, true)
                && let Some((_, most)) = book.time_for_reports(id, call)
            {
                here.last += most;
                self.due.insert((here.last, id, call));
                continue;
            }
            let Some(here) = self.calls.remove(&(id, call)) else { continue };
            if here.askers.is_empty() {
                // It has told all who asked, perhaps of a reply that is still arriving: until nothing more can come of that.
                let held = self.held.get(&id).copied().unwrap_or_default();
                self.holds_more(id, held, findings);
            }
            for asker in here.askers {
                findings.add(
                    NAME,
                    format!(
                        "id {id} has not answered {asker} when the limit of call {call} has passed there"
                    ),
                );
            }
        }
    }

    /// After an input an id holds no call whose limit has passed.
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

    /// What is wrong with the limit that a request gives a child.
    fn kept_back(&self, from: Id, request: &Request, now: u64) -> Option<String> {
        let (call, child) = (request.call, request.ids.first()?);
        let here = self.calls.get(&(from, call))?;
        if here.requests == 1 && here.first < now {
            return Some(format!("asks {child} in call {call} with no time left"));
        }
        let (left, given) = (here.first.saturating_sub(now), nanos(request));
        (here.requests == 1 && left.abs_diff(given) > LATE_NS).then(|| {
            format!("gives {child} a limit of {given} ns in call {call}, of which {left} ns are left")
        })
    }

    /// Whether a call ends for want of time before its time has passed.
    fn early(&self, book: &Book, call: CallId, cause: Option<&Cause>, now: u64) -> Option<String> {
        let record = book.calls.get(&call)?;
        let (limit, took) = (record.plan.limit_ns, now - record.started);
        let kept = LATE_NS * (1 + u64::from(record.depth));
        let of_time = cause.is_some_and(|cause| cause.kind == CauseKind::TimeLimit);
        (of_time && took + kept < limit)
            .then(|| format!("call {call} ends after {took} ns because its time limit of {limit} has passed"))
    }
}

/// Whether an id has not taken on what it was asked, for whatever reason.
fn refuses(from: Id, response: &Response) -> bool {
    takes_no_more(from, response) || is_refusal(from, response)
}

/// What is wrong with a call that is done after its limit.
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

/// The limit of a request.
fn nanos(request: &Request) -> u64 {
    in_nanos(request.limit)
}

fn in_nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
