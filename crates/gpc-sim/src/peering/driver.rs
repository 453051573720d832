//! Driver of a process's machine: acts as `runtime::greeting` does, over simulated connections.

use std::collections::BTreeSet;
use std::time::Duration;

use gpc_trees::Id;

use super::check::{End, Input, Observation};
use super::event::Event;
use super::pipe::Owner;
use super::processes::{LocalEnd, Phase};
use super::world::World;
use crate::time::BEGIN;
use chained_gpc::chain::Time;
use chained_gpc::link::peering::{
    ANSWER_LIMIT, Book, FeedContext, GREETING_LIMIT, LENGTH_BYTES, LinkKey, LinkStatus, NewLink, Output,
    PublicKey, State, TAG,
};
use chained_gpc::wire::CauseKind;

/// Frames of a link in these worlds.
const PING: u8 = 1;
const PONG: u8 = 2;
const GOODBYE: u8 = 3;

/// Silence after a PING at which a link is given up, as the chain does.
pub(super) const SILENCE: Duration = Duration::from_secs(5);

impl World {
    pub(super) fn time(&self) -> Time {
        Time::from_nanos(self.now)
    }

    /// Nanoseconds since the world began, as the checkers count.
    fn since(&self, at: Time) -> u64 {
        at.as_nanos().saturating_sub(BEGIN)
    }

    /// Adds an end of a connection to a process.
    pub(super) fn add_local(&mut self, process: usize, pipe: usize, side: usize) -> LinkKey {
        let running = &mut self.processes[process];
        let key = LinkKey(running.next_key);
        running.next_key += 1;
        let (buffer, phase) = (Vec::new(), Phase::Greeting);
        running.locals.insert(key, LocalEnd { pipe, side, phase, buffer, session: None, asked: None });
        self.pipes[pipe].owners[side] = Owner::Process(process, Some(key));
        key
    }

    /// Asks for a link to a peer, to send it a message.
    pub(super) fn want(&mut self, process: usize, to: Id) {
        if !self.processes[process].alive {
            return;
        }
        let wanted = self.processes[process].peering.link_status(to);
        self.observe(Observation::Wants(process, to, wanted));
        if wanted == LinkStatus::Open {
            self.connect(process, to);
        }
    }

    /// Carries out the outputs of a process's machine, and schedules its next deadline.
    pub(super) fn settle(&mut self, process: usize) {
        let mut gone = Vec::new();
        // This loop ends: every connection ends once, and its outputs are bounded.
        while let Some(output) = self.processes[process].peering.poll() {
            if let Output::Lost { peer, .. } | Output::Unreached { peer, .. } = output {
                gone.push(peer);
            }
            self.carry_out(process, output);
        }
        gone.into_iter().for_each(|peer| self.look_whether_remembered(process, peer));
        let proofs = self.processes[process].peering.proofs();
        self.observe(Observation::Settled(process, proofs));
        let running = &mut self.processes[process];
        let next = running.peering.next_deadline().map(Time::as_nanos);
        if let Some(at) = next.filter(|at| running.tick_at.is_none_or(|before| *at < before)) {
            running.tick_at = Some(at);
            self.queue.push(at.max(self.now), Event::Tick(process));
        }
    }

    /// Reports state of an id that is not a peer and has no link, where the machine holds any.
    pub(super) fn look_whether_remembered(&mut self, process: usize, peer: Id) {
        let peering = &self.processes[process].peering;
        let known = peering.book.contains(peer) || peering.state(peer) != State::Absent;
        if !known && peering.incarnation(peer) != 0 {
            self.observe(Observation::Remembers(process, peer));
        }
    }

