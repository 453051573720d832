//! Checks refusals because of limits: a node refuses exactly where it has reached a limit that it was given.
//!
//! A refusing node names itself as the cause. The other checkers accept its claim only if this one confirms it.

use std::collections::{BTreeMap, BTreeSet};

use gpc_trees::Id;

use super::book::Book;
use super::findings::Findings;
use super::record::Record;
use super::{Limits, Observation, Plan};
use crate::faults::Fault;
use crate::large::LARGE;
use crate::ranges::{NAMES, forget_keys};
use chained_gpc::wire::frame::HEADER_MAX;
use chained_gpc::wire::message::{Answer, Message, Response};
use chained_gpc::wire::{CallId, Cause, CauseKind, Failure, Stage, Status};

const NAME: &str = "refusals";

/// Upper bounds on the overhead of a part of an aggregate, and of each level above it, bytes.
const FRAMED: u64 = 16;
const LEVEL: u64 = 8;

/// Upper bounds on a node's memory for an id of a call's list, as a child with an answer, and for the call itself.
const MEMBER: u64 = 1 << 10;
const CALL: u64 = 2 << 10;

/// One part in this many of a node's memory is for retained answers.
pub(super) const RETAINED_PARTS: u64 = 4;

/// The limits, and the state of nodes under them.
#[derive(Default)]
pub(super) struct Refusals {
    limits: Option<Limits>,
    /// By id: calls in flight at its last input. Empty without limits.
    calls: Vec<usize>,
    /// Calls asked of an id before it closed, and the ids that have closed.
    known: BTreeSet<(Id, CallId)>,
    closed: BTreeSet<Id>,
    /// Number of orphans that an id has asked in a call.
    adopted: BTreeMap<(CallId, Id), u32>,
}

impl Refusals {
    #[inline(always)]
    pub(super) fn observe(&mut self, book: &mut Book, seen: &Observation<'_>, findings: &mut Findings) {
        match seen {
            Observation::Limits(limits) => self.limits = Some(*limits),
            Observation::Held { id, held, .. } => {
                let Some(most) = self.limits.map(|limits| limits.calls_max) else { return };
                self.holds(*id, held.calls);
                if held.calls > most {
                    findings.add(NAME, format!("id {id} holds {} calls, and takes {most}", held.calls));
                }
                if held.retained_answers > most {
                    let retained = held.retained_answers;
                    findings.add(NAME, format!("id {id} keeps {retained} answers, and takes {most} calls"));
                }
            }
            Observation::Injected { fault: Fault::Close, ids } => self.closed.extend(ids.iter()),
            Observation::Started { call, plan } => {
                let root = plan.ids.first().filter(|_| plan.ids.len() <= LARGE);
                root.into_iter().for_each(|root| self.asked(root, *call));
            }
            Observation::Received { at, message: Message::Request(request), .. } => {
                let record = book.calls.get(&request.call);
                if record.is_some_and(|record| record.plan.ids.len() <= LARGE) {
                    self.asked(*at, request.call);
                }
            }
            Observation::Executed { id, call, .. }
                if book.small(*call).is_some()
                    && self.closed.contains(id)
                    && !self.known.contains(&(*id, *call)) =>
            {
                findings.add(NAME, format!("id {id} executes call {call}, and takes no more calls"));
            }
            Observation::Ended { id } => {
                self.calls.get_mut(*id as usize).into_iter().for_each(|calls| *calls = 0);
                self.closed.remove(id);
                forget_keys(&mut self.known, (*id, NAMES[0])..=(*id, NAMES[1]));
            }
            Observation::Executed { id, call, .. }
                if book.calls.get(call).is_some_and(is_headed_too_long) =>
            {
                findings.add(NAME, format!("id {id} executes call {call}, whose header is over the limit"));
            }
            Observation::Executed { id, call, .. } => {
                let (Some(limits), Some(record)) = (self.limits, book.calls.get(call)) else { return };
                let bytes = u64::from(record.plan.data_bytes);
                if bytes > limits.data_max {
                    let most = limits.data_max;
                    findings.add(
                        NAME,
                        format!("id {id} executes call {call} with {bytes} bytes of data, and takes {most}"),
                    );
                }
            }
            _ => self.answered(book, seen, findings),
        }
    }

