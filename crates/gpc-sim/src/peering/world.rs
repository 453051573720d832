//! World of peers: its processes and events, and what must hold after all faults.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use gpc_trees::Id;

use super::check::{Checkers, Input, Observation, Who};
use super::event::{Event, MS};
use super::fault::Fault;
use super::model::{Model, public};
use super::pipe::{Owner, Pipe, Tamper};
use super::processes::{KnownKeys, RunningProcess};
use crate::Random;
use crate::queue::{Next, Queue};
use crate::time::BEGIN;
use crate::trace::Trace;
use crate::worlds::Scenario;
use chained_gpc::chain::Time;
use chained_gpc::link::peering::{Crypto, Identity, Peering, PublicKey, State, Strictness, Transport};
use chained_gpc::wire::Job;

/// Time during which faults may begin: in small worlds that are tried exhaustively, and in others.
const SPANS: [u64; 2] = [3_500 * MS, 20_000 * MS];

/// Number of attempts after all faults, one a second, for each wanted link.
const ROUNDS: u32 = 30;

/// Number of these rounds with a PING on every link, so that each silent link is found.
const HEARTBEATS: u32 = 16;

/// Time from the last round to rest: longer than a greeting may take.
const REST: u64 = 15_000 * MS;

/// Bound on the events of a run, above what a run needs, to detect one that does not end.
const EVENTS_MAX: u64 = 400_000;

/// Settings of a world.
#[derive(Clone, Debug)]
pub(super) struct Config {
    pub(super) psk: Option<u64>,
    /// Transports in use: each connection draws one of them.
    pub(super) ways: Vec<Transport>,
    pub(super) job: Job,
    pub(super) strictness: Strictness,
    /// Odd ids allow links in clear, and the others do not. The others connect to them, and get encrypted links.
    mixed: bool,
    /// Private keys of ids whose public keys are listed.
    pub(super) listed: BTreeMap<Id, u64>,
    /// Pairs of an id and a peer that it wants a link to.
    pub(super) wanted: BTreeSet<(Id, Id)>,
}

impl Config {
    /// Whether connections are proved: without a secret a job has no defence against an attacker.
    pub(super) fn proves(&self) -> bool {
        self.psk.is_some() && self.ways != [Transport::User]
    }

    fn draw(random: &mut Random, n: u32) -> Config {
        let psk = random.chance(5, 6).then(|| random.draw());
        let ways = if psk.is_some() {
            &[Transport::Loopback, Transport::Network, Transport::Network, Transport::User][..]
        } else {
            &[Transport::Loopback, Transport::Network, Transport::User]
        };
        let mut ways = vec![random.pick(ways).copied().unwrap_or(Transport::Network)];
        if ways != [Transport::User] && random.chance(1, 4) {
            ways.push(Transport::User);
        }
        let job = Job([random.below(3) as u8; 16]);
        let (no_encryption, encrypt_loopback) = (random.chance(1, 4), random.chance(1, 4));
        let strictness = Strictness { no_encryption, encrypt_loopback, insecure: psk.is_none() };
        let mut listed = BTreeMap::new();
        if psk.is_some() {
            (0..n).filter(|_| random.chance(1, 2)).collect::<Vec<_>>().into_iter().for_each(|id| {
                listed.insert(id, random.draw() >> 4);
            });
        }
        let mut wanted = BTreeSet::new();
        for low in 0..n {
            for high in low + 1..n {
                let kind = random.below(4);
                wanted.extend((kind != 0).then_some((low, high)));
                wanted.extend((kind != 1).then_some((high, low)));
            }
        }
        // Drawn from the secret, so that all other draws stay the same.
        let mixed = psk.is_some_and(|psk| Random::new(psk).chance(1, 6));
        wanted.retain(|(by, _)| !mixed || !allows_clear(*by));
        Config { psk, ways, job, strictness, mixed, listed, wanted }
    }

    /// Encryption settings of an id.
    pub(super) fn strictness_of(&self, id: Id) -> Strictness {
        let (no_encryption, encrypt_loopback) = (allows_clear(id), !allows_clear(id));
        match self.mixed {
            true => Strictness { no_encryption, encrypt_loopback, ..self.strictness },
            false => self.strictness,
        }
    }
}