    fn carry_out(&mut self, process: usize, output: Output) {
        let end = |key| End { process, key };
        match output {
            Output::Write { key, bytes } => {
                self.observe(Observation::Wrote(end(key), bytes.clone()));
                self.send(process, key, &bytes);
            }
            Output::Finish { key } => {
                self.observe(Observation::Finished(end(key)));
                self.discard(process, key);
            }
            Output::Close { key } => self.discard(process, key),
            Output::Rejected { key, why } => {
                self.say(format_args!("{:?} is refused: {why}", end(key)));
                self.observe(Observation::Refused(end(key)));
            }
            Output::Up(link) => self.establish(process, *link),
            Output::Replaced { key, peer, incarnation: _ } => {
                let answers = self.answers(process, key);
                self.observe(Observation::Replaced { end: end(key), peer, answers });
                self.send_frame(process, key, GOODBYE);
                self.drop_local(process, key);
            }
            Output::SendPing { key, peer } => {
                self.observe(Observation::Asked(end(key), peer));
                self.send_frame(process, key, PING);
                let pauses = self.processes[process].pauses.get(&peer).copied().unwrap_or_default();
                let until = Time::from_nanos(self.now.max(pauses)).plus(ANSWER_LIMIT);
                self.observe(Observation::Input(process, Input::AnswersUntil(peer, self.since(until))));
                self.processes[process].peering.set_answer_limit(peer, until);
            }
            Output::Lost { peer, kind, why, was_up } => {
                self.say(format_args!("process {process} has lost id {peer}: {why}"));
                self.observe(Observation::LostBy(process, peer, kind));
                self.observe(Observation::Lost(process, peer, was_up));
            }
            Output::Unreached { peer, why, .. } => {
                self.say(format_args!("process {process} does not reach id {peer}: {why}"));
                self.observe(Observation::Lost(process, peer, false));
            }
        }
    }

    fn establish(&mut self, process: usize, link: NewLink) {
        let NewLink { key, hello, session, proof, accepted, rings, extents } = link;
        let running = &mut self.processes[process];
        let (peer, incarnation, sealed) = (hello.from, hello.incarnation, session.is_some());
        let listed = running.peering.book.key(peer);
        if let Some(local) = running.locals.get_mut(&key) {
            (local.phase, local.session) = (Phase::Up(peer), session);
            let at = self.at.get(peer as usize).copied();
            let other = match self.pipes[local.pipe].owners[1 - local.side] {
                Owner::Process(other, _) => Some(other),
                _ => None,
            };
            if other != at {
                self.counted_anew.insert((process, peer));
            }
        }
        let end = End { process, key };
        self.say(format_args!(
            "{end:?} is the link with id {peer}, generation {}, {proof:?}",
            hello.generation
        ));
        self.observe(Observation::Standing { end, accepted, rings, extents, hiwater: hello.hiwater });
        self.observe(Observation::Up { end, peer, incarnation, proof, sealed, listed });
    }

    /// Handles bytes that arrive at a process's end.
    pub(super) fn arrived(&mut self, process: usize, key: LinkKey, bytes: &[u8]) {
        if let Some(local) = self.processes[process].locals.get_mut(&key) {
            local.buffer.extend_from_slice(bytes);
        }
        // This loop ends: each round takes bytes.
        while let Some(local) =
            self.processes[process].locals.get_mut(&key).filter(|local| !local.buffer.is_empty())
        {
            let went_on = match local.phase {
                Phase::Greeting => self.read_greeting(process, key),
                Phase::Up(peer) => self.read_frame(process, key, peer),
            };
            if !went_on {
                return;
            }
        }
    }

    fn read_greeting(&mut self, process: usize, key: LinkKey) -> bool {
        let now = self.time();
        let running = &mut self.processes[process];
        let Some(local) = running.locals.get_mut(&key) else { return false };
        let Some(wanted) = running.peering.wants(key) else { return false };
        let (pipe, side) = (local.pipe, local.side);
        let bytes: Vec<u8> = local.buffer.drain(..wanted.min(local.buffer.len())).collect();
        self.observe(Observation::Took(End { process, key }, bytes.clone()));
        let rings = self.pipes[pipe].rings_come;
        let running = &mut self.processes[process];
        let full = running.full.then(|| "descriptors are short".to_owned());
        running.peering.feed(now, key, &bytes, &FeedContext { rings, full });
        self.settle(process);
        self.look_whether_in_vain(process, pipe, side);
        true
    }

