//! Checks the statuses that ids report. An id reports as done every id that has been reported to it as done. An id
//! counts as failed only if it has reported its own failure. A child whose whole answer has arrived is not blamed.
//!
//! Each id is judged by what it received and what it sends up. An answer counts if its sender was awaited; of a child
//! given up before, the parent reports nothing.

use std::collections::{BTreeMap, BTreeSet};

use gpc_trees::Id;

use super::book::Book;
use super::findings::Findings;
use super::record::Record;
use super::refusing::is_refusal;
use super::{FunctionEnd, Observation, Outcome};
use crate::faults::Fault;
use crate::large::LARGE;
use crate::ranges::{NAMES, forget, forget_keys};
use chained_gpc::wire::level::{Leaves, Limits};
use chained_gpc::wire::message::{Answer, Response};
use chained_gpc::wire::report::CAUSES_MAX;
use chained_gpc::wire::{CallId, Cause, CauseKind, Coverage, Failure, Message, Payload, Stage, Status};

const NAME: &str = "statuses";

/// Faults after which func has not succeeded at its id.
const OF_FUNC: [Fault; 5] = [Fault::Fail, Fault::Panic, Fault::Twice, Fault::Hang, Fault::LongReply];

/// What an id knows of a call.
#[derive(Default)]
struct Knowledge {
    /// Ids whose answers it awaits.
    awaited: BTreeSet<Id>,
    /// Positions that have answered, each with the coverage of its subtree; `None` if all are done.
    heard: Vec<(u32, Option<Coverage>)>,
    /// Ids whose streaming replies still arrive: all ids there count as done until one fails.
    streaming: BTreeSet<Id>,
    /// Its own answer has started to go up.
    gives: bool,
    /// Ids that have answered without failure.
    well: BTreeSet<Id>,
    /// Causes reported to it; with the position of the reporting id, if a report of a partial call named it.
    causes: Vec<(Option<u32>, Cause)>,
    /// Ids to which no link came up since they were asked.
    unreached: BTreeSet<Id>,
    /// Its own func has succeeded.
    ran: bool,
    /// Positions whose last values callback cannot take.
    unreadable: BTreeSet<u32>,
}

/// What all ids know of all calls.
#[derive(Default)]
pub(super) struct Statuses {
    calls: BTreeMap<(Id, CallId), Knowledge>,
    /// Ids that have answered: a later event there does not concern a repeated answer.
    answered: BTreeSet<(Id, CallId)>,
    /// Ids that have reported their own failure.
    failed: BTreeSet<(CallId, Id)>,
    /// Where func of a call has executed; where functions of it are observed; where it has ended or given its deferred
    /// reply.
    begun: BTreeSet<(Id, CallId)>,
    seen: BTreeSet<(Id, CallId)>,
    through: BTreeSet<(Id, CallId)>,
    /// Where func needs all data of its call: whether they have arrived.
    whole: BTreeMap<(Id, CallId), bool>,
}

