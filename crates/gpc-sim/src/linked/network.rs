//! Network of connections: how they are opened, what they carry, and how they end.

use gpc_trees::Id;

use super::pipe::{ConnectionEvent, Item, Pipe, key_of, of_key};
use super::{Linked, Step};
use crate::event::Event;
use crate::faults::Fault;
use crate::parcel::Parcel;
use crate::world::World;
use chained_gpc::chain::Time;
use chained_gpc::link::peering::{FeedContext, LinkKey, Source, Transport};
use chained_gpc::wire::CauseKind;

impl World {
    /// The state of all connections, in a world that uses the peering machine.
    pub(super) fn linked(&mut self) -> &mut Linked {
        self.linked.as_mut().expect("nothing comes over a connection where links are modelled")
    }

    pub(super) fn pipe(&mut self, pipe: u32) -> &mut Pipe {
        &mut self.linked().pipes[pipe as usize]
    }

    pub(super) fn time(&self) -> Time {
        Time::from_nanos(self.now)
    }

    /// Opens a connection from one process to another.
    pub(super) fn connect(&mut self, from: Id, to: Id) {
        let (now, way) = (self.time(), self.linked().way(from, to));
        if way == Transport::User && self.perhaps_refuse(from, to) {
            // A Unix socket reports the refusal at once.
            self.process(from).peering.not_opened(to, CauseKind::Unreachable, "connection refused");
            return self.settle_peering(from);
        }
        let linked = self.linked();
        let pipe = u32::try_from(linked.pipes.len()).expect("fewer connections than memory could hold");
        linked.pipes.push(Pipe::new(from, to));
        linked.intact.insert((from.min(to), from.max(to), pipe));
        let key = key_of(pipe, 0);
        self.pipe(pipe).ends[0].begun = self.hosts.incarnation(from);
        let process = self.process(from);
        process.open.insert(key);
        process.peering.opened(now, key, to);
        self.trace.say(self.now, format_args!("{from} connects to {to}, connection {pipe}"));
        match way {
            Transport::User | Transport::Host(_) => {
                self.pipe(pipe).listener = Some(self.hosts.run(to));
                self.process(to).open.insert(key_of(pipe, 1));
                self.convey(pipe, 1, ConnectionEvent::Accepted);
                self.process(from).peering.connected(key, way, false);
            }
            Transport::Loopback | Transport::Network => self.convey(pipe, 1, ConnectionEvent::Opens),
        }
        self.settle_peering(from);
    }

    /// Refuses a connection if the receiver is down or refuses the sender; returns whether it does.
    fn perhaps_refuse(&mut self, from: Id, to: Id) -> bool {
        let lives = self.hosts.is_up(to);
        let refuses = self.mishaps.as_ref().is_some_and(|mishaps| mishaps.timing.refuses(from, to, self.now));
        if lives && refuses {
            self.inject(Fault::Refused, &[from, to]);
        }
        !lives || refuses
    }

    /// Sends something to a side of a connection, after everything sent before.
    pub(super) fn convey(&mut self, pipe: u32, side: usize, what: ConnectionEvent) {
        let [from, to] = self.sender_and_receiver(pipe, side);
        if self.pipe(pipe).is_broken() {
            return;
        }
        let late = match &self.mishaps {
            Some(mishaps) => mishaps.lateness(&mut self.random, self.now),
            None => 0,
        };
        if late > 0 {
            self.inject(Fault::Delay, &[from, to]);
        }
        let at = self.now + self.hosts.cost(from, to).latency_ns + late;
        let at = self.pipe(pipe).in_order(side, at);
        if matches!(what, ConnectionEvent::Ends | ConnectionEvent::Refused) {
            self.ends_at(pipe, side, at);
        }
        self.schedule_arrival(pipe, side, at, Item::Other(what));
    }

    /// Schedules an arrival at a side of a connection.
    pub(super) fn schedule_arrival(&mut self, pipe: u32, side: usize, at: u64, item: Item) {
        self.pipe(pipe).ends[side].coming.push_back(item);
        self.queue.push(at, Event::Delivery { pipe, side: side as u8 });
    }

    /// Schedules the arrival of a message over a connection.
    pub(crate) fn comes_over(&mut self, at: u64, parcel: Parcel) {
        let (pipe, to) = (parcel.passage.connection(), parcel.to);
        if let Some(side) = self.pipe(pipe).end_of(to) {
            let parcel = Box::new(parcel);
            self.schedule_arrival(pipe, side, at, Item::Message(parcel));
        }
    }

    /// Delivers the next item of a stream, unless a partition or a pause holds it back.
    pub(crate) fn delivery(&mut self, pipe: u32, side: usize) {
        let [from, to] = self.sender_and_receiver(pipe, side);
        [from, to].into_iter().for_each(|id| self.took_part(id));
        let cut = self.mishaps.as_ref().and_then(|mishaps| mishaps.timing.cut_until(from, to, self.now));
        // The host answers a connection attempt, even if the process is paused.
        let opens =
            matches!(self.pipe(pipe).ends[side].coming.front(), Some(Item::Other(ConnectionEvent::Opens)));
        let paused = self.paused_until(to).filter(|_| !opens);
        if let Some(until) = cut.max(paused) {
            return self.queue.push(until, Event::Delivery { pipe, side: side as u8 });
        }
        let item = self.pipe(pipe).ends[side].coming.pop_front();
        match item.filter(|_| !self.pipe(pipe).is_gone()) {
            Some(Item::Message(parcel)) => self.arrive(parcel),
            Some(Item::Other(ConnectionEvent::Opens)) => self.opens(pipe, from, to),
            Some(Item::Other(what)) => {
                // A hello costs no processor time, and stays behind the message before it.
                let at = self.pipe(pipe).ends[side].taken_in.max(self.now);
                self.schedule_event(at, pipe, side, what);
            }
            None => {}
        }
    }