/// Whether an id allows links in clear in a mixed world.
fn allows_clear(id: Id) -> bool {
    id % 2 == 1
}

/// The state of one run.
pub(super) struct World {
    pub(super) scenario: Scenario<Fault>,
    pub(super) random: Random,
    pub(super) now: u64,
    pub(super) queue: Queue<Event>,
    pub(super) config: Config,
    pub(super) processes: Vec<RunningProcess>,
    /// The process at the address of each id.
    pub(super) at: Vec<usize>,
    pub(super) pipes: Vec<Pipe>,
    /// End of the cut between two ids.
    pub(super) cuts: BTreeMap<(Id, Id), u64>,
    /// Target of the next connection, in place of the intended one; change of its bytes.
    pub(super) redirected: Option<Owner>,
    pub(super) tampered: Option<(usize, Tamper)>,
    /// The next connection cannot be opened.
    pub(super) no_descriptor: bool,
    /// Ids whose links a process may count anew: forgotten after a thousand others, or linked with a liar or a second
    /// process in their name. Ids in whose place a liar has answered it.
    pub(super) counted_anew: BTreeSet<(usize, Id)>,
    pub(super) misled: BTreeSet<(usize, Id)>,
    pub(super) checkers: Checkers,
    pub(super) trace: Trace,
    pub(super) events: u64,
    /// Faults to come after numbers of events, the first one last.
    acts: Vec<(u64, Fault)>,
    calm: bool,
    /// How often each fault took effect.
    pub(super) injected: BTreeMap<Fault, u64>,
}

impl World {
    pub(super) fn new(scenario: &Scenario<Fault>) -> World {
        let mut random = Random::new(scenario.seed);
        let config = Config::draw(&mut random, scenario.n);
        let mut acts = scenario.acts.clone().unwrap_or_default();
        acts.sort_unstable_by(|a, b| b.cmp(a));
        let mut world = World {
            scenario: scenario.clone(),
            random,
            now: BEGIN,
            queue: Queue::new(),
            config,
            processes: Vec::new(),
            at: Vec::new(),
            pipes: Vec::new(),
            cuts: BTreeMap::new(),
            redirected: None,
            tampered: None,
            no_descriptor: false,
            counted_anew: BTreeSet::new(),
            misled: BTreeSet::new(),
            checkers: Checkers::default(),
            trace: Trace::new(scenario.trace, scenario.n),
            events: 0,
            acts,
            calm: false,
            injected: BTreeMap::new(),
        };
        world.plan();
        world
    }

    /// Plans starts, wanted links and faults.
    fn plan(&mut self) {
        let n = self.scenario.n;
        self.say(format_args!("{:?}", self.config.clone()));
        for id in 0..n {
            let incarnation = self.incarnation(false);
            let process = self.begin(id, incarnation, None, self.config.psk);
            self.at.push(process);
        }
        let exhaustive = self.scenario.acts.is_some();
        let span = SPANS[usize::from(!exhaustive)];
        for (from, to) in self.config.wanted.clone() {
            // Often both at once, so that their connections cross.
            let at = if self.random.chance(1, 2) { 0 } else { self.random.below(span / 4) };
            self.queue.push(BEGIN + at, Event::Wants(from, to));
        }
        if !exhaustive {
            for _ in 0..self.random.between(1, 8) {
                let fault = Fault::draw(&mut self.random);
                let at = BEGIN + self.random.below(span);
                self.queue.push(at, Event::Act(fault));
            }
        }
        self.queue.push(BEGIN + span, Event::Calm);
    }

    pub(super) fn incarnation(&mut self, lower: bool) -> u64 {
        // Never the same twice: the lowest digits count.
        let base = if lower { self.random.below(1000) } else { self.now / MS };
        base * 1000 + self.processes.len() as u64
    }

    /// Starts a process; `private` is its key, by default the listed one or a new one.
    pub(super) fn begin(
        &mut self,
        id: Id,
        incarnation: u64,
        private: Option<u64>,
        psk: Option<u64>,
    ) -> usize {
        self.begin_as(id, incarnation, private, psk, self.config.strictness_of(id), self.config.job)
    }

