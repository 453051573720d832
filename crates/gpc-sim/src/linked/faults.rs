//! Faults of connections.

use gpc_trees::Id;

use super::step::{PipeId, Place};
use crate::faults::Fault;
use crate::inject::NOTICED_LATENCIES;
use crate::world::World;
use chained_gpc::link::peering::{GREETING_LIMIT, LinkKey, State};

/// Where losses are hidden, only one end learns soon of one in so many.
const UNNOTICED: u64 = 4;

impl World {
    /// Breaks a connection, established as a link or not: one of the given id's links, if it has any. Each end learns
    /// of it at its own time.
    pub(crate) fn break_connection(&mut self, hard: bool, of: Option<Id>) {
        let Some(linked) = &self.linked else { return };
        let peers = of.map(|id| linked.peers_of(id)).unwrap_or_default();
        let place = self.random.below(linked.intact.len() as u64) as usize;
        let own = of.zip(self.random.pick(&peers).copied());
        let own = own.and_then(|(id, peer)| linked.place_up(id, peer)).map(|(pipe, _)| pipe);
        let Some(pipe) = own.or_else(|| linked.intact.at(place).map(|(.., pipe)| pipe)) else { return };
        if self.pipe(pipe).is_broken() {
            return;
        }
        let (a, b) = self.pipe(pipe).between();
        let mishaps = self.mishaps.as_mut();
        let again = mishaps.map(|mishaps| mishaps.repeats.again(&mut self.random, a, b)).unwrap_or_default();
        self.inject(if again.is_empty() { Fault::Link } else { Fault::Duplicate }, &[a, b]);
        let mut informed = [true, true];
        if self.linked().settings.hides_losses && self.linked().random.chance(1, UNNOTICED) {
            let side = self.linked().random.below(2) as usize;
            informed[side] = false;
            self.tell_late(pipe, side);
        }
        self.break_pipe(pipe, hard, informed);
        self.come_again(a, b, again);
    }

    /// An end of a connection that breaks learns of it when the other has long gone on. What it sends meanwhile is
    /// lost, or waits.
    fn tell_late(&mut self, pipe: PipeId, side: usize) {
        let latest = self.mishaps.as_ref().map_or(0, |mishaps| mishaps.longest);
        let at = self.now + 1 + self.linked().random.below(latest.max(1));
        self.inject(Fault::Partition, &[]);
        self.tell_end(pipe, side, at);
    }

    /// Breaks a connection; the ends marked in `informed` learn of it later.
    fn break_pipe(&mut self, pipe: PipeId, hard: bool, informed: [bool; 2]) {
        self.forget_intact(pipe);
        self.pipe(pipe).break_up(hard);
        self.pipe(pipe).fills = self.linked().random.chance(1, 2);
        for side in [0, 1] {
            // The connection breaks in the middle of what was written, or behind it.
            let flies = self.pipe(pipe).bytes_in_flight(side) as u64;
            if flies > 0 && self.linked().random.chance(1, 2) {
                let kept = self.linked().random.below(flies) as usize;
                self.pipe(pipe).lose_bytes(side, kept);
            }
        }
        let (a, b) = self.pipe(pipe).between();
        self.linked().broken.insert((a, b));
        let latest = self.hosts.cost(a, b).latency_ns * NOTICED_LATENCIES;
        for (side, _) in informed.into_iter().enumerate().filter(|(_, informed)| *informed) {
            let at = self.now + 1 + self.random.below(latest.max(1));
            self.tell_end(pipe, side, at);
        }
        self.owns_up_to_a_wait_in_vain(a, b);
        self.owns_up_to_a_wait_in_vain(b, a);
    }

