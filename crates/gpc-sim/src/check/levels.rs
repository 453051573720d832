//! Checks the level of replies: an id's own value has level 0, and an aggregate has one level more than its highest
//! part.
//!
//! Source: the rendezvous web service of Globus (WS Rendezvous), "Data format": level-n data.

use gpc_trees::Id;

use super::Observation;
use super::book::Book;
use super::findings::Findings;
use chained_gpc::wire::message::Answer;
use chained_gpc::wire::{CallId, Message};

const NAME: &str = "levels";

#[inline(always)]
pub(super) fn observe(book: &Book, seen: &Observation<'_>, findings: &mut Findings) {
    let wrong = match seen {
        Observation::Sent { from, message: Message::Response(response), .. } => match &response.answer {
            Answer::Reply(reply) => differs(book, *from, response.call, reply.level)
                .or_else(|| is_of_other_length(book, *from, response.call, reply.data.len() as u64)),
            Answer::Arriving(reply) => differs(book, *from, response.call, reply.level)
                .or_else(|| is_of_other_length(book, *from, response.call, reply.data.len())),
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

/// Describes how the level of a reply in a whole call differs from the level of the id's subtree.
fn differs(book: &Book, id: Id, call: CallId, level: u16) -> Option<String> {
    let record = book.calls.get(&call).filter(|record| !record.plan.partial)?;
    let place = record.position(id)?;
    let height = *record.heights.get(place as usize)?;
    let meant = match (record.plan.callback, record.plan.watch && place == 0) {
        (true, _) => 0,
        // The root has no value of its own, so its reply is an aggregate, perhaps empty.
        (false, true) => height.max(1),
        (false, false) => height,
    };
    (level != meant).then(|| {
        format!("the reply of id {id} to call {call} is of level {level}, and its subtree of {meant}")
    })
}

/// Describes how the data of a reply in a whole call differ in length from those of its subtree. The long reply of a
/// call that fails reaches no caller, so this is the only check of it.
fn is_of_other_length(book: &Book, id: Id, call: CallId, len: u64) -> Option<String> {
    let record = book.calls.get(&call).filter(|record| !record.has_malformed())?;
    let meant = *record.lengths.get(record.position(id)? as usize)?;
    (len != meant).then(|| {
        format!("the data of the reply of id {id} to call {call} are {len} bytes, and are to be {meant}")
    })
}
