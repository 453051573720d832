//! Checks that no id waits without reason. An id answers by the end of the input after which func has ended, all
//! children have answered or are lost, and a worker is free. A func begins when its class has a free worker, and
//! continues when all its data have arrived. Each asking id gets an answer or MOVED, or it cancels, or it loses the
//! link. No id fails a call that is fully answered or over. At an id, a class runs at most as many functions as it has
//! workers, and never two of one call. A root names the workers that its calls still need, until func has ended and no
//! callback can follow.
//!
//! Waits are recorded in small worlds only: for a million ids they would need more memory than the nodes.

use std::collections::{BTreeMap, BTreeSet};

use gpc_trees::Id;

use super::book::Book;
use super::findings::Findings;
use super::record::Record;
use super::refusing::is_refusal;
use super::{FunctionEnd, Observation, Outcome};
use crate::classes::{class_of, classes_of};
use crate::large::LARGE;
use crate::ranges::{NAMES, forget, forget_keys};
use chained_gpc::chain::Work;
use chained_gpc::wire::message::{Answer, Response};
use chained_gpc::wire::{CallId, Cause, CauseKind, Message, Stage};

const NAME: &str = "progress";

/// How early an id may give up others: frames carry limits in whole microseconds.
const EARLY_NS: u64 = 2_000;

/// One call at one id.
#[derive(Default)]
struct CallProgress {
    /// The call started at this id, and has not ended.
    open_root: bool,
    /// func has ended, except for a deferred reply.
    ran: bool,
    /// A function of it ended, or gave its deferred reply, after the time limit.
    outlasted: bool,
    /// Number of tokens kept, and of tokens used.
    kept: u32,
    used: u32,
    jobs: u32,
    /// Ids that were asked and have not answered.
    awaited: Vec<Id>,
    /// Ids that have answered without failure, and whether that was after the time limit.
    well: Vec<(Id, bool)>,
    /// Limit of the first request; 0 if unknown.
    until: u64,
    /// Ids that have asked and have no answer.
    owed: Vec<Id>,
    /// Receiver of its answer; and ids whose streaming replies still arrive.
    given: Option<Id>,
    streaming: Vec<Id>,
    /// An id below has failed.
    failed_below: bool,
    /// Sender of all its data, if they came in pieces.
    whole: Option<Id>,
    /// Ids that have asked; and those that were answered or asked twice, whose data no longer count.
    asked: Vec<Id>,
    again: Vec<Id>,
}

impl CallProgress {
    /// Whether nothing delays its answer.
    fn is_through(&self) -> bool {
        self.ran && self.used >= self.kept && self.jobs == 0 && self.awaited.is_empty()
    }

    /// Whether func can continue: all data from the sender that awaits the answer have arrived.
    fn may_go_on(&self) -> bool {
        !self.ran && self.jobs == 0 && self.whole.is_some_and(|from| self.owed == [from])
    }

    /// Whether its time limit has passed.
    fn is_late(&self, now: u64) -> bool {
        self.until > 0 && now >= self.until
    }

    /// Whether an id with a streaming reply is before this one in the list, which has one, too.
    fn is_behind(&self, record: &Record, id: Id) -> bool {
        let place = record.position(id);
        self.streaming.contains(&id) && self.streaming.iter().any(|other| record.position(*other) < place)
    }

    fn awaits(&self, child: Id) -> bool {
        self.owes() & self.awaited.contains(&child)
    }

    fn owes(&self) -> bool {
        self.open_root || !self.owed.is_empty()
    }

    /// Whether the ids below should have been asked and none was: func has ended or deferred, or runs after forwarding.
    /// Under limits the list may be too long for this id.
    fn is_to_ask(&self, book: &Book, id: Id, call: CallId) -> bool {
        if !self.owes() || book.has_forwarded(id, call) || book.limits.is_some() {
            return false;
        }
        let Some(record) = book.calls.get(&call).filter(|record| !book.may_run_anew(record)) else {
            return false;
        };
        let place = record.position(id).filter(|place| !record.is_forged(*place));
        let below = place.map_or(0, |place| record.sizes[place as usize] - 1);
        // On the fast path they are asked after func has run.
        below > 0 && self.jobs == 0 && (self.ran || record.plan.forward_first)
    }
}