    /// Checks the requests of an id to children and orphans, and its answers.
    #[inline(always)]
    fn answered(&mut self, book: &mut Book, seen: &Observation<'_>, findings: &mut Findings) {
        match seen {
            Observation::Sent { from, message: Message::Request(request), .. } if request.skipped == 0 => {
                let Some(limits) = self.limits else { return };
                let Some(record) = book.calls.get(&request.call) else { return };
                let children = record.position(*from).map_or(0, |place| record.groups(place).count());
                let most = limits.children_of(*from);
                if children > most as usize {
                    let what =
                        format!("asks {children} children in call {}, and may ask {most}", request.call);
                    findings.add(NAME, format!("id {from} {what}"));
                }
            }
            Observation::Sent { from, message: Message::Request(request), .. } => {
                let count = self.adopted.entry((request.call, *from)).or_default();
                *count += 1;
                let most = self.limits.map_or(u32::MAX, |limits| limits.adopted_max);
                if *count > most {
                    findings.add(
                        NAME,
                        format!("id {from} adopts {count} in call {}, and may adopt {most}", request.call),
                    );
                }
            }
            Observation::Sent { from, message: Message::Response(response), .. } => {
                let wrong = covers(book, *from, response);
                wrong.into_iter().for_each(|what| findings.add(NAME, format!("id {from} {what}")));
                let (causes, len) = match &response.answer {
                    Answer::Failed(failure) => (std::slice::from_ref(&failure.cause), 0),
                    Answer::Partial(partial) => (&partial.report.causes[..], partial.reply.len()),
                    Answer::Reply(reply) => (&[][..], reply.len()),
                    Answer::Arriving(reply) => (&[][..], reply.len()),
                    Answer::Completed => return,
                };
                self.check_own_causes(book, *from, response.call, causes, len, findings);
            }
            Observation::Finished { call, outcome } => {
                let Some(root) = book.calls.get(call).and_then(Record::root) else { return };
                let (causes, len) = match (&outcome.result, &outcome.report) {
                    (Err(failure), _) => (std::slice::from_ref(&failure.cause), 0),
                    (Ok(reply), Some(report)) => {
                        (&report.causes[..], reply.as_ref().map_or(0, |it| it.len()))
                    }
                    (Ok(reply), None) => (&[][..], reply.as_ref().map_or(0, |it| it.len())),
                };
                self.check_own_causes(book, root, *call, causes, len, findings);
            }
            _ => {}
        }
    }

    /// Records that an id is asked, or starts a call.
    fn asked(&mut self, id: Id, call: CallId) {
        if !self.closed.contains(&id) {
            self.known.insert((id, call));
        }
    }

    /// Checks the causes in an answer that the id gives for itself, and the length of its reply.
    fn check_own_causes(
        &self,
        book: &mut Book,
        id: Id,
        call: CallId,
        causes: &[Cause],
        len: u64,
        findings: &mut Findings,
    ) {
        let most = self.limits.map_or(u64::MAX, |limits| limits.reply_max);
        if len > most {
            findings.add(NAME, format!("id {id} answers call {call} with {len} bytes, and may with {most}"));
        }
        for cause in causes.iter().filter(|cause| cause.id == id) {
            let kinds = [CauseKind::Busy, CauseKind::OverLimit, CauseKind::NoMemory];
            if !kinds.contains(&cause.kind) {
                continue;
            }
            let of_reply = matches!(cause.stage, Stage::Func | Stage::Callback);
            match self.is_true(book, id, call, cause) {
                // Not a limit of the node.
                true if of_reply => {}
                true => book.refuses(id),
                false => findings.add(
                    NAME,
                    format!("id {id} has not come to the limit of which it says in call {call}: {cause}"),
                ),
            }
        }
    }

    fn holds(&mut self, id: Id, calls: usize) {
        if self.calls.len() <= id as usize {
            self.calls.resize(id as usize + 1, 0);
        }
        self.calls[id as usize] = calls;
    }

