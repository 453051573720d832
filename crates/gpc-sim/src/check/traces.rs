//! Checks the trace of a call that ends well: the durations of each id are those that the world has observed, in
//! virtual time. Those of an id that is done are there, unless a limit or a malformed answer excuses it. An id that was
//! never reached has none.

use gpc_trees::Id;
use smallvec::SmallVec;

use super::book::Book;
use super::findings::Findings;
use super::record::Record;
use super::{FunctionEnd, Observation, Outcome};
use crate::by_call::ByCall;
use chained_gpc::chain::Work;
use chained_gpc::wire::message::{Answer, Response};
use chained_gpc::wire::trace::{IdTimes, entries};
use chained_gpc::wire::{CallId, Message, Span, Status};

const NAME: &str = "traces";

/// Durations up to this are exact in a trace; longer ones are rounded down to [`UNIT_NS`].
const EXACT_NS: u64 = 1 << 31;
const UNIT_NS: u64 = 16_000;

/// Times of something that happens once at an id, unless faults repeat it.
type Moments = SmallVec<[u64; 1]>;

/// What a world has observed of a call at one id.
#[derive(Default)]
struct Observed {
    came: Moments,
    func_began: Moments,
    func_ended: Moments,
    /// Time of all callbacks together, and when the running one began.
    callbacks_ns: u64,
    merging: Option<u64>,
    /// Number of callbacks that have ended.
    callbacks: u64,
    answered: Moments,
    /// Positions at which its answers have arrived, and when.
    heard: SmallVec<[(u32, u64); 1]>,
    /// A function has deferred its reply, or given it: then the end of the function and of its work differ. A reply
    /// that is given before the function ends counts from that end.
    deferred: bool,
    given: bool,
}

/// The traced calls of a world, by position; nothing of those that have ended.
#[derive(Default)]
pub(super) struct Traces {
    calls: ByCall<Vec<Observed>>,
}

impl Traces {
    #[inline(always)]
    pub(super) fn observe(&mut self, book: &Book, seen: &Observation<'_>, findings: &mut Findings) {
        let now = findings.at;
        match seen {
            Observation::Started { call, plan } if plan.carries.trace => {
                let mut observed: Vec<Observed> = plan.ids.iter().map(|_| Observed::default()).collect();
                observed.iter_mut().take(1).for_each(|root| root.came.push(now));
                self.calls.insert(*call, observed);
            }
            Observation::Finished { call, outcome } => {
                let observed = self.calls.get_mut(call).map(std::mem::take);
                let record = book.calls.get(call);
                let wrong = record.and_then(|record| judge(book, record, *call, outcome, observed, now));
                wrong.into_iter().for_each(|what| findings.add(NAME, what));
            }
            _ if self.calls.len() == 0 => {}
            Observation::Received { at, message: Message::Request(request), .. } => {
                self.at(book, request.call, *at).into_iter().for_each(|it| it.came.push(now));
            }
            Observation::Received { at, from, message: Message::Response(response) } => {
                let place = book.calls.get(&response.call).and_then(|record| record.position(*at));
                let it = self.at(book, response.call, *from).filter(|_| has_trace(response));
                it.zip(place).into_iter().for_each(|(it, place)| it.heard.push((place, now)));
            }
            Observation::Sent { from, message: Message::Response(response), .. } if has_trace(response) => {
                self.at(book, response.call, *from).into_iter().for_each(|it| it.answered.push(now));
            }
            Observation::Job { id, job } => {
                let Some(it) = self.at(book, job.call, *id) else { return };
                match job.work {
                    Work::Func => it.func_began.push(now),
                    Work::More(_) => {}
                    Work::Callback { .. } => it.merging = Some(now),
                }
            }
            Observation::Ran { id, call, end } => {
                self.at(book, *call, *id).into_iter().for_each(|it| it.ran(*end, now));
            }
            Observation::TokenUsed { id, call } => {
                let Some(it) = self.at(book, *call, *id) else { return };
                it.given = true;
                it.func_ended.push(now);
            }
            _ => {}
        }
    }

    fn at(&mut self, book: &Book, call: CallId, id: Id) -> Option<&mut Observed> {
        let observed = self.calls.get_mut(&call)?;
        observed.get_mut(book.calls.get(&call)?.position(id)? as usize)
    }
}

impl Observed {
    fn ran(&mut self, end: FunctionEnd, now: u64) {
        match (end, self.merging) {
            (FunctionEnd::Unfinished, _) => {}
            (FunctionEnd::Deferred, _) => {
                self.deferred = true;
                self.func_ended.extend(self.given.then_some(now));
            }
            (_, None) => self.func_ended.push(now),
            (_, Some(since)) => {
                self.merging = None;
                self.callbacks_ns += now - since;
                self.callbacks += 1;
            }
        }
    }

