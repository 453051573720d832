//! Checks the flag of a request that says that other ids may have sent it before. A child of an adopter that may have
//! been asked sends the flag on; an id that knows better must not set it.
//!
//! A young run of an id relies on the flag: an earlier run may have executed a request that was sent before. An id is
//! in doubt in three cases: its own request has the flag, another id than before has asked it, or it has lost the link
//! to its parent. Such a parent may have given it up. An adopter is in doubt of orphans unless it knows that each
//! parent in between has surely asked none of them.

use std::collections::{BTreeMap, BTreeSet};

use gpc_trees::Id;

use super::Observation;
use super::book::Book;
use super::findings::Findings;
use super::record::Record;
use super::refusing::is_refusal;
use crate::faults::Fault;
use crate::large::LARGE;
use crate::ranges::{NAMES, forget};
use chained_gpc::wire::message::{Answer, Response};
use chained_gpc::wire::{CallId, CauseKind, Message, Request, Status};

const NAME: &str = "doubt";

/// A call at an id.
#[derive(Default)]
struct CallDoubt {
    /// Its parent, and the number of ids skipped above it.
    parent: Option<(Id, u32)>,
    in_doubt: bool,
    /// Whether its request has the flag, or another parent has asked it.
    adopted: bool,
    /// Requests arrived in an order that only the id can judge.
    unclear: bool,
    /// Ids whose answers it awaits, and lost ids that surely asked no other id.
    awaited: BTreeSet<Id>,
    surely: BTreeSet<Id>,
}

/// State of all ids.
#[derive(Default)]
pub(super) struct Doubt {
    calls: BTreeMap<(Id, CallId), CallDoubt>,
    /// Start of the present run of an id, if it is not the first.
    began: BTreeMap<Id, u64>,
    /// For calls that such a run was asked to execute: whether it may. It may if a request came without the flag, or if
    /// the run is older than the call.
    may_execute: BTreeMap<(Id, CallId), bool>,
    /// First receiver of an id's answer to a partial call.
    answered: BTreeMap<(Id, CallId), Id>,
}

impl Doubt {
    #[inline(always)]
    pub(super) fn observe(&mut self, book: &Book, seen: &Observation<'_>, findings: &mut Findings) {
        self.judge_second_answer(book, seen, findings);
        match seen {
            Observation::Received { at, from, message: Message::Request(request) } => {
                let small = |record: &Record| record.plan.ids.len() <= LARGE && record.root() != Some(*at);
                if book.calls.get(&request.call).is_some_and(small) {
                    self.note_request(*at, request, findings.at);
                    self.calls.entry((*at, request.call)).or_default().asked(*from, request);
                }
            }
            Observation::Received { at, from, message: Message::Response(response) } => {
                let doubt = self.calls.get_mut(&(*at, response.call));
                doubt.into_iter().for_each(|doubt| doubt.heard(*from, response));
            }
            Observation::Received { at, from, message: Message::Cancel(call) } => {
                let doubt = self.calls.get(&(*at, *call));
                if doubt.is_some_and(|doubt| doubt.parent.is_some_and(|(parent, _)| parent == *from)) {
                    self.calls.remove(&(*at, *call));
                }
            }
            Observation::LinkEnded { at, peer, unreached } => {
                self.at(*at).for_each(|doubt| doubt.loses(*peer, *unreached));
            }
            Observation::Abandoned { at, peer } => self.at(*at).for_each(|doubt| doubt.loses(*peer, false)),
            Observation::Sent { from, to, message: Message::Request(request) } => {
                let Some(record) = book.calls.get(&request.call).filter(|it| it.plan.ids.len() <= LARGE)
                else {
                    return;
                };
                let doubt = self.calls.entry((*from, request.call)).or_default();
                let wrong = doubt.asks(record, *from, *to, request);
                wrong.into_iter().for_each(|what| findings.add(NAME, format!("{from} -> {to}: {what}")));
            }
            Observation::Sent { from, message: Message::Response(response), .. }
                if !is_refusal(*from, response) && !matches!(response.answer, Answer::Arriving(_)) =>
            {
                let doubt = self.calls.remove(&(*from, response.call));
                let wrong = doubt.and_then(|doubt| doubt.is_wrong_of_those_below(book, *from, response));
                wrong.into_iter().for_each(|what| findings.add(NAME, what));
            }
            Observation::Sent { from, to, message: Message::Response(response) }
                if is_young(*from, response) =>
            {
                // A refusal leaves no state.
                let doubt = self.calls.get(&(*from, response.call)).filter(|doubt| doubt.awaited.is_empty());
                if doubt.is_some_and(|doubt| doubt.parent.is_some_and(|(parent, _)| parent == *to)) {
                    self.calls.remove(&(*from, response.call));
                }
            }
            Observation::Finished { call, .. } => drop(self.calls.remove(&(call.root, *call))),
            Observation::Executed { id, call, .. } if self.may_execute.get(&(*id, *call)) == Some(&false) => {
                findings.add(
                    NAME,
                    format!(
                        "id {id} executes call {call}, which others may have sent to an earlier run of it"
                    ),
                );
            }
            Observation::Injected { fault: Fault::Restart, ids } => {
                self.began.extend(ids.iter().map(|id| (*id, findings.at)));
            }
            Observation::Ended { id } => {
                self.began.remove(id);
                forget(&mut self.calls, (*id, NAMES[0])..=(*id, NAMES[1]));
                forget(&mut self.may_execute, (*id, NAMES[0])..=(*id, NAMES[1]));
                forget(&mut self.answered, (*id, NAMES[0])..=(*id, NAMES[1]));
            }
            _ => {}
        }
    }