/// State of all calls in flight.
#[derive(Default)]
pub(super) struct Progress {
    /// Calls that are checked; none after a large one has started.
    watched: BTreeSet<CallId>,
    /// Whether a large one has started.
    blind: bool,
    /// The partial ones among them, in which an id may have to answer more than once.
    partial: BTreeSet<CallId>,
    calls: BTreeMap<(Id, CallId), CallProgress>,
    /// By id and class of workers.
    running: BTreeMap<(Id, u8), usize>,
    /// Calls whose requests have data, which may arrive later.
    with_data: BTreeSet<CallId>,
    /// Calls that have begun at an id: a repeated request of an adopter starts nothing.
    begun: BTreeSet<(Id, CallId)>,
    /// Calls in which callback is running, not func.
    merging: BTreeSet<(Id, CallId)>,
}

impl Progress {
    #[inline(always)]
    pub(super) fn observe(&mut self, book: &Book, seen: &Observation<'_>, findings: &mut Findings) {
        match seen {
            Observation::Started { call, plan } if !self.blind && plan.ids.len() <= LARGE => {
                self.watched.insert(*call);
                self.partial.extend(Some(*call).filter(|_| plan.partial));
                self.with_data.extend(Some(*call).filter(|_| plan.data_bytes > 0));
                let until = findings.at.saturating_add(plan.limit_ns);
                let state =
                    || CallProgress { open_root: true, ran: plan.watch, until, ..CallProgress::default() };
                let root = plan.ids.first();
                root.into_iter().for_each(|root| drop(self.calls.insert((root, *call), state())));
            }
            // Ids run functions that are not counted here, so their free workers are unknown.
            Observation::Started { .. } => *self = Progress { blind: true, ..Progress::default() },
            _ if self.watched.is_empty() => {}
            Observation::Finished { call, outcome } => self.finished(book, *call, outcome, findings),
            Observation::Job { .. } | Observation::Began { .. } | Observation::Ran { .. } => {
                self.runs(book, seen, findings);
            }
            Observation::HeadDropped { at, from, call }
                if self.calls.get(&(*at, *call)).is_some_and(|state| state.awaits(*from)) =>
            {
                let what = format!(
                    "id {at} awaits {from} in call {call}, and does not take its reply in, or not whole"
                );
                findings.add(NAME, what);
            }
            Observation::DataCame { at, from, call } => self.data_came(*at, *from, *call),
            Observation::TokenUsed { id, call } => {
                let state = self.calls.get_mut(&(*id, *call));
                state.into_iter().for_each(|state| {
                    state.used += 1;
                    state.outlasted |= state.is_late(findings.at);
                });
            }
            Observation::Sent { from, to, message } => {
                let wrong = self.blames_in(book, *from, message, findings.at);
                let wrong = wrong.or_else(|| self.sent(*from, *to, message));
                wrong.into_iter().for_each(|what| findings.add(NAME, format!("id {from} {what}")));
            }
            Observation::Received { at, from, message } => self.received(*at, *from, message, findings.at),
            Observation::LinkEnded { at, peer, .. } | Observation::Abandoned { at, peer } => {
                for (_, state) in self.at(*at) {
                    state.awaited.retain(|id| id != peer);
                    state.owed.retain(|id| id != peer);
                }
            }
            Observation::Ended { id } => {
                forget(&mut self.calls, (*id, NAMES[0])..=(*id, NAMES[1]));
                forget(&mut self.running, (*id, 0)..=(*id, u8::MAX));
                for calls in [&mut self.begun, &mut self.merging] {
                    forget_keys(calls, (*id, NAMES[0])..=(*id, NAMES[1]));
                }
            }
            Observation::Held { id, held, workers } => {
                self.check_workers(*id, *workers, findings);
                if !held.goes_on {
                    self.judge(book, *id, *workers, findings);
                }
            }
            Observation::Involved { id, with } => self.involves(book, *id, with, findings),
            Observation::Needs { call, classes } => self.needs(book, *call, *classes, findings),
            Observation::Quiet { .. } => self.all_are_answered(findings),
            _ => {}
        }
    }

    /// Checks at the end of a run that every request has an answer.
    fn all_are_answered(&self, findings: &mut Findings) {
        for ((id, call), state) in &self.calls {
            for requester in &state.owed {
                let what = format!("id {id} never answers {requester}, which sent it call {call}");
                findings.add(NAME, what);
            }
        }
    }

