//! A callback merges all that there is: an id of a partial call whose own part is in its answer passes nothing on unmerged, unless its time has passed.

use gpc_trees::Id;

use super::book::Book;
use super::{Findings, Observation};
use crate::wire::level::{Leaves, Limits};
use crate::wire::message::{Answer, SubtreeReply};
use crate::wire::{CallId, CauseKind, Message, Report, Status};

const NAME: &str = "merging";

#[inline(always)]
pub(super) fn observe(book: &Book, seen: &Observation<'_>, findings: &mut Findings) {
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

/// What an id has left unmerged that says of itself that it is done.
fn left(book: &Book, id: Id, call: CallId, reply: &SubtreeReply, report: &Report) -> Option<String> {
    let plan = &book.calls.get(&call)?.plan;
    // A root that only watches says nothing of itself.
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