    /// Returns the violation in the times that a trace has of this id. `is_done` is whether the id has done its part.
    fn differs(&self, times: &IdTimes, is_done: bool, all: &[Observed]) -> Option<String> {
        let since_it_came = |span: Span, moments: &Moments| {
            self.came.iter().any(|came| moments.iter().any(|at| is(span, *came, *at)))
        };
        if !since_it_came(times.total, &self.answered) {
            return Some(format!("answered after {:?}, not at {:?}", times.total, self.answered));
        }
        if times.began == Span::NONE && is_done && !self.func_began.is_empty() {
            return Some("has no time at which func began".into());
        }
        if times.began != Span::NONE && !since_it_came(times.began, &self.func_began) {
            return Some(format!("began func after {:?}, not at {:?}", times.began, self.func_began));
        }
        if times.func == Span::NONE && is_done && !self.func_ended.is_empty() {
            return Some("has no duration of func".into());
        }
        // Begin and end are rounded, each since the request came.
        let rounded = if self.total_ns() < EXACT_NS { 0 } else { 2 * UNIT_NS };
        let func_ns = times.func.nanos().unwrap_or_default();
        let ended = |began: &u64| {
            let lasted = |ended: &u64| ended.checked_sub(*began);
            let mut lasted = self.func_ended.iter().filter_map(lasted);
            lasted.any(|lasted| func_ns.abs_diff(lasted) <= rounded)
        };
        if times.func != Span::NONE && !self.func_began.iter().any(ended) {
            return Some(format!("ran func for {:?}, not until {:?}", times.func, self.func_ended));
        }
        let once = !self.deferred && self.func_began.len() <= 1 && is_done;
        let callbacks = times.callbacks.nanos().unwrap_or_default();
        if once && callbacks.abs_diff(self.callbacks_ns) > rounded * (self.callbacks + 1) {
            return Some(format!("merged for {callbacks} ns, not for {}", self.callbacks_ns));
        }
        let heard = |(place, at): &(u32, u64)| {
            let parent = all.get(*place as usize);
            parent.is_some_and(|parent| parent.came.iter().any(|came| is(times.answered, *came, *at)))
        };
        let is_root = times.answered == Span::NONE && self.heard.is_empty();
        (!is_root && !self.heard.iter().any(heard)).then(|| {
            format!("has an answer that arrived after {:?}, not at {:?}", times.answered, self.heard)
        })
    }

    fn total_ns(&self) -> u64 {
        let first = self.came.first().copied().unwrap_or_default();
        self.answered.last().map_or(0, |answered| answered.saturating_sub(first))
    }
}

/// Whether a span lasts from one time to another.
fn is(span: Span, from: u64, to: u64) -> bool {
    let Some((nanos, lasted)) = span.nanos().zip(to.checked_sub(from)) else { return false };
    // The ends of a long duration are rounded, one by one.
    nanos == lasted || nanos.abs_diff(lasted) < 2 * UNIT_NS && lasted + 2 * UNIT_NS >= EXACT_NS
}

fn has_trace(response: &Response) -> bool {
    matches!(response.answer, Answer::Reply(_) | Answer::Partial(_))
}

/// Returns the violation in the trace of a call that has ended.
fn judge(
    book: &Book,
    record: &Record,
    call: CallId,
    outcome: &Outcome,
    observed: Option<Vec<Observed>>,
    now: u64,
) -> Option<String> {
    let Ok(reply) = &outcome.result else { return None };
    let trace = reply.as_ref().map(|reply| &reply.trace).filter(|trace| !trace.is_empty());
    let Some(mut observed) = observed else {
        return trace.map(|_| format!("call {call} has times, and its caller asked for none"));
    };
    observed.iter_mut().take(1).for_each(|root| root.answered.push(now));
    // A trace that finds no room is left out. A malformed answer has none, and neither has one to a copied request.
    let excused = book.limits.is_some() || record.has_malformed() || record.garbled || record.has_forgers();
    let Some(trace) = trace else {
        return (record.plan.reply_wanted && !excused)
            .then(|| format!("call {call} succeeded, and the times of its ids are missing"));
    };
    let times: Vec<IdTimes> = entries(trace).collect();
    if times.len() != observed.len() {
        return Some(format!(
            "call {call} has times of {} ids, and there are {}",
            times.len(),
            observed.len()
        ));
    }
    let watches = record.plan.watch.then_some(Status::Done);
    let statuses = outcome.report.iter().flat_map(|report| report.coverage.statuses());
    let mut statuses = watches.into_iter().chain(statuses);
    let ids = record.plan.ids.iter().zip(&times).zip(&observed).enumerate();
    for (place, ((id, times), it)) in ids {
        let status = if outcome.report.is_some() { statuses.next()? } else { Status::Done };
        let is_done = status == Status::Done;
        let what = match *times == IdTimes::NONE {
            true if is_done && !excused => Some("is done, and has no times".into()),
            true => None,
            false if status == Status::Unreached && !excused => Some("is unreached, and has times".into()),
            false if place == 0 && times.answered != Span::NONE => {
                Some("is the root, and its answer arrived at a parent".into())
            }
            false => it.differs(times, is_done && !(place == 0 && record.plan.watch), &observed),
        };
        if let Some(what) = what {
            return Some(format!("in the trace of call {call}, id {id} {what}"));
        }
    }
    None
}