    /// Handles a function that is given out, begins or ends.
    fn runs(&mut self, book: &Book, seen: &Observation<'_>, findings: &mut Findings) {
        match seen {
            Observation::Job { id, job } => {
                if matches!(job.work, Work::Callback { .. }) {
                    self.merging.insert((*id, job.call));
                }
            }
            Observation::Began { id, call, .. } => {
                *self.running.entry((*id, self.class_that_runs(*id, *call))).or_default() += 1;
                self.begun.insert((*id, *call));
                let Some(state) = self.calls.get_mut(&(*id, *call)) else { return };
                state.jobs += 1;
                // Nodes forget the calls of a root when its run ends; their functions continue.
                let anew = book.calls.get(call).is_some_and(|record| book.may_run_anew(record));
                if state.jobs > 1 && !anew {
                    findings.add(NAME, format!("id {id} runs two functions of call {call} at once"));
                }
            }
            Observation::Ran { id, call, end } => {
                let class = self.class_that_runs(*id, *call);
                let running = self.running.entry((*id, class)).or_default();
                *running = running.saturating_sub(1);
                self.merging.remove(&(*id, *call));
                let Some(state) = self.calls.get_mut(&(*id, *call)) else { return };
                state.jobs = state.jobs.saturating_sub(1);
                state.kept += u32::from(*end == FunctionEnd::Deferred);
                state.ran |= *end != FunctionEnd::Unfinished;
                state.outlasted |= state.is_late(findings.at);
            }
            _ => {}
        }
    }

    /// Class of workers of a function that begins or runs.
    fn class_that_runs(&self, id: Id, call: CallId) -> u8 {
        let classes = classes_of(call);
        if self.merging.contains(&(id, call)) { classes.callback } else { classes.func }
    }

    /// Handles complete data of a request; they count if it is the sender's first.
    fn data_came(&mut self, at: Id, from: Id, call: CallId) {
        let state = self.calls.get_mut(&(at, call)).filter(|state| !state.again.contains(&from));
        state.into_iter().for_each(|state| state.whole = Some(from));
    }

    /// Calls at an id.
    fn at(&mut self, id: Id) -> impl Iterator<Item = (CallId, &mut CallProgress)> {
        self.calls.range_mut((id, NAMES[0])..=(id, NAMES[1])).map(|((_, call), state)| (*call, state))
    }

    fn finished(&mut self, book: &Book, call: CallId, outcome: &Outcome, findings: &mut Findings) {
        let failed = outcome.result.as_ref().err().map(|failure| &failure.cause);
        let left_out = outcome.report.iter().flat_map(|report| &report.causes);
        let mut causes = failed.into_iter().chain(left_out);
        let wrong = causes.find_map(|cause| self.blames(book, call.root, call, cause, findings.at));
        wrong.into_iter().for_each(|what| findings.add(NAME, format!("id {} {what}", call.root)));
        self.calls.retain(|(_, of), state| *of != call || !std::mem::take(&mut state.open_root));
    }

    /// Checks the causes in an answer.
    fn blames_in(&self, book: &Book, from: Id, message: &Message, now: u64) -> Option<String> {
        let Message::Response(Response { call, answer }) = message else { return None };
        let causes = match answer {
            Answer::Failed(failure) => std::slice::from_ref(&failure.cause),
            Answer::Partial(partial) => &partial.report.causes[..],
            _ => return None,
        };
        causes.iter().find_map(|cause| self.blames(book, from, *call, cause, now))
    }

    /// Checks the cause that an id gives when the time limit has passed. The cause is wrong if it names the id's own
    /// function, and that has ended. In a whole call it is wrong if it names a child that has answered, or that still
    /// has time to report.
    fn blames(&self, book: &Book, id: Id, call: CallId, cause: &Cause, now: u64) -> Option<String> {
        let state = self.calls.get(&(id, call)).filter(|_| cause.kind == CauseKind::TimeLimit)?;
        let record = book.calls.get(&call)?;
        let of_others = (cause.id, cause.stage) != (id, Stage::Func);
        if book.may_run_anew(record) || record.plan.partial && of_others {
            return None;
        }
        let through = state.ran && state.used >= state.kept && state.jobs == 0 && !state.outlasted;
        let whom = match cause.stage {
            Stage::Func if cause.id == id && through => "its func, which is through",
            Stage::Callback if cause.id == id && !state.ran => "its callback, and func is not through",
            Stage::Reply if cause.id == id && state.given.is_none() => "itself, and has not begun to answer",
            Stage::Reply if state.well.contains(&(cause.id, false)) => "somebody below who has answered",
            Stage::Reply if state.well.contains(&(cause.id, true)) && !state.awaited.is_empty() => {
                "somebody below who has answered, while others are silent"
            }
            Stage::Reply
                if state.awaited.contains(&cause.id)
                    && book
                        .time_for_reports(id, call)
                        .is_some_and(|(least, _)| now + EARLY_NS < state.until + least) =>
            {
                "somebody below who has time left to report"
            }
            Stage::Reply if state.streaming.contains(&cause.id) && !state.awaited.is_empty() => {
                "somebody below who is answering, while others are silent"
            }
            // Data are sent in list order.
            Stage::Reply
                if !state.failed_below && state.given.is_some() && state.is_behind(record, cause.id) =>
            {
                "somebody below whose data are not the next to go up"
            }
            _ => return None,
        };
        Some(format!("blames {whom}, for the time limit of call {call}: {cause}"))
    }