    fn schedule_event(&mut self, at: u64, pipe: u32, side: usize, what: ConnectionEvent) {
        let [from, to] = self.sender_and_receiver(pipe, side);
        self.queue.push(at, Event::Connection(Box::new(Step { pipe, side, from, to, what })));
    }

    /// The ids at the other side and at this side of a connection.
    fn sender_and_receiver(&mut self, pipe: u32, side: usize) -> [Id; 2] {
        [1 - side, side].map(|side| self.pipe(pipe).ends[side].id)
    }

    /// Sets the time at which the stream to a side ends, unless it ends earlier.
    fn ends_at(&mut self, pipe: u32, side: usize, at: u64) {
        let end = &mut self.pipe(pipe).ends[side];
        end.ends_at = end.ends_at.min(at);
    }

    /// Ends a broken connection at a side, ahead of everything still in flight.
    pub(super) fn tell_end(&mut self, pipe: u32, side: usize, at: u64) {
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
        let (now, key) = (self.time(), key_of(pipe, side));
        match what {
            ConnectionEvent::Opens => {}
            ConnectionEvent::Accepted => self.accept(pipe, from, to),
            _ if !self.pipe(pipe).ends[side].open => {}
            ConnectionEvent::Stands => {
                let way = self.linked().way(from, to);
                self.process(to).peering.connected(key, way, false);
                self.settle_peering(to);
            }
            ConnectionEvent::Bytes(bytes) => {
                self.process(to).peering.feed(now, key, &bytes, &FeedContext::default());
                self.settle_peering(to);
                self.owns_up_to_a_wait_in_vain(to, from);
            }
            ConnectionEvent::Refused => self.connection_ended(pipe, side, "connection refused"),
            ConnectionEvent::Ends => self.connection_ended(pipe, side, "connection reset"),
        }
    }

    /// A connection attempt reaches its host, which accepts it for the run that listens.
    fn opens(&mut self, pipe: u32, from: Id, to: Id) {
        if self.perhaps_refuse(from, to) {
            return self.convey(pipe, 0, ConnectionEvent::Refused);
        }
        self.pipe(pipe).listener = Some(self.hosts.run(to));
        // If this run ends now, connections that wait to be accepted end with it.
        self.process(to).open.insert(key_of(pipe, 1));
        self.convey(pipe, 0, ConnectionEvent::Stands);
        self.schedule_arrival(pipe, 1, self.now, Item::Other(ConnectionEvent::Accepted));
    }

    fn accept(&mut self, pipe: u32, from: Id, to: Id) {
        if !self.hosts.is_up(to) || Some(self.hosts.run(to)) != self.pipe(pipe).listener {
            // The listening run has ended, and the connection with it.
            return;
        }
        let (now, way, key) = (self.time(), self.linked().way(from, to), key_of(pipe, 1));
        let (begun, since) = (self.hosts.incarnation(to), self.now);
        let end = &mut self.pipe(pipe).ends[1];
        (end.open, end.begun, end.since) = (true, begun, since);
        let source = (way != Transport::User).then_some(Source::from(from));
        self.process(to).peering.accepted(now, key, way, source);
        self.settle_peering(to);
        if self.pipe(pipe).ends[1].ends_at <= self.now {
            self.connection_ended(pipe, 1, "connection reset");
        }
    }

    /// Informs a process that a connection has ended.
    pub(super) fn connection_ended(&mut self, pipe: u32, side: usize, why: &str) {
        let [peer, id] = self.sender_and_receiver(pipe, side);
        let key = key_of(pipe, side);
        self.trace.say(self.now, format_args!("{id} learns that connection {pipe} to {peer} has ended"));
        let up = Some(peer).filter(|peer| self.process(id).peering.up(*peer) == Some(key));
        self.process(id).peering.ended(key, up, CauseKind::LinkLost, why);
        self.settle_peering(id);
        self.close_end(key);
        self.forget_intact(pipe);
    }

    /// Closes one end of a connection; the other side learns of it after everything written before.
    pub(super) fn discard(&mut self, key: LinkKey) {
        let (pipe, side) = of_key(key);
        if self.close_end(key) {
            self.convey(pipe, 1 - side, ConnectionEvent::Ends);
            self.forget_intact(pipe);
        }
    }

    /// Forgets a process's end of a connection; returns whether it was open.
    pub(super) fn close_end(&mut self, key: LinkKey) -> bool {
        let (pipe, side) = of_key(key);
        let id = self.pipe(pipe).ends[side].id;
        let known = self.linked().processes[id as usize].as_deref_mut();
        if let Some(process) = known {
            process.open.remove(&key);
        }
        std::mem::replace(&mut self.pipe(pipe).ends[side].open, false)
    }

    /// Removes a connection from those that can break.
    pub(super) fn forget_intact(&mut self, pipe: u32) {
        let (lower, higher) = self.pipe(pipe).between();
        self.linked().intact.remove(&(lower, higher, pipe));
    }
}