    pub(super) fn begin_as(
        &mut self,
        id: Id,
        incarnation: u64,
        private: Option<u64>,
        psk: Option<u64>,
        strictness: Strictness,
        job: Job,
    ) -> usize {
        let own = self.random.draw() >> 4;
        let private = private.or_else(|| self.config.listed.get(&id).copied()).unwrap_or(own);
        let hiwater = 8 + id;
        let who = Who { id, incarnation, psk, key: public(private), job, hiwater };
        let identity = Identity { me: id, incarnation, job, hiwater };
        let random = Random::new(self.random.draw());
        let crypto = psk.map(|psk| Box::new(Model { psk, private, random }) as Box<dyn Crypto>);
        let known = self.known_keys(id);
        self.say(format_args!("process {} begins: {who:?}", self.processes.len()));
        self.observe(Observation::Began(who));
        let process = self.processes.len();
        for id in known.peers.clone() {
            self.observe(Observation::Input(process, Input::Knows(id, known.keys.get(&id).copied())));
        }
        self.processes.push(RunningProcess {
            who,
            private,
            peering: Peering::new(identity, crypto, strictness, known),
            strictness,
            odd: false,
            afar: false,
            full: false,
            locals: BTreeMap::new(),
            next_key: 0,
            alive: true,
            silent: false,
            paused: 0,
            pauses: BTreeMap::new(),
            tick_at: None,
        });
        self.processes.len() - 1
    }

    /// Peers that a process knows: those it wants, most others, and most of the listed keys.
    fn known_keys(&mut self, me: Id) -> KnownKeys {
        let mut known = KnownKeys::default();
        for id in (0..self.scenario.n).filter(|id| *id != me) {
            if self.config.wanted.contains(&(me, id)) || !self.random.chance(1, 6) {
                known.peers.insert(id);
                let listed = self.listed(id).filter(|_| !self.random.chance(1, 6));
                known.keys.extend(listed.map(|key| (id, key)));
            }
        }
        known
    }

    pub(super) fn listed(&self, id: Id) -> Option<PublicKey> {
        self.config.listed.get(&id).map(|private| public(*private))
    }

    /// Whether a process refuses links in clear.
    pub(super) fn encrypts(&self, process: usize, way: Transport) -> bool {
        let Strictness { no_encryption, encrypt_loopback, .. } = self.processes[process].strictness;
        self.processes[process].who.psk.is_some()
            && match way {
                Transport::User | Transport::Host(_) => false,
                Transport::Loopback => encrypt_loopback,
                Transport::Network => !no_encryption,
            }
    }

    pub(super) fn observe(&mut self, seen: Observation) {
        self.checkers.observe(self.now - BEGIN, seen);
    }

    pub(super) fn say(&mut self, text: fmt::Arguments<'_>) {
        self.trace.say(self.now, text);
    }

    pub(super) fn run(&mut self) {
        while self.step() {}
    }

    /// Number of events until the faults are over.
    pub(super) fn events_until_calm(scenario: &Scenario<Fault>) -> u64 {
        let mut world = World::new(scenario);
        while !world.calm && world.step() {}
        world.events
    }