    /// Checks a refusal. A peer with a single run must not be refused: no other run can be linked or waiting in its
    /// name.
    pub(super) fn refuses(&mut self, id: Id, key: LinkKey, why: &str) {
        let Some((pipe, side)) = self.process(id).place(key) else { return };
        let now = self.now;
        let ends = &self.pipe(pipe).ends;
        let (peer, ended, since) = (ends[1 - side].id, ends[side].ends_at <= now, ends[side].since);
        self.trace.say(now, format_args!("{id} refuses connection {pipe} of {peer}: {why}"));
        if ended || self.pipe(pipe).is_broken() {
            return;
        }
        let heard_nothing = now >= since + GREETING_LIMIT.as_nanos() as u64;
        if self.hosts.run(peer) == 0 && !heard_nothing {
            self.blame(id, Some(format!("refuses {peer}, of which there has been one run: {why}")));
        }
        self.inject(Fault::Refused, &[id, peer]);
    }

    /// Announces a fault where a process expects its peer's connection in vain. That connection has broken, or leads to
    /// an earlier run whose end the peer has not noticed. Until the process gives up, the two cannot reach each other,
    /// though both are up.
    pub(super) fn owns_up_to_a_wait_in_vain(&mut self, id: Id, peer: Id) {
        let Some(linked) = self.linked.as_deref() else { return };
        if !matches!(linked.state(id, peer), State::Expecting(_)) {
            return;
        }
        let run = self.hosts.run(id);
        let leads_here = |key| {
            let place = linked.existing(peer).and_then(|process| process.place(key));
            place
                .map(|(pipe, _)| &linked.pipes[pipe as usize])
                .is_some_and(|pipe| !pipe.is_broken() && pipe.listener.is_none_or(|listener| listener == run))
        };
        let comes = match linked.state(peer, id) {
            State::Connecting(key) | State::Up(key) => leads_here(key),
            State::Absent | State::Expecting(_) => false,
        };
        let broken = linked.broken.contains(&(id.min(peer), id.max(peer)));
        if !comes && (broken || run > 0 || self.hosts.run(peer) > 0) {
            self.inject(Fault::Refused, &[id, peer]);
        }
    }

    /// Announces a limit that the links of an id have come to.
    pub(super) fn owns_up_to_little_memory(&mut self, id: Id) {
        if self.linked().has_little_memory() {
            self.inject(Fault::Limits, &[id]);
        }
    }

    /// Announces a fault where an end learns late that its link was given up. It continues with the requests received
    /// meanwhile. An adopter may have passed it, as with a copied request.
    pub(super) fn owns_up_to_a_late_end(&mut self, (pipe, side): Place) {
        let [id, peer] = [side, 1 - side].map(|side| self.pipe(pipe).ends[side].id);
        let noticed = self.now + self.hosts.cost(id, peer).latency_ns * NOTICED_LATENCIES;
        if self.pipe(pipe).ends[1 - side].ends_at > noticed {
            self.inject(Fault::Duplicate, &[id, peer]);
        }
    }

    /// A process that ends has closed before, and says goodbye.
    pub(crate) fn leaves_in_order(&mut self, id: Id) {
        self.linked.iter_mut().for_each(|linked| linked.leaving.extend([id]));
    }

    /// Says goodbye on all links of a process.
    fn says_goodbye(&mut self, id: Id) {
        self.process(id).links.send_goodbyes("the node was shut down");
        for key in std::mem::take(&mut self.process(id).links.dirty) {
            self.write(id, key);
        }
    }

    /// Ends all connections of a process that ends. `hard`: its last messages are lost.
    pub(crate) fn end_connections(&mut self, id: Id, hard: bool) {
        let leaves = self.linked().leaving.remove(&id);
        if leaves {
            self.says_goodbye(id);
        }
        let Some(process) = self.linked().processes[id as usize].take() else { return };
        for (pipe, side) in process.open {
            if leaves && self.pipe(pipe).ends[side].open && !self.pipe(pipe).is_broken() {
                // What it has written arrives.
                self.close((pipe, side));
                let (a, b) = self.pipe(pipe).between();
                self.linked().broken.insert((a, b));
                self.owns_up_to_a_wait_in_vain(a, b);
                self.owns_up_to_a_wait_in_vain(b, a);
                continue;
            }
            let end = &mut self.pipe(pipe).ends[side];
            (end.open, end.key, end.unread) = (false, None, Vec::new());
            if !self.pipe(pipe).is_broken() {
                self.break_pipe(pipe, hard, [side == 1, side == 0]);
            }
        }
    }
}
