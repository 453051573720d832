//! What leaves on the links of a process: as `runtime::connection` writes to sockets, into simulated connections.

use gpc_trees::Id;
use smallvec::SmallVec;

use super::step::{ConnectionEvent, Place};
use crate::faults::Fault;
use crate::world::World;
use chained_gpc::chain::{Input, Time};
use chained_gpc::link::peering::LinkKey;
use chained_gpc::link::{Arrival, Phase};

/// In worlds with faults one in this many writes arrives in two parts.
const PARTED: u64 = 8;

/// Latest that the second part of a write follows the first, in latencies.
const BEHIND: u64 = 4;

/// A connection holds more than a few bytes if it has more than this part of its room. Its writer is told of room when
/// it holds no more: otherwise writes would become as short as reads.
pub(super) const FEW_PARTS: usize = 4;

impl World {
    /// Writes what the links of a process have to write.
    pub(super) fn flush(&mut self, id: Id) {
        self.flush_dirty(id);
        let links = &mut self.process(id).links;
        if !links.window_grants.is_empty() && links.send_windows() {
            self.flush_dirty(id);
        }
        if !self.process(id).links.arrivals.is_empty() || !self.process(id).links.dirty.is_empty() {
            self.linked().touch(id);
        }
    }

    fn flush_dirty(&mut self, id: Id) {
        let links = &mut self.process(id).links;
        if std::mem::take(&mut links.has_stream_data) {
            links.mark_streaming();
        }
        for key in std::mem::take(&mut self.process(id).links.dirty) {
            if let Some(connection) = self.process(id).links.table.get_mut(key) {
                connection.link.is_dirty = false;
                let endless = connection.link.phase == Phase::Closing && connection.link.deadline.is_none();
                let wrong = endless.then(|| "waits without a limit until a connection can be closed".into());
                self.blame(id, wrong);
                self.write(id, key);
            }
        }
    }

    /// Bytes that may still be written to an end.
    fn room_to(&mut self, to: Place) -> usize {
        let most = self.linked().settings.room;
        let pipe = self.pipe(to.0);
        match (pipe.is_broken(), pipe.fills) {
            (true, true) => 0,
            // What is written is lost.
            (true, false) => usize::MAX,
            (false, _) => most.saturating_sub(self.linked().end(to).held),
        }
    }

    /// Writes what is queued on a link, as far as the connection takes it.
    pub(super) fn write(&mut self, id: Id, key: LinkKey) {
        let now = self.time();
        let Some(connection) = self.process(id).links.table.get_mut(key) else { return };
        let ((pipe, side), phase) = (connection.place, connection.link.phase);
        if let Phase::Connecting(_) = phase {
            return;
        }
        let to = (pipe, 1 - side);
        let all = self.linked().settings.room;
        let mut room = self.room_to(to);
        let held = |room: usize| all.saturating_sub(room) > all / FEW_PARTS;
        let mut bytes = Vec::new();
        let mut stuck = None;
        let Some(connection) = self.process(id).links.table.get_mut(key) else { return };
        let link = &mut connection.link;
        let mut held_back = false;
        if link.outbox.is_streaming() {
            link.begin_bulk(&|| now, true);
            held_back = std::mem::take(&mut connection.rested) && link.outbox.is_throttled();
        }
        // Ends: each round writes bytes, or lets a paced link go on once.
        loop {
            if !link.outbox.prepare() {
                let paced = link.outbox.is_throttled() && !connection.blocked;
                if paced && !held(room) {
                    link.continue_bulk(now);
                    continue;
                }
                connection.blocked |= paced;
                if !connection.blocked {
                    link.end_bulk();
                }
                break;
            }
            link.piggyback_credit();
            if room == 0 {
                connection.blocked = true;
                stuck = link.outbox.charge_backlog().err();
                break;
            }
            let mut parts = SmallVec::new();
            link.outbox.parts(&mut parts);
            let before = bytes.len();
            for part in &parts {
                bytes.extend_from_slice(&part[..part.len().min(room - (bytes.len() - before))]);
            }
            drop(parts);
            let count = bytes.len() - before;
            room = if room == usize::MAX { room } else { room - count };
            link.mark_written(count);
            if link.is_ping_in_socket() {
                match held(room) {
                    false => link.confirm_ping_sent(),
                    true => connection.blocked = true,
                }
            }
        }
        let through = link.outbox.is_idle();
        connection.rested |= !connection.blocked && through;
        self.process(id).links.finish_write(key);
        self.convey_bytes(id, to, bytes, matches!(phase, Phase::Up(_)));
        if through {
            self.all_has_left(id, key, to, phase);
        }
        let wrong = held_back.then(|| "holds back long data on a link that had nothing to write".into());
        self.blame(id, wrong);
        if let Some(why) = stuck {
            self.close_link(id, key, &why);
        }
    }

