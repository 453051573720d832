//! Messages on their way into the links: those that nodes send, and those that the world sends in their name.

use gpc_trees::Id;

use super::Refusal;
use super::given::{GivenMessage, Kind, Name, Origin};
use super::pipe::End;
use super::step::Place;
use crate::call_of::call_of;
use crate::carry::may_come_again;
use crate::cost::wire_bytes;
use crate::event::Event;
use crate::faults::{Fault, Mishap};
use crate::parcel::Parcel;
use crate::world::World;
use chained_gpc::chain::Input;
use chained_gpc::link::Arrival;
use chained_gpc::link::peering::{LinkStatus, State};
use chained_gpc::wire::message::{Answer, Response};
use chained_gpc::wire::short::SHORT_MAX;
use chained_gpc::wire::{CallId, Message};

impl World {
    /// Gives a message of a node to its links.
    pub(crate) fn leaves(&mut self, from: Id, to: Id, message: Message) {
        let (orphans, copy, lied) = self.faults_of(from, to, &message);
        if let Message::Response(Response { call, answer }) = &message {
            if matches!(answer, Answer::Failed(_) | Answer::Partial(_)) {
                self.process(from).links.end_request(to, *call);
            }
            if matches!(answer, Answer::Arriving(_)) {
                self.perhaps_breaks_below(from);
            }
        }
        let cost = self.hosts.cost(from, to);
        let arrival = self.now + cost.latency_ns + 2 * cost.overhead_ns;
        self.hand_to_links(from, to, message, Origin::ByNode);
        if orphans {
            self.orphan(from, to, arrival);
        }
        copy.into_iter().for_each(|copy| self.forge(from, to, copy, arrival));
        lied.into_iter().for_each(|message| self.lie(from, to, &message, arrival));
    }

    /// The faults that follow a message: its sender ends, another id sends a copy, or a lie about it.
    fn faults_of(&mut self, from: Id, to: Id, message: &Message) -> (bool, Option<Message>, Option<Message>) {
        let (now, runs) = (self.now, [self.hosts.run(from), self.hosts.run(to)]);
        let place = self.linked().place_up(from, to);
        let Some(mishaps) = &mut self.mishaps else { return (false, None, None) };
        // A heartbeat that nobody has asked for is none.
        let copy = may_come_again(message).filter(|message| !matches!(message, Message::Pong));
        // What waits for its link has not been on any.
        if place.is_some()
            && mishaps.used.has(Fault::Duplicate)
            && let Some(copy) = copy.clone()
        {
            mishaps.repeats.remember(now, from, to, runs, copy);
        }
        let (mut orphans, mut forged) = (false, false);
        if matches!(message, Message::Request(_)) {
            (orphans, forged) = mishaps.request(now);
        }
        let lies = call_of(message).is_some_and(|_| mishaps.count_message(now));
        (orphans, copy.clone().filter(|_| forged), copy.filter(|_| lies))
    }

    /// Sometimes breaks a link below a node whose long reply has begun: perhaps the one that its data come over.
    fn perhaps_breaks_below(&mut self, id: Id) {
        if self.mishaps.as_mut().is_some_and(|mishaps| mishaps.breaks_reply(self.now)) {
            let at = self.now + 1 + self.random.below(2 * self.hosts.cost(id, id).latency_ns + 1);
            let hard = self.random.chance(3, 4);
            self.queue.push(at, Event::Mishap(Box::new(Mishap::Break { hard, of: Some(id) })));
        }
    }

