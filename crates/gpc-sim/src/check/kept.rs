//! Checks retained answers: an id retains its answer to a partial call for adopters, until it is released or the call's
//! time is over. A cancel that crosses the answer does not end this, and neither does a lost parent. An answer too long
//! to be retained displaces no other.
//!
//! Where nodes have limits, answers with the least time left may be dropped; only the node knows which.

use std::collections::BTreeMap;

use gpc_trees::Id;

use super::Observation;
use super::book::Book;
use super::findings::Findings;
use super::memory::KEPT_MIN;
use super::refusals::KEPT_PARTS;
use super::refusing::is_refusal;
use crate::large::LARGE;
use chained_gpc::wire::message::{Answer, Response};
use chained_gpc::wire::{CallId, Message};

const NAME: &str = "kept";

/// Answers that an id retains.
#[derive(Default)]
struct Here {
    /// Calls that it has answered, each with the end of its time.
    given: BTreeMap<CallId, u64>,
    /// Number of answers retained after its last input.
    held: usize,
    /// Its answer in the present input is too long to be retained.
    too_long: bool,
}

/// Answers that all ids retain; large worlds are not observed.
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
            // Another request is answered again, and the answer is then retained anew.
            Observation::Received { at, message: Message::Release(call) | Message::Moved(call), .. } => {
                self.goes(*at, *call);
            }
            Observation::Received { at, message: Message::Request(request), .. } => {
                self.goes(*at, request.call);
            }
            Observation::Ended { id } => drop(self.ids.remove(id)),
            Observation::Held { id, held, .. } if !self.ids.is_empty() => {
                self.judge(book, *id, held.retained_answers, findings);
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
        // Others may have been dropped with it.
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
