//! Injects the faults of a world of peers: processes end, pause or exist twice; connections break or are slow; an
//! attacker reads and changes all bytes in flight.

use gpc_trees::Id;

use super::check::{HALF_OPEN_OF_OTHERS, Input, Observation};
use super::event::{Event, MS};
use super::fault::Fault;
use super::member::{Lie, Member};
use super::model::{Model, public};
use super::pipe::{ATTACKER, Chunk, Owner, Tamper};
use super::world::World;
use crate::Random;
use crate::time::BEGIN;
use chained_gpc::link::peering::{
    FIRST_LENGTH, HALF_OPEN_MAX, HALF_OPEN_PER_SOURCE, Source, State, THIRD_LENGTH, Transport,
};
use chained_gpc::wire::{Hello, Job};

/// Number of ids that a crowd claims: more than may wait at a process. Their ids are above those of the world.
const CROWD: Id = 135;
const CROWD_IDS: Id = 5_000;

/// First of the ids that are added and removed; no process has them.
const NAMES_IDS: Id = 10_000;

/// Byte positions at which a part of a connection begins: the preamble, its flags, each message, the hello, later
/// frames.
const PLACES: [u64; 9] = [0, 4, 6, 8, 10, 66, 102, 132, 206];

impl World {
    fn any_id(&mut self) -> Id {
        self.random.below(self.scenario.n.into()) as Id
    }

    fn any_two(&mut self) -> (Id, Id) {
        let one = self.any_id();
        let other = (one + 1 + self.random.below(u64::from(self.scenario.n) - 1) as Id) % self.scenario.n;
        (one, other)
    }

    fn some_later(&mut self, most: u64) -> u64 {
        self.now + self.random.below(most)
    }

    pub(super) fn act(&mut self, fault: Fault) {
        if fault.is_attack() && !self.config.proves() {
            return;
        }
        let (id, peer) = self.any_two();
        let process = self.at[id as usize];
        if !self.processes[process].alive {
            return;
        }
        self.say(format_args!("-- {fault}"));
        *self.injected.entry(fault).or_default() += 1;
        match fault {
            Fault::Crash | Fault::Vanish | Fault::Restart | Fault::Rewind => self.crash(fault, id),
            Fault::Pause => {
                let until = self.now + self.random.between(MS, 4_000 * MS);
                self.processes[process].paused = until;
            }
            Fault::Cut => {
                let until = self.now + self.random.between(MS, 15_000 * MS);
                self.cuts.insert((id.min(peer), id.max(peer)), until);
            }
            Fault::Slow | Fault::Reset => self.disturb(fault),
            Fault::Cross => {
                self.want(process, peer);
                self.want(self.at[peer as usize], id);
            }
            Fault::Forget => self.forget_for_a_while(process, peer),
            Fault::Abandon => self.give_up(process, peer),
            Fault::List => self.list(peer, id),
            Fault::Twin | Fault::Liar | Fault::Lax | Fault::Stranger => self.another(fault, id),
            Fault::Claim => self.claim(id, peer),
            Fault::Answer => self.redirected = Some(self.answering()),
            Fault::Wait => self.wait_for(process, peer),
            Fault::Crowd => self.crowd(process),
            Fault::Names => self.names_come_and_go(process, peer),
            Fault::Full => {
                let full = self.random_bit();
                self.fill(process, full);
            }
            Fault::Room => self.make_room(process),
            Fault::NoDescriptor => self.no_descriptor = true,
            Fault::HalfOpen => self.attack(process, Owner::Player(Vec::new())),
            Fault::Flood => self.flood(process),
            Fault::Forge => {
                let bytes = self.forged(id);
                self.attack(process, Owner::Player(bytes));
            }
            Fault::Replay => {
                if let Some((bytes, to)) = self.recorded(0) {
                    let to = if self.random.chance(3, 4) { to } else { id };
                    self.attack(self.at[to as usize], Owner::Player(bytes));
                }
            }
            Fault::Reflect => self.attack(process, Owner::Mirror),
            Fault::Redirect => self.redirected = Some(self.elsewhere(id)),
            Fault::Tamper => self.tamper(),
            Fault::Downgrade => {
                let tampers =
                    [Tamper::Flip(6, 1), Tamper::Flip(4, 1), Tamper::Flip(0, 8), Tamper::Flip(7, 1)];
                self.tampered = self.random.pick(&tampers).cloned().map(|tamper| (0, tamper));
            }
        }
    }