impl Statuses {
    #[inline(always)]
    pub(super) fn observe(&mut self, book: &Book, seen: &Observation<'_>, findings: &mut Findings) {
        match seen {
            Observation::Sent { from, to, message: Message::Request(request) } => {
                let small =
                    book.calls.get(&request.call).is_some_and(|record| record.plan.ids.len() <= LARGE);
                if small {
                    self.calls.entry((*from, request.call)).or_default().awaited.insert(*to);
                }
            }
            Observation::Received { at, from, message: Message::Response(response) } => {
                self.heard(book, *at, *from, response, findings.at);
            }
            Observation::Received { at, message: Message::Request(request), .. } => {
                let needs = |record: &Record| {
                    record.plan.ids.len() <= LARGE
                        && !record.plan.carries.as_they_come
                        && !record.has_forgers()
                };
                if book.calls.get(&request.call).is_some_and(needs) {
                    *self.whole.entry((*at, request.call)).or_default() |= request.data.is_whole();
                }
            }
            Observation::DataCame { at, call, .. } => {
                self.whole.get_mut(&(*at, *call)).into_iter().for_each(|whole| *whole = true);
            }
            Observation::Began { id, call, .. } | Observation::Executed { id, call, .. } => {
                let small = book.calls.get(call).is_some_and(|record| record.plan.ids.len() <= LARGE);
                if matches!(seen, Observation::Began { .. }) {
                    self.seen.extend(Some((*id, *call)).filter(|_| small));
                }
                self.begun.extend(Some((*id, *call)).filter(|_| small));
            }
            Observation::TokenUsed { id, call } => drop(self.through.insert((*id, *call))),
            Observation::Ran { id, call, end: FunctionEnd::Through | FunctionEnd::Failed } => {
                let small = book.calls.get(call).is_some_and(|record| record.plan.ids.len() <= LARGE);
                self.through.extend(Some((*id, *call)).filter(|_| small));
                if small && !self.answered.contains(&(*id, *call)) && !book.faults_of(*id).has_any(&OF_FUNC) {
                    self.calls.entry((*id, *call)).or_default().ran = true;
                }
            }
            Observation::LinkEnded { at, peer, unreached } => {
                for (_, knowledge) in self.at(*at) {
                    let asked = knowledge.awaited.remove(peer) && *unreached;
                    knowledge.unreached.extend(asked.then_some(*peer));
                }
            }
            Observation::Abandoned { at, peer } => {
                for (_, knowledge) in self.at(*at) {
                    knowledge.awaited.remove(peer);
                }
            }
            Observation::Sent { from, message: Message::Response(response), .. } => {
                self.answers(book, *from, response, findings);
            }
            Observation::Finished { call, outcome } => self.ends(book, *call, outcome, findings),
            Observation::Ended { id } => {
                let names = (*id, NAMES[0])..=(*id, NAMES[1]);
                forget(&mut self.calls, names.clone());
                forget(&mut self.whole, names.clone());
                for calls in [&mut self.answered, &mut self.begun, &mut self.seen, &mut self.through] {
                    forget_keys(calls, names.clone());
                }
            }
            _ => {}
        }
    }

    /// Calls at an id.
    fn at(&mut self, id: Id) -> impl Iterator<Item = (CallId, &mut Knowledge)> {
        self.calls.range_mut((id, NAMES[0])..=(id, NAMES[1])).map(|((_, call), knowledge)| (*call, knowledge))
    }

    /// Handles an answer that an id receives.
    fn heard(&mut self, book: &Book, at: Id, from: Id, response: &Response, now: u64) {
        let Some(record) = book.calls.get(&response.call) else { return };
        let (Some(knowledge), Some(place)) =
            (self.calls.get_mut(&(at, response.call)), record.position(from))
        else {
            return;
        };
        if let Answer::Failed(failure) = &response.answer
            && is_of_link(from, failure)
        {
            self.failed.insert((response.call, from));
        }
        let whole = |coverage: &Coverage| coverage.len() == u64::from(record.sizes[place as usize]);
        let (awaited, streamed) = (knowledge.awaited.remove(&from), knowledge.streaming.remove(&from));
        knowledge.unreadable.remove(&place);
        if awaited && has_no_values(record, &response.answer) {
            knowledge.unreadable.insert(place);
        }
        if !awaited && !streamed || record.is_malformed(from) {
            return;
        }
        // If this answer shows the root that the limit has passed, the root may end without it.
        let may_be_over = record.root() == Some(at) && now >= record.started + record.plan.limit_ns;
        if may_be_over && !record.plan.partial && !matches!(response.answer, Answer::Failed(_)) {
            return;
        }
        if streamed {
            knowledge.heard.retain(|(of, _)| *of != place);
        }
        if matches!(response.answer, Answer::Arriving(_)) {
            if !record.plan.partial {
                knowledge.streaming.insert(from);
                knowledge.heard.push((place, None));
            }
            return;
        }
        if !matches!(response.answer, Answer::Failed(_)) {
            knowledge.well.insert(from);
        }
        match &response.answer {
            Answer::Completed | Answer::Reply(_) if !record.plan.partial => {
                knowledge.heard.push((place, None))
            }
            Answer::Partial(partial) if record.plan.partial && whole(&partial.report.coverage) => {
                knowledge
                    .causes
                    .extend(partial.report.causes.iter().map(|cause| (Some(place), cause.clone())));
                knowledge.heard.push((place, Some(partial.report.coverage.clone())));
            }
            Answer::Failed(failure) => {
                knowledge.causes.push((None, failure.cause.clone()));
                // If a child fails in a partial call, the ids below it report for themselves.
                if !record.plan.partial && whole(&failure.coverage) {
                    knowledge.heard.push((place, Some(failure.coverage.clone())));
                }
            }
            _ => {}
        }
    }

