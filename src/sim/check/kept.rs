//! What an id has answered in a partial call it keeps, for an adopter may ask again: until it is told that nobody will, or the call's time is over. Neither a cancel that has crossed the answer nor a lost parent ends that, and an answer that is too long to be kept costs no other one.
//!
//! Where nodes have limits, those with the least time left may have to go; which, only the node knows.

use std::collections::BTreeMap;

use gpc_trees::Id;

use super::book::Book;
use super::memory::KEPT_MIN;
use super::refusals::KEPT_PARTS;
use super::{Findings, Observation, is_refusal};
use crate::sim::world::LARGE;
use crate::wire::message::{Answer, Response};
use crate::wire::{CallId, Message};

const NAME: &str = "kept";

/// What an id keeps.
#[derive(Default)]
struct Here {
    /// The calls that it has answered, and when the time of each is over.
    given: BTreeMap<CallId, u64>,
    /// How many answers it held after its last input.
    held: usize,
    /// What it has answered in its present input is too long to be kept.
    too_long: bool,
}

/// What all ids keep; of large worlds nothing is known.
#[derive(Default)]
pub(super) struct Kept {
    ids: BTreeMap<Id, Here>,
}

impl Kept {
    #[inline(always)]
    pub(super) fn observe(&mut self, book: &Book, seen: &Observation<'_>, findings: &mut Findings) {
        match seen {
            Observation::Sent { from, message: Message::Response(response), .. }
                if matches!(response.answer, Answer::Partial(_)) && !is_refusal(*from, response) =>
            {
                self.answers(book, *from, response);
            }
            // Who asks again is answered again, and then it is kept anew.
            Observation::Received { at, message: Message::Release(call) | Message::Moved(call), .. } => {
                self.goes(*at, *call);
            }
            Observation::Received { at, message: Message::Request(request), .. } => {
                self.goes(*at, request.call);
            }
            Observation::Ended { id } => drop(self.ids.remove(id)),
            Observation::Held { id, held, .. } if !self.ids.is_empty() => {
                self.judge(book, *id, held.answers_kept, findings);
            }
            _ => {}
        }
    }

    fn answers(&mut self, book: &Book, from: Id, response: &Response) {
        let Some(record) = book.calls.get(&response.call) else { return };
        if record.plan.ids.len() > LARGE || record.root() == Some(from) {
            return;
        }
        let here = self.ids.entry(from).or_default();
        if let (Some(limits), Answer::Partial(partial)) = (book.limits, &response.answer) {
            here.too_long |= KEPT_MIN + partial.reply.len() > limits.memory_max / KEPT_PARTS;
        }
        here.given.insert(response.call, record.started.saturating_add(record.plan.limit_ns));
    }

    fn goes(&mut self, id: Id, call: CallId) {
        let Some(here) = self.ids.get_mut(&id) else { return };
        here.given.remove(&call);
        // With it others may have gone.
        here.held = 0;
    }

    fn judge(&mut self, book: &Book, id: Id, held: usize, findings: &mut Findings) {
        let Some(here) = self.ids.get_mut(&id) else { return };
        let before = here.given.len();
        here.given.retain(|_, until| *until > findings.at);
        let none_is_over = here.given.len() == before;
        if book.limits.is_none() && held < here.given.len() {
            let given = here.given.len();
            findings.add(
                NAME,
                format!("id {id} keeps {held} answers of {given} that it has given, and nobody has released"),
            );
        }
        let too_long = std::mem::take(&mut here.too_long);
        if too_long && none_is_over && held < here.held {
            findings.add(
                NAME,
                format!(
                    "id {id} gives an answer that is too long to be kept, and keeps {held} of {} others",
                    here.held
                ),
            );
        }
        here.held = held;
    }
}
