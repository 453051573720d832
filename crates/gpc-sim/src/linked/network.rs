//! Network of connections: how they are opened, what they carry, and how they end.

use gpc_trees::Id;

use super::connection::Connection;
use super::pipe::Pipe;
use super::step::{ConnectionEvent, PipeId, Place};
use super::{Linked, Refusal, Step};
use crate::event::Event;
use crate::faults::Fault;
use crate::world::World;
use chained_gpc::chain::Time;
use chained_gpc::link::peering::{LinkKey, Source, Transport};
use chained_gpc::link::{Link, Phase};
use chained_gpc::wire::CauseKind;

/// Why a connection is not opened.
pub(super) const REFUSED: &str = "connection refused";

impl World {
    /// The state of all connections, in a world that uses the peering machine.
    pub(super) fn linked(&mut self) -> &mut Linked {
        self.linked.as_mut().expect("nothing comes over a connection where links are modelled")
    }

    pub(super) fn pipe(&mut self, pipe: PipeId) -> &mut Pipe {
        &mut self.linked().pipes[pipe as usize]
    }

    pub(super) fn time(&self) -> Time {
        Time::from_nanos(self.now)
    }

    /// Opens a connection from one process to another.
    pub(super) fn connect(&mut self, from: Id, to: Id) {
        let (now, way) = (self.time(), self.linked().way(from, to));
        let at_once = way == Transport::User || self.linked().settings.refusal == Refusal::AtOnce;
        if at_once && self.perhaps_refuse(from, to) {
            // A Unix socket reports the refusal at once, and so does a host without a route.
            return self.process(from).links.fail_outgoing(now, to, CauseKind::Unreachable, REFUSED);
        }
        let linked = self.linked();
        let pipe = PipeId::try_from(linked.pipes.len()).expect("fewer connections than memory could hold");
        linked.pipes.push(Pipe::new(from, to));
        linked.intact.insert((from.min(to), from.max(to), pipe));
        self.pipe(pipe).ends[0].begun = self.hosts.incarnation(from);
        let key = self.add_connection(from, (pipe, 0), Phase::Connecting(to));
        self.process(from).open.insert((pipe, 0));
        self.process(from).links.add_outgoing(now, key, to);
        self.trace.say(self.now, format_args!("{from} connects to {to}, connection {pipe}"));
        match way {
            Transport::User | Transport::Host(_) => {
                self.pipe(pipe).listener = Some(self.hosts.run(to));
                self.process(to).open.insert((pipe, 1));
                self.convey(pipe, 1, ConnectionEvent::Accepted);
                self.process(from).links.complete_outgoing(now, key, way, false);
            }
            Transport::Loopback | Transport::Network => self.convey(pipe, 1, ConnectionEvent::Opens),
        }
    }

    /// Adds an end of a connection to the table of its process.
    fn add_connection(&mut self, id: Id, place: Place, phase: Phase) -> LinkKey {
        let mut link = Link::new(phase);
        let process = self.process(id);
        let [bodies, frames] = &process.memory;
        link.inbox.set_budgets(process.spare.clone(), frames);
        link.outbox.set_budgets(id, bodies, frames);
        let key = process.links.table.put(Connection { link, place, blocked: false, rested: true });
        self.linked().end(place).key = Some(key);
        key
    }

    /// Refuses a connection if the receiver is down or refuses the sender; returns whether it does.
    fn perhaps_refuse(&mut self, from: Id, to: Id) -> bool {
        let lives = self.hosts.is_up(to);
        let later = self.linked().settings.refusal == Refusal::AfterGreeting;
        let refuses = !later && self.refuses_now(from, to);
        if lives && refuses {
            self.inject(Fault::Refused, &[from, to]);
        }
        !lives || refuses
    }

    /// Whether connections from one id to another are refused now.
    pub(super) fn refuses_now(&self, from: Id, to: Id) -> bool {
        self.mishaps.as_ref().is_some_and(|mishaps| mishaps.timing.refuses(from, to, self.now))
    }