    /// Reports that a process begins to wait in vain for a connection: its peer keeps the link that this process has
    /// closed, or waits as well.
    fn look_whether_in_vain(&mut self, process: usize, pipe: usize, side: usize) {
        let Owner::Process(mate, _) = self.pipes[pipe].owners[1 - side] else { return };
        let (me, peer) = (self.processes[process].who.id, self.processes[mate].who.id);
        // An id that was forgotten after a thousand others may start a new count before the end of its link is seen.
        let between = |of: &BTreeSet<(usize, Id)>| of.contains(&(process, peer)) || of.contains(&(mate, me));
        // A liar or a second process of an id may have sent a higher count than the first, or ended the count of its
        // numbers.
        if between(&self.counted_anew) {
            return;
        }
        let State::Expecting(until) = self.processes[process].peering.state(peer) else { return };
        if until != self.time().plus(GREETING_LIMIT) || !self.processes[mate].alive {
            return;
        }
        let other = &self.processes[mate];
        // Only while each of the two ids has had a single process; otherwise another process may have sent the process
        // into the wait.
        let alone = self.processes.iter().filter(|running| [me, peer].contains(&running.who.id)).count() == 2;
        // So may a liar.
        let alone = alone && !between(&self.misled);
        let both_wait = alone && matches!(other.peering.state(me), State::Expecting(_));
        let up = other.peering.up(me).and_then(|up| other.locals.get(&up));
        let is_closed = |local: &LocalEnd| match self.pipes[local.pipe].owners[1 - local.side] {
            Owner::Process(of, Some(key)) => {
                of == process && !self.processes[process].locals.contains_key(&key)
            }
            _ => false,
        };
        if both_wait || up.is_some_and(is_closed) {
            self.observe(Observation::InVain(process, peer));
        }
    }

    /// Reads a frame of a link; returns false if it is incomplete.
    fn read_frame(&mut self, process: usize, key: LinkKey, peer: Id) -> bool {
        let Some(local) = self.processes[process].locals.get_mut(&key) else { return false };
        let frame = match &mut local.session {
            None => local.buffer.drain(..1).next(),
            Some(session) => {
                const RECORD: usize = LENGTH_BYTES + 1 + TAG;
                if local.buffer.len() < RECORD {
                    return false;
                }
                let record: Vec<u8> = local.buffer.drain(..RECORD).collect();
                let mut plain = [0; RECORD];
                let opened = session.open(&record[LENGTH_BYTES..], &mut plain);
                opened.ok().map(|_| plain[0])
            }
        };
        match frame {
            Some(PING) => self.send_frame(process, key, PONG),
            Some(PONG) => {
                local.asked = None;
                let (pipe, side) = (local.pipe, local.side);
                // A PONG that is followed by the end of the link does not count as an answer.
                if !self.pipes[pipe].has_ended(1 - side, self.now) {
                    self.observe(Observation::Input(process, Input::Answers(peer)));
                    self.processes[process].peering.reject_waiting_run(peer);
                    self.settle(process);
                }
            }
            _ => self.ended(process, key, "a frame came that is none"),
        }
        true
    }

    /// Sends a frame over a link.
    fn send_frame(&mut self, process: usize, key: LinkKey, frame: u8) {
        let Some(local) = self.processes[process].locals.get_mut(&key) else { return };
        let bytes = match &mut local.session {
            None => vec![frame],
            Some(session) => {
                let mut record = [0; 1 + TAG];
                let Ok(length) = session.seal(&[frame], &mut record) else { return };
                [&(length as u16).to_le_bytes()[..], &record[..length]].concat()
            }
        };
        self.send(process, key, &bytes);
    }

    /// Sends a PING on every link of a process, as calls in flight do, and gives up links without an answer to the last
    /// one.
    pub(super) fn heartbeat(&mut self, process: usize) {
        let now = self.now;
        let up: Vec<(Id, u64)> = self.processes[process].peering.all_up().collect();
        for (peer, _) in up {
            let Some(key) = self.processes[process].peering.up(peer) else { continue };
            let Some(local) = self.processes[process].locals.get_mut(&key) else { continue };
            match local.asked {
                Some(since) if now - since > SILENCE.as_nanos() as u64 => self.abandon(process, peer),
                Some(_) => {}
                None => {
                    local.asked = Some(now);
                    self.send_frame(process, key, PING);
                }
            }
        }
    }