    /// Handles an answer that an id sends.
    fn answers(&mut self, book: &Book, from: Id, response: &Response, findings: &mut Findings) {
        let call = response.call;
        let Some(record) = book.calls.get(&call) else { return };
        let Some(place) = record.position(from) else { return };
        if record.plan.ids.len() <= LARGE && !is_refusal(from, response) {
            self.answered.insert((from, call));
        }
        let (coverage, causes) = match &response.answer {
            Answer::Partial(partial) => (&partial.report.coverage, &partial.report.causes[..]),
            Answer::Failed(failure) => (&failure.coverage, std::slice::from_ref(&failure.cause)),
            // More may be reported after the head of a reply.
            Answer::Arriving(_) => {
                let knowledge = self.calls.get_mut(&(from, call));
                return knowledge.into_iter().for_each(|knowledge| knowledge.gives = true);
            }
            Answer::Completed | Answer::Reply(_) => return drop(self.calls.remove(&(from, call))),
        };
        if coverage.statuses().next() == Some(Status::Failed) {
            self.failed.insert((call, from));
        }
        // An id that refuses a second parent continues for the first.
        if is_refusal(from, response) {
            return;
        }
        // An id that was given up reports nothing of the ids below.
        let speaks = record.plan.partial == matches!(response.answer, Answer::Partial(_));
        let knowledge = self.calls.remove(&(from, call));
        let reports = matches!(response.answer, Answer::Partial(_));
        let report = NodeReport { id: from, place, coverage, causes, reports };
        let state = self.state_of(from, call, book.may_run_anew(record));
        report.of_itself(record, state).into_iter().for_each(|what| findings.add(NAME, what));
        report.of_its_own_failure(record).into_iter().for_each(|what| findings.add(NAME, what));
        report
            .of_its_data(state, self.whole.get(&(from, call)))
            .into_iter()
            .for_each(|what| findings.add(NAME, what));
        let nobody = !record.plan.partial && !book.has_forwarded(from, call);
        let wrong = report.of_those_not_asked(record).filter(|_| nobody);
        wrong.into_iter().for_each(|what| findings.add(NAME, what));
        // If a cancelled call starts anew, earlier answers do not count.
        let Some(knowledge) = knowledge.filter(|_| speaks && !book.may_run_anew(record)) else { return };
        knowledge.judge(record, &report).into_iter().for_each(|what| findings.add(NAME, what));
    }

    fn state_of(&self, id: Id, call: CallId, anew: bool) -> FuncProgress {
        let at = (id, call);
        let open = self.seen.contains(&at) && !self.through.contains(&at);
        FuncProgress { begun: self.begun.contains(&at), open, anew }
    }

