//! Detects invalid answers: those that cannot be true, whatever happened below the child. The child violates the
//! protocol, and its whole answer is rejected.
//!
//! A child knows only the ids of its own slice. So it names one of these as the cause, reports on each of them, and its
//! reply has a part for each that is done. Accepted answers go up to the caller, where their origin can no longer be
//! determined.

use std::collections::BTreeSet;

use gpc_trees::sorting::collected;
use gpc_trees::{Id, IdList};

use super::call::Child;
use crate::wire::level::{Event, Limits, StreamDecoder};
use crate::wire::message::{Answer, Partial, SubtreeReply};
use crate::wire::{Cause, Failure, Payload, Request};

/// Returns the error in a failure that ends a call, if there is one. Drops a straggler that cannot be true from its
/// cause.
pub(super) fn in_failure(request: &Request, child: &Child, cause: &mut Cause) -> Option<String> {
    blames_stranger(&request.ids.slice(child.group), std::slice::from_mut(cause))
}

/// Returns what is wrong with a reply: its sender has to check it against the limits of the call.
pub(super) fn in_reply(request: &Request, reply: &SubtreeReply) -> Option<String> {
    // Without a callback the reply is an aggregate, and at level 1 it is several replies.
    let combined = request.callback.is_some() && reply.level == 0;
    let limits = Some(&request.reply_limits).filter(|limits| combined && !limits.is_unlimited())?;
    let (part, length, most) = limits.exceeded(reply.header.len() as u64, reply.data.len() as u64)?;
    Some(format!("its reply {part} has {length} bytes, and the call takes {most}"))
}

/// Returns the valid answer of a child of a partial call: its part, or its failure. Drops stragglers that cannot be
/// true from its causes.
///
/// # Errors
/// What is wrong with the answer.
pub(super) fn partial_answer(
    request: &Request,
    child: &Child,
    answer: Answer,
) -> Result<Result<Box<Partial>, Box<Failure>>, String> {
    let ids = request.ids.slice(child.group);
    match answer {
        Answer::Partial(mut partial) if partial.report.coverage.len() == u64::from(ids.len()) => {
            let Partial { reply, report } = &mut *partial;
            let aggregated = request.reply_wanted && request.callback.is_none();
            let misfit = aggregated.then(|| misfit(reply, report.coverage.counts().done)).flatten();
            let misfit = misfit.or_else(|| in_reply(request, reply));
            let error = misfit.or_else(|| blames_stranger(&ids, &mut report.causes));
            error.map_or(Ok(Ok(partial)), Err)
        }
        Answer::Failed(mut failure) => {
            blames_stranger(&ids, std::slice::from_mut(&mut failure.cause)).map_or(Ok(Err(failure)), Err)
        }
        Answer::Completed | Answer::Reply(_) | Answer::Arriving(_) | Answer::Partial(_) => {
            Err("its answer does not report on the ids it was sent to".into())
        }
    }
}

/// Returns an error if a cause names an id that is not among these. A straggler that is not among them is dropped: it
/// is a hint, and the answer counts without it.
fn blames_stranger(ids: &IdList, causes: &mut [Cause]) -> Option<String> {
    let straggler = |cause: &Cause| cause.straggler.as_ref().map(|straggler| straggler.id);
    let named = causes.iter().flat_map(|cause| std::iter::once(cause.id).chain(straggler(cause)));
    let strangers = without(ids, collected(named));
    if let Some(stranger) = causes.iter().map(|cause| cause.id).filter(|id| strangers.contains(id)).min() {
        return Some(format!("its answer blames id {stranger}, which it was not sent to"));
    }
    for cause in causes {
        cause.straggler.take_if(|straggler| strangers.contains(&straggler.id));
    }
    None
}

/// Returns those of the `named` ids that are not in the list.
fn without(ids: &IdList, mut named: BTreeSet<Id>) -> BTreeSet<Id> {
    for run in ids.runs() {
        if named.is_empty() {
            break;
        }
        let last = run.first + (run.count - 1);
        while let Some(&member) = named.range(run.first..=last).next() {
            named.remove(&member);
        }
    }
    named
}

/// Returns an error if an aggregated reply does not have one part for each id that is done.
fn misfit(reply: &SubtreeReply, done: u32) -> Option<String> {
    let parts = |payload| parts(reply.level, payload);
    match (parts(&reply.header), parts(&reply.data)) {
        (Some(headers), Some(data)) if headers == u64::from(done) && data == u64::from(done) => None,
        (Some(headers), Some(data)) => Some(format!(
            "its answer has {headers} reply headers and {data} reply data of {done} ids that are done"
        )),
        _ => Some("its reply is no level-n data".into()),
    }
}

/// Returns the number of parts of level-n data; `None` if the data are invalid.
fn parts(level: u16, payload: &Payload) -> Option<u64> {
    let (mut decoder, mut count) = (StreamDecoder::new(level, Limits::default()), 0);
    let mut count_leaf = |event: Event<'_>| count += u64::from(matches!(event, Event::LeafEnd));
    for part in payload.parts() {
        decoder.feed(part.as_slice(), &mut count_leaf).ok()?;
    }
    decoder.finish().ok()?;
    Some(count)
}