    /// Sends something to a side of a connection, after everything sent before.
    pub(super) fn convey(&mut self, pipe: PipeId, side: usize, what: ConnectionEvent) {
        let [from, to] = self.sender_and_receiver(pipe, side);
        if self.pipe(pipe).is_broken() {
            return;
        }
        let late = self.lateness(from, to);
        let at = self.now + self.hosts.cost(from, to).latency_ns + late;
        let at = self.pipe(pipe).in_order(side, at);
        if matches!(what, ConnectionEvent::Ends | ConnectionEvent::Refused) {
            self.ends_at(pipe, side, at);
        }
        self.schedule_arrival(pipe, side, at, what);
    }

    /// Schedules an arrival at a side of a connection.
    pub(super) fn schedule_arrival(&mut self, pipe: PipeId, side: usize, at: u64, item: ConnectionEvent) {
        self.pipe(pipe).ends[side].coming.push_back(item);
        self.queue.push(at, Event::Delivery { pipe, side: side as u8 });
    }

    /// Delivers the next item of a stream, unless a partition or a pause holds it back.
    pub(crate) fn delivery(&mut self, pipe: PipeId, side: usize) {
        let [from, to] = self.sender_and_receiver(pipe, side);
        [from, to].into_iter().for_each(|id| self.took_part(id));
        let cut = self.mishaps.as_ref().and_then(|mishaps| mishaps.timing.cut_until(from, to, self.now));
        // The host answers a connection attempt, even if the process is paused.
        let opens = matches!(self.pipe(pipe).ends[side].coming.front(), Some(ConnectionEvent::Opens));
        let paused = self.paused_until(to).filter(|_| !opens);
        if let Some(until) = cut.max(paused) {
            return self.queue.push(until, Event::Delivery { pipe, side: side as u8 });
        }
        let item = self.pipe(pipe).ends[side].coming.pop_front();
        match item.filter(|_| !self.pipe(pipe).is_gone()) {
            Some(ConnectionEvent::Opens) => self.opens(pipe, from, to),
            Some(what) => {
                let at = self.read_at(pipe, side, &what);
                self.schedule_event(at, pipe, side, what);
            }
            None => {}
        }
    }

    /// Time at which the process at a side handles what has arrived: bytes of a link when it has read them.
    fn read_at(&mut self, pipe: PipeId, side: usize, what: &ConnectionEvent) -> u64 {
        let [from, to] = self.sender_and_receiver(pipe, side);
        let now = self.now;
        let end = &mut self.pipe(pipe).ends[side];
        // A hello costs no processor time, and stays behind what came before it.
        let behind = end.taken_in.max(now);
        let up = self.linked().place_up(to, from) == Some((pipe, side));
        if !up || !matches!(what, ConnectionEvent::Bytes(_)) {
            return behind;
        }
        let slowness = self.slowness(to);
        let at = self.hosts.take_in(now, from, to, slowness).max(behind);
        self.pipe(pipe).ends[side].taken_in = at;
        at
    }

    pub(super) fn schedule_event(&mut self, at: u64, pipe: PipeId, side: usize, what: ConnectionEvent) {
        let [from, to] = self.sender_and_receiver(pipe, side);
        self.queue.push(at, Event::Connection(Box::new(Step { pipe, side, from, to, what })));
    }

    /// The ids at the other side and at this side of a connection.
    pub(super) fn sender_and_receiver(&mut self, pipe: PipeId, side: usize) -> [Id; 2] {
        [1 - side, side].map(|side| self.pipe(pipe).ends[side].id)
    }

    /// Sets the time at which the stream to a side ends, unless it ends earlier.
    fn ends_at(&mut self, pipe: PipeId, side: usize, at: u64) {
        let end = &mut self.pipe(pipe).ends[side];
        end.ends_at = end.ends_at.min(at);
    }

    /// Ends a broken connection at a side, ahead of everything still in flight.
    pub(super) fn tell_end(&mut self, pipe: PipeId, side: usize, at: u64) {
        self.ends_at(pipe, side, at);
        self.schedule_event(at, pipe, side, ConnectionEvent::Ends);
    }

    /// Handles an event of a connection.
    pub(crate) fn step_of_connection(&mut self, step: Step) {
        let lost = self.pipe(step.pipe).is_gone() && !matches!(step.what, ConnectionEvent::Ends);
        if !lost {
            let place = u64::from(step.pipe) << 1 | step.side as u64;
            self.trace.fold([self.now, 10, u64::from(step.from) << 32 | u64::from(step.to), place]);
            self.carry_on(step);
        }
    }

