//! The level of a reply is that of its subtree: an id's own value is of level 0, and an aggregate one level above the highest that is in it.
//!
//! Source: the rendezvous web service of Globus (WS Rendezvous), "Data format": level-n data.

use gpc_trees::Id;

use super::book::Book;
use super::{Findings, Observation};
use crate::wire::message::Answer;
use crate::wire::{CallId, Message};

const NAME: &str = "levels";

#[inline(always)]
pub(super) fn observe(book: &Book, seen: &Observation<'_>, findings: &mut Findings) {
    let wrong = match seen {
        Observation::Sent { from, message: Message::Response(response), .. } => match &response.answer {
            Answer::Reply(reply) => differs(book, *from, response.call, reply.level),
            Answer::Arriving(reply) => differs(book, *from, response.call, reply.level),
            _ => None,
        },
        Observation::Finished { call, outcome } => match &outcome.result {
            Ok(Some(reply)) => differs(book, call.root, *call, reply.level),
            _ => None,
        },
        _ => None,
    };
    wrong.into_iter().for_each(|what| findings.add(NAME, what));
}

/// How the level of a whole call's reply differs from that of the id's subtree.
fn differs(book: &Book, id: Id, call: CallId, level: u16) -> Option<String> {
    let record = book.calls.get(&call).filter(|record| !record.plan.partial)?;
    let place = record.position(id)?;
    let height = *record.heights.get(place as usize)?;
    let meant = match (record.plan.callback, record.plan.watch && place == 0) {
        (true, _) => 0,
        // It has no value of its own, so what it says is an aggregate, perhaps of nothing.
        (false, true) => height.max(1),
        (false, false) => height,
    };
    (level != meant).then(|| {
        format!("the reply of id {id} to call {call} is of level {level}, and its subtree of {meant}")
    })
}
