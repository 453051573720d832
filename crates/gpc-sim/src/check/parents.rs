//! Checks the choice between two parents that ask an id for its part of a partial call. The higher parent counts, in
//! whichever order they ask, because it has given up the other. Only the other parent receives MOVED.
//!
//! An id that has refused the higher parent accepts nothing from the other: the ids below are asked in its place.

use std::collections::{BTreeMap, BTreeSet};

use gpc_trees::Id;

use super::Observation;
use super::book::Book;
use super::findings::Findings;
use super::record::Record;
use super::refusing::takes_no_more;
use crate::large::LARGE;
use crate::ranges::{NAMES, forget, forget_keys};
use chained_gpc::wire::message::{Answer, Response};
use chained_gpc::wire::{CallId, CauseKind, Message, Stage};

const NAME: &str = "parents";

/// Senders of requests, each with the number of ids skipped.
#[derive(Default)]
pub(super) struct Parents {
    requesters: BTreeMap<(Id, CallId), BTreeMap<Id, u32>>,
    /// End of the time limit of the last adopter's request; and for refused adopters, the end of theirs.
    limits: BTreeMap<(Id, CallId), u64>,
    refused: BTreeMap<(Id, CallId), u64>,
    /// Ids asked more than once by the same id.
    again: BTreeSet<(Id, CallId)>,
}

impl Parents {
    #[inline(always)]
    pub(super) fn observe(&mut self, book: &Book, seen: &Observation<'_>, findings: &mut Findings) {
        let small = |record: &Record| record.plan.ids.len() <= LARGE;
        match seen {
            Observation::Received { at, from, message: Message::Request(request) }
                if request.partial && book.calls.get(&request.call).is_some_and(small) =>
            {
                let requesters = self.requesters.entry((*at, request.call)).or_default();
                if requesters.contains_key(from) {
                    self.again.insert((*at, request.call));
                }
                let most = requesters.entry(*from).or_default();
                *most = request.skipped.max(*most);
                if request.skipped > 0 {
                    let left = request.left.max(request.limit).as_nanos();
                    let until = findings.at.saturating_add(u64::try_from(left).unwrap_or(u64::MAX));
                    self.limits.insert((*at, request.call), until);
                }
            }
            Observation::Sent { from, to, message: Message::Response(response) }
                if takes_no_more(*from, response) =>
            {
                let at = (*from, response.call);
                let skipped = self.requesters.get(&at).and_then(|requesters| requesters.get(to));
                if let (Some(1..), Some(until)) = (skipped, self.limits.get(&at)) {
                    self.refused.insert(at, *until);
                }
            }
            Observation::Sent { from, to, message: Message::Response(response) }
                if is_second_parent(*from, response) =>
            {
                let wrong = self.refuses_the_highest(book, *from, *to, response.call);
                wrong.into_iter().for_each(|what| findings.add(NAME, what));
            }
            Observation::Executed { id, call, .. }
                if self.refused.get(&(*id, *call)).is_some_and(|until| findings.at < *until) =>
            {
                let what = "and has refused one that adopts it, which asks those below";
                findings.add(NAME, format!("id {id} executes call {call}, {what}"));
            }
            Observation::Sent { from, to, message: Message::Moved(call) }
                if book.calls.get(call).is_some_and(|record| !record.plan.partial) =>
            {
                let what = "and only of a partial call may an id have another parent";
                findings.add(NAME, format!("id {from} tells {to} that it has moved in call {call}, {what}"));
            }
            Observation::Sent { from, to, message: Message::Moved(call) } => {
                let Some(requesters) = self.requesters.get(&(*from, *call)) else { return };
                // A copied request in the name of that parent may have come before, with another rank.
                let record = book.calls.get(call);
                if record.is_some_and(|record| record.is_misled(*from, *to)) {
                    return;
                }
                let higher =
                    requesters.get(to).is_some_and(|rank| requesters.values().any(|other| other > rank));
                if !higher {
                    let what = "and nobody who stands higher has asked for it";
                    findings
                        .add(NAME, format!("id {from} tells {to} that it has moved in call {call}, {what}"));
                }
            }
            Observation::Ended { id } => {
                forget(&mut self.requesters, (*id, NAMES[0])..=(*id, NAMES[1]));
                for known in [&mut self.limits, &mut self.refused] {
                    forget(known, (*id, NAMES[0])..=(*id, NAMES[1]));
                }
                forget_keys(&mut self.again, (*id, NAMES[0])..=(*id, NAMES[1]));
            }
            _ => {}
        }
    }

    /// Checks that an id does not refuse the highest parent as a second parent; returns what is wrong.
    fn refuses_the_highest(&self, book: &Book, id: Id, to: Id, call: CallId) -> Option<String> {
        let requesters = self.requesters.get(&(id, call))?;
        let record = book.calls.get(&call)?;
        // A second request of the same id is invalid.
        if self.again.contains(&(id, call)) {
            return None;
        }
        let place = record.position(id).filter(|place| *place > 0 && !record.is_forged(*place));
        let skipped = requesters.get(&to).filter(|_| place.is_some())?;
        let others = || requesters.iter().filter(|(other, _)| **other != to);
        let highest = others().next().is_some() && others().all(|(_, other)| other < skipped);
        highest.then(|| format!("id {id} refuses {to} as a second parent in call {call}, which stands above all others that have asked"))
    }
}

/// Whether an id refuses because it has another parent.
fn is_second_parent(from: Id, response: &Response) -> bool {
    let cause = match &response.answer {
        Answer::Failed(failure) => &failure.cause,
        _ => return false,
    };
    (cause.id, cause.stage, cause.kind) == (from, Stage::Setup, CauseKind::SecondParent)
}
