//! Driver of each process's peering machine. It acts as `runtime::greeting` and `runtime::links`, with simulated
//! connections instead of sockets.

use gpc_trees::Id;

use super::arrival::Arrival;
use super::pipe::{ConnectionEvent, of_key};
use super::{Origin, OutgoingMessage, Process};
use crate::check::Observation;
use crate::cost::wire_bytes;
use crate::event::Event;
use crate::faults::{Fault, Passage};
use crate::parcel::{Parcel, Sent};
use crate::world::World;
use chained_gpc::chain::Time;
use chained_gpc::link::peering::{ANSWER_LIMIT, LinkKey, LinkStatus, NewLink, Output, State};
use chained_gpc::wire::{CauseKind, Message};

impl World {
    /// Link state of a process.
    pub(super) fn process(&mut self, id: Id) -> &mut Process {
        let (run, incarnation) = (self.hosts.run(id), self.hosts.incarnation(id));
        self.linked().process(id, run, incarnation)
    }

    /// Whether a message can leave at once: links are modelled, or the link is up.
    pub(crate) fn is_linked(&self, from: Id, to: Id) -> bool {
        self.linked.as_ref().is_none_or(|linked| linked.up(from, to).is_some())
    }

    /// Queues a message until its link is up, and opens the link if the message may do so.
    pub(crate) fn send_when_up(&mut self, from: Id, to: Id, outgoing: OutgoingMessage) {
        // As in the runtime: any other message is about calls of a link that is lost.
        let opens = matches!(outgoing.message, Message::Request(_) | Message::Ping)
            || outgoing.origin != Origin::ByNode;
        let process = self.process(from);
        match process.peering.want(to) {
            LinkStatus::Open if opens => {
                process.pending.entry(to).or_default().push(outgoing);
                self.connect(from, to);
            }
            LinkStatus::Coming | LinkStatus::Up(_) => process.pending.entry(to).or_default().push(outgoing),
            LinkStatus::Open | LinkStatus::Unknown => {
                self.trace.say(self.now, format_args!("  there is no link for it"));
            }
        }
    }

    /// Passage of a message over the link to a peer; `None` if the link is broken.
    pub(crate) fn passage(&mut self, from: Id, to: Id) -> Option<Passage> {
        let (pipe, _) = of_key(self.linked().up(from, to)?);
        (!self.pipe(pipe).is_broken()).then_some(Passage::over(pipe))
    }

    /// Carries out the outputs of a process's machine, and schedules its next deadline.
    pub(super) fn settle_peering(&mut self, id: Id) {
        // This loop ends: every connection ends once, and its outputs are bounded.
        while let Some(output) = self.process(id).peering.poll() {
            self.carry_out_for(id, output);
        }
        let process = self.process(id);
        let next = process.peering.next_deadline().map(Time::as_nanos);
        if let Some(at) = next.filter(|at| process.due.is_none_or(|before| *at < before)) {
            process.due = Some(at);
            let run = process.run;
            self.queue.push(at, Event::Due { id, run });
        }
    }

    fn carry_out_for(&mut self, id: Id, output: Output) {
        match output {
            Output::Write { key, bytes } => {
                let (pipe, side) = of_key(key);
                self.convey(pipe, 1 - side, ConnectionEvent::Bytes(bytes));
            }
            // Written bytes leave before the end.
            Output::Finish { key } | Output::Close { key } | Output::Replaced { key, .. } => {
                self.discard(key)
            }
            Output::Refused { key, why } => self.refuses(id, key, &why),
            Output::Up(link) => self.establish(id, *link),
            Output::Ask { key, peer } => self.ask_whether_it_lives(id, key, peer),
            Output::Lost { peer, kind, why, stood } => self.lost(id, peer, kind, why, !stood),
            Output::Unreached { peer, kind, why } => self.lost(id, peer, kind, why, true),
        }
    }

    /// Handles a link that is up: sends the queued messages.
    fn establish(&mut self, id: Id, link: NewLink) {
        let NewLink { key, hello, accepted, .. } = link;
        let (peer, incarnation, generation) = (hello.from, hello.incarnation, hello.generation);
        let ((pipe, side), by) = (of_key(key), if accepted { peer } else { id });
        let begun = self.pipe(pipe).ends[1 - side].begun;
        self.trace.say(
            self.now,
            format_args!("{id} has connection {pipe}, which {by} has opened, for its link to {peer}, generation {generation}"),
        );
        for outgoing in self.process(id).pending.remove(&peer).unwrap_or_default() {
            self.send_outgoing(id, peer, outgoing);
        }
        self.queue_arrival(id, Arrival::Up { peer, incarnation, begun });
    }

    /// Sends a message on a link that is up.
    fn send_outgoing(&mut self, from: Id, to: Id, outgoing: OutgoingMessage) {
        let OutgoingMessage { message, bytes, data, origin } = outgoing;
        match origin {
            Origin::ByNode => self.transmit(from, to, message, bytes, data),
            Origin::Forged | Origin::Lie => self.send_for(from, to, message, self.now, origin),
        }
    }

    /// Whether a message can be sent in the name of a node: a paused node opens no link.
    pub(crate) fn may_speak(&self, from: Id, to: Id) -> bool {
        self.hosts.is_up(to) && (self.is_linked(from, to) || self.paused_until(from).is_none())
    }

    /// Schedules a message that is sent in the name of a node, at a time or when its link is up.
    pub(crate) fn comes_in_the_name_of(&mut self, parcel: Parcel, at: u64) {
        let Parcel { from, to, message, sent, .. } = parcel;
        let (data, lie) = (sent.is_data(), sent.is_lie());
        let origin = if lie { Origin::Lie } else { Origin::Forged };
        if self.is_linked(from, to) {
            return self.send_for(from, to, message, at, origin);
        }
        let bytes = wire_bytes(&message);
        self.send_when_up(from, to, OutgoingMessage { message, bytes, data, origin });
    }