    /// Removes a peer, which may restart meanwhile, and adds it again.
    pub(super) fn forget_for_a_while(&mut self, process: usize, peer: Id) {
        let id = self.processes[process].who.id;
        self.forget(process, peer);
        if self.random.chance(1, 4) {
            self.crash(Fault::Restart, peer);
        }
        let at = if self.random.chance(1, 2) { self.now } else { self.some_later(3_000 * MS) };
        self.queue.push(at, Event::Learn(id, peer));
        self.queue.push(at, Event::Want(process, peer));
    }

    /// Makes a connection slow, or breaks it.
    fn disturb(&mut self, fault: Fault) {
        let pipe = self.a_late_pipe();
        let latency = self.random.between(100 * MS, 2_000 * MS);
        match (pipe, fault) {
            (Some(pipe), Fault::Slow) => {
                (self.pipes[pipe].latency, self.pipes[pipe].troubled) = (latency, u64::MAX / 2);
            }
            (Some(pipe), _) => self.reset(pipe),
            (None, _) => {}
        }
    }

    fn crash(&mut self, fault: Fault, id: Id) {
        self.die(self.at[id as usize], fault != Fault::Vanish);
        // If only a process is gone, its system ends connections to it; if the host is gone, nothing answers. A
        // vanished host draws one of them.
        self.processes[self.at[id as usize]].silent = fault == Fault::Vanish && self.random.chance(1, 2);
        let lower = fault == Fault::Rewind;
        match fault {
            Fault::Crash | Fault::Vanish => {
                let at = self.some_later(5_000 * MS);
                self.queue.push(at, Event::Begin { id, lower });
            }
            _ => self.begin_anew(id, lower),
        }
    }

    /// Ends a process; `tells`: its connections end with it.
    pub(super) fn die(&mut self, process: usize, tells: bool) {
        if !std::mem::replace(&mut self.processes[process].alive, false) {
            return;
        }
        self.say(format_args!("process {process} ends"));
        self.observe(Observation::Died(process));
        for (_, local) in std::mem::take(&mut self.processes[process].locals) {
            if tells {
                self.convey(local.pipe, local.side, Chunk::Ends);
            }
        }
    }

    /// One of the connections that were opened last.
    fn a_late_pipe(&mut self) -> Option<usize> {
        let back = self.random.below(4) as usize + 1;
        self.pipes.len().checked_sub(back)
    }

    /// Lists the key of an id at another id.
    fn list(&mut self, id: Id, at: Id) {
        if !self.config.proves() {
            return;
        }
        let private = self.processes[self.at[id as usize]].private;
        let private = *self.config.listed.entry(id).or_insert(private);
        self.learn(self.at[at as usize], id, Some(public(private)));
    }

    /// Starts an additional process, which connects to all ids.
    fn another(&mut self, fault: Fault, id: Id) {
        let lower = self.random.chance(1, 2);
        let (own, known) = (self.random.draw() >> 4, self.processes[self.at[id as usize]].who.incarnation);
        let other = self.incarnation(lower);
        let (mut strictness, mut job) = (self.config.strictness_of(id), self.config.job);
        let (psk, private, incarnation) = match fault {
            // Without proofs, only the job distinguishes it.
            Fault::Stranger => {
                let psk = self.random.draw();
                let clear = !self.config.proves() || self.random.chance(1, 3);
                if clear || self.random.chance(1, 2) {
                    job = Job([9; 16]);
                }
                (Some(psk).filter(|_| !clear), None, other)
            }
            // Every member knows the current run of an id.
            Fault::Liar => (self.config.psk, Some(own), if self.random.chance(1, 2) { known } else { other }),
            Fault::Lax => {
                (strictness.no_encryption, strictness.encrypt_loopback) = (true, false);
                (self.config.psk, None, other)
            }
            _ => (self.config.psk, None, other),
        };
        let process = self.begin_as(id, incarnation, private, psk, strictness, job);
        self.processes[process].odd = fault != Fault::Twin;
        self.processes[process].afar = fault != Fault::Twin;
        if self.random.chance(1, 2) {
            self.at[id as usize] = process;
        }
        for peer in (0..self.scenario.n).filter(|peer| *peer != id) {
            for _ in 0..2 {
                let at = self.some_later(3_000 * MS);
                self.queue.push(at, Event::Want(process, peer));
            }
        }
    }