    /// Gives a message to the links of its sender.
    pub(super) fn hand_to_links(&mut self, from: Id, to: Id, message: Message, origin: Origin) {
        let now = self.time();
        let given = GivenMessage::new(&message, origin, self.now);
        let cancels = if let Message::Cancel(call) = &message { Some(*call) } else { None };
        let opens = matches!(message, Message::Request(_) | Message::Ping);
        let unlisted = self.linked().settings.refusal == Refusal::Unlisted && self.refuses_now(from, to);
        let links = &mut self.process(from).links;
        match unlisted {
            true => drop(links.peering.book.unlisted.insert(to)),
            false => drop(links.peering.book.unlisted.remove(&to)),
        }
        let (state, unknown) =
            (links.peering.state(to), links.peering.link_status(to) == LinkStatus::Unknown);
        if unknown {
            return self.hand_to_nobody(from, to, message);
        }
        let place = self.linked().place_up(from, to);
        self.process(from).links.send(now, to, message);
        match place {
            Some((pipe, side)) => {
                let beats = matches!(given.kind(), Kind::Ping | Kind::Pong);
                let end = self.linked().end((pipe, 1 - side));
                match beats {
                    true => end.given.push_beat(given, end.rules.beats(), end.rules.asks()),
                    false => end.given.push(given),
                }
                cancels.into_iter().for_each(|call| self.end_of_reply((pipe, side), call));
            }
            None if opens || state != State::Absent => {
                self.process(from).queued.entry(to).or_default().push(given);
            }
            None => self.trace.say(self.now, format_args!("  there is no link for it")),
        }
        self.settle_links(from);
    }

    /// Gives the links of a process a message for an id that is not listed: its node learns that at once.
    fn hand_to_nobody(&mut self, from: Id, to: Id, message: Message) {
        let (now, asks) = (self.time(), matches!(message, Message::Request(_)));
        self.inject(Fault::Refused, &[from, to]);
        self.process(from).links.send(now, to, message);
        let tells = |arrival: &Arrival| matches!(arrival, Arrival::Input(Input::Unreachable { peer, .. }) if *peer == to);
        let told = self.process(from).links.arrivals.iter().any(tells);
        let wrong = format!("is not told that {to}, which it asks, is not among its peers");
        self.blame(from, (asks && !told).then_some(wrong));
        self.settle_links(from);
    }

    /// The reply to a call that comes to this end is of no use any more.
    pub(super) fn end_of_reply(&mut self, place: Place, call: CallId) {
        self.linked().end(place).given.take_back(Name::response(call));
    }

    /// Whether a message can be sent in the name of a node: a paused node opens no link.
    pub(crate) fn may_speak(&self, from: Id, to: Id) -> bool {
        let linked = self.linked.as_ref().is_some_and(|linked| linked.up(from, to).is_some());
        self.hosts.is_up(to) && self.hosts.is_up(from) && (linked || self.paused_until(from).is_none())
    }

    /// Schedules a message that is sent in the name of a node.
    pub(crate) fn comes_in_the_name_of(&mut self, parcel: Parcel, at: u64) {
        self.queue.push(at.max(self.now), Event::Speaks(Box::new(parcel)));
    }

    /// Sends a message in the name of a node.
    pub(crate) fn speaks(&mut self, parcel: Parcel) {
        let Parcel { from, to, begun, sent, message, .. } = parcel;
        if self.may_speak(from, to)
            && self.hosts.incarnation(from) == begun
            && !self.is_leaving(from, to, &message)
        {
            let origin = if sent.is_lie() { Origin::Lie } else { Origin::Forged };
            self.hand_to_links(from, to, message, origin);
        }
    }

    /// Whether the same request, or its answer, is on its way already, or it may get into the way of one: a link
    /// carries one at a time.
    fn is_leaving(&self, from: Id, to: Id, message: &Message) -> bool {
        let (Message::Request(request), Some(linked)) = (message, self.linked.as_deref()) else {
            return false;
        };
        if wire_bytes(message) > SHORT_MAX as u64 {
            return true;
        }
        let name = Name::request(request.call);
        let queued = linked.existing(from).and_then(|process| process.queued.get(&to));
        let place = linked.place_up(from, to).map(|(pipe, side)| (&linked.pipes[pipe as usize].ends, side));
        let leaves = |ends: &[End; 2], side: usize| {
            let there = &ends[1 - side];
            there.given.has(name)
                || there.rules.has_begun(request.call)
                || ends[side].rules.answers(request.call)
        };
        queued.is_some_and(|queued| queued.has(name)) || place.is_some_and(|(ends, side)| leaves(ends, side))
    }

    /// Repeats a message of a link that broke, on the next link.
    pub(crate) fn send_again(&mut self, from: Id, to: Id, message: Message) {
        let left = self.mishaps.as_ref().is_none_or(|mishaps| mishaps.repeats.has_left(from, to, &message));
        if left && self.paused_until(from).is_none() && !self.is_leaving(from, to, &message) {
            self.hand_to_links(from, to, message, Origin::ByNode);
        }
    }
}