    /// Handles the next event, after the faults planned before it; returns false at the end.
    fn step(&mut self) -> bool {
        let Some((at, next)) = self.queue.pop() else { return false };
        let Next::Event(event) = next else { return true };
        self.now = at;
        while let Some((_, fault)) = self.acts.pop_if(|(event, _)| *event <= self.events) {
            self.act(fault);
        }
        self.events += 1;
        if self.events > EVENTS_MAX {
            self.checkers.add("liveness", format!("no rest after {EVENTS_MAX} events"));
            return false;
        }
        let kind = match &event {
            Event::Deliver { pipe, side } => (*pipe as u64) << 8 | *side as u64,
            Event::Tick(process) | Event::Want(process, _) => (*process as u64) << 8 | 2,
            _ => 3,
        };
        self.trace.fold([at, kind, self.pipes.len() as u64, self.processes.len() as u64]);
        self.handle_event(event);
        true
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Deliver { pipe, side } => self.deliver(pipe, side),
            Event::Tick(process) => self.tick(process),
            Event::Want(process, id) => self.want(process, id),
            Event::Wants(from, to) if !self.calm => {
                self.want(self.at[from as usize], to);
                let again = self.now + self.random.between(50 * MS, 4_000 * MS);
                self.queue.push(again, Event::Wants(from, to));
            }
            Event::Wants(..) => {}
            Event::Act(fault) => self.act(fault),
            Event::Usurp { .. } | Event::ListOld { .. } | Event::Attack(..) if self.calm => {}
            Event::Third { .. } | Event::Forgets(..) if self.calm => {}
            Event::Anew(process, peer) => self.anew(process, peer),
            Event::Usurp { process, later } => self.usurp(process, later),
            Event::ListOld { process, of } => self.list_old(process, of),
            Event::Third { process, later } => self.third(process, later),
            Event::Forgets(process, peer) if self.processes[process].alive => {
                self.forget_for_a_while(process, peer);
            }
            Event::Forgets(..) => {}
            Event::Attack(process, member) => self.attack(process, Owner::Member(member)),
            Event::Begin { id, lower } => self.begin_anew(id, lower),
            Event::Learn(id, peer) => self.learn(self.at[id as usize], peer, self.listed(peer)),
            Event::Calm => self.calm_down(),
            Event::Round(round) => self.round(round),
            Event::Judge => self.judge(),
        }
    }

    fn tick(&mut self, process: usize) {
        let (now, running) = (self.now, &mut self.processes[process]);
        if !running.alive {
            return;
        }
        if running.paused > now {
            return self.queue.push(running.paused, Event::Tick(process));
        }
        running.tick_at = None;
        running.peering.tick(Time::from_nanos(now));
        self.observe(Observation::Input(process, Input::Tick));
        self.settle(process);
    }

    pub(super) fn begin_anew(&mut self, id: Id, lower: bool) {
        if !self.processes[self.at[id as usize]].alive {
            let incarnation = self.incarnation(lower);
            self.at[id as usize] = self.begin(id, incarnation, None, self.config.psk);
        }
    }

    /// Ends the faults: each id is one process, and knows the peers that it wants.
    fn calm_down(&mut self) {
        self.say(format_args!("all faults are over"));
        (self.calm, self.redirected, self.tampered) = (true, None, None);
        self.no_descriptor = false;
        // Bytes sent from now on stay unchanged.
        self.pipes.iter_mut().flat_map(|pipe| &mut pipe.streams).for_each(|stream| stream.tamper = None);
        for process in 0..self.processes.len() {
            let id = self.processes[process].who.id as usize;
            let running = &self.processes[process];
            let unlisted = self.config.listed.get(&running.who.id).is_some_and(|key| *key != running.private);
            if running.odd || unlisted || self.at.get(id) != Some(&process) {
                self.die(process, true);
            }
        }
        for id in 0..self.scenario.n {
            self.begin_anew(id, false);
            self.fill(self.at[id as usize], false);
        }
        for (from, to) in self.config.wanted.clone() {
            self.learn(self.at[from as usize], to, self.listed(to));
        }
        self.queue.push(self.now, Event::Round(0));
        self.queue.push(self.now + u64::from(ROUNDS) * 1000 * MS + REST, Event::Judge);
    }

    /// Asks for every wanted link, and in the first rounds sends a PING on every link.
    fn round(&mut self, round: u32) {
        if round < HEARTBEATS {
            self.at.clone().into_iter().for_each(|process| self.heartbeat(process));
        }
        let mut missing = false;
        for (from, to) in self.config.wanted.clone() {
            let process = self.at[from as usize];
            missing |= self.processes[process].peering.up(to).is_none();
            self.want(process, to);
        }
        if round + 1 < ROUNDS && (missing || round < HEARTBEATS) {
            self.queue.push(self.now + 1000 * MS, Event::Round(round + 1));
        }
    }

    fn judge(&mut self) {
        for (from, to) in self.config.wanted.clone() {
            let process = self.at[from as usize];
            if self.processes[process].peering.up(to).is_none() {
                self.observe(Observation::Missing(process, to));
            }
        }
        for process in self.at.clone() {
            (0..self.scenario.n).for_each(|id| self.look_whether_remembered(process, id));
            let peering = &self.processes[process].peering;
            let (unfinished, holds) = (peering.entry_count(), peering.has_waiting_runs());
            let waits = |id| matches!(peering.state(id), State::Connecting(_) | State::Expecting(_));
            let due = peering.next_deadline().is_some() || (0..self.scenario.n).any(waits);
            self.observe(Observation::Rest { process, unfinished, holds, due });
        }
    }
}