    /// Connects the attacker to a process.
    pub(super) fn attack(&mut self, process: usize, owner: Owner) {
        let id = self.processes[process].who.id;
        self.open([owner, Owner::Process(process, None)], [id, id]);
    }

    /// Makes a member; without proofs, any process can play it.
    fn member(&mut self, hello: Hello, lie: Lie, first: bool) -> Box<Member> {
        let (private, random) = (self.random.draw() >> 4, Random::new(self.random.draw()));
        let model = self.config.psk.filter(|_| self.config.proves());
        let model = model.map(|psk| Model { psk, private, random });
        Box::new(Member::new(model, hello, lie, first))
    }

    fn a_hello(&self, from: Id, to: Id, incarnation: u64, generation: u32) -> Hello {
        let (hiwater, rings, extents) = (1, false, false);
        Hello { from, to, incarnation, generation, hiwater, job: self.config.job, rings, extents }
    }

    /// Draws a member that answers the next connection in place of the peer.
    fn answering(&mut self) -> Owner {
        let lies = if self.config.proves() { &Lie::ALL[..] } else { &Lie::ALL[3..] };
        let lie = self.random.pick(lies).copied().unwrap_or(Lie::Job);
        let incarnation = self.incarnation(true);
        let generation = self.random.below(9) as u32;
        let hello = self.a_hello(0, 0, incarnation, generation);
        Owner::Member(self.member(hello, lie, false))
    }

    fn random_bit(&mut self) -> bool {
        self.random.chance(1, 2)
    }

    /// Has the host of a peer vanish, or its link hang, and starts another run of the peer.
    fn wait_for(&mut self, process: usize, peer: Id) {
        let before = self.at[peer as usize];
        let me = self.processes[process].who.id;
        if self.processes[process].peering.up(peer).is_none() {
            return self.want(process, peer);
        }
        self.hinder(process, before, peer);
        let lower = self.random_bit();
        let incarnation = self.incarnation(lower);
        let later = self.begin(peer, incarnation, None, self.config.psk);
        self.at[peer as usize] = later;
        self.processes[later].peering.book.peers.insert(me);
        self.observe(Observation::Input(later, Input::Knows(me, None)));
        self.want(later, me);
        for _ in 0..self.random.between(1, 3) {
            let at = self.now + self.random.between(20 * MS, 1_900 * MS);
            let what = match self.random.below(6) {
                0 => Event::Anew(later, me),
                1 => Event::Usurp { process, later },
                2 => Event::ListOld { process, of: if self.random_bit() { before } else { later } },
                3 => Event::Third { process, later },
                4 => Event::Forgets(process, peer),
                _ => Event::Anew(before, me),
            };
            self.queue.push(at, what);
        }
    }

    /// Keeps a linked peer from answering in time, without ending the link. Its process is gone or pauses, perhaps with
    /// an announced long pause; or the link becomes slow, and the peer reconnects.
    fn hinder(&mut self, process: usize, before: usize, peer: Id) {
        match self.random.below(6) {
            0..3 => self.die(before, false),
            3 => self.processes[before].paused = self.now + 3_500 * MS,
            4 => {
                // Longer than a connection may take to become a link.
                let until = self.now + self.random.between(3_000 * MS, 14_000 * MS);
                self.processes[before].paused = until;
                self.processes[process].pauses.insert(peer, until);
            }
            _ => {
                let latency = self.random.between(2_100 * MS, 4_000 * MS);
                let link = self.processes[process].peering.up(peer);
                let local = link.and_then(|key| self.processes[process].locals.get(&key));
                if let Some(pipe) = local.map(|local| local.pipe) {
                    (self.pipes[pipe].latency, self.pipes[pipe].troubled) = (latency, u64::MAX / 2);
                }
                let at = self.some_later(1_500 * MS);
                let me = self.processes[process].who.id;
                self.queue.push(at, Event::Anew(before, me));
            }
        }
    }