    /// Nothing is left to write on a connection.
    fn all_has_left(&mut self, id: Id, key: LinkKey, to: Place, phase: Phase) {
        let end = self.linked().end(to);
        end.rested_at = end.rules.bytes();
        end.given.note_left();
        if phase == Phase::Closing {
            self.discard(id, key);
        }
    }

    /// Sends written bytes on their way.
    fn convey_bytes(&mut self, from: Id, (pipe, side): Place, bytes: Vec<u8>, up: bool) {
        if bytes.is_empty() {
            return;
        }
        for wrong in self.linked().end((pipe, side)).rules.written(&bytes) {
            self.blame(from, Some(wrong));
        }
        let to = self.linked().end((pipe, side)).id;
        let at = match up {
            true => self.hosts.leave(self.now, from, to, bytes.len() as u64, self.slowness(from)),
            false => self.now + self.hosts.cost(from, to).latency_ns,
        };
        if self.pipe(pipe).is_broken() {
            return self.trace.say(self.now, format_args!("  into a connection that is lost"));
        }
        let late = self.lateness(from, to);
        let at = self.pipe(pipe).in_order(side, at.saturating_add(late));
        self.linked().end((pipe, side)).held += bytes.len();
        let mut bytes = bytes;
        let parted = self.linked().settings.cuts && self.linked().random.chance(1, PARTED);
        if parted && bytes.len() > 1 {
            let cut = 1 + self.linked().random.below(bytes.len() as u64 - 1) as usize;
            let rest = bytes.split_off(cut);
            self.schedule_arrival(pipe, side, at, ConnectionEvent::Bytes(bytes));
            let latency = self.hosts.cost(from, to).latency_ns;
            let behind = self.linked().random.below(latency * BEHIND + 1);
            let at = self.pipe(pipe).in_order(side, at.saturating_add(behind));
            return self.schedule_arrival(pipe, side, at, ConnectionEvent::Bytes(rest));
        }
        self.schedule_arrival(pipe, side, at, ConnectionEvent::Bytes(bytes));
    }

    /// How much later than usual something arrives.
    pub(super) fn lateness(&mut self, from: Id, to: Id) -> u64 {
        let late = match &self.mishaps {
            Some(mishaps) => mishaps.lateness(&mut self.random, self.now),
            None => 0,
        };
        if late > 0 {
            self.inject(Fault::Delay, &[from, to]);
        }
        late
    }

    /// The peer has read bytes: there is room for more.
    pub(super) fn made_room(&mut self, id: Id, key: LinkKey, now: Time) {
        let Some(connection) = self.process(id).links.table.get_mut(key) else { return };
        let waited = std::mem::take(&mut connection.blocked);
        connection.link.has_heartbeat |= waited;
        connection.link.confirm_ping_sent();
        connection.link.continue_bulk(now);
        let phase = connection.link.phase;
        self.write(id, key);
        if let Phase::Up(peer) = phase
            && waited
            && !self.hears(id, peer)
        {
            self.blame(id, Some(format!("is not told that {peer} has read what waited for it")));
        }
        self.linked().touch(id);
    }

    /// Whether the chain of a process is told something of a peer: a message, that it lives, or that it is lost.
    pub(super) fn hears(&mut self, id: Id, peer: Id) -> bool {
        let links = &self.process(id).links;
        let of_peer = |arrival: &Arrival| match arrival {
            Arrival::Input(Input::Message { from, .. } | Input::Heartbeat(from)) => *from == peer,
            Arrival::Input(_) => false,
            Arrival::Lost(lost) => lost.peer == peer,
        };
        links.arrivals.iter().any(of_peer)
    }
}