    fn sent(&mut self, from: Id, to: Id, message: &Message) -> Option<String> {
        match message {
            Message::Request(request) => {
                let state = self.calls.get_mut(&(from, request.call));
                state.into_iter().for_each(|state| state.awaited.push(to));
            }
            Message::Response(response) => {
                let call = response.call;
                let state = self.calls.get_mut(&(from, call));
                let open = state.is_some_and(|state| {
                    if matches!(response.answer, Answer::Arriving(_)) {
                        state.given = Some(to);
                    }
                    state.owed.contains(&to) || state.given.is_some() && !state.streaming.is_empty()
                });
                self.answered(from, to, call);
                // An id that refuses a second parent continues for the first.
                let ends = matches!(response.answer, Answer::Failed(_)) && !is_refusal(from, response);
                if let Some(state) = self.calls.get_mut(&(from, call)).filter(|_| ends) {
                    state.streaming.clear();
                }
                let failed = matches!(response.answer, Answer::Failed(_))
                    && self.watched.contains(&call)
                    && !self.partial.contains(&call);
                return (failed && !open)
                    .then(|| format!("fails call {call}, of which it has nothing more to say"));
            }
            Message::Moved(call) => self.answered(from, to, *call),
            _ => {}
        }
        None
    }

    /// An id has reported the outcome of a request to the id that asked.
    fn answered(&mut self, id: Id, requester: Id, call: CallId) {
        let state = self.calls.get_mut(&(id, call));
        state.into_iter().for_each(|state| {
            state.owed.retain(|owed| *owed != requester);
            // Its data may still arrive, but no longer count.
            state.whole.take_if(|whole| *whole == requester);
            if !state.again.contains(&requester) {
                state.again.push(requester);
            }
        });
    }

    fn received(&mut self, at: Id, from: Id, message: &Message, now: u64) {
        match message {
            Message::Request(request) if self.watched.contains(&request.call) => {
                let limit = u64::try_from(request.limit.as_nanos()).unwrap_or(u64::MAX);
                let new = || CallProgress { until: now.saturating_add(limit), ..CallProgress::default() };
                let state = self.calls.entry((at, request.call)).or_insert_with(new);
                // An answer in flight also answers a copied request.
                let is_answered = (state.given == Some(from)) & !state.streaming.is_empty();
                if !state.owed.contains(&from) && !is_answered {
                    state.owed.push(from);
                }
                match state.asked.contains(&from) {
                    true => state.again.push(from),
                    false => state.asked.push(from),
                }
            }
            Message::Response(response) => {
                let state = self.calls.get_mut(&(at, response.call));
                state.into_iter().for_each(|state| {
                    let awaited = state.awaited.contains(&from) || state.streaming.contains(&from);
                    let more = matches!(response.answer, Answer::Failed(_) | Answer::Arriving(_));
                    let late = state.is_late(now);
                    state.well.extend(Some((from, late)).filter(|_| awaited && !more));
                    state.awaited.retain(|id| *id != from);
                    match &response.answer {
                        Answer::Arriving(_) => state.streaming.push(from),
                        // Now this id must fail.
                        Answer::Failed(_) => state.failed_below = true,
                        _ => state.streaming.retain(|id| *id != from),
                    }
                });
            }
            Message::Cancel(call) => {
                // The cancel of a refused second parent does not end the call.
                let state = self.calls.get_mut(&(at, *call));
                let state = state.filter(|state| state.owed.contains(&from) || state.given == Some(from));
                state.into_iter().for_each(|state| state.streaming.clear());
                self.answered(at, from, *call);
            }
            _ => {}
        }
    }