    /// Handles the end of a call at its root.
    fn ends(&mut self, book: &Book, call: CallId, outcome: &Outcome, findings: &mut Findings) {
        let Some(record) = book.calls.get(&call) else { return };
        let Some(root) = record.root() else { return };
        // A root that gives up does not report an earlier lack of memory.
        let knowledge = self.calls.remove(&(root, call)).filter(|_| !book.may_hide_lack(record, outcome));
        let (coverage, causes) = match (&outcome.result, &outcome.report) {
            (Err(failure), _) => (&failure.coverage, std::slice::from_ref(&failure.cause)),
            (Ok(_), Some(report)) => (&report.coverage, &report.causes[..]),
            (Ok(_), None) => return,
        };
        let mut whole = Coverage::new();
        // A root that only watches is not among the ids asked.
        whole.push(Status::Done, u32::from(record.plan.watch));
        whole.append(coverage);
        let reports = outcome.report.is_some();
        let report = NodeReport { id: root, place: 0, coverage: &whole, causes, reports };
        let mut wrong = knowledge.and_then(|knowledge| knowledge.judge(record, &report));
        if !record.plan.watch && wrong.is_none() {
            wrong = report.of_itself(record, self.state_of(root, call, book.may_run_anew(record)));
            wrong = wrong.or_else(|| report.of_its_own_failure(record));
        }
        let members = whole.statuses().zip(record.plan.ids.iter()).skip(1);
        for (_, id) in members.filter(|(status, _)| *status == Status::Failed) {
            // An id with a malformed answer counts as failed without having reported it.
            if !self.failed.contains(&(call, id)) && !record.is_malformed(id) {
                let what = format!("id {id} is said to have failed in call {call}, and has never said so");
                wrong.get_or_insert(what);
            }
        }
        wrong.into_iter().for_each(|what| findings.add(NAME, what));
    }
}

/// Whether the link of an id refuses a request whose ids have not come, or a request or a reply for which it has no
/// memory: the chain of that id does not know.
fn is_of_link(id: Id, failure: &Failure) -> bool {
    let Cause { stage, kind, .. } = failure.cause;
    let refuses = match stage {
        Stage::Setup => failure.coverage.is_empty() || kind == CauseKind::NoMemory,
        Stage::Reply => failure.coverage.is_empty() && kind == CauseKind::NoMemory,
        _ => false,
    };
    failure.cause.id == id && refuses
}

/// Whether callback is to merge this answer, and it holds no values.
fn has_no_values(record: &Record, answer: &Answer) -> bool {
    let Answer::Partial(partial) = answer else { return false };
    let reply = &partial.reply;
    if !record.plan.partial || !record.plan.callback || !record.plan.reply_wanted || reply.level == 0 {
        return false;
    }
    let values = |bytes: &Payload| {
        let bytes = bytes.to_bytes();
        let values = Leaves::new(1, &bytes, Limits::default()).map(|value| value.ok().map(drop));
        values.collect::<Option<Vec<()>>>().map(|values| values.len())
    };
    reply.level > 1 || values(&reply.header).is_none() || values(&reply.header) != values(&reply.data)
}

/// Report of an id at the end of a call.
struct NodeReport<'a> {
    id: Id,
    place: u32,
    coverage: &'a Coverage,
    causes: &'a [Cause],
    /// Whether `causes` holds all causes, not only the first.
    reports: bool,
}

/// Whether a call's func has begun at an id, and whether it has not ended.
#[derive(Clone, Copy)]
struct FuncProgress {
    begun: bool,
    open: bool,
    /// It may have begun in an earlier call of the same name that is over.
    anew: bool,
}

