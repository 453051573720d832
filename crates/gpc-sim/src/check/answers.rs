//! Checks the outcome of a call at its caller. Success means that all ids executed and contributed. Coverage has a true
//! status for every id asked. A reply has one part of each id that is done, and no others.

use std::collections::BTreeSet;

use gpc_trees::Id;

use super::book::Book;
use super::content::{part, reply_header};
use super::findings::Findings;
use super::record::Record;
use super::{Carries, Outcome, Plan};
use crate::faults::{Fault, FaultSet};
use chained_gpc::wire::level::{Leaves, Limits};
use chained_gpc::wire::message::{Merging, SubtreeReply};
use chained_gpc::wire::{CallId, Coverage, Payload, Status};

const NAME: &str = "answers";

/// Faults that delay, lose answers, or end a call: ids above and below an affected id may be missing as well.
const TIME: [Fault; 11] = [
    Fault::Malformed,
    Fault::Refused,
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
    let Some(unreached) = check_outcome(book, call, outcome, findings) else { return };
    if let Some(record) = book.calls.get_mut(&call) {
        record.unreached = unreached;
    }
}

/// Checks an outcome; returns the positions that it reports as unreached.
fn check_outcome(
    book: &Book,
    call: CallId,
    outcome: &Outcome,
    findings: &mut Findings,
) -> Option<BTreeSet<u32>> {
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
            Status::Unreached if executed && !record.is_forged(position) => {
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

/// Positions and ids that execute.
fn members(record: &Record) -> Vec<(u32, Id)> {
    let all = (0..).zip(record.plan.ids.iter());
    all.skip(usize::from(record.plan.watch)).collect()
}

/// Checks that the reply has the part of each id that is done, and nothing else.
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
    if let Some(what) = wrong_parts(record, call, reply, &done) {
        findings.add(NAME, what);
    }
}

/// Describes how a reply differs from the parts of these ids, which are done.
pub(super) fn wrong_parts(
    record: &Record,
    call: CallId,
    reply: &SubtreeReply,
    done: &[Id],
) -> Option<String> {
    let Plan { reply_bytes, carries: Carries { reply_header_bytes, reply_limits, .. }, .. } = *record.plan;
    let part = |id| part(call, id, reply_bytes);
    let header = |id| reply_header(call, id, reply_header_bytes);
    let of_data = || differs(record, reply.level, &reply.data, done, part);
    let mut wrong = exceeds(record, reply.level, &reply.data, reply_limits.data_max)
        .or_else(of_data)
        .map(|what| ("reply", what));
    // An empty header needs no check.
    if wrong.is_none() && reply_header_bytes > 0 {
        let of_header = || differs(record, reply.level, &reply.header, done, header);
        let what = exceeds(record, reply.level, &reply.header, reply_limits.header_max).or_else(of_header);
        wrong = what.map(|what| ("header of the reply", what));
    }
    let (name, what) = wrong?;
    let (len, level, wanted) = (reply.data.len(), reply.level, done.len());
    Some(format!(
        "the {name} of call {call}, {len} bytes at level {level} for {wanted} ids that are done, {what}"
    ))
}

/// Describes how what one id has written, alone or with a callback, exceeds the limit of the call.
fn exceeds(record: &Record, level: u16, payload: &Payload, most: u64) -> Option<String> {
    if most == u64::MAX {
        return None;
    }
    let bytes = payload.to_bytes();
    let leaves: Option<Vec<&[u8]>> = match (record.plan.callback, level) {
        (true, 0) => Some(vec![&bytes[..]]),
        _ => Leaves::new(level, &bytes, Limits::default()).collect::<Result<_, _>>().ok(),
    };
    let longest = leaves?.iter().map(|leaf| leaf.len() as u64).max().unwrap_or_default();
    (longest > most).then(|| format!("has {longest} bytes of one id, and the call takes {most}"))
}

/// Describes how a payload differs from what these ids have contributed.
fn differs(
    record: &Record,
    level: u16,
    payload: &Payload,
    done: &[Id],
    part: impl Fn(Id) -> Vec<u8>,
) -> Option<String> {
    let bytes = payload.to_bytes();
    if record.garbled {
        // Garbled parts of a tree of one level are either unreadable, or as many as the ids.
        let leaves: Result<Vec<&[u8]>, _> = Leaves::new(level, &bytes, Limits::default()).collect();
        let fewer =
            leaves.ok().filter(|leaves| level == 1 && !record.plan.callback && leaves.len() != done.len());
        return fewer.map(|leaves| format!("is garbled, and has {} parts", leaves.len()));
    }
    let leaves: Option<Vec<&[u8]>> = match (record.plan.callback, level) {
        (true, 0) => Some(vec![&bytes[..]]),
        (_, level) => Leaves::new(level, &bytes, Limits::default()).collect::<Result<_, _>>().ok(),
    };
    let Some(leaves) = leaves else { return Some("is no level-n data".into()) };
    if !record.plan.callback {
        if leaves.len() != done.len() {
            return Some(format!("has {} parts", leaves.len()));
        }
        let other = leaves.iter().zip(done).find(|(leaf, id)| ***leaf != part(**id)[..]);
        return other.map(|(_, id)| format!("has not the part of id {id} in its place"));
    }
    // A callback's result is one value, or several that could not be merged; each holds the parts of some ids.
    let len = done.first().map_or(0, |id| part(*id).len());
    let empty = leaves.iter().filter(|leaf| leaf.is_empty()).count();
    if len > 0 && empty > 0 {
        return Some(format!("has {} values, of which {empty} are empty", leaves.len()));
    }
    let all = leaves.concat();
    if record.plan.carries.merging == Merging::AsTheyCome {
        return differs_in_any_order(&all, done, part);
    }
    let mut rest = &all[..];
    for &id in done {
        let Some(after) = rest.strip_prefix(&part(id)[..]) else {
            return Some(format!("has not the part of id {id} in its place"));
        };
        rest = after;
    }
    (!rest.is_empty()).then(|| format!("has {} bytes that nobody has given", rest.len()))
}

/// The same for a callback that merges replies as they arrive: all parts have the same length.
fn differs_in_any_order(all: &[u8], done: &[Id], part: impl Fn(Id) -> Vec<u8>) -> Option<String> {
    let mut given: Vec<Vec<u8>> = done.iter().map(|id| part(*id)).collect();
    let len = given.first().map_or(0, Vec::len);
    if all.len() != len * given.len() {
        return Some(format!("has not the {len} bytes of each of them"));
    }
    let mut there: Vec<&[u8]> = all.chunks_exact(len.max(1)).collect();
    there.sort_unstable();
    given.sort_unstable();
    let same = len == 0 || given.iter().eq(there.iter());
    (!same).then(|| "has not the parts of all of them".into())
}

/// Checks that a partial call leaves out only ids that a fault has touched, or that have a delay above or below them.
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
    let missing = || members.iter().zip(statuses).filter(|(_, status)| **status != Status::Done);
    if missing().next().is_none() {
        return;
    }
    let excused = excused(book, record);
    for ((_, id), status) in missing().filter(|((position, _), _)| !excused[*position as usize]) {
        findings.add(NAME, format!("id {id} is {status:?} in call {call}, and no fault touched it"));
    }
}

/// By position: whether a fault touched an id, or one above or below it causes a delay.
fn excused(book: &Book, record: &Record) -> Vec<bool> {
    let faults: Vec<FaultSet> = record.plan.ids.iter().map(|id| book.faults_of(id)).collect();
    // Under limits or with data, ids below one that refuses, is not adopted or lacks data are lost with it.
    let fragile = book.limits.is_some() || record.plan.data_bytes > 0;
    let takes_time = |faults: &FaultSet| faults.has_any(&TIME);
    let mut below: Vec<bool> = faults.iter().map(takes_time).collect();
    let mut above: Vec<bool> =
        faults.iter().map(|faults| takes_time(faults) || fragile && !faults.is_empty()).collect();
    // Preorder: a child comes after its parent.
    for position in (1..faults.len()).rev() {
        below[record.parents[position] as usize] |= below[position];
    }
    for position in 1..faults.len() {
        above[position] |= above[record.parents[position] as usize];
    }
    let sides = above.into_iter().zip(below);
    sides.zip(faults).map(|((above, below), faults)| above || below || !faults.is_empty()).collect()
}