    fn carry_on(&mut self, step: Step) {
        let Step { pipe, side, from, to, what } = step;
        let (now, place) = (self.time(), (pipe, side));
        let key = self.pipe(pipe).ends[side].key;
        match what {
            ConnectionEvent::Opens => {}
            ConnectionEvent::Accepted => self.accept(pipe, from, to),
            _ if !self.pipe(pipe).ends[side].open => {}
            ConnectionEvent::Stands => {
                let way = self.linked().way(from, to);
                let Some(key) = key else { return };
                self.process(to).links.complete_outgoing(now, key, way, false);
                self.settle_links(to);
            }
            ConnectionEvent::Bytes(bytes) => {
                self.read(place, &bytes);
                self.owns_up_to_a_wait_in_vain(to, from);
            }
            ConnectionEvent::Room => {
                key.into_iter().for_each(|key| self.made_room(to, key, now));
            }
            ConnectionEvent::Refused => self.connection_ended(place, REFUSED),
            ConnectionEvent::Ends => self.connection_ended(place, "connection reset"),
        }
    }

    /// A connection attempt reaches its host, which accepts it for the run that listens.
    fn opens(&mut self, pipe: PipeId, from: Id, to: Id) {
        if self.perhaps_refuse(from, to) {
            return self.convey(pipe, 0, ConnectionEvent::Refused);
        }
        self.pipe(pipe).listener = Some(self.hosts.run(to));
        // If this run ends now, connections that wait to be accepted end with it.
        self.process(to).open.insert((pipe, 1));
        self.convey(pipe, 0, ConnectionEvent::Stands);
        self.schedule_arrival(pipe, 1, self.now, ConnectionEvent::Accepted);
    }

    fn accept(&mut self, pipe: PipeId, from: Id, to: Id) {
        if !self.hosts.is_up(to) || Some(self.hosts.run(to)) != self.pipe(pipe).listener {
            // The listening run has ended, and the connection with it.
            return;
        }
        let (now, way) = (self.time(), self.linked().way(from, to));
        let (begun, since) = (self.hosts.incarnation(to), self.now);
        let end = &mut self.pipe(pipe).ends[1];
        (end.open, end.begun, end.since) = (true, begun, since);
        let source = (way != Transport::User).then_some(Source::from(from));
        let key = self.add_connection(to, (pipe, 1), Phase::Greeting);
        self.process(to).links.add_incoming(now, key, way, source);
        self.settle_links(to);
        if self.pipe(pipe).ends[1].ends_at <= self.now {
            self.connection_ended((pipe, 1), "connection reset");
        }
    }

    /// Informs a process that a connection has ended.
    pub(super) fn connection_ended(&mut self, place: Place, why: &str) {
        let (pipe, side) = place;
        let [peer, id] = self.sender_and_receiver(pipe, side);
        self.trace.say(self.now, format_args!("{id} learns that connection {pipe} to {peer} has ended"));
        if let Some(key) = self.linked().end(place).key {
            self.close_link(id, key, why);
        }
        self.close_end(place);
        self.forget_intact(pipe);
    }

    /// Closes one end of a connection; the other side learns of it after everything written before.
    pub(super) fn close(&mut self, place: Place) {
        let (pipe, side) = place;
        if self.close_end(place) && self.linked().end(place).ends_at > self.now {
            self.convey(pipe, 1 - side, ConnectionEvent::Ends);
            self.forget_intact(pipe);
        }
    }

    /// Forgets a process's end of a connection; returns whether it was open.
    pub(super) fn close_end(&mut self, place: Place) -> bool {
        let id = self.linked().end(place).id;
        if let Some(process) = self.linked().processes[id as usize].as_deref_mut() {
            process.open.remove(&place);
        }
        let end = self.linked().end(place);
        (end.key, end.unread) = (None, Vec::new());
        std::mem::replace(&mut end.open, false)
    }

    /// Removes a connection from those that can break.
    pub(super) fn forget_intact(&mut self, pipe: PipeId) {
        let (lower, higher) = self.pipe(pipe).between();
        self.linked().intact.remove(&(lower, higher, pipe));
    }
}
