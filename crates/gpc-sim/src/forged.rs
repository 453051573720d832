//! Messages from ids that have no part in a call: copies of requests, invalid requests, and messages that only a parent
//! or a child may send.
//!
//! After a copied request the checkers cannot predict what becomes of its receiver and the ids below. Every other
//! forged message must change nothing: the checkers count it as a heartbeat.

use std::sync::Arc;

use gpc_trees::{Group, Id, IdList, Shape, Tree};

use super::call_of::call_of;
use super::check::Observation;
use super::event::Event;
use super::faults::{Act, Fate, Fault, Passage};
use super::large::LARGE;
use super::parcel::{Parcel, Sent};
use super::world::World;
use chained_gpc::wire::message::{Answer, Partial, Response, SubtreeReply};
use chained_gpc::wire::{
    CallId, Cause, CauseKind, Coverage, Failure, Message, Payload, Report, Request, Stage, Status,
};

/// Ids to try in order to find one that has no part in a call.
const TRIES: u32 = 8;

/// Latest that a lie follows the message that it is about, in latencies: the call may have ended at that message's
/// sender.
const BEHIND: u64 = 20;

/// If the numbers of two calls of a root are further apart, other calls lie between them.
const APART: u64 = 32;

/// Offset of call numbers beyond any of a run.
const YET_TO_COME: u64 = 1 << 40;

/// Largest number of ids in a tree made for other ids.
const SHAPE_MAX: u32 = 64;

/// Wire id of a tree that is not registered.
const NO_TREE: u64 = 1 << 40;

impl World {
    /// The request that the root of a call would receive if it had a parent.
    fn of_the_root(&self, request: &Request) -> Option<Message> {
        // Its parts would be those of all ids.
        let plan = &self.call(request.call).filter(|_| request.parts.is_none())?.plan;
        let whole = Request {
            position: 0,
            ids: plan.ids.clone(),
            tree: Ok(plan.tree.clone()),
            data: request.data.fork(),
            ..request.clone()
        };
        Some(Message::Request(whole.into()))
    }

    /// A request for the first id of the list alone, past one more parent, as if an ancestor had lost the parent.
    fn of_one(request: &Request) -> Option<Message> {
        let first = request.ids.first().filter(|_| request.partial && request.ids.len() > 1)?;
        let parts = request.parts.as_ref().map(|parts| Box::new(parts.slice(Group { start: 0, len: 1 })));
        let one = Request {
            ids: IdList::range(first..first + 1),
            skipped: request.skipped + 1,
            adopted: true,
            tree: Ok(Tree::Binary),
            data: parts.as_ref().map_or_else(|| request.data.fork(), |parts| parts.own()),
            parts,
            ..request.clone()
        };
        Some(Message::Request(one.into()))
    }

    /// A request that claims adoption in a call that is not partial, where no node adopts.
    fn adopting(request: &Request) -> Option<Message> {
        let skipped = Some(request.skipped + 1).filter(|_| !request.partial)?;
        let adopting = Request { skipped, adopted: true, ..request.fork() };
        Some(Message::Request(adopting.into()))
    }

    /// Sends a copy of a request from an id that is not its sender, or to the root of the call.
    pub(super) fn forge(&mut self, from: Id, to: Id, message: Message, arrival: u64) {
        let Message::Request(request) = &message else { return };
        let call = request.call;
        let other = match self.random.below(4) {
            0 => self.of_the_root(request).map(|whole| (call.root, whole)),
            1 => World::of_one(request).or_else(|| World::adopting(request)).map(|one| (to, one)),
            _ => None,
        };
        let to_root = other.as_ref().is_some_and(|(to, _)| *to == call.root);
        let (to, message) = other.unwrap_or((to, message));
        let up = self.hosts.up();
        let others = up.len() - u32::from(up.contains(from)) - u32::from(to != from && up.contains(to));
        // Less than a `u32`.
        let place = self.random.below(others.into()) as u32;
        let Some(other) = up.at_without(place, [from, to]) else { return };
        // With the root an id may have its first link after the call.
        let root = Some(call.root).filter(|&root| ![from, to].contains(&root) && up.contains(root));
        let liar = if self.random.chance(1, 3) { root.unwrap_or(other) } else { other };
        let Some(mishaps) = &self.mishaps else { return };
        let act = self.call(call).and_then(|state| state.acts.get(&to));
        // While a call runs, its root knows it; afterwards the root keeps only its name, and so does an id whose func
        // fails.
        let late = if to_root || matches!(act, Some(Act::Fail | Act::Panic)) { 2 } else { 1 };
        let at = self.now + mishaps.copy_takes(&mut self.random, arrival - self.now, late);
        if let Some(parcel) = self.in_the_name_of(liar, to, message) {
            // A root knows that its calls have no parent.
            let concerned = if to_root { [liar, liar, liar] } else { [to, liar, from] };
            self.inject(Fault::SecondParent, &concerned);
            self.observe(&Observation::Forged { from: liar, to, call });
            self.arrives(parcel, at);
        }
    }