    /// Closes the link to a silent peer, or the attempt, at the driver.
    pub(super) fn abandon(&mut self, process: usize, peer: Id) {
        if let State::Up(key) = self.processes[process].peering.state(peer) {
            self.discard(process, key);
        }
        if !self.processes[process].peering.book.contains(peer) {
            // The machine holds no state of an id that is not a peer and only connected by itself.
            self.counted_anew.insert((process, peer));
        }
        self.observe(Observation::Dropped(process, peer));
        self.processes[process].peering.abandon(peer);
        self.settle(process);
        self.look_whether_remembered(process, peer);
    }

    /// Removes a peer from a process.
    pub(super) fn forget(&mut self, process: usize, peer: Id) {
        let running = &mut self.processes[process];
        running.peering.book.peers.remove(&peer);
        running.peering.book.keys.remove(&peer);
        if let State::Up(key) = running.peering.state(peer) {
            self.send_frame(process, key, GOODBYE);
            self.discard(process, key);
        }
        self.observe(Observation::Input(process, Input::Forgets(peer)));
        self.processes[process].peering.forget(peer);
        self.settle(process);
    }

    /// Adds a peer to a process, perhaps with its key; an attempt to connect starts again.
    pub(super) fn learn(&mut self, process: usize, peer: Id, key: Option<PublicKey>) {
        let running = &mut self.processes[process];
        if !running.alive {
            return;
        }
        running.peering.book.peers.insert(peer);
        if let Some(key) = key {
            running.peering.book.keys.insert(peer, key);
        }
        let (confirms, contradicts) =
            (running.peering.confirm_key(peer), running.peering.contradicting_link(peer));
        self.observe(Observation::Input(process, Input::Knows(peer, key)));
        self.observe(Observation::Lists { process, peer, confirms, contradicts });
        if let Some(link) = contradicts {
            self.end(process, link, "it is known by another key", Input::Contradicts(peer));
        }
        self.observe(Observation::Input(process, Input::GivesUp(peer)));
        let running = &mut self.processes[process];
        running.peering.restore_counts(peer);
        let gives_up = running.peering.give_up_attempt(peer);
        self.settle(process);
        if gives_up {
            self.connect(process, peer);
        }
    }

    /// Closes the connection that has waited longest for a hello.
    pub(super) fn make_room(&mut self, process: usize) {
        let limit = GREETING_LIMIT.as_nanos() as u64;
        let waiting = self.processes[process].peering.half_open();
        let waiting: Vec<_> = waiting
            .map(|(key, until)| (key, until.map(|until| self.since(until).saturating_sub(limit))))
            .collect();
        let oldest = waiting.first().map(|(key, _)| *key);
        self.observe(Observation::Waiting(process, waiting));
        self.observe(Observation::Input(process, Input::MakesRoom(oldest)));
        if self.processes[process].peering.close_oldest() != oldest.is_some() {
            self.checkers.add(
                "rules",
                format!("process {process} says that none waits, or that one does: {oldest:?}"),
            );
        }
        self.settle(process);
    }

    /// Sets whether a process has no room for ids that are not peers.
    pub(super) fn fill(&mut self, process: usize, full: bool) {
        self.processes[process].full = full;
        self.observe(Observation::Input(process, Input::Full(full)));
    }

    /// Handles the end of a connection.
    pub(super) fn ended(&mut self, process: usize, key: LinkKey, why: &str) {
        self.end(process, key, why, Input::Ended(key));
    }

    fn end(&mut self, process: usize, key: LinkKey, why: &str, input: Input) {
        let running = &mut self.processes[process];
        let Some(local) = running.locals.get(&key) else { return };
        let peer = match local.phase {
            Phase::Up(peer) if running.peering.up(peer) == Some(key) => Some(peer),
            Phase::Up(_) => return self.discard(process, key),
            Phase::Greeting => None,
        };
        running.peering.ended(key, peer, CauseKind::LinkLost, why);
        self.observe(Observation::Input(process, input));
        self.discard(process, key);
        self.settle(process);
    }
}
