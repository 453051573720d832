//! What goes wrong in a world: processes that end, stop or come twice, connections that break or are slow, and an attacker who sees and changes all that lies between.

use std::fmt;
use std::str::FromStr;

use gpc_trees::Id;

use super::check::{HALF_OPEN_OF_OTHERS, Seen};
use super::member::Member;
use super::model::Model;
use super::pipe::{Chunk, Owner, Tamper};
use super::world::{Event, MS, World};
use crate::peering::{FIRST_LENGTH, HALF_OPEN_PER_SOURCE, State, THIRD_LENGTH, Way};
use crate::sim::Random;
use crate::sim::world::BEGIN;
use crate::wire::Hello;
use crate::wire::Job;

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Something that goes wrong.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Fault {
            $($(#[$doc])* $name,)*
        }

        impl Fault {
            /// All of them.
            pub const ALL: &[Fault] = &[$(Fault::$name),*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Fault::$name => $text,)*
                }
            }
        }
    };
}

faults! {
    /// A process ends; its connections end with it. Another one begins later.
    Crash = "crash",
    /// A host is gone: its connections do not end. Another process begins later.
    Vanish = "vanish",
    /// A process ends, and another one begins at once.
    Restart = "restart",
    /// The same, with a clock that was set back.
    Rewind = "rewind",
    /// A process stands still.
    Pause = "pause",
    /// Two do not reach each other for a while.
    Cut = "cut",
    /// A connection is slow for the rest of its time.
    Slow = "slow",
    /// A connection breaks.
    Reset = "reset",
    /// Two connect to each other at once.
    Cross = "cross",
    /// A process forgets a peer, and learns it again, at once or later.
    Forget = "forget",
    /// A process gives up a peer.
    Abandon = "abandon",
    /// A key is listed for an id that had none.
    List = "list",
    /// A second process begins under an id, with the same key if it is listed.
    Twin = "twin",
    /// A member claims another one's id, with a key of its own.
    Liar = "liar",
    /// A second process begins under an id that links in clear with whoever does so, too.
    Lax = "lax",
    /// A member proves itself as one id, and says hello as another one.
    Claim = "claim",
    /// A process that has another secret takes part.
    Stranger = "stranger",
    /// Somebody connects and says nothing.
    HalfOpen = "half-open",
    /// Thousands connect from one address and say nothing.
    Flood = "flood",
    /// Somebody connects and says what is no message, or no right one.
    Forge = "forge",
    /// What one side of a connection said comes again, to whomever.
    Replay = "replay",
    /// Whoever is connected to gets back what it says.
    Reflect = "reflect",
    /// The next connection is led to another process, to what was recorded, or back to itself.
    Redirect = "redirect",
    /// Bytes of a connection are changed, added or left out.
    Tamper = "tamper",
    /// The preamble of the next connection says that it is not encrypted, or is of another version.
    Downgrade = "downgrade",
}

/// A text that names no fault.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "`{0}` is no fault of these worlds at an event: write FAULT@EVENT, such as cross@3, several with a comma between them"
)]
pub struct FaultError(String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Fault, FaultError> {
        let known = Fault::ALL.iter().copied().find(|fault| fault.name() == text);
        known.ok_or_else(|| FaultError(text.chars().take(40).collect()))
    }
}

/// Reads `FAULT@EVENT`, several with commas between them.
///
/// # Errors
/// The first part that is none.
pub fn parse_acts(text: &str) -> Result<Vec<(u64, Fault)>, FaultError> {
    let act = |part: &str| {
        let parsed = part
            .trim()
            .split_once('@')
            .and_then(|(fault, event)| Some((event.parse().ok()?, fault.parse().ok()?)));
        parsed.ok_or_else(|| FaultError(part.chars().take(40).collect()))
    };
    if text == "none" { Ok(Vec::new()) } else { text.split(',').map(act).collect() }
}

/// The same as text.
pub fn acts_text(acts: &[(u64, Fault)]) -> String {
    let all: Vec<String> = acts.iter().map(|(event, fault)| format!("{fault}@{event}")).collect();
    if all.is_empty() { "none".into() } else { all.join(",") }
}