impl NodeReport<'_> {
    /// Checks its own status: a func that has not begun has done nothing, and one without a result is not done.
    fn of_itself(&self, record: &Record, state: FuncProgress) -> Option<String> {
        let own = self.coverage.statuses().next().filter(|_| record.plan.ids.len() <= LARGE);
        let what = match own {
            Some(Status::Unknown) if !state.begun && !record.plan.partial => "has not begun",
            Some(Status::Unreached) if state.begun && !state.anew => "has begun",
            Some(Status::Done) if state.open => "is not through",
            _ => return None,
        };
        Some(format!("func {what} at id {}, and it says of itself that it is {own:?}", self.id))
    }

    /// Checks its own status in a failing whole call: an id that is the cause has failed; an id that only passes a
    /// cause on has not.
    fn of_its_own_failure(&self, record: &Record) -> Option<String> {
        let all = self.coverage.len() == u64::from(record.sizes[self.place as usize]);
        let own = self.coverage.statuses().next();
        let own = own.filter(|_| all && !record.plan.partial && record.plan.ids.len() <= LARGE)?;
        let fails = self.causes.iter().any(|cause| cause.id == self.id && cause.stage != Stage::Cancelled);
        (fails != (own == Status::Failed)).then(|| {
            format!("id {} says of itself that it is {own:?}, and of the call {:?}", self.id, self.causes)
        })
    }

    /// Checks that an id without all data that func needs does not blame func.
    fn of_its_data(&self, state: FuncProgress, whole: Option<&bool>) -> Option<String> {
        let said = self.causes.iter().find(|cause| {
            (cause.id, cause.stage, cause.kind) == (self.id, Stage::Func, CauseKind::TimeLimit)
        })?;
        (!state.begun & (whole == Some(&false)))
            .then(|| format!("id {} has not all of its data, and says of func: {said}", self.id))
    }

    /// Checks that an id that has not forwarded reports the ids below as unreached.
    fn of_those_not_asked(&self, record: &Record) -> Option<String> {
        let below = self.coverage.statuses().skip(1).find(|status| *status != Status::Unreached);
        let below = below.filter(|_| record.plan.ids.len() <= LARGE)?;
        Some(format!("id {} has asked nobody, and says of one below that it is {below:?}", self.id))
    }
}

impl Knowledge {
    /// Describes a status that is worse than what the id knows.
    fn judge(&self, record: &Record, report: &NodeReport<'_>) -> Option<String> {
        let NodeReport { id, place, coverage, causes, .. } = report;
        if coverage.len() != u64::from(record.sizes[*place as usize]) {
            // A coverage of the wrong length reports on no id.
            return None;
        }
        let statuses: Vec<Status> = coverage.statuses().collect();
        let lacks = |kind| causes.iter().any(|cause| cause.id == *id && cause.kind == kind);
        // A reply that is too long is lost completely, with all parts from below. In a partial call, a reply that finds
        // no memory is lost in the same way.
        let no_memory = lacks(CauseKind::NoMemory);
        if no_memory && record.plan.partial {
            return None;
        }
        if let Some(what) = self.failed_is_not_said(record, *place, &statuses) {
            return Some(format!("id {id} {what}"));
        }
        if lacks(CauseKind::OverLimit) {
            return None;
        }
        for (start, known) in &self.heard {
            let end = start + record.sizes[*start as usize];
            let known: Vec<Status> = match known {
                None => vec![Status::Done; (end - start) as usize],
                Some(known) => known.statuses().collect(),
            };
            let worse = (*start..end).zip(known).find(|(position, known)| {
                *known == Status::Done && statuses.get((position - place) as usize) != Some(&Status::Done)
            });
            if let Some((position, _)) = worse {
                let (other, status) =
                    (record.plan.ids.id(position)?, statuses.get((position - place) as usize));
                return Some(format!(
                    "id {id} has heard that {other} is done, and says that it is {status:?}"
                ));
            }
        }
        if let Some(cause) = self.lost_cause(record, report) {
            return Some(format!("id {id} has heard why one is left out, and does not say it: {cause}"));
        }
        let said_of = |at: &u32| statuses.get(at.checked_sub(*place)? as usize);
        let none = self.unreadable.iter().find(|at| said_of(at) == Some(&Status::Done));
        if let Some(at) = none {
            let other = record.plan.ids.id(*at)?;
            return Some(format!("id {id} has no values of {other}, and says that it is done"));
        }
        // An id without time left to forward has failed, and so has one that does not send the data from below in time.
        // Another rule judges whether func has exceeded the limit.
        let too_late = causes.iter().any(|cause| {
            let failed_at = matches!(cause.stage, Stage::Func | Stage::Forward)
                || cause.stage == Stage::Reply && self.gives;
            cause.id == *id && failed_at && cause.kind == CauseKind::TimeLimit
        });
        // Its own reply may be the one without memory.
        let own = statuses.first().filter(|_| !no_memory && !too_late);
        let fails = |own: &Status| record.plan.callback && *own == Status::Failed;
        if self.ran && own.is_some_and(|own| *own != Status::Done && !fails(own)) {
            return Some(format!("func has run at id {id}, and it says of itself that it is {own:?}"));
        }
        if let Some(other) = self.perhaps_reached(record, *place, &statuses, causes) {
            return Some(format!(
                "no link to {other} came up, and id {id} says that somebody there may have been reached"
            ));
        }
        self.blamed_wrongly(record, report)
    }