    /// Checks the involved ids: those that have asked for a call in flight, and those that were asked and have not
    /// answered completely.
    fn involves(&mut self, book: &Book, id: Id, with: &BTreeSet<Id>, findings: &mut Findings) {
        // If a cancelled call starts anew, the ids asked before are no longer involved.
        let anew = |call: &CallId| book.calls.get(call).is_some_and(|record| book.may_run_anew(record));
        let open = self.at(id).filter(|(call, state)| state.owes() && !anew(call));
        let part = open.flat_map(|(call, state)| {
            state.owed.iter().chain(&state.awaited).chain(&state.streaming).map(move |other| (call, *other))
        });
        let left: Vec<(CallId, Id)> = part.filter(|(_, other)| !with.contains(other)).collect();
        for (call, other) in left {
            findings.add(NAME, format!("id {id} does not count {other} as one that has part in call {call}"));
        }
    }

    /// Checks the workers that a call still needs: those of func until it has ended, and those of callback until the
    /// call ends. A function on such a worker that waits for the call would wait forever.
    fn needs(&self, book: &Book, call: CallId, classes: u64, findings: &mut Findings) {
        let state = self.calls.get(&(call.root, call)).filter(|state| state.open_root);
        let Some((state, record)) = state.zip(book.calls.get(&call)) else { return };
        let callback = record.plan.callback && record.plan.ids.len() > 1;
        let of = classes_of(call);
        let bit = |needed: bool, class: u8| u64::from(needed) << class;
        let merges = bit(callback, of.callback);
        // The root's own part of a partial call may be over before the call is.
        let late = state.is_late(findings.at);
        let must = merges | bit(!state.ran && !late, of.func);
        let may = must | bit(!state.ran || state.used < state.kept, of.func);
        if classes & must != must || classes & !may != 0 {
            findings
                .add(NAME, format!("id {} says that call {call} needs the workers {classes:#b}", call.root));
        }
    }

    /// Functions running at an id, by class.
    fn running(&self, id: Id) -> [usize; 2] {
        [0, 1].map(|class| self.running.get(&(id, class)).copied().unwrap_or_default())
    }

    /// Checks that an id runs at most as many functions as it has workers.
    fn check_workers(&self, id: Id, workers: [usize; 2], findings: &mut Findings) {
        for (running, workers) in self.running(id).iter().zip(workers) {
            if *running > workers {
                findings.add(NAME, format!("id {id} runs {running} functions and has {workers} workers"));
            }
        }
    }

    /// Judges an id that has done everything at this time.
    fn judge(&mut self, book: &Book, id: Id, workers: [usize; 2], findings: &mut Findings) {
        let running = self.running(id);
        let (mut settled, mut idle): (Vec<CallId>, Vec<CallId>) = (Vec::new(), Vec::new());
        let partial = std::mem::take(&mut self.partial);
        for (call, state) in self.at(id) {
            let spare = |class: u8| running[usize::from(class)] < workers[usize::from(class)];
            let (func, both) =
                (spare(class_of(call)), spare(class_of(call)) && spare(classes_of(call).callback));
            let late = state.is_late(findings.at);
            if state.owes() && !state.ran && state.jobs == 0 && func && !late {
                idle.push(call);
            }
            if state.is_to_ask(book, id, call) {
                findings.add(
                    NAME,
                    format!("func of call {call} is through at id {id}, or waits for nobody, and those below are not asked"),
                );
            }
            if state.may_go_on() && func && !late {
                findings
                    .add(NAME, format!("id {id} has all data of call {call}, and its func does not go on"));
            }
            match (state.is_through(), state.owes()) {
                // If the call starts anew, state of the first time is left, and func is still to run.
                (true, true) if book.calls.get(&call).is_some_and(|record| book.may_run_anew(record)) => {}
                (true, true) if both => {
                    findings
                        .add(NAME, format!("id {id} waits for nothing in call {call}, and does not answer"));
                }
                // In a partial call with a lost parent, func is still to run, and an adopter will ask.
                (_, false) if partial.contains(&call) && !state.ran => {}
                // An unused token of func still counts when an adopter asks.
                (_, false) if state.used < state.kept => {}
                (_, false) if state.jobs == 0 && state.awaited.is_empty() && state.streaming.is_empty() => {
                    settled.push(call)
                }
                _ => {}
            }
        }
        self.partial = partial;
        settled.into_iter().for_each(|call| drop(self.calls.remove(&(id, call))));
        // Before the first function of an id, it is unknown whether its functions are observed.
        let seen = (0..=1).any(|class| self.running.contains_key(&(id, class)));
        let begun = |call: &CallId| self.begun.contains(&(id, *call)) || self.with_data.contains(call);
        for call in idle.into_iter().filter(|call| seen && !begun(call)) {
            findings.add(NAME, format!("id {id} has a worker for call {call}, and does not execute it"));
        }
    }
}
