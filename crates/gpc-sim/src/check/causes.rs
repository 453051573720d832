//! Checks the causes of failures and omissions: there is one only after an injected fault. Its id, stage and kind are
//! those of the fault, and the message of a function arrives unchanged.

use gpc_trees::Id;

use super::Outcome;
use super::book::Book;
use super::findings::Findings;
use super::record::Record;
use crate::faults::Fault;
use chained_gpc::wire::{CallId, Cause, CauseKind, Reason, Stage, Status};

const NAME: &str = "causes";

/// Faults after which an id may be silent for longer than any limit.
const SILENT: [Fault; 14] = [
    Fault::Refused,
    Fault::Close,
    Fault::Crash,
    Fault::Restart,
    Fault::Orphan,
    Fault::Pause,
    Fault::Announced,
    Fault::Slow,
    Fault::Link,
    Fault::Partition,
    Fault::Delay,
    Fault::Duplicate,
    Fault::Hang,
    Fault::SecondParent,
];

/// Faults after which an id may be declared lost. An announced pause has this effect at peers without the announcement;
/// for the others the checker of heartbeats judges.
const LOST: [Fault; 13] = [
    Fault::Refused,
    Fault::Close,
    Fault::SecondParent,
    Fault::Crash,
    Fault::Restart,
    Fault::Orphan,
    Fault::Link,
    Fault::Duplicate,
    Fault::Pause,
    Fault::Announced,
    Fault::Slow,
    Fault::Partition,
    Fault::Delay,
];

pub(super) fn check(book: &Book, call: CallId, outcome: &Outcome, findings: &mut Findings) {
    let Some(record) = book.calls.get(&call) else { return };
    let causes: Vec<&Cause> = match (&outcome.result, &outcome.report) {
        (Err(failure), _) => vec![&failure.cause],
        (Ok(_), Some(report)) => report.causes.iter().collect(),
        (Ok(_), None) => Vec::new(),
    };
    for cause in &causes {
        if book.none() {
            findings.add(NAME, format!("call {call} blames, and no fault was injected: {cause}"));
        } else if !is_true(book, record, cause) {
            let faults = book.faults_of(cause.id);
            findings.add(NAME, format!("call {call}: {cause}; but the faults of that id are: {faults}"));
        }
    }
    if let Some(report) = &outcome.report {
        let complete = report.coverage.statuses().all(|status| status == Status::Done);
        if !complete && report.causes.is_empty() {
            findings.add(NAME, format!("call {call} leaves ids out and says no cause"));
        }
    }
}

/// Reason that a simulated function gives for a fault at an id; code, message and detail differ for each id.
pub(crate) fn reason(fault: Fault, id: Id) -> Box<Reason> {
    let message = format!("{fault} at id {id}");
    Box::new(match fault {
        Fault::Panic => Reason::new(CauseKind::Panicked, message),
        _ => {
            let (code, detail) = (!i64::from(id), id.to_le_bytes()[..(id % 5) as usize].to_vec());
            Reason { kind: CauseKind::Failed, code, message, detail }
        }
    })
}

/// Reason given for an unknown function.
pub(crate) fn no_function(id: Id) -> Box<Reason> {
    Box::new(Reason::new(CauseKind::UnknownFunction, format!("id {id} has no such function")))
}

/// Whether a cause is exactly the reason of a function that failed with this fault.
fn is_of(fault: Fault, cause: &Cause) -> bool {
    let Reason { kind, code, message, detail } = *reason(fault, cause.id);
    (cause.kind, cause.code, &cause.message, &cause.detail) == (kind, code, &message, &detail)
}