    /// Whether an id has reached the limit because of which it refuses.
    fn is_true(&self, book: &Book, id: Id, call: CallId, cause: &Cause) -> bool {
        let Some(record) = book.calls.get(&call) else { return false };
        if cause.kind == CauseKind::OverLimit
            && let Stage::Func | Stage::Callback = cause.stage
        {
            return writes_more(record, id, cause.stage);
        }
        let Some(limits) = self.limits else { return false };
        match (cause.stage, cause.kind) {
            (Stage::Setup, CauseKind::Busy) => {
                self.calls.get(id as usize).is_some_and(|calls| *calls >= limits.calls_max)
            }
            (Stage::Setup | Stage::Forward | Stage::Reply, CauseKind::NoMemory) => {
                // The refused call may not be among those that it holds.
                let calls = self.calls.get(id as usize).map_or(1, |calls| *calls as u64 + 1);
                let largest = book.calls.values().map(largest).max().unwrap_or_default();
                // Retained answers have a fixed share of the memory.
                calls * largest > limits.memory_max - limits.memory_max / RETAINED_PARTS
            }
            (Stage::Forward, CauseKind::OverLimit) => {
                let children = record.position(id).map_or(0, |place| record.groups(place).count());
                children > limits.children_of(id) as usize
            }
            (Stage::Setup, CauseKind::OverLimit) => {
                u64::from(record.plan.data_bytes) > limits.data_max || is_headed_too_long(record)
            }
            (Stage::Reply, CauseKind::OverLimit) => {
                let below = record.position(id).map_or(0, |place| record.sizes[place as usize]);
                let plan = &record.plan;
                let each = u64::from(plan.reply_bytes) + u64::from(plan.carries.reply_header_bytes);
                // Header and data have framing for each part and each level above it.
                let levels = LEVEL * u64::from(record.depth);
                u64::from(below) * (each + 4 * FRAMED + levels) > limits.reply_max
            }
            _ => false,
        }
    }
}

/// Whether an id writes more than the call takes: its func, or a callback that merges what is below.
fn writes_more(record: &Record, id: Id, stage: Stage) -> bool {
    let Some(place) = record.position(id) else { return false };
    let below = if stage == Stage::Func { 1 } else { record.sizes[place as usize] as usize };
    let Plan { reply_bytes, carries, .. } = &*record.plan;
    record.plan.is_exceeded(below * carries.reply_header_bytes as usize, below * *reply_bytes as usize)
}

fn is_headed_too_long(record: &Record) -> bool {
    record.plan.carries.header_bytes as usize > HEADER_MAX
}

/// Checks the coverage of a refusal. An id under a limit has failed and has asked no id below. If it knows the call
/// from another parent, all others are unknown, and in a partial call it may have done its own part.
fn covers(book: &Book, id: Id, response: &Response) -> Option<String> {
    let Answer::Failed(failure) = &response.answer else { return None };
    let Failure { cause, coverage } = &**failure;
    let partial = book.calls.get(&response.call)?.plan.partial;
    let meant = match (cause.stage, cause.kind) {
        _ if cause.id != id => return None,
        (Stage::Setup, CauseKind::SecondParent | CauseKind::AlreadyEnded | CauseKind::LostIncarnation) => {
            [if partial { Status::Unknown } else { Status::Failed }, Status::Unknown]
        }
        (Stage::Link, CauseKind::SecondParent) => [Status::Unknown; 2],
        (Stage::Setup, CauseKind::Busy | CauseKind::ShuttingDown | CauseKind::OverLimit) => {
            [Status::Failed, Status::Unreached]
        }
        _ => return None,
    };
    let same = coverage.statuses().zip(0..).all(|(status, place)| status == meant[usize::from(place > 0)]);
    (!same).then(|| {
        let (said, call) = (coverage.counts(), response.call);
        format!("refuses call {call} and says {said:?} of those who were asked: {cause}")
    })
}

/// Upper bound on a node's memory for a call with all its replies, bytes.
fn largest(record: &Record) -> u64 {
    let (plan, carries) = (&record.plan, &record.plan.carries);
    let each = u64::from(plan.reply_bytes) + u64::from(carries.reply_header_bytes) + 4 * FRAMED;
    let levels = LEVEL * u64::from(record.depth);
    let request = u64::from(plan.data_bytes) + u64::from(carries.header_bytes);
    CALL + request + u64::from(plan.ids.len()) * (MEMBER + each + levels)
}
