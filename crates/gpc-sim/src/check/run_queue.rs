//! Checks fairness: the functions of a class begin in the order in which their calls arrived, so that none waits
//! forever behind later ones.
//!
//! Only func is checked, in calls without data: when awaited data arrive, only the node knows.

use std::collections::{BTreeMap, BTreeSet};

use gpc_trees::Id;

use super::Observation;
use super::book::Book;
use super::findings::Findings;
use super::record::Record;
use crate::classes::class_of;
use crate::large::LARGE;
use crate::ranges::{NAMES, forget, forget_keys};
use chained_gpc::wire::{CallId, Message};

const NAME: &str = "turns";

/// Calls whose func is still to run at an id, by class of workers, in order of arrival, each with its sender.
#[derive(Default)]
pub(super) struct RunQueues {
    waiting: BTreeMap<(Id, u8), Vec<(CallId, Id)>>,
    /// Calls that have arrived: a repeated request of an adopter starts nothing.
    arrived: BTreeSet<(Id, CallId)>,
}

impl RunQueues {
    #[inline(always)]
    pub(super) fn observe(&mut self, book: &Book, seen: &Observation<'_>, findings: &mut Findings) {
        match seen {
            Observation::Started { call, plan } if !plan.watch => {
                let root = plan.ids.first();
                root.into_iter().for_each(|root| self.comes(book, root, root, *call));
            }
            Observation::Received { at, from, message: Message::Request(request) } => {
                self.comes(book, *at, *from, request.call);
            }
            Observation::Executed { id, call, .. } => {
                let before = self.begins(*id, *call);
                before.into_iter().for_each(|before| {
                    findings
                        .add(NAME, format!("id {id} executes call {call} before {before}, which came first"));
                });
            }
            Observation::Received { at, message: Message::Cancel(call) | Message::Moved(call), .. } => {
                self.goes(*at, *call);
            }
            Observation::Sent { from, message: Message::Response(response), .. } => {
                self.goes(*from, response.call);
            }
            Observation::Finished { call, .. } => self.goes(call.root, *call),
            Observation::LinkEnded { at, peer, .. } => {
                let queues = self.waiting.range_mut((*at, 0)..=(*at, u8::MAX));
                queues.for_each(|(_, waiting)| waiting.retain(|(_, requester)| requester != peer));
            }
            Observation::Ended { id } => {
                forget(&mut self.waiting, (*id, 0)..=(*id, u8::MAX));
                forget_keys(&mut self.arrived, (*id, NAMES[0])..=(*id, NAMES[1]));
            }
            _ => {}
        }
    }

    fn comes(&mut self, book: &Book, id: Id, requester: Id, call: CallId) {
        let judged = |it: &Record| it.plan.data_bytes == 0 && it.plan.ids.len() <= LARGE;
        if book.calls.get(&call).is_some_and(judged) && self.arrived.insert((id, call)) {
            self.waiting.entry((id, class_of(call))).or_default().push((call, requester));
        }
    }

    /// Handles the start of a call's func; returns an earlier call that still waits.
    fn begins(&mut self, id: Id, call: CallId) -> Option<CallId> {
        let waiting = self.waiting.get_mut(&(id, class_of(call)))?;
        let place = waiting.iter().position(|(known, _)| *known == call)?;
        waiting.remove(place);
        waiting.first().filter(|_| place > 0).map(|(before, _)| *before)
    }

    /// A call is over at an id, or was refused.
    fn goes(&mut self, id: Id, call: CallId) {
        let waiting = self.waiting.get_mut(&(id, class_of(call)));
        waiting.into_iter().for_each(|waiting| waiting.retain(|(known, _)| *known != call));
    }
}