    /// Stores the last request of each root at an id, in a world that copies requests. The copy arrives when a root has
    /// restarted, or when its call numbers have jumped.
    pub(super) fn remember_request(&mut self, at: Id, message: &Message) {
        if let Message::Request(request) = message
            && self.profile.history.copies
            && self.scenario.n <= LARGE
            && !request.partial
            && request.body().is_empty()
        {
            let before = self.asked.insert((at, request.call.root), request.clone());
            // The numbers in between have pushed earlier calls out of the memory of completed calls.
            let apart =
                |before: &Arc<Request>| request.call.sequence.saturating_sub(before.call.sequence) > APART;
            if let Some(before) = before.filter(apart) {
                self.comes_behind(at, before);
            }
        }
    }

    /// Schedules a copy of a request for a time when a later call of its root may have ended.
    fn comes_behind(&mut self, at: Id, request: Arc<Request>) {
        let up = self.hosts.up();
        let others = up.len() - u32::from(up.contains(at));
        let place = self.random.below(others.into()) as u32;
        let Some(other) = up.at_without(place, [at, at]) else { return };
        let Some(mishaps) = self.mishaps.as_ref().filter(|it| self.now < it.end) else { return };
        let latency = self.hosts.cost(other, at).latency_ns;
        let when = self.now + mishaps.copy_takes(&mut self.random, latency * BEHIND, 1);
        self.copy_comes(other, at, request, when);
    }

    /// Sends a copy of a request from an id that has no part in the call.
    fn copy_comes(&mut self, liar: Id, at: Id, request: Arc<Request>, when: u64) {
        let call = request.call;
        if let Some(parcel) = self.in_the_name_of(liar, at, Message::Request(request)) {
            self.inject(Fault::SecondParent, &[at, liar, liar]);
            self.observe(&Observation::Forged { from: liar, to: at, call });
            self.arrives(parcel, when);
        }
    }

    /// An id that links with a new run of a root forgets the calls of the earlier run. It must remember the calls of
    /// other roots: a request of one of them arrives again.
    pub(super) fn perhaps_asked_again(&mut self, at: Id, peer: Id) {
        let before_the_end = self.mishaps.as_ref().is_some_and(|mishaps| self.now < mishaps.end);
        if !before_the_end || self.hosts.run(peer) == 0 || self.asked.is_empty() {
            return;
        }
        let others = self.asked.range((at, 0)..=(at, Id::MAX));
        let others: Vec<&Arc<Request>> = others
            .filter(|((_, root), _)| *root != peer && *root != at)
            .map(|(_, request)| request)
            .collect();
        let Some(request) = self.random.pick(&others).map(|request| Arc::clone(request)) else { return };
        let at_once = self.now + self.random.below(2 * self.hosts.cost(peer, at).latency_ns + 1);
        self.copy_comes(peer, at, request, at_once);
    }

    /// Sends a message about a call from an id that has no part in it.
    pub(super) fn lie(&mut self, from: Id, to: Id, message: &Message, arrival: u64) {
        let Some(call) = call_of(message) else { return };
        let Some(plan) = self.call(call).map(|state| state.plan.clone()) else { return };
        let anybody = plan.ids.id(self.random.below(plan.ids.len().into()) as u32);
        let at = match self.random.below(4) {
            0 => from,
            1 => anybody.unwrap_or(to),
            _ => to,
        };
        let strangers = (0..TRIES).map(|_| self.random.below(self.scenario.n.into()) as Id);
        let strangers: Vec<Id> = strangers.collect();
        let is_stranger =
            |id: &&Id| **id != at && self.hosts.is_up(**id) && self.checkers.is_stranger(call, at, **id);
        let Some(&liar) = strangers.iter().find(is_stranger) else { return };
        let request = match message {
            Message::Request(request) if self.random.chance(1, 2) => self.none_of(at, request),
            _ => None,
        };
        let message = request.unwrap_or_else(|| self.said_of(call, liar));
        let latency = self.hosts.cost(liar, at).latency_ns;
        let behind = if self.random.chance(1, 2) { self.random.below(latency * BEHIND + 1) } else { 0 };
        let when = self.now + 1 + self.random.below(2 * (arrival - self.now) + 1) + behind;
        if let Some(parcel) = self.in_the_name_of(liar, at, message) {
            self.inject(Fault::Forged, &[liar, at]);
            let sent = parcel.sent.lie(true);
            self.arrives(Parcel { sent, ..parcel }, when);
        }
    }

