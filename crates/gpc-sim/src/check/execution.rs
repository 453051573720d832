//! Checks executions: only ids of the list execute, each once. A new run never repeats what an earlier run did, and ids
//! reported as unreached never execute. In a call that forwards first, an id whose func fails has forwarded the request
//! before.

use gpc_trees::Id;

use super::Observation;
use super::book::Book;
use super::findings::Findings;
use crate::faults::Fault;
use crate::large::LARGE;
use chained_gpc::wire::message::{Answer, Response};
use chained_gpc::wire::{CallId, Message, Stage};

const NAME: &str = "execution";

#[inline(always)]
pub(super) fn observe(book: &mut Book, seen: &Observation<'_>, findings: &mut Findings) {
    if let Observation::Executed { id, run, call } = seen {
        let fault = executed(book, *call, *id, *run);
        fault.into_iter().for_each(|what| findings.add(NAME, format!("id {id} executes call {call} {what}")));
    }
    let failed = match seen {
        Observation::Sent {
            from,
            message: Message::Response(Response { call, answer: Answer::Failed(failure) }),
            ..
        } => Some((*from, *call, &failure.cause)),
        Observation::Finished { call, outcome } => {
            outcome.result.as_ref().err().map(|failure| (call.root, *call, &failure.cause))
        }
        _ => None,
    };
    if let Some((id, call, cause)) = failed
        && (cause.id, cause.stage) == (id, Stage::Func)
        && keeps_back(book, id, call)
    {
        findings.add(NAME, format!("func fails at id {id}, which has not forwarded call {call} first"));
    }
}

/// Whether an id that must forward before it executes has failed to do so.
fn keeps_back(book: &Book, id: Id, call: CallId) -> bool {
    let Some(record) = book.calls.get(&call) else { return false };
    let first = record.plan.forward_first && record.plan.ids.len() <= LARGE;
    let below = |place| !record.is_forged(place) && record.groups(place).next().is_some();
    first && record.position(id).is_some_and(below) && !book.has_forwarded(id, call)
}

/// Records an execution; returns what is wrong with it.
fn executed(book: &mut Book, call: CallId, id: Id, run: u32) -> Option<String> {
    let copied = book.any(&[Fault::Duplicate]);
    let overtaken = book.is_overtaken(id, call);
    let orphaned = book.calls.get(&call).is_some_and(|record| book.root_ended(record));
    let Some(record) = book.calls.get_mut(&call) else { return Some("that nobody started".into()) };
    let Some(position) = record.position(id) else { return Some("whose list it is not in".into()) };
    if position == 0 && record.plan.watch {
        return Some("as its root that only watches".into());
    }
    let before = std::mem::replace(&mut record.executed[position as usize], run + 1);
    // Nodes forget the calls of a root when its run ends. A parent sends a request once; a second one is a copy or
    // forged.
    let forged = record.is_forged(position);
    let forgotten = orphaned && !record.plan.partial && (copied || forged);
    if before == run + 1 && !forgotten {
        return Some("twice".into());
    }
    // A copied request may reach an id that an adopter has passed meanwhile, and from there a later run of its child. A
    // parent that does not know yet that it was given up has the same effect.
    if before != 0 && !forged && !copied && !overtaken {
        return Some(format!("again in run {run}, after run {}", before - 1));
    }
    if record.unreached.contains(&position) && !forged && !(copied && may_ask_anew(book, call, position)) {
        return Some("after it was reported as unreached".into());
    }
    None
}

/// Whether an id, or one above it, has refused a request for want of room: it forgets what it refused, and may accept a
/// copy later.
fn may_ask_anew(book: &Book, call: CallId, position: u32) -> bool {
    let Some(record) = book.calls.get(&call) else { return false };
    let line = std::iter::once(position).chain(record.above(position));
    line.filter_map(|place| record.plan.ids.id(place)).any(|id| book.faults_of(id).has(Fault::Limits))
}
