//! The level of a reply is that of its subtree: an id's own value is of level 0, and an aggregate one level above the highest that is in it.
//!
//! Source: the rendezvous web service of Globus (WS Rendezvous), "Data format": level-n data.

use gpc_trees::Id;

use super::book::{Book, Record};
use super::{Findings, Observation};
use crate::wire::message::Answer;
use crate::wire::{CallId, Message};

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

/// How many bytes the data of a whole call's reply have, other than those of its subtree: a long one may go up and come to nobody.
fn is_of_other_length(book: &Book, id: Id, call: CallId, len: u64) -> Option<String> {
    let record = book.calls.get(&call).filter(|record| !record.plan.partial & !record.has_malformed())?;
    let place = record.position(id).filter(|_| !record.plan.callback & record.plan.reply_wanted)?;
    record.heights.get(place as usize)?;
    let meant = length(record, place);
    (len != meant).then(|| {
        format!("the data of the reply of id {id} to call {call} are {len} bytes, and are to be {meant}")
    })
}

/// Bytes of the level-n data of a subtree to which each id gives as much: before every value stands how long it is, or of how many, and a value that stands among higher ones is lifted to them by one count for each level.
fn length(record: &Record, place: u32) -> u64 {
    let count = |number: u64| u64::from(number.checked_ilog10().unwrap_or_default()) + 2;
    let lifted = |levels: u16| u64::from(levels) * count(1);
    let value = u64::from(record.plan.reply_bytes);
    let all = place as usize..(place + record.sizes[place as usize]) as usize;
    let each = all.map(|at| {
        let height = record.heights[at];
        let inner = if height > 0 { count(record.groups(at as u32).count() as u64 + 1) } else { 0 };
        let above = record.heights[record.parents[at] as usize];
        let beside = if at > place as usize { lifted(above - 1 - height) } else { 0 };
        inner + lifted(height.saturating_sub(1)) + count(value) + value + beside
    });
    each.sum()
}
