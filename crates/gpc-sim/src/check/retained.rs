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
use super::memory::RETAINED_MIN;
use super::refusals::RETAINED_PARTS;
use super::refusing::is_refusal;
use crate::large::LARGE;
use chained_gpc::wire::message::{Answer, Response};
use chained_gpc::wire::{CallId, Message};

const NAME: &str = "kept";

/// Answers that an id retains.
#[derive(Default)]
struct NodeAnswers {
    /// Calls that it has answered, each with the end of its time.
    given: BTreeMap<CallId, u64>,
    /// Number of answers retained after its last input.
    count: usize,
    /// An answer in the present input is too long to be retained.
    too_long: bool,
    /// Another one in the same input is not, and may displace others.
    displaces: bool,
}

/// Answers that all ids retain; large worlds are not observed.
#[derive(Default)]
pub(super) struct RetainedAnswers {
    ids: BTreeMap<Id, NodeAnswers>,
}

impl RetainedAnswers {
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
        let node = self.ids.entry(from).or_default();
        if let (Some(limits), Answer::Partial(partial)) = (book.limits, &response.answer) {
            let too_long = RETAINED_MIN + partial.reply.len() > limits.memory_max / RETAINED_PARTS;
            node.too_long |= too_long;
            node.displaces |= !too_long;
        }
        node.given.insert(response.call, record.started.saturating_add(record.plan.limit_ns));
    }

    fn goes(&mut self, id: Id, call: CallId) {
        let Some(node) = self.ids.get_mut(&id) else { return };
        node.given.remove(&call);
        // Others may have been dropped with it.
        node.count = 0;
    }

    fn judge(&mut self, book: &Book, id: Id, held: usize, findings: &mut Findings) {
        let Some(node) = self.ids.get_mut(&id) else { return };
        let before = node.given.len();
        node.given.retain(|_, until| *until > findings.at);
        let none_is_over = node.given.len() == before;
        if book.limits.is_none() && held < node.given.len() {
            let given = node.given.len();
            findings.add(
                NAME,
                format!("id {id} keeps {held} answers of {given} that it has given, and nobody has released"),
            );
        }
        let displaces = std::mem::take(&mut node.displaces);
        let too_long = std::mem::take(&mut node.too_long) && !displaces;
        if too_long && none_is_over && held < node.count {
            findings.add(
                NAME,
                format!(
                    "id {id} gives an answer that is too long to be kept, and keeps {held} of {} others",
                    node.count
                ),
            );
        }
        node.count = held;
    }
}
