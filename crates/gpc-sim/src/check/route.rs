//! Checks the routes of messages. A request goes once from parent to child, with exactly the child's slice; in a
//! partial call also from an adopter further up. An answer goes once, to the sender of the request.

use std::collections::{BTreeMap, BTreeSet};

use gpc_trees::Id;

use super::Observation;
use super::book::Book;
use super::findings::Findings;
use crate::by_call::ByCall;
use crate::faults::Fault;
use chained_gpc::wire::message::{Answer, Message, Response};
use chained_gpc::wire::{CallId, Request};

const NAME: &str = "route";

/// Requests of all calls.
#[derive(Default)]
pub(super) struct Route {
    calls: ByCall<CallRequests>,
}

/// Requests of one call.
#[derive(Default)]
struct CallRequests {
    /// By position: whether its parent in the tree has asked it, and the number of its answers to that.
    by_parent: Vec<(bool, u8)>,
    /// The same for other senders, by the position asked and the sender.
    by_others: BTreeMap<(u32, Id), u8>,
    /// Claimed sender and position of each copy that the world sent.
    forged: BTreeSet<(Id, u32)>,
    /// Sender and receiver of replies whose head was sent.
    streaming: BTreeSet<(Id, Id)>,
    /// By position: the longest time limit that it was given, nanoseconds.
    limits: Vec<u64>,
}

impl Route {
    #[inline(always)]
    pub(super) fn observe(&mut self, book: &Book, seen: &Observation<'_>, findings: &mut Findings) {
        match seen {
            Observation::Started { call, plan } => {
                let n = plan.ids.len() as usize;
                let mut requests = CallRequests {
                    by_parent: vec![(false, 0); n],
                    limits: vec![0; n],
                    ..CallRequests::default()
                };
                if let Some(root) = requests.limits.first_mut() {
                    *root = plan.limit_ns;
                }
                self.calls.insert(*call, requests);
            }
            Observation::Forged { from, to, call } => {
                let position = book.calls.get(call).and_then(|record| record.position(*to));
                if let (Some(position), Some(requests)) = (position, self.calls.get_mut(call)) {
                    requests.forged.insert((*from, position));
                }
            }
            Observation::Sent { from, to, message } => {
                let fault = self.sent(book, *from, *to, message);
                fault.into_iter().for_each(|what| findings.add(NAME, format!("{from} -> {to}: {what}")));
            }
            _ => {}
        }
    }

    fn sent(&mut self, book: &Book, from: Id, to: Id, message: &Message) -> Option<String> {
        match message {
            Message::Request(request) => self.request(book, from, to, request),
            Message::Response(response) => self.answer(book, from, to, response),
            Message::Moved(call) => self
                .asked(book, to, from, *call, "a word of having moved")
                .or_else(|| self.adopted(book, from, *call)),
            Message::Cancel(call) => self.asked(book, from, to, *call, "a cancel"),
            Message::Release(call) => self.asked(book, from, to, *call, "a release"),
            Message::Ping | Message::Pong | Message::Stragglers(_) | Message::Pause(_) => None,
        }
    }

    fn request(&mut self, book: &Book, from: Id, to: Id, request: &Request) -> Option<String> {
        let call = request.call;
        let (Some(record), Some(requests)) = (book.calls.get(&call), self.calls.get_mut(&call)) else {
            return Some(format!("a request of call {call}, which nobody started"));
        };
        let (Some(above), Some(place)) = (record.position(from), record.position(to)) else {
            return Some(format!("a request of call {call}, whose list does not have both"));
        };
        if request.ids != record.slice(place) {
            return Some(format!(
                "a request of call {call} with ids {}, which is not its slice",
                request.ids
            ));
        }
        let Some(between) = record.between(above, place) else {
            return Some(format!("a request of call {call} that does not follow the tree"));
        };
        let is_parent = between == 0;
        if request.skipped != between || !is_parent && !record.plan.partial {
            let skipped = request.skipped;
            return Some(format!(
                "a request of call {call} past {between} parents, of which it skips {skipped}"
            ));
        }
        let before = match is_parent {
            true => std::mem::replace(&mut requests.by_parent[place as usize].0, true),
            false => requests.by_others.insert((place, from), 0).is_some(),
        };
        let limit = u64::try_from(request.limit.as_nanos()).unwrap_or(u64::MAX);
        let own = requests.limits[above as usize];
        // An adopter's limit does not change the limit of an id that has one.
        let longest = &mut requests.limits[place as usize];
        *longest = limit.max(*longest);
        if limit > own && own > 0 {
            return Some(format!(
                "a request of call {call} with a limit of {limit} ns, its own was {own} ns"
            ));
        }
        // A new run of an id may receive a copied request and forward it. So may an id that has forgotten the calls of
        // a root whose run has ended.
        let new_run = book.any(&[Fault::Duplicate]) && book.ended.contains_key(&from);
        let follows = record.is_forged(above) || new_run || book.may_run_anew(record);
        (before && !follows).then(|| format!("a second request of call {call}"))
    }

    /// Checks that an answer goes to an id that has asked.
    fn answer(&mut self, book: &Book, from: Id, to: Id, response: &Response) -> Option<String> {
        let call = response.call;
        let wrong = self.asked(book, to, from, call, "an answer");
        if wrong.is_some() || book.any(&[Fault::Duplicate]) {
            return wrong;
        }
        let record = book.calls.get(&call)?;
        let (place, requests) = (record.position(from)?, self.calls.get_mut(&call)?);
        match &response.answer {
            Answer::Arriving(_) => drop(requests.streaming.insert((from, to))),
            // The failure replaces a reply that was not complete.
            Answer::Failed(_) if requests.streaming.remove(&(from, to)) => return None,
            _ => {}
        }
        let is_parent = record.position(to) == Some(record.parents[place as usize]);
        let count = match requests.by_others.get_mut(&(place, to)) {
            Some(count) => count,
            None if is_parent => &mut requests.by_parent[place as usize].1,
            None => return None,
        };
        *count = count.saturating_add(1);
        // A copied request is answered, too.
        (*count > 1 && !record.is_forged(place)).then(|| format!("a second answer to call {call}"))
    }

    /// Checks that an id that sends MOVED was adopted.
    fn adopted(&self, book: &Book, id: Id, call: CallId) -> Option<String> {
        let place = book.calls.get(&call)?.position(id)?;
        let by_others = &self.calls.get(&call)?.by_others;
        let adopted = by_others.range((place, 0)..=(place, Id::MAX)).next();
        adopted
            .is_none()
            .then(|| format!("a word of having moved in call {call}, in which nobody has adopted {id}"))
    }

    /// Whether `above` has asked `below` in a call.
    fn asked(&self, book: &Book, above: Id, below: Id, call: CallId, what: &str) -> Option<String> {
        let record = book.calls.get(&call);
        let place = record.and_then(|record| record.position(below));
        let known = match (record, place, self.calls.get(&call)) {
            (Some(record), Some(place), Some(requests)) => {
                let parent = record.parents[place as usize];
                let by_parent =
                    requests.by_parent[place as usize].0 && record.position(above) == Some(parent);
                by_parent
                    || requests.by_others.contains_key(&(place, above))
                    || requests.forged.contains(&(above, place))
            }
            _ => false,
        };
        (!known).then(|| format!("{what} of call {call}, in which {above} never asked {below}"))
    }
}
