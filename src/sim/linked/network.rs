//! What goes over the connections, and how they come about and end.

use gpc_trees::Id;

use super::pipe::{End, Pipe, What, key_of, of_key};
use super::{Linked, Step};
use crate::chain::Time;
use crate::peering::{Here, LinkKey, Source, Way};
use crate::sim::faults::Fault;
use crate::sim::world::{Event, World};
use crate::wire::CauseKind;

impl World {
    /// The connections of a world whose links the peers' machine makes.
    pub(super) fn linked(&mut self) -> &mut Linked {
        self.linked.as_mut().expect("nothing comes over a connection where links are modelled")
    }

    pub(super) fn pipe(&mut self, pipe: u32) -> &mut Pipe {
        &mut self.linked().pipes[pipe as usize]
    }

    pub(super) fn time(&self) -> Time {
        Time::from_nanos(self.now)
    }

    /// A process connects to another one.
    pub(super) fn connect(&mut self, from: Id, to: Id) {
        let (now, way) = (self.time(), self.linked().way(from, to));
        if way == Way::User && self.is_refused(from, to) {
            // The system says so at once.
            self.process(from).peering.not_opened(to, CauseKind::Unreachable, "connection refused");
            return self.settle_peering(from);
        }
        let linked = self.linked();
        let pipe = u32::try_from(linked.pipes.len()).expect("fewer connections than memory could hold");
        linked.pipes.push(Pipe::new(from, to));
        linked.intact.insert((from.min(to), from.max(to), pipe));
        let key = key_of(pipe, 0);
        let process = self.process(from);
        process.open.insert(key);
        process.peering.opened(now, key, to);
        self.trace.say(self.now, format_args!("{from} connects to {to}, connection {pipe}"));
        match way {
            Way::User => {
                self.pipe(pipe).listener = self.hosts.run(to);
                self.convey(pipe, 1, What::Accepted);
                self.process(from).peering.connected(key, way, false);
            }
            Way::Loopback | Way::Network => self.convey(pipe, 1, What::Opens),
        }
        self.settle_peering(from);
    }

    /// Whether a process cannot be connected to by another one.
    fn is_refused(&mut self, from: Id, to: Id) -> bool {
        let lives = self.hosts.is_up(to);
        let refuses = self.mishaps.as_ref().is_some_and(|mishaps| mishaps.refuses(from, to, self.now));
        if lives && refuses {
            self.inject(Fault::Refused, &[from, to]);
        }
        !lives || refuses
    }

    /// Something goes to a side of a connection, behind what went there before.
    pub(super) fn convey(&mut self, pipe: u32, side: usize, what: What) {
        let [from, to] = [1 - side, side].map(|side| self.pipe(pipe).ends[side].id);
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
        if matches!(what, What::Ends | What::Refused) {
            self.ends_at(pipe, side, at);
        }
        self.push_step(at, Step { pipe, side, from, to, what, taken: false });
    }

    fn push_step(&mut self, at: u64, step: Step) {
        self.queue.push(at, Event::Connection(Box::new(step)));
    }

    /// What comes to a side ends then, if not before.
    fn ends_at(&mut self, pipe: u32, side: usize, at: u64) {
        let end = &mut self.pipe(pipe).ends[side];
        end.ends_at = end.ends_at.min(at);
    }

    /// The end of a broken connection comes to a side, ahead of whatever is still under way.
    pub(super) fn tell_end(&mut self, pipe: u32, side: usize, at: u64) {
        self.ends_at(pipe, side, at);
        let [from, to] = [1 - side, side].map(|side| self.pipe(pipe).ends[side].id);
        self.push_step(at, Step { pipe, side, from, to, what: What::Ends, taken: false });
    }

