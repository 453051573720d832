//! What a caller is told: success means that all executed and contributed; coverage speaks of every id asked, and truly; a reply has the part of each id that is done, once, and no other.

use std::collections::BTreeSet;

use gpc_trees::Id;

use super::book::{Book, Record};
use super::{Findings, Outcome};
use crate::sim::faults::Fault;
use crate::wire::level::{Leaves, Limits};
use crate::wire::message::SubtreeReply;
use crate::wire::{CallId, Coverage, Status};

const NAME: &str = "answers";

/// Faults that take time, lose answers, or end a call: those above and below an id that they touch may be missing, too.
const TIME: [Fault; 9] = [
    Fault::Hang,
    Fault::Pause,
    Fault::Announced,
    Fault::Slow,
    Fault::Delay,
    Fault::Partition,
    Fault::Duplicate,
    Fault::SecondParent,
    Fault::GiveUp,
];

pub(super) fn check(book: &mut Book, call: CallId, outcome: &Outcome, findings: &mut Findings) {
    let Some(record) = book.calls.get_mut(&call) else {
        return findings.add(NAME, format!("call {call} ends, and nobody started it"));
    };
    if std::mem::replace(&mut record.finished, true) {
        return findings.add(NAME, format!("call {call} ends twice"));
    }
    let Some(unreached) = told(book, call, outcome, findings) else { return };
    if let Some(record) = book.calls.get_mut(&call) {
        record.unreached = unreached;
    }
}

/// Checks what the caller is told; the positions that it is told are unreached.
fn told(book: &Book, call: CallId, outcome: &Outcome, findings: &mut Findings) -> Option<BTreeSet<u32>> {
    let record = book.calls.get(&call)?;
    let members = members(record);
    let coverage = match (&outcome.result, &outcome.report) {
        (Err(failure), _) => failure.coverage.clone(),
        (Ok(_), Some(report)) => report.coverage.clone(),
        (Ok(_), None) => Coverage::all(Status::Done, members.len() as u32),
    };
    if record.plan.partial && outcome.result.is_ok() != outcome.report.is_some() {
        findings.add(NAME, format!("call {call} is partial and ends with no report of its ids"));
    }
    if coverage.len() != members.len() as u64 {
        let (covered, asked) = (coverage.len(), members.len());
        findings.add(NAME, format!("coverage of call {call} speaks of {covered} ids, {asked} were asked"));
        return None;
    }
    let statuses: Vec<Status> = coverage.statuses().collect();
    for (&(position, id), &status) in members.iter().zip(&statuses) {
        let executed = record.executed[position as usize] != 0;
        match status {
            Status::Done if !executed => {
                findings.add(NAME, format!("id {id} is done in call {call} and never executed it"));
            }
            Status::Unreached if executed && !record.forged => {
                findings.add(NAME, format!("id {id} is unreached in call {call} and executed it"));
            }
            _ => {}
        }
    }
    if let Ok(reply) = &outcome.result {
        let done = members.iter().zip(&statuses).filter(|(_, status)| **status == Status::Done);
        let done: Vec<Id> = done.map(|((_, id), _)| *id).collect();
        contributions(record, call, reply.as_ref(), done, findings);
        left_out(book, record, call, &members, &statuses, findings);
    }
    let unreached = members.iter().zip(&statuses).filter(|(_, status)| **status == Status::Unreached);
    Some(unreached.map(|((position, _), _)| *position).collect())
}

/// Positions and ids that are to execute.
fn members(record: &Record) -> Vec<(u32, Id)> {
    let all = (0..).zip(record.plan.ids.iter());
    all.skip(usize::from(record.plan.watch)).collect()
}

/// The reply has the part of each id that is done, and nothing else.
fn contributions(
    record: &Record,
    call: CallId,
    reply: Option<&SubtreeReply>,
    done: Vec<Id>,
    findings: &mut Findings,
) {
    let Some(reply) = reply else {
        if record.plan.reply_wanted {
            findings.add(NAME, format!("call {call} ends well without the reply that was asked for"));
        }
        return;
    };
    let Some(parts) = parts(record, reply) else {
        let (len, level) = (reply.data.len(), reply.level);
        return findings
            .add(NAME, format!("the reply of call {call}, {len} bytes at level {level}, is no reply"));
    };
    if parts != done {
        let missing = done.iter().filter(|id| !parts.contains(id)).take(4).collect::<Vec<_>>();
        let (count, wanted) = (parts.len(), done.len());
        findings.add(
            NAME,
            format!("the reply of call {call} has {count} parts for {wanted} ids that are done, in another order or without {missing:?}"),
        );
    }
}

/// The ids whose parts a reply has.
fn parts(record: &Record, reply: &SubtreeReply) -> Option<Vec<Id>> {
    let data = reply.data.to_bytes();
    let leaves: Vec<&[u8]> = match (record.plan.callback, reply.level) {
        (true, 0) => vec![&data[..]],
        (_, level) => Leaves::new(level, &data, Limits::default()).collect::<Result<_, _>>().ok()?,
    };
    let len = record.plan.reply_bytes as usize;
    let mut ids = Vec::new();
    for leaf in leaves {
        if !record.plan.callback && leaf.len() != len || leaf.len() % len != 0 {
            return None;
        }
        ids.extend(
            leaf.chunks_exact(len).map(|part| Id::from_le_bytes([part[0], part[1], part[2], part[3]])),
        );
    }
    Some(ids)
}

/// A partial call leaves nobody out whom no fault touched, unless one takes the time above it, or below.
fn left_out(
    book: &Book,
    record: &Record,
    call: CallId,
    members: &[(u32, Id)],
    statuses: &[Status],
    findings: &mut Findings,
) {
    if !record.plan.partial {
        return;
    }
    let takes_time = |id: Id| book.faults_of(id).has_any(&TIME);
    let excused = |position: u32, id: Id| {
        let mut above = record.above(position).filter_map(|above| record.plan.ids.id(above));
        !book.faults_of(id).is_empty()
            || above.any(takes_time)
            || record.slice(position).iter().any(takes_time)
    };
    let missing = members.iter().zip(statuses).filter(|(_, status)| **status != Status::Done);
    for ((_, id), status) in missing.filter(|((position, id), _)| !excused(*position, *id)) {
        findings.add(NAME, format!("id {id} is {status:?} in call {call}, and no fault touched it"));
    }
}

/// One id's own reply, as long as asked for.
pub(in crate::sim) fn part(id: Id, reply_bytes: u32) -> Vec<u8> {
    let mut part = id.to_le_bytes().to_vec();
    part.resize(reply_bytes.max(4) as usize, 0);
    part
}

/// What callback makes of two replies.
pub(in crate::sim) fn merged(mut own: Vec<u8>, child: &[u8]) -> Vec<u8> {
    own.extend_from_slice(child);
    own
}
