//! Checks the replies that a caller takes as they arrive: only of a followed call that has not ended, about each id
//! once, with the parts of the ids that are done. When a whole call ends well, each id below the root was among them.

use gpc_trees::{Group, Id};

use super::answers::wrong_parts;
use super::book::Book;
use super::findings::Findings;
use super::record::Record;
use super::{Observation, Outcome};
use crate::by_call::ByCall;
use chained_gpc::wire::message::SubtreeReply;
use chained_gpc::wire::{CallId, Report, Status};

const NAME: &str = "child-replies";

/// The followed calls of a world: which positions have been reported; nothing of those that have ended.
#[derive(Default)]
pub(super) struct ChildReplies {
    calls: ByCall<Vec<bool>>,
}

impl ChildReplies {
    #[inline(always)]
    pub(super) fn observe(&mut self, book: &Book, seen: &Observation<'_>, findings: &mut Findings) {
        match seen {
            Observation::Followed { call } => {
                let ids = book.calls.get(call).map_or(0, |record| record.plan.ids.len() as usize);
                self.calls.insert(*call, vec![false; ids]);
            }
            Observation::ChildReply { call, group, reply, report } => {
                let Some(record) = book.calls.get(call) else { return };
                let known = self.calls.get_mut(call);
                let wrong = reported(record, known, *group)
                    .or_else(|| contents(record, *call, *group, reply, *report));
                wrong.into_iter().for_each(|what| findings.add(NAME, format!("in call {call} {what}")));
            }
            Observation::Finished { call, outcome } => {
                let known = self.calls.get_mut(call).map(std::mem::take);
                let left = book.calls.get(call).zip(known).and_then(|(it, known)| left(it, outcome, &known));
                left.into_iter().for_each(|id| {
                    let what = format!("call {call} succeeded, and the reply of id {id} was not reported");
                    findings.add(NAME, what);
                });
            }
            _ => {}
        }
    }
}

/// Records that these ids are reported; returns the violation, if there is one.
fn reported(record: &Record, known: Option<&mut Vec<bool>>, group: Group) -> Option<String> {
    let first = group.start as usize + usize::from(record.plan.watch);
    let Some(known) = known.filter(|known| !known.is_empty()) else {
        return Some("a child of a call that is not followed is reported".into());
    };
    let Some(places) = known.get_mut(first..first + group.len as usize).filter(|_| first > 0) else {
        return Some(format!("{group:?} is not below the root"));
    };
    let twice = places.contains(&true);
    places.fill(true);
    twice.then(|| format!("an id of {group:?} is reported twice"))
}

/// Returns the violation in the contents of a report.
fn contents(
    record: &Record,
    call: CallId,
    group: Group,
    reply: &SubtreeReply,
    report: Option<&Report>,
) -> Option<String> {
    let first = group.start + u32::from(record.plan.watch);
    let statuses: Vec<Status> = match report {
        None if record.plan.partial => return Some(format!("{group:?} is reported without statuses")),
        None => vec![Status::Done; group.len as usize],
        Some(report) => report.coverage.statuses().collect(),
    };
    if statuses.len() != group.len as usize {
        return Some(format!("{group:?} is reported with {} statuses", statuses.len()));
    }
    let done = statuses.iter().zip(first..).filter(|(status, _)| **status == Status::Done);
    let done: Vec<Id> = done.filter_map(|(_, place)| record.plan.ids.id(place)).collect();
    // Without an id that is done the reply is empty. The bytes of a malformed one are as its sender has made them: the
    // caller finds that they are no parts.
    let none = done.is_empty() && reply.data.is_empty();
    let wrong = if none || record.garbled { None } else { wrong_parts(record, call, reply, &done) };
    wrong.map(|what| format!("of {group:?}, {what}"))
}

/// An id whose reply a caller has not got, although the whole call has ended well.
fn left(record: &Record, outcome: &Outcome, known: &[bool]) -> Option<Id> {
    let plan = &record.plan;
    let whole = outcome.result.is_ok() && !plan.partial && plan.reply_wanted && !plan.callback;
    let place = known.iter().skip(1).position(|known| !known).filter(|_| whole)?;
    plan.ids.id(place as u32 + 1)
}
