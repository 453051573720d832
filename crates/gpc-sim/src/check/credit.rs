//! Checks credit for requests: a request is consumed in the input in which its func has run, or will not run. A lost
//! link owes no credit.

use std::collections::BTreeMap;

use gpc_trees::Id;

use super::book::Book;
use super::by_id::ById;
use super::findings::Findings;
use super::record::Record;
use super::{FunctionEnd, Observation};
use crate::large::LARGE;
use crate::ranges::{NAMES, forget};
use chained_gpc::wire::{CallId, Message, Response};

const NAME: &str = "credit";

/// Credit owed by each id.
#[derive(Default)]
pub(super) struct Credit {
    /// By receiver and sender: requests received on their link that are not consumed yet.
    owed: ById<u32, 1>,
    /// Sender of the request that each id still has to execute; `None` once it has executed, or will not.
    waiting: BTreeMap<(Id, CallId), Option<Id>>,
    /// Running functions, and the limits of their calls.
    running: BTreeMap<(Id, CallId), u64>,
    /// A func that ended in the current input and whose request is not consumed: its id, and the sender of the request.
    ran: Option<(Id, Id)>,
}

impl Credit {
    #[inline(always)]
    pub(super) fn observe(&mut self, book: &Book, seen: &Observation<'_>, findings: &mut Findings) {
        match seen {
            Observation::Requested { at, from } => *self.owed.or_insert(*at, *from, 0) += 1,
            Observation::Consumed { at, from } => self.consumed(*at, *from, findings),
            Observation::Received { at, from, message: Message::Request(request) } => {
                let small = |it: &Record| it.plan.ids.len() <= LARGE && it.root() != Some(*at);
                let came = self.owed.get(*at, *from).is_some();
                if came && book.calls.get(&request.call).is_some_and(small) {
                    self.waiting.entry((*at, request.call)).or_insert(Some(*from));
                }
            }
            Observation::Received { at, from, message: Message::Cancel(call) } => {
                self.settles(*at, *from, *call);
            }
            Observation::Sent { from, to, message: Message::Moved(call) } => {
                self.settles(*from, *to, *call);
            }
            // The head of a reply is sent only after func has run.
            Observation::Sent { from, to, message: Message::Response(Response { call, .. }) } => {
                self.settles(*from, *to, *call);
            }
            Observation::Began { id, call, until: Some(until) } => {
                self.running.insert((*id, *call), *until);
            }
            Observation::Ran { id, call, end } => {
                let until = self.running.remove(&(*id, *call));
                // After the limit of a call, its func does not continue.
                let is_over = until.is_some_and(|until| until <= findings.at);
                if *end != FunctionEnd::Unfinished {
                    self.ends(book, *id, *call);
                } else if is_over {
                    self.waiting.get_mut(&(*id, *call)).into_iter().for_each(|waiting| *waiting = None);
                }
            }
            Observation::LinkEnded { at, peer, .. } => {
                self.owed.remove(*at, *peer);
                let requests = self.waiting.range_mut((*at, NAMES[0])..=(*at, NAMES[1]));
                let theirs = requests.filter(|(_, from)| **from == Some(*peer));
                theirs.for_each(|(_, from)| *from = None);
            }
            Observation::Ended { id } => {
                // Its peers owe credit to it until they learn of the lost link.
                self.owed.forget(*id);
                forget(&mut self.waiting, (*id, NAMES[0])..=(*id, NAMES[1]));
                forget(&mut self.running, (*id, NAMES[0])..=(*id, NAMES[1]));
            }
            Observation::Held { id, held, .. } => {
                self.judge_late(findings);
                if !held.goes_on {
                    self.judge(*id, findings);
                }
            }
            Observation::Quiet { .. } => {
                for ((at, from), owed) in self.owed.iter().filter(|(_, owed)| **owed > 0) {
                    findings.add(
                        NAME,
                        format!("id {at} still owes {from} credit for {owed} requests when all is quiet"),
                    );
                }
            }
            _ => {}
        }
    }

    /// Handles the end of func.
    fn ends(&mut self, book: &Book, id: Id, call: CallId) {
        let from = self.waiting.get_mut(&(id, call)).and_then(Option::take);
        // If a call was started anew, the job may be left from the first time.
        let own = from.filter(|_| !book.calls.get(&call).is_some_and(|it| book.may_run_anew(it)));
        self.ran = own.filter(|from| self.owed.get(id, *from).is_some()).map(|from| (id, from));
    }

    fn consumed(&mut self, at: Id, from: Id, findings: &mut Findings) {
        self.ran = self.ran.filter(|ran| *ran != (at, from));
        // A lost link owes no credit, and gives none.
        match self.owed.get_mut(at, from) {
            Some(1) => self.owed.remove(at, from),
            Some(owed) => *owed -= 1,
            None => findings.add(NAME, format!("id {at} gives {from} credit for a request that never came")),
        }
    }

    /// An id has reported the outcome to an id that asked, or that id does not want it.
    fn settles(&mut self, id: Id, requester: Id, call: CallId) {
        if let Some(waiting) =
            self.waiting.get_mut(&(id, call)).filter(|waiting| **waiting == Some(requester))
        {
            *waiting = None;
        }
    }

    /// After the input in which func has ended, its request must be consumed.
    fn judge_late(&mut self, findings: &mut Findings) {
        if let Some((id, from)) = self.ran.take() {
            findings
                .add(NAME, format!("id {id} keeps the credit of {from} for a request whose func has run"));
        }
    }

    /// After an input, credit must be owed for every request whose func has still to run.
    fn judge(&self, id: Id, findings: &mut Findings) {
        if self.waiting.is_empty() {
            return;
        }
        let mut waiting: BTreeMap<Id, u32> = BTreeMap::new();
        let requests = self.waiting.range((id, NAMES[0])..=(id, NAMES[1]));
        requests.filter_map(|(_, from)| *from).for_each(|from| *waiting.entry(from).or_default() += 1);
        for (from, waiting) in waiting {
            let owed = self.owed.get(id, from).copied().unwrap_or_default();
            if owed < waiting {
                let early = waiting - owed;
                findings.add(
                    NAME,
                    format!("id {id} has given {from} credit for {early} requests whose func has not run"),
                );
            }
        }
    }
}