/// Bytes of a connection at which something else begins: the preamble, its flags, each message, the hello, what follows.
const PLACES: [u64; 9] = [0, 4, 6, 8, 10, 66, 102, 132, 206];

impl Fault {
    pub(super) fn draw(random: &mut Random) -> Fault {
        // A flood is seldom: it takes as long as a hundred others.
        let fault = random.pick(Fault::ALL).copied().unwrap_or(Fault::Crash);
        if fault == Fault::Flood && !random.chance(1, 20) { Fault::HalfOpen } else { fault }
    }

    /// Whether it takes an attacker, against whom a job without a secret has nothing.
    fn is_attack(self) -> bool {
        use Fault::{Claim, Downgrade, Forge, Lax, Liar, Redirect, Reflect, Replay, Stranger, Tamper};
        matches!(
            self,
            Claim | Lax | Liar | Stranger | Forge | Replay | Reflect | Redirect | Tamper | Downgrade
        )
    }
}

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
        if fault.is_attack() && !self.config.proves(0) {
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
            Fault::Forget => {
                self.forget(process, peer);
                let at = if self.random.chance(1, 2) { self.now } else { self.some_later(3_000 * MS) };
                self.queue.push(at, Event::Learn(id, peer));
                self.queue.push(at, Event::Want(process, peer));
            }
            Fault::Abandon => {
                if self.processes[process].alive
                    && self.processes[process].peering.state(peer) != State::Absent
                {
                    self.abandon(process, peer);
                }
            }
            Fault::List => self.list(peer, id),
            Fault::Twin | Fault::Liar | Fault::Lax | Fault::Stranger => self.another(fault, id),
            Fault::Claim => self.claim(id, peer),
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

    /// A connection becomes slow, or breaks.
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
        let lower = fault == Fault::Rewind;
        match fault {
            Fault::Crash | Fault::Vanish => {
                let at = self.some_later(5_000 * MS);
                self.queue.push(at, Event::Begin { id, lower });
            }
            _ => self.begin_anew(id, lower),
        }
    }

    /// A process ends; `tells` whether its connections end with it.
    pub(super) fn die(&mut self, process: usize, tells: bool) {
        if !std::mem::replace(&mut self.processes[process].alive, false) {
            return;
        }
        self.say(format_args!("process {process} ends"));
        self.see(Seen::Died(process));
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

    /// The key that an id has is listed at another one from now on.
    fn list(&mut self, id: Id, at: Id) {
        if !self.config.proves(0) {
            return;
        }
        let private = self.processes[self.at[id as usize]].private;
        let private = *self.config.listed.entry(id).or_insert(private);
        self.learn(self.at[at as usize], id, Some(super::model::public(private)));
    }

    /// One more process, beside those that there are to be: it wants to link with everybody.
    fn another(&mut self, fault: Fault, id: Id) {
        let lower = self.random.chance(1, 2);
        let (own, known) = (self.random.draw() >> 4, self.processes[self.at[id as usize]].who.incarnation);
        let other = self.incarnation(lower);
        let mut strictness = self.config.strictness;
        let (psk, private, incarnation) = match fault {
            Fault::Stranger => (Some(self.random.draw()), None, other),
            // Which run of an id there is, every member is told.
            Fault::Liar => (self.config.psk, Some(own), if self.random.chance(1, 2) { known } else { other }),
            Fault::Lax => {
                (strictness.no_encryption, strictness.encrypt_loopback) = (true, false);
                (self.config.psk, None, other)
            }
            _ => (self.config.psk, None, other),
        };
        let process = self.begin_as(id, incarnation, private, psk, strictness);
        self.processes[process].odd = fault != Fault::Twin;
        if fault != Fault::Stranger && self.random.chance(1, 2) {
            self.at[id as usize] = process;
        }
        for peer in (0..self.scenario.n).filter(|peer| *peer != id) {
            for _ in 0..2 {
                let at = self.some_later(3_000 * MS);
                self.queue.push(at, Event::Want(process, peer));
            }
        }
    }

    /// The attacker connects to a process.
    fn attack(&mut self, process: usize, owner: Owner) {
        let id = self.processes[process].who.id;
        self.open([owner, Owner::Process(process, None)], [id, id]);
    }

    /// A member connects that says hello under another id than it has proved itself as.
    fn claim(&mut self, to: Id, claimed: Id) {
        let Some(psk) = self.config.psk else { return };
        let (private, random) = (self.random.draw() >> 4, Random::new(self.random.draw()));
        let job = Job::default();
        let (incarnation, generation) = (self.processes[self.at[claimed as usize]].who.incarnation, 1000);
        let hello = Hello {
            from: claimed,
            to,
            incarnation,
            generation,
            hiwater: 1,
            job,
            rings: false,
            extents: false,
        };
        let member = Member::new(Model { psk, private, random }, !0, hello);
        self.attack(self.at[to as usize], Owner::Member(Box::new(member)));
    }

    /// So many connect from one address that the oldest have to go.
    fn flood(&mut self, process: usize) {
        // A Unix socket has no address.
        if self.config.way == Way::User || !self.processes[process].alive {
            return;
        }
        for _ in 0..HALF_OPEN_PER_SOURCE + 2 * HALF_OPEN_OF_OTHERS {
            let id = self.processes[process].who.id;
            let pipe = self.open([Owner::Player(Vec::new()), Owner::Process(process, None)], [id, id]);
            self.pipes[pipe].streams[0].chunks.clear();
            self.accept(process, pipe);
        }
        let count = self.processes[process].peering.half_open().count();
        self.see(Seen::HalfOpen(process, count));
    }

    /// What one side of a connection has said, up to some place; and to whom.
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

    /// What somebody may say who has no secret.
    fn forged(&mut self, to: Id) -> Vec<u8> {
        let noise = |random: &mut Random, length: usize| {
            (0..length).map(|_| random.draw() as u8).collect::<Vec<u8>>()
        };
        let message = |bytes: &[u8]| [&(bytes.len() as u16).to_le_bytes()[..], bytes].concat();
        let preamble = [b'c', b'G', b'P', b'C', 2, 0, self.random.below(2) as u8, 0];
        let first = noise(&mut self.random, FIRST_LENGTH);
        let third = noise(&mut self.random, THIRD_LENGTH);
        match self.random.below(4) {
            0 => noise(&mut self.random, 300),
            1 => {
                let from = (to + 1) % self.scenario.n;
                let incarnation = (self.now - BEGIN) / MS;
                let job = Job::default();
                let hello = Hello {
                    from,
                    to,
                    incarnation,
                    generation: 1,
                    hiwater: 1,
                    job,
                    rings: false,
                    extents: false,
                };
                [&[48, 0, 0, 0, 1, 0, 0, 0][..], &hello.emit()].concat()
            }
            2 => [&preamble[..], &message(&first), &message(&third)].concat(),
            _ => {
                // A first message that was right once, and no right third one.
                let said = self.recorded(0).map_or_else(Vec::new, |(said, _)| said);
                [&said[..said.len().min(66)], &message(&third)].concat()
            }
        }
    }

    /// Where the next connection leads to.
    fn elsewhere(&mut self, id: Id) -> Owner {
        match self.random.below(3) {
            0 => Owner::Process(self.at[id as usize], None),
            1 => Owner::Mirror,
            _ => Owner::Player(self.recorded(1).map_or_else(Vec::new, |(said, _)| said)),
        }
    }

    /// Bytes of a connection, of the next one or of one that there is, are changed.
    fn tamper(&mut self) {
        let (side, at) = (self.random.below(2) as usize, self.random.pick(&PLACES).copied().unwrap_or(0));
        let at = at + self.random.below(40);
        let tamper = |random: &mut Random, at: u64| match random.below(3) {
            0 => Tamper::Flip(at as usize, 1 << random.below(8)),
            1 => Tamper::Insert(at as usize, vec![random.draw() as u8; random.between(1, 20) as usize]),
            _ => Tamper::Drop(at as usize, random.between(1, 20) as usize),
        };
        match self.a_late_pipe().filter(|_| self.random.chance(1, 2)) {
            // What is sent next on one that there is.
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
