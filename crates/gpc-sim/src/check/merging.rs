//! Checks that a callback merges all replies: before an id answers well, callback has run for the answer of each child,
//! also for one without data. An id of a partial call whose own part is in its answer leaves no values unmerged, unless
//! its time has passed.

use std::collections::{BTreeMap, BTreeSet};

use gpc_trees::Id;

use super::Observation;
use super::book::Book;
use super::findings::Findings;
use super::record::Record;
use crate::large::LARGE;
use crate::ranges::{NAMES, forget};
use chained_gpc::wire::level::{Leaves, Limits};
use chained_gpc::wire::message::{Answer, SubtreeReply};
use chained_gpc::wire::{CallId, CauseKind, Message, Report, Status};

const NAME: &str = "merging";

/// A whole call with a callback, at an id.
#[derive(Default)]
struct Callbacks {
    /// Children that have answered without failure.
    well: BTreeSet<Id>,
    /// Functions that have begun: func, and a callback for each child.
    begun: usize,
}

/// Callbacks that are still to run, bounded by the calls at each id.
#[derive(Default)]
pub(super) struct Merging {
    calls: BTreeMap<(Id, CallId), Callbacks>,
}

impl Merging {
    #[inline(always)]
    pub(super) fn observe(&mut self, book: &Book, seen: &Observation<'_>, findings: &mut Findings) {
        self.count(book, seen, findings);
        let wrong = match seen {
            Observation::Sent { from, message: Message::Response(response), .. } => match &response.answer {
                Answer::Partial(partial) => left(book, *from, response.call, &partial.reply, &partial.report),
                _ => None,
            },
            Observation::Finished { call, outcome } => match (&outcome.result, &outcome.report) {
                (Ok(Some(reply)), Some(report)) => left(book, call.root, *call, reply, report),
                _ => None,
            },
            _ => None,
        };
        wrong.into_iter().for_each(|what| findings.add(NAME, what));
    }

    #[inline(always)]
    fn count(&mut self, book: &Book, seen: &Observation<'_>, findings: &mut Findings) {
        let ends = match seen {
            Observation::Began { id, call, .. } if counted(book, *call).is_some() => {
                self.calls.entry((*id, *call)).or_default().begun += 1;
                None
            }
            Observation::Received { at, from, message: Message::Response(response) }
                if is_well(&response.answer) =>
            {
                let parent = counted(book, response.call).and_then(|it| it.parent(it.position(*from)?));
                if parent == Some(*at) {
                    self.calls.entry((*at, response.call)).or_default().well.insert(*from);
                }
                None
            }
            Observation::Sent { from, message: Message::Response(response), .. }
                if is_well(&response.answer) =>
            {
                Some((*from, response.call))
            }
            Observation::Finished { call, outcome } if outcome.result.is_ok() => Some((call.root, *call)),
            Observation::Ended { id } => {
                forget(&mut self.calls, (*id, NAMES[0])..=(*id, NAMES[1]));
                None
            }
            _ => None,
        };
        let Some((id, call)) = ends else { return };
        let Some(plan) = counted(book, call).map(|record| &record.plan) else { return };
        let Some(Callbacks { well, begun }) = self.calls.remove(&(id, call)) else { return };
        let func = if plan.watch && call.root == id { 0 } else { 1 };
        let callbacks = begun.saturating_sub(func);
        if callbacks < well.len() {
            let why = format!(
                "id {id} answers call {call} after {callbacks} callbacks for {} children",
                well.len()
            );
            findings.add(NAME, why);
        }
    }
}

/// The record of a whole call whose callbacks are counted. With copied requests, an id may have answered one request
/// and run for the other. A func that takes its data as they arrive begins more than once.
fn counted(book: &Book, call: CallId) -> Option<&Record> {
    let record = book.calls.get(&call)?;
    let plan = &record.plan;
    let whole = plan.callback && !plan.partial && plan.ids.len() <= LARGE;
    (whole && !plan.carries.as_they_come && !record.is_copied()).then_some(record)
}

fn is_well(answer: &Answer) -> bool {
    matches!(answer, Answer::Completed | Answer::Reply(_))
}

/// Describes the values that an id has left unmerged although it is done.
fn left(book: &Book, id: Id, call: CallId, reply: &SubtreeReply, report: &Report) -> Option<String> {
    let plan = &book.calls.get(&call)?.plan;
    // A root that only watches reports nothing of itself.
    let watches = plan.watch && plan.ids.first() == Some(id);
    let done = report.coverage.statuses().next() == Some(Status::Done);
    let late = report.causes.iter().any(|cause| cause.kind == CauseKind::TimeLimit);
    if !plan.callback || !plan.reply_wanted || watches || !done || late || reply.level == 0 {
        return None;
    }
    let bytes = reply.data.to_bytes();
    let parts = Leaves::new(reply.level, &bytes, Limits::default()).count();
    (parts > 1).then(|| format!("id {id} leaves {parts} values of call {call} unmerged"))
}