    /// Describes a cause of this id's own that names an id whose whole answer it has.
    fn blamed_wrongly(&self, record: &Record, report: &NodeReport<'_>) -> Option<String> {
        let NodeReport { id, causes, .. } = report;
        let passed_on = |cause: &Cause| self.causes.iter().any(|(_, reported)| reported == cause);
        let own = causes.iter().filter(|cause| cause.stage != Stage::Cancelled && !passed_on(cause));
        // If all children have answered, the last answer may have come too late. Another rule judges that.
        let all = self.awaited.is_empty();
        let late = |cause: &Cause| all && (cause.stage, cause.kind) == (Stage::Reply, CauseKind::TimeLimit);
        let blamed = |cause: &&Cause| {
            cause.id != *id
                && !late(cause)
                && self.well.contains(&cause.id)
                && !record.is_misled(cause.id, *id)
        };
        own.into_iter()
            .find(blamed)
            .map(|cause| format!("id {id} has the whole answer of one that it blames: {cause}"))
    }

    /// A cause reported to a partial call that is not passed on, although there is room for it.
    fn lost_cause(&self, record: &Record, report: &NodeReport<'_>) -> Option<&Cause> {
        let room = record.plan.partial && report.reports && report.causes.len() < CAUSES_MAX;
        let stays = |place: &u32| room & !self.unreadable.contains(place);
        let reported = self.causes.iter().filter(|(by, _)| by.as_ref().is_some_and(stays));
        reported.map(|(_, cause)| cause).find(|cause| !report.causes.contains(cause))
    }

    /// Describes an id that was reported as failed to a partial call and is given another status.
    fn failed_is_not_said(&self, record: &Record, place: u32, statuses: &[Status]) -> Option<String> {
        let heard = self.heard.iter().filter(|_| record.plan.partial);
        let heard = heard.filter_map(|(start, known)| Some((*start, known.as_ref()?)));
        let all = heard.flat_map(|(start, known)| (start..).zip(known.statuses()));
        let said = |position: u32| statuses.get(position.checked_sub(place)? as usize);
        let other = all.filter(|(_, known)| *known == Status::Failed);
        let (other, said) = other
            .map(|(position, _)| (position, said(position)))
            .find(|(_, said)| *said != Some(&Status::Failed))?;
        Some(format!(
            "has heard that {} has failed, and says that it is {said:?}",
            record.plan.ids.id(other)?
        ))
    }

    /// An id to which no link came up, for which a whole call fails, if an id there is not reported as unreached.
    fn perhaps_reached(
        &self,
        record: &Record,
        place: u32,
        statuses: &[Status],
        causes: &[Cause],
    ) -> Option<Id> {
        let failed_for = |cause: &&Cause| (cause.stage, cause.kind) == (Stage::Link, CauseKind::Unreachable);
        let cause = causes.iter().find(failed_for).filter(|_| !record.plan.partial)?;
        let other = Some(cause.id).filter(|id| self.unreached.contains(id))?;
        let begin = record.position(other)?.checked_sub(place)? as usize;
        let there = statuses.get(begin..begin + record.sizes[begin + place as usize] as usize)?;
        there.iter().any(|status| *status != Status::Unreached).then_some(other)
    }
}