    /// Starts one more run of the id that waits for a link, with the same key; it connects several times.
    pub(super) fn third(&mut self, process: usize, later: usize) {
        let (who, me) = (self.processes[later].who, self.processes[process].who.id);
        let lower = self.random_bit();
        let (incarnation, private) = (self.incarnation(lower), self.processes[later].private);
        let third = self.begin(who.id, incarnation, Some(private), self.config.psk);
        self.processes[third].peering.book.peers.insert(me);
        self.observe(Observation::Input(third, Input::Knows(me, None)));
        for _ in 0..4 {
            let at = self.some_later(1_500 * MS);
            self.queue.push(at, Event::Want(third, me));
        }
    }

    fn give_up(&mut self, process: usize, peer: Id) {
        if self.processes[process].alive && self.processes[process].peering.state(peer) != State::Absent {
            self.abandon(process, peer);
        }
    }

    /// Gives up a peer and reconnects.
    pub(super) fn anew(&mut self, process: usize, peer: Id) {
        self.give_up(process, peer);
        self.want(process, peer);
    }

    /// A member with a key of its own claims to be the waiting run.
    pub(super) fn usurp(&mut self, process: usize, later: usize) {
        if self.config.proves() && self.processes[process].alive {
            let (who, to) = (self.processes[later].who, self.processes[process].who.id);
            let generation = self.random.below(20) as u32;
            let hello = self.a_hello(who.id, to, who.incarnation, generation);
            let member = self.member(hello, Lie::None, true);
            self.attack(process, Owner::Member(member));
        }
    }

    /// Lists the key of a run for its id.
    pub(super) fn list_old(&mut self, process: usize, of: usize) {
        let (id, private) = (self.processes[of].who.id, self.processes[of].private);
        if self.config.proves() && !self.config.listed.contains_key(&id) {
            self.config.listed.insert(id, private);
            self.learn(process, id, Some(public(private)));
        }
    }

    /// Members claim many ids, each twice: the second run waits for the link of the first, which does not answer.
    fn crowd(&mut self, process: usize) {
        let to = self.processes[process].who.id;
        for run in 0..2 {
            for id in 0..CROWD {
                let incarnation = self.incarnation(true);
                let hello = self.a_hello(CROWD_IDS + id, to, incarnation, 1);
                let at = self.now + run * 2_500 * MS;
                let member = self.member(hello, Lie::None, true);
                self.queue.push(at, Event::Attack(process, member));
            }
        }
    }

    /// Adds many ids, tries to reach them and removes them; perhaps also removes a peer before and after.
    fn names_come_and_go(&mut self, process: usize, peer: Id) {
        let most = if self.random_bit() { 900 } else { 1_200 };
        let peers = &self.processes[process].peering.book.peers;
        let ids = (0..self.scenario.n).filter(|id| *id == peer || !peers.contains(id));
        let anew: Vec<_> = ids.map(|id| (process, id)).collect();
        self.counted_anew.extend(anew);
        if self.random_bit() {
            self.forget(process, peer);
        }
        for id in NAMES_IDS..NAMES_IDS + most {
            self.learn(process, id, None);
            self.want(process, id);
            self.forget(process, id);
        }
        if self.random_bit() {
            self.forget(process, peer);
        }
        let at = self.some_later(1_000 * MS);
        let id = self.processes[process].who.id;
        self.queue.push(at, Event::Learn(id, peer));
        self.queue.push(at, Event::Want(process, peer));
    }

    /// A member connects that lies about itself.
    fn claim(&mut self, to: Id, claimed: Id) {
        let known = self.processes[self.at[claimed as usize]].who.incarnation;
        let incarnation = if self.random.chance(3, 4) { known } else { self.incarnation(true) };
        let generation = if self.random_bit() { 1000 } else { self.random.below(9) as u32 };
        let hello = self.a_hello(claimed, to, incarnation, generation);
        let lie = self.random.pick(&Lie::ALL).copied().unwrap_or(Lie::Proof);
        let member = self.member(hello, lie, true);
        self.attack(self.at[to as usize], Owner::Member(member));
    }

    /// So many connections arrive from one address that the oldest are closed.
    fn flood(&mut self, process: usize) {
        // A Unix socket has no source address.
        if self.config.ways == [Transport::User] || !self.processes[process].alive {
            return;
        }
        let (sources, count) = match self.random.chance(1, 3) {
            true => (7, HALF_OPEN_MAX),
            false => (1, HALF_OPEN_PER_SOURCE),
        };
        let before = self.processes[process].peering.half_open().count();
        for number in 0..count + 2 * HALF_OPEN_OF_OTHERS {
            let id = self.processes[process].who.id;
            let pipe = self.open([Owner::Player(Vec::new()), Owner::Process(process, None)], [id, id]);
            self.pipes[pipe].source = ATTACKER + (number % sources) as Source;
            self.pipes[pipe].streams[0].chunks.clear();
            self.accept(process, pipe);
        }
        if sources == 1 {
            let count = self.processes[process].peering.half_open().count();
            self.observe(Observation::HalfOpen(process, count.saturating_sub(before)));
        }
    }