/// Whether a cause can result from the injected faults. In a partial call an id that was once given up has forgotten
/// the call, and fails at setup when it is asked again.
fn is_true(book: &Book, record: &Record, cause: &Cause) -> bool {
    let Some(position) = record.position(cause.id) else { return false };
    let own = book.faults_of(cause.id);
    let late = || {
        // A fault above may leave too little time for any function. A fault beside the id may, too: an id at its limit
        // refuses, and is asked again by another after its parent has waited in vain.
        let refuses = record.plan.partial && own.has(Fault::Limits);
        late_above(book, record, position)
            || refuses && silent_below(book, record, record.parents[position as usize])
            || own.has_any(&[Fault::Hang, Fault::Pause, Fault::Announced, Fault::Slow, Fault::Delay])
    };
    let failed = |fault| own.has(fault) && is_of(fault, cause);
    // In a partial call a lost id may be asked again, and so may ids below one with a malformed answer.
    let asked_again =
        record.plan.partial && (own.has_any(&LOST) || own.has(Fault::Limits) || record.has_malformed());
    match (cause.stage, cause.kind) {
        (Stage::Func, CauseKind::Failed) => failed(Fault::Fail),
        (Stage::Func, CauseKind::Panicked) => failed(Fault::Panic),
        (Stage::Setup, CauseKind::UnknownFunction) => {
            own.has(Fault::Fail) && cause.message == no_function(cause.id).message
        }
        (Stage::Callback, CauseKind::Failed) => failed(Fault::Callback),
        (Stage::Func | Stage::Callback, CauseKind::OverLimit) => own.has(Fault::LongReply),
        (Stage::Func | Stage::Forward, CauseKind::TimeLimit) => late(),
        // Delays below leave as little time for the merge.
        (Stage::Callback | Stage::Reply, CauseKind::TimeLimit) => {
            late() || silent_below(book, record, position)
        }
        (Stage::Reply, CauseKind::BadReply) => {
            record.is_malformed(cause.id)
                || record.plan.partial && record.plan.ids.iter().any(|by: Id| record.is_misled(cause.id, by))
        }
        (Stage::Link, CauseKind::LinkLost) => own.has_any(&LOST) && book.lost(cause.id, true),
        (Stage::Link, CauseKind::Unreachable) => own.has_any(&LOST) && book.lost(cause.id, false),
        // Its children have another parent: it was given up, or a request was forged.
        (Stage::Link, CauseKind::SecondParent) => asked_again,
        (Stage::Setup, CauseKind::SecondParent) if !record.plan.partial => {
            own.has_any(&[Fault::SecondParent, Fault::Duplicate])
        }
        // With limits on retained answers, an answer that is requested again may have been dropped.
        (Stage::Setup, CauseKind::AlreadyEnded) => {
            asked_again || record.plan.partial && book.limits.is_some()
        }
        (Stage::Setup, CauseKind::SecondParent) => asked_again,
        // Another checker judges whether the refusal was right.
        (Stage::Setup, CauseKind::ShuttingDown) => own.has(Fault::Close),
        (Stage::Setup, CauseKind::Busy) => own.has(Fault::Limits),
        // Its parent's link refuses a reply that is longer than any may be.
        (Stage::Reply, CauseKind::OverLimit)
            if own.has(Fault::LongReply) && record.is_malformed(cause.id) =>
        {
            true
        }
        (Stage::Setup | Stage::Forward | Stage::Reply, CauseKind::OverLimit | CauseKind::NoMemory) => {
            own.has(Fault::Limits)
        }
        // Its data have not arrived completely, or the request has waited.
        (Stage::Setup, CauseKind::TimeLimit) => {
            (record.plan.data_bytes > 0 || book.requests_wait) && (late() || own.has_any(&LOST))
        }
        (Stage::Setup, CauseKind::LostIncarnation) => asked_again && book.ended.contains_key(&cause.id),
        (Stage::Cancelled, CauseKind::Cancelled) => position == 0 && own.has(Fault::GiveUp),
        _ => false,
    }
}

/// Whether a fault may have kept an id, one below it, or the links there from answering.
fn silent_below(book: &Book, record: &Record, position: u32) -> bool {
    let ids = record.slice(position);
    let mut touched = ids.iter().map(|id: Id| book.faults_of(id));
    touched.any(|faults| faults.has_any(&SILENT))
}

/// Whether a fault above an id may have used up its time.
fn late_above(book: &Book, record: &Record, mut position: u32) -> bool {
    // Each step goes one level up, and parents come before their children.
    while position > 0 {
        position = record.parents[position as usize];
        let id = record.plan.ids.id(position);
        if id.is_some_and(|id| book.faults_of(id).has_any(&SILENT)) {
            return true;
        }
    }
    false
}
