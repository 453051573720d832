//! Of two parents that have asked an id for its part of a partial call the one counts that stands higher, whichever comes first: it has given up the other one. The one that does not count is told that the id has moved, and nobody else is.

use std::collections::BTreeMap;

use gpc_trees::Id;

use super::book::{Book, Record};
use super::{Findings, NAMES, Observation, forget};
use crate::sim::world::LARGE;
use crate::wire::{CallId, Message};

const NAME: &str = "parents";

/// Who has asked whom, and past how many others.
#[derive(Default)]
pub(super) struct Parents {
    askers: BTreeMap<(Id, CallId), BTreeMap<Id, u32>>,
}

impl Parents {
    #[inline(always)]
    pub(super) fn observe(&mut self, book: &Book, seen: &Observation<'_>, findings: &mut Findings) {
        let small = |record: &Record| record.plan.ids.len() <= LARGE;
        match seen {
            Observation::Received { at, from, message: Message::Request(request) }
                if request.partial && book.calls.get(&request.call).is_some_and(small) =>
            {
                let askers = self.askers.entry((*at, request.call)).or_default();
                let most = askers.entry(*from).or_default();
                *most = request.skipped.max(*most);
            }
            Observation::Sent { from, to, message: Message::Moved(call) } => {
                let Some(askers) = self.askers.get(&(*from, *call)) else { return };
                // A copy in the name of the one that is told may have come before, and stood elsewhere.
                let record = book.calls.get(call);
                if record.is_some_and(|record| record.is_misled(*from, *to)) {
                    return;
                }
                let higher = askers.get(to).is_some_and(|told| askers.values().any(|other| other > told));
                if !higher {
                    let what = "and nobody who stands higher has asked for it";
                    findings
                        .add(NAME, format!("id {from} tells {to} that it has moved in call {call}, {what}"));
                }
            }
            Observation::Ended { id } => forget(&mut self.askers, (*id, NAMES[0])..=(*id, NAMES[1])),
            _ => {}
        }
    }
}