    /// Recorded bytes of one side of a connection, up to some position, and the id that they were sent to.
    fn recorded(&mut self, side: usize) -> Option<(Vec<u8>, Id)> {
        let said: Vec<usize> =
            (0..self.pipes.len()).filter(|pipe| !self.pipes[*pipe].streams[side].sent.is_empty()).collect();
        let pipe = self.random.pick(&said).copied()?;
        let [_, to] = self.pipes[pipe].between;
        let sent = &self.pipes[pipe].streams[side].sent;
        let whole = sent.len() as u64;
        let most = if self.random.chance(1, 2) {
            whole
        } else {
            self.random.pick(&PLACES).copied().unwrap_or(whole).min(whole)
        };
        Some((sent[..most as usize].to_vec(), to))
    }

    /// Bytes that an attacker without the secret may send.
    fn forged(&mut self, to: Id) -> Vec<u8> {
        let noise = |random: &mut Random, length: usize| {
            (0..length).map(|_| random.draw() as u8).collect::<Vec<u8>>()
        };
        let message = |bytes: &[u8]| [&(bytes.len() as u16).to_le_bytes()[..], bytes].concat();
        let preamble = [b'c', b'G', b'P', b'C', 2, 0, self.random.below(2) as u8, 0];
        let first = noise(&mut self.random, FIRST_LENGTH);
        let third = noise(&mut self.random, THIRD_LENGTH);
        match self.random.below(4) {
            0 => {
                let mut noise = noise(&mut self.random, 300);
                if noise[0] & 1 > 0 {
                    // A frame header as of a hello of up to a MiB.
                    noise[2] &= 15;
                    noise[3..8].copy_from_slice(&[0, 1, 0, 0, 0]);
                }
                noise
            }
            1 => {
                let from = (to + 1) % self.scenario.n;
                let incarnation = (self.now - BEGIN) / MS;
                let hello = self.a_hello(from, to, incarnation, 1);
                [&[48, 0, 0, 0, 1, 0, 0, 0][..], &hello.emit()].concat()
            }
            2 => [&preamble[..], &message(&first), &message(&third)].concat(),
            _ => {
                // A first message that was valid once, and an invalid third one.
                let said = self.recorded(0).map_or_else(Vec::new, |(said, _)| said);
                [&said[..said.len().min(66)], &message(&third)].concat()
            }
        }
    }

    /// Draws the target of the next connection.
    fn elsewhere(&mut self, id: Id) -> Owner {
        match self.random.below(3) {
            0 => Owner::Process(self.at[id as usize], None),
            1 => Owner::Mirror,
            _ => Owner::Player(self.recorded(1).map_or_else(Vec::new, |(said, _)| said)),
        }
    }

    /// Changes bytes of the next connection, or of an existing one.
    fn tamper(&mut self) {
        let (side, at) = (self.random.below(2) as usize, self.random.pick(&PLACES).copied().unwrap_or(0));
        let at = at + self.random.below(40);
        let tamper = |random: &mut Random, at: u64| match random.below(3) {
            0 => Tamper::Flip(at as usize, 1 << random.below(8)),
            1 => Tamper::Insert(at as usize, vec![random.draw() as u8; random.between(1, 20) as usize]),
            _ => Tamper::Drop(at as usize, random.between(1, 20) as usize),
        };
        let late = self.a_late_pipe().filter(|pipe| self.pipes[*pipe].way != Transport::User);
        match late.filter(|_| self.random.chance(1, 2)) {
            // The next bytes of an existing connection.
            Some(pipe) => {
                let at = self.pipes[pipe].streams[side].sent.len() as u64;
                let tamper = tamper(&mut self.random, at);
                self.pipes[pipe].troubled = u64::MAX / 2;
                self.pipes[pipe].streams[side].tamper = Some(tamper);
            }
            None => self.tampered = Some((side, tamper(&mut self.random, at))),
        }
    }
}