    /// Sends a message in the name of a node on a link that is up; it arrives at `at` or later.
    fn send_for(&mut self, from: Id, to: Id, message: Message, at: u64, origin: Origin) {
        let Some(passage) = self.passage(from, to) else { return };
        let (begun, sent) = (self.hosts.incarnation(from), self.now);
        let latency = self.hosts.cost(from, to).latency_ns;
        let at = self.linked().in_order(to, passage, at.max(sent + latency));
        let sent = Sent::at(sent).lie(origin == Origin::Lie);
        let parcel = Parcel { from, to, passage, begun, sent, message };
        self.comes_over(at, parcel);
    }

    /// Asks the linked run of a peer for a heartbeat, because another run has connected.
    fn ask_whether_it_lives(&mut self, id: Id, key: LinkKey, peer: Id) {
        self.trace.say(
            self.now,
            format_args!("{id} asks the run of {peer} that it is linked with, for another one is there"),
        );
        self.send_for(id, peer, Message::Ping, self.now, Origin::Lie);
        let (pipe, side) = of_key(key);
        let back_at = self.pipe(pipe).ends[side].back_at.max(self.now);
        let until = Time::from_nanos(back_at).plus(ANSWER_LIMIT);
        self.process(id).peering.set_answer_limit(peer, until);
    }

    /// Drops the messages queued for a peer.
    fn lost(&mut self, id: Id, peer: Id, kind: CauseKind, why: String, unreached: bool) {
        self.process(id).pending.remove(&peer);
        self.queue_arrival(id, Arrival::Lost { peer, kind, why, unreached });
    }

    /// Handles a message that arrives on a connection; returns whether it counts.
    pub(crate) fn comes_over_link(&mut self, parcel: &Parcel) -> bool {
        let (from, to, pipe) = (parcel.from, parcel.to, parcel.passage.connection());
        let now = self.now;
        let Some(side) = self.pipe(pipe).end_of(to) else { return false };
        let (gone, end) = (self.pipe(pipe).is_gone(), &self.pipe(pipe).ends[side]);
        let ended = end.ends_at <= now;
        if gone || !end.open {
            return false;
        }
        let key = super::pipe::key_of(pipe, side);
        if self.process(to).peering.up(from) != Some(key) {
            self.blame(to, Some(format!("hears {from} on connection {pipe}, which is not its link")));
            return false;
        }
        let wrong = self.process(to).announced.comes(from, parcel.begun);
        self.blame(to, wrong);
        let given_up = !self.pipe(pipe).ends[1 - side].open;
        if given_up && matches!(&parcel.message, Message::Request(request) if request.partial) {
            // Messages sent before the link was given up still arrive; an adopter may have passed the receiver
            // meanwhile.
            self.inject(Fault::Duplicate, &[from, to]);
        }
        match &parcel.message {
            // A PONG that is followed by the end of the link does not count as an answer.
            Message::Pong if !ended && self.process(to).peering.has_waiting_runs() => {
                self.process(to).peering.reject_waiting_run(from);
                self.settle_peering(to);
            }
            Message::Pause(length) => {
                let length = length.as_nanos() as u64;
                self.pipe(pipe).ends[side].back_at = if length == 0 { 0 } else { self.now + length };
            }
            _ => {}
        }
        if ended && self.random.chance(1, 2) {
            // The message was read together with the end of the link: the link is lost before the chain gets the
            // message.
            self.connection_ended(pipe, side, "connection reset");
        }
        true
    }

    /// Time at which an event of a resumed process happens: after everything that arrived on its links meanwhile,
    /// perhaps the end of a link. The events of later functions happen after it.
    pub(crate) fn behind_what_has_come(&mut self, event: &Event) -> Option<u64> {
        let (Event::Ran { id, .. } | Event::Answered { id, .. }) = event else { return None };
        let back_at = self.linked.as_ref().and(self.mishaps.as_ref())?.timing.back_at(*id)?;
        let (now, busy_until) = (self.now, self.hosts.busy_until(*id));
        let process = self.process(*id);
        if now == back_at + 1 && busy_until > now {
            process.caught_up = busy_until + 1;
        }
        (now < process.caught_up).then_some(process.caught_up)
    }

    /// Handles the deadline of a process's machine.
    pub(crate) fn peering_is_due(&mut self, id: Id, run: u32) {
        let now = self.time();
        if self.hosts.is_up(id) && self.hosts.run(id) == run {
            self.process(id).due = None;
            self.process(id).peering.tick(now);
            self.settle_peering(id);
        }
    }

    /// A node drops the link to a silent peer by itself.
    pub(crate) fn abandon_link(&mut self, id: Id, peer: Id) {
        let process = self.process(id);
        process.pending.remove(&peer);
        process.announced.lost(peer, false);
        let state = process.peering.state(peer);
        if let State::Up(key) | State::Connecting(key) = state
            && !self.pipe(of_key(key).0).is_broken()
        {
            self.inject(Fault::Link, &[id, peer]);
        }
        if let State::Up(key) = state {
            self.discard(key);
            self.owns_up_to_a_late_end(key);
        }
        self.process(id).peering.abandon(peer);
        self.drop_lost_pieces(id, Some(peer));
        self.observe(&Observation::LinkEnded { at: id, peer, unreached: false });
        self.settle_peering(id);
    }

    /// Repeats a message of a link that broke, on the next link.
    pub(crate) fn send_again(&mut self, from: Id, to: Id, message: Message) {
        if self.paused_until(from).is_none() {
            let bytes = wire_bytes(&message);
            self.transmit(from, to, message, bytes, false);
        }
    }
}