    /// An id that answers a second parent does not know which ids the first has asked.
    #[inline(always)]
    fn judge_second_answer(&mut self, book: &Book, seen: &Observation<'_>, findings: &mut Findings) {
        if let Observation::Began { id, call, .. } = seen
            && book.calls.get(call).is_some_and(|record| record.plan.partial)
        {
            // A call that runs anew starts without earlier answers.
            self.answered.remove(&(*id, *call));
        }
        if let Observation::Sent { from, to, message: Message::Response(response) } = seen
            && let Answer::Partial(partial) = &response.answer
            && book.calls.get(&response.call).is_some_and(|record| record.plan.ids.len() <= LARGE)
            && *self.answered.entry((*from, response.call)).or_insert(*to) != *to
            && partial.report.coverage.statuses().skip(1).any(|status| status == Status::Unreached)
        {
            let call = response.call;
            findings.add(NAME, format!("{from} -> {to}: an answer to call {call} of ids that nobody has reached, where the parent before may have asked them"));
        }
    }

    /// Records a request to a run of an id.
    fn note_request(&mut self, id: Id, request: &Request, now: u64) {
        let Some(began) = self.began.get(&id) else { return };
        let young = u128::from(now.saturating_sub(*began)) < request.age.as_nanos();
        let may = self.may_execute.entry((id, request.call)).or_default();
        *may |= !request.partial || !request.adopted || !young;
    }

    /// Calls at an id.
    fn at(&mut self, id: Id) -> impl Iterator<Item = &mut CallDoubt> {
        self.calls.range_mut((id, NAMES[0])..=(id, NAMES[1])).map(|(_, doubt)| doubt)
    }
}

/// Whether an id refuses a request because an earlier run may have executed the call.
fn is_young(from: Id, response: &Response) -> bool {
    let young = (from, CauseKind::LostIncarnation);
    matches!(&response.answer, Answer::Failed(failure) if (failure.cause.id, failure.cause.kind) == young)
}

impl CallDoubt {
    /// Handles a request.
    fn asked(&mut self, from: Id, request: &Request) {
        match self.parent {
            None => (self.in_doubt, self.adopted) = (request.adopted, request.adopted),
            Some((parent, _)) if parent == from => return,
            // The id follows the parent that stands higher.
            Some((_, skipped)) if request.partial && request.skipped > skipped => {
                (self.in_doubt, self.adopted) = (true, true);
            }
            // The id stays with its present parent.
            Some((_, skipped)) if request.partial && request.skipped < skipped => return,
            Some(_) => {
                self.unclear = true;
                return;
            }
        }
        self.parent = Some((from, request.skipped));
    }

    /// Handles the answer of an id that was asked.
    fn heard(&mut self, from: Id, response: &Response) {
        if matches!(response.answer, Answer::Arriving(_)) || !self.awaited.remove(&from) {
            return;
        }
        if let Answer::Failed(failure) = &response.answer {
            let below = failure.coverage.statuses().skip(1);
            let nobody = !failure.coverage.is_empty() && below.into_iter().all(|it| it == Status::Unreached);
            self.surely.extend(Some(from).filter(|_| nobody));
        }
    }

    /// Handles the loss of the link to a peer.
    fn loses(&mut self, peer: Id, unreached: bool) {
        self.in_doubt |= self.parent.is_some_and(|(parent, _)| parent == peer);
        if self.awaited.remove(&peer) && unreached {
            self.surely.insert(peer);
        }
    }

    /// Checks an answer to a partial call. If the id has not forwarded, and no other may have, ids below are unreached.
    /// If another may have, they must not be called unreached.
    fn is_wrong_of_those_below(&self, book: &Book, from: Id, response: &Response) -> Option<String> {
        let Answer::Partial(partial) = &response.answer else { return None };
        let record = book.calls.get(&response.call)?;
        // A copied request may have been refused below.
        let unclear = self.unclear | record.is_forged(record.position(from)?);
        let nobody = !(self.in_doubt | unclear) && !book.has_forwarded(from, response.call);
        let sure = self.adopted & !unclear;
        let wrong = |status: &Status| match status {
            Status::Unreached => sure,
            _ => nobody,
        };
        let below = partial.report.coverage.statuses().skip(1).find(wrong)?;
        let asked = if sure { "others may have asked" } else { "nobody has asked" };
        Some(format!("id {from} says of one below, which {asked} in call {}: {below:?}", response.call))
    }

    /// Checks the flag of a request that the id sends; returns what is wrong.
    fn asks(&mut self, record: &Record, from: Id, to: Id, request: &Request) -> Option<String> {
        self.awaited.insert(to);
        let (above, place) = (record.position(from)?, record.position(to)?);
        if self.unclear || record.is_forged(above) || record.has_malformed() {
            return None;
        }
        let between = record.above(place).take_while(|position| *position != above);
        let mut between = between.filter_map(|position| record.plan.ids.id(position));
        let doubtful = between.any(|id| !self.surely.contains(&id));
        let meant = self.in_doubt || doubtful;
        let (call, said) = (request.call, request.adopted);
        (said != meant).then(|| match meant {
            true => {
                format!("a request of call {call} that somebody else may have sent, and it does not say so")
            }
            false => format!(
                "a request of call {call} that says that somebody else may have sent it, and nobody has"
            ),
        })
    }
}