    /// A request with a call name of its receiver that the receiver has not used yet.
    fn yet_to_come(at: Id, request: &Request) -> Message {
        let call = CallId { root: at, sequence: request.call.sequence.saturating_add(YET_TO_COME) };
        let (ids, tree, data) = (IdList::range(at..at + 1), Ok(Tree::Binary), request.data.fork());
        let parts = None;
        let own =
            Request { call, ids, tree, data, parts, position: 0, total: 1, skipped: 0, ..request.clone() };
        Message::Request(own.into())
    }

    /// An invalid request: its receiver is not first in the list, or its tree does not fit the ids.
    fn none_of(&mut self, at: Id, request: &Request) -> Option<Message> {
        let tree = match self.random.below(2) {
            _ if request.ids.first() != Some(at) => request.tree.clone(),
            // Of a partial call it may pass for the request of another parent.
            _ if request.partial => return None,
            // A shape takes a word for each id.
            // Frames carry no shape that does not fit the ids.
            _ if self.linked.is_some() => Err(NO_TREE),
            0 => Err(NO_TREE),
            _ if request.ids.len() > SHAPE_MAX => Err(NO_TREE),
            _ => {
                let places = request.ids.len() + 1;
                let sizes = std::iter::once(places).chain((1..places).map(|_| 1)).collect();
                Ok(Tree::Explicit(Shape::from_sizes(sizes).ok()?))
            }
        };
        if self.random.chance(1, 4) {
            return Some(World::yet_to_come(at, request));
        }
        // It skips no parent.
        let none = Request { tree, skipped: 0, adopted: false, ..request.fork() };
        Some(Message::Request(none.into()))
    }

    /// A message that only a parent or a child may send.
    fn said_of(&mut self, call: CallId, liar: Id) -> Message {
        let part = || SubtreeReply { data: Payload::copy_from_slice(b"3 lie"), ..SubtreeReply::default() };
        let answer = match self.random.below(7) {
            0 => return Message::Cancel(call),
            1 | 2 => return Message::Release(call),
            3 => return Message::Moved(call),
            4 => Answer::Reply(part()),
            5 => {
                let cause = Cause::new(liar, Stage::Func, CauseKind::Failed, "a lie");
                let coverage = Coverage::all(Status::Failed, 1);
                Answer::Failed(Box::new(Failure { cause, coverage }))
            }
            _ => {
                let coverage = Coverage::all(Status::Done, 1);
                let report = Report { coverage, ..Report::default() };
                Answer::Partial(Box::new(Partial { reply: part(), report }))
            }
        };
        Message::Response(Response { call, answer })
    }

    /// A message sent in the name of `liar`, without its node; `None` if no link carries it.
    fn in_the_name_of(&mut self, liar: Id, to: Id, message: Message) -> Option<Parcel> {
        if self.linked.is_some() {
            let (begun, passage) = (self.hosts.incarnation(liar), Passage::default());
            let parcel = Parcel { from: liar, to, passage, begun, sent: Sent::at(self.now), message };
            return self.may_speak(liar, to).then_some(parcel);
        }
        let up = self.hosts.is_up(to);
        let passage = match self.mishaps.as_mut()?.links.send(liar, to, true, up) {
            Fate::Goes(passage) => passage,
            Fate::Vanishes => return None,
            // The node learns of a refused link that the simulator opened in its name.
            Fate::Refused(epoch) => {
                let (at, run) = (self.now + 2 * self.hosts.cost(liar, to).latency_ns, self.hosts.run(liar));
                self.queue.push(at, Event::Notice { id: liar, run, peer: to, epoch });
                return None;
            }
        };
        let (begun, sent) = (self.hosts.incarnation(liar), Sent::at(self.now));
        Some(Parcel { from: liar, to, passage, begun, sent, message })
    }

    fn arrives(&mut self, parcel: Parcel, at: u64) {
        if self.linked.is_some() {
            return self.comes_in_the_name_of(parcel, at);
        }
        let at = self.in_order(parcel.from, parcel.to, parcel.passage, at);
        self.on_its_way(parcel, at);
    }
}