    /// Something happens to a connection.
    pub(in crate::sim) fn step_of_connection(&mut self, step: Step) {
        let (from, to) = (step.from, step.to);
        let cut = self.mishaps.as_ref().and_then(|mishaps| mishaps.cut_until(from, to, self.now));
        if let Some(until) = cut.filter(|_| !step.taken) {
            return self.push_step(until, step);
        }
        if step.is_for_process() && !step.taken {
            // Behind what its process has begun to take in.
            let at = self.hosts.busy_until(to).max(self.now);
            return self.push_step(at, Step { taken: true, ..step });
        }
        let lost = self.pipe(step.pipe).is_gone() && !matches!(step.what, What::Ends);
        if !lost {
            let place = u64::from(step.pipe) << 1 | step.side as u64;
            self.trace.fold([self.now, 10, u64::from(from) << 32 | u64::from(to), place]);
            self.carry_on(step);
        }
    }

    fn carry_on(&mut self, step: Step) {
        let Step { pipe, side, from, to, what, .. } = step;
        let (now, key) = (self.time(), key_of(pipe, side));
        match what {
            What::Opens if self.is_refused(from, to) => self.convey(pipe, 0, What::Refused),
            What::Opens => {
                self.pipe(pipe).listener = self.hosts.run(to);
                self.convey(pipe, 0, What::Stands);
                self.push_step(self.now, Step { what: What::Accepted, ..step });
            }
            What::Accepted => self.accept(pipe, from, to),
            _ if !self.pipe(pipe).ends[side].open => {}
            What::Stands => {
                let way = self.linked().way(from, to);
                self.process(to).peering.connected(key, way, false);
                self.settle_peering(to);
            }
            What::Bytes(bytes) => {
                self.process(to).peering.feed(now, key, &bytes, &Here::default());
                self.settle_peering(to);
            }
            What::Refused => self.connection_ended(pipe, side, "connection refused"),
            What::Ends => self.connection_ended(pipe, side, "connection reset"),
        }
    }

    fn accept(&mut self, pipe: u32, from: Id, to: Id) {
        if !self.hosts.is_up(to) || self.hosts.run(to) != self.pipe(pipe).listener {
            // It has ended since its host took the connection.
            return self.convey(pipe, 0, What::Ends);
        }
        let (now, way, key) = (self.time(), self.linked().way(from, to), key_of(pipe, 1));
        self.pipe(pipe).ends[1].open = true;
        let process = self.process(to);
        process.open.insert(key);
        let source = (way != Way::User).then_some(Source::from(from));
        process.peering.accepted(now, key, way, source);
        self.settle_peering(to);
        if self.pipe(pipe).ends[1].ends_at <= self.now {
            self.connection_ended(pipe, 1, "connection reset");
        }
    }

    /// A process learns that a connection has ended.
    pub(super) fn connection_ended(&mut self, pipe: u32, side: usize, why: &str) {
        let [End { id: peer, .. }, End { id, .. }] = [1 - side, side].map(|side| self.pipe(pipe).ends[side]);
        let key = key_of(pipe, side);
        self.trace.say(self.now, format_args!("{id} learns that connection {pipe} to {peer} has ended"));
        let up = Some(peer).filter(|peer| self.process(id).peering.up(*peer) == Some(key));
        self.process(id).peering.ended(key, up, CauseKind::LinkLost, why);
        self.settle_peering(id);
        self.close_end(key);
        self.forget_intact(pipe);
    }

    /// A process closes its end of a connection: the other side learns of it behind what was written.
    pub(super) fn discard(&mut self, key: LinkKey) {
        let (pipe, side) = of_key(key);
        if self.close_end(key) {
            self.convey(pipe, 1 - side, What::Ends);
            self.forget_intact(pipe);
        }
    }

    /// A process has no more to do with its end of a connection; says whether it had.
    pub(super) fn close_end(&mut self, key: LinkKey) -> bool {
        let (pipe, side) = of_key(key);
        let id = self.pipe(pipe).ends[side].id;
        let known = self.linked().processes[id as usize].as_deref_mut();
        known.is_some_and(|process| process.open.remove(&key));
        std::mem::replace(&mut self.pipe(pipe).ends[side].open, false)
    }

    /// Nothing can break a connection any more.
    pub(super) fn forget_intact(&mut self, pipe: u32) {
        let (lower, higher) = self.pipe(pipe).between();
        self.linked().intact.remove(&(lower, higher, pipe));
    }
}
