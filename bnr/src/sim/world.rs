//! The world: nodes with a domain above their chains, the network between them, processes, and the queue of events.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use chained_gpc::chain::Outputs;
use chained_gpc::sim::Random;
use chained_gpc::trees::Id;
use chained_gpc::wire::Message;

use super::config::Config;
use super::counts::name;
use super::faults::Fault;
use super::network::Links;
use super::node::{Command, Node, Told};
use super::programs::Programs;
use super::scenario::Scenario;
use super::seen::Seen;
use crate::domain::{Input, Serial};
use crate::exit::Exit;
use crate::fault;
use crate::names::{GroupId, Member, Rank};
use crate::order::Order;
use crate::request::{Answer, Client};
use crate::start_error::StartError;

/// A millisecond, in microseconds.
pub(super) const MS: u64 = 1_000;

/// Start time of a world in microseconds; above 0, so that calls can be older than the nodes.
pub(super) const BEGIN: u64 = 1_000_000_000;

/// The client at the head that starts everything.
pub(super) const TOOL: Client = Client::Tool(0);

/// Time after the last fault until lost nodes are given up, and time for the new group to end.
const SETTLES: u64 = 60_000 * MS;
const PROBES: u64 = 60_000 * MS;

/// Most events of one run. No run that ends comes close.
const EVENTS_MAX: u64 = 2_000_000;

/// Most lines of a trace.
const LINES_MAX: usize = 1 << 20;

/// A message in transit.
#[derive(Debug)]
pub(super) struct Parcel {
    pub(super) from: Id,
    pub(super) to: Id,
    pub(super) epoch: u32,
    /// Start time of the sender, which identifies its run.
    pub(super) begun: u64,
    pub(super) message: Message,
}

/// An event. Events of a node carry its run, since the node may have been restarted.
#[derive(Debug)]
pub(super) enum Event {
    Arrive(Box<Parcel>),
    /// A node learns that the link to a peer is lost.
    Lost(Id, u32, Id, u32),
    Told(Id, u32, Told),
    Command(Id, u32, Command),
    /// A deadline of the chain or of the domain.
    Wakes(Id, u32, usize),
    /// The processes of a group are killed.
    Killed(Id, u32, GroupId, u8),
    /// The check of a group's processes has ended.
    Checked(Id, u32, GroupId, Vec<(Vec<Rank>, StartError)>),
    /// All processes of a group have been started, or could not be.
    Started(Id, u32, GroupId),
    Gone(Id, u32, Client),
    Runs(Member, Result<u32, StartError>),
    Dies(Member, Exit),
    Acts(Client),
    Fault(Fault),
    Begins(Id),
    Calm,
    Probe,
    Ends,
}

/// The state of one run.
pub(super) struct World {
    pub(super) config: Config,
    pub(super) random: Random,
    pub(super) now: u64,
    queue: BTreeMap<(u64, u64), Event>,
    count: u64,
    pub(super) nodes: BTreeMap<Id, Node>,
    pub(super) links: Links,
    /// End times: of partitions, of refused and slow connections, of nodes without calls.
    pub(super) cut: Option<(BTreeSet<Id>, u64)>,
    pub(super) refused: BTreeMap<(Id, Id), u64>,
    pub(super) late: BTreeMap<(Id, Id), u64>,
    pub(super) busy: BTreeMap<Id, u64>,
    /// Total time for which each node has not answered.
    pub(super) silent: BTreeMap<Id, u64>,
    pub(super) calm: bool,
    pub(super) lives: BTreeMap<Member, (Id, Life)>,
    /// Groups with a node that cannot start its part.
    pub(super) unfit: BTreeSet<GroupId>,
    pub(super) programs: Programs,
    pub(super) seen: Vec<Seen>,
    /// Times of `seen`, in microseconds.
    pub(super) times: Vec<u64>,
    pub(super) outputs: Outputs,
    pub(super) asking: Option<(Client, Serial)>,
    pub(super) events: u64,
    pub(super) messages: u64,
    /// Faults to inject after this many events, the last one first.
    acts: Option<Vec<(u64, Fault)>>,
    pub(super) injected: BTreeMap<Fault, u64>,
    pub(super) orders: BTreeMap<String, u64>,
    pub(super) hash: u64,
    lines: Option<Vec<String>>,
}

/// State of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Life {
    Starts,
    Runs,
    Over,
}

impl World {
    pub(super) fn new(scenario: &Scenario) -> World {
        let mut random = Random::new(scenario.seed);
        let config = Config::draw(&mut random, scenario.n, scenario.acts.is_some());
        let programs = Programs::new(config.clone(), random.draw());
        let mut acts = scenario.acts.clone();
        acts.iter_mut().for_each(|acts| acts.sort_unstable_by(|a, b| b.cmp(a)));
        let mut world = World {
            config,
            random,
            now: BEGIN,
            queue: BTreeMap::new(),
            count: 0,
            nodes: BTreeMap::new(),
            links: Links::default(),
            cut: None,
            refused: BTreeMap::new(),
            late: BTreeMap::new(),
            busy: BTreeMap::new(),
            silent: BTreeMap::new(),
            calm: false,
            lives: BTreeMap::new(),
            unfit: BTreeSet::new(),
            programs,
            seen: Vec::new(),
            times: Vec::new(),
            outputs: Outputs::new(),
            asking: None,
            events: 0,
            messages: 0,
            acts,
            injected: BTreeMap::new(),
            orders: BTreeMap::new(),
            hash: 0xcbf2_9ce4_8422_2325,
            lines: scenario.trace.then(Vec::new),
        };
        world.say(format_args!("{:?}", world.config.clone()));
        world.plan();
        world
    }

    /// Creates the nodes and schedules the faults.
    fn plan(&mut self) {
        for id in self.ids() {
            let node = self.new_node(id, 0);
            self.nodes.insert(id, node);
        }
        self.begin_part(self.head(), self.ids(), self.config.limits);
        self.programs.begin(TOOL);
        self.push(self.now + 1, Event::Acts(TOOL));
        let span = self.config.span;
        if self.acts.is_none() && !self.config.faults.is_empty() {
            for _ in 0..self.config.count {
                let Some(fault) = Fault::draw(&mut self.random, &self.config.faults) else { continue };
                let at = self.now + self.random.below(span);
                self.push(at, Event::Fault(fault));
            }
        }
        // Lasting faults begin before the end of the span, and end with the calm.
        self.push(self.now + span + 3 * self.config.dead_after, Event::Calm);
    }

    /// The ids of all nodes, the head first: arbitrary numbers, not sorted.
    pub(super) fn ids(&self) -> Vec<Id> {
        (0..self.config.nodes).map(|place| place * 7 % 23 + 3).collect()
    }

    pub(super) fn head(&self) -> Id {
        3
    }

    pub(super) fn is_up(&self, id: Id) -> bool {
        self.nodes.get(&id).is_some_and(|node| node.up)
    }

    pub(super) fn is_paused(&self, id: Id) -> bool {
        self.nodes.get(&id).is_some_and(|node| node.paused > self.now)
    }

    pub(super) fn push(&mut self, at: u64, event: Event) {
        self.count += 1;
        self.queue.insert((at, self.count), event);
    }

    pub(super) fn say(&mut self, text: fmt::Arguments<'_>) {
        if let Some(lines) = self.lines.as_mut().filter(|lines| lines.len() < LINES_MAX) {
            let since = self.now - BEGIN;
            lines.push(format!("{:>7}.{:03} ms {:>6}  {text}", since / MS, since % MS, self.events));
        }
    }

    pub(super) fn take_lines(&mut self) -> Vec<String> {
        self.lines.take().unwrap_or_default()
    }

    pub(super) fn see(&mut self, seen: Seen) {
        if self.lines.is_some() {
            self.say(format_args!("   {seen:?}"));
        }
        self.fold([self.now, 1, self.seen.len() as u64]);
        self.seen.push(seen);
        self.times.push(self.now);
    }

    fn fold(&mut self, words: [u64; 3]) {
        for word in words {
            self.hash = (self.hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
        }
    }

    pub(super) fn count_order(&mut self, order: &Order) {
        *self.orders.entry(name(order)).or_default() += 1;
    }

    /// The delay of a message: usually short, occasionally long.
    pub(super) fn delay(&mut self, from: Id, to: Id) -> u64 {
        let slow = self.late.get(&(from, to)).is_some_and(|until| *until > self.now);
        let most = match slow || self.random.chance(1, 40 * self.config.lateness) {
            true => 150 * MS,
            false => 2 * self.config.latency,
        };
        self.config.latency + self.random.below(most)
    }

    /// A random time for an action of a process.
    pub(super) fn moment(&mut self) -> u64 {
        let late = self.random.chance(1, self.config.lateness);
        1 + self.random.below(if late { 400 * MS } else { 5 * MS })
    }

    pub(super) fn answered(&mut self, client: Client, serial: Serial, answer: Result<Answer, fault::Fault>) {
        let at_once = self.asking == Some((client, serial));
        self.programs.answered(client, serial, &answer);
        self.see(Seen::Answered { client, serial, answer, at_once });
        if self.programs.wants(client) {
            let at = self.now + self.moment();
            self.push(at, Event::Acts(client));
        }
    }

    /// Runs until no event is left. Returns the number of events until all faults were over.
    pub(super) fn run(&mut self) -> u64 {
        let mut until_calm = 0;
        while let Some(((at, _), event)) = self.queue.pop_first() {
            self.now = self.now.max(at);
            if self.events >= EVENTS_MAX {
                self.see(Seen::Left("things happen for ever".into()));
                return until_calm;
            }
            if let Some(event) = self.hold(event) {
                self.happen_by_count();
                self.events += 1;
                if !self.calm {
                    until_calm = self.events;
                }
                self.fold([at, 2, 0]);
                self.happen(event);
            }
        }
        self.look_what_is_left();
        until_calm
    }

    fn happen_by_count(&mut self) {
        let events = self.events;
        while let Some((_, fault)) = self.acts.as_mut().and_then(|acts| acts.pop_if(|(at, _)| *at <= events))
        {
            self.act(fault);
        }
    }

    /// Delays events at a paused node and messages across a partition. After the delay, messages and losses come first.
    fn hold(&mut self, event: Event) -> Option<Event> {
        let (id, later) = match &event {
            Event::Arrive(parcel) => {
                let cut = self.cut.as_ref().filter(|(_, until)| *until > self.now);
                let apart = cut.filter(|(ids, _)| ids.contains(&parcel.from) != ids.contains(&parcel.to));
                if let Some((_, until)) = apart {
                    let until = *until;
                    self.push(until, event);
                    return None;
                }
                (parcel.to, 0)
            }
            Event::Lost(id, ..) => (*id, 0),
            Event::Told(id, ..)
            | Event::Command(id, ..)
            | Event::Killed(id, ..)
            | Event::Checked(id, ..)
            | Event::Started(id, ..)
            | Event::Gone(id, ..) => (*id, 1),
            Event::Wakes(id, ..) => (*id, 2),
            Event::Acts(client) => (self.node_of(*client)?, 1),
            Event::Runs(member, _) | Event::Dies(member, _) => (self.lives.get(member)?.0, 1),
            _ => return Some(event),
        };
        let run = match &event {
            Event::Lost(_, run, ..)
            | Event::Told(_, run, _)
            | Event::Command(_, run, _)
            | Event::Killed(_, run, ..)
            | Event::Checked(_, run, ..)
            | Event::Started(_, run, _)
            | Event::Gone(_, run, _)
            | Event::Wakes(_, run, _) => Some(*run),
            _ => None,
        };
        let node = self.nodes.get(&id)?;
        if !node.up || run.is_some_and(|run| run != node.run) {
            return None;
        }
        if node.paused > self.now {
            let until = node.paused + later;
            self.push(until, event);
            return None;
        }
        Some(event)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive(parcel) => self.arrive(*parcel),
            Event::Lost(id, _, peer, epoch) => self.hears_of_loss(id, peer, epoch),
            Event::Told(id, _, told) => self.told(id, told),
            Event::Command(id, _, command) => self.commanded(id, command),
            Event::Wakes(id, _, which) => self.wakes(id, which),
            Event::Killed(id, _, group, signal) => self.killed(id, group, signal),
            Event::Checked(id, _, group, failed) => self.input(id, Input::Checked { group, failed }),
            Event::Started(id, _, group) => self.started(id, group),
            Event::Gone(id, _, client) => {
                self.see(Seen::Gone { client });
                self.input(id, Input::Gone(client));
            }
            Event::Runs(member, started) => self.runs(member, started),
            Event::Dies(member, exit) => self.dies(member, exit),
            Event::Acts(client) => self.acts(client),
            Event::Fault(fault) => self.act(fault),
            Event::Begins(id) => self.begins_anew(id),
            Event::Calm => {
                self.calm_down();
                self.see(Seen::Calm);
                self.push(self.now + SETTLES, Event::Probe);
            }
            Event::Probe => {
                let nodes = self.config.nodes;
                self.programs.probe(nodes);
                self.push(self.now + 1, Event::Acts(TOOL));
                self.push(self.now + PROBES, Event::Ends);
            }
            Event::Ends => self.end_domain(),
        }
    }

    /// Orders the head to end the domain.
    pub(super) fn end_domain(&mut self) {
        let head = self.head();
        if self.is_up(head) {
            self.see(Seen::Ends);
            self.input(head, Input::End);
        }
    }

    /// A node crashes with its processes.
    pub(super) fn crash(&mut self, id: Id) {
        let Some(node) = self.nodes.get_mut(&id).filter(|node| node.up) else { return };
        node.up = false;
        node.part = None;
        self.see(Seen::Crashed(id));
        self.disturbed(&[id]);
        for (peer, epoch) in self.links.end_of(id) {
            self.tell_loss(peer, id, epoch);
        }
        for (member, (_, life)) in self.lives.iter_mut().filter(|(_, (at, _))| *at == id) {
            *life = Life::Over;
            self.programs.over(Client::Process(*member));
        }
        if id == self.head() {
            self.programs.over(TOOL);
        }
    }

    fn begins_anew(&mut self, id: Id) {
        let Some(run) = self.nodes.get(&id).filter(|node| !node.up).map(|node| node.run + 1) else { return };
        self.say(format_args!("{id} begins anew"));
        let node = self.new_node(id, run);
        self.nodes.insert(id, node);
    }

    fn look_what_is_left(&mut self) {
        for id in self.ids() {
            if let Some(left) = self.left_at(id) {
                self.see(Seen::Left(left));
            }
        }
        let left: Vec<Member> = self.running_members();
        left.into_iter().for_each(|member| self.see(Seen::Left(format!("{member} is left"))));
    }

    pub(super) fn node_of(&self, client: Client) -> Option<Id> {
        match client {
            Client::Tool(_) => Some(self.head()),
            Client::Process(member) => {
                self.lives.get(&member).filter(|(_, life)| *life == Life::Runs).map(|(id, _)| *id)
            }
        }
    }

    /// The running processes at nodes that are up.
    pub(super) fn running_members(&self) -> Vec<Member> {
        let running = self.lives.iter().filter(|(_, (id, life))| *life == Life::Runs && self.is_up(*id));
        running.map(|(member, _)| *member).collect()
    }

    /// The history, for the checkers.
    pub(super) fn history(&mut self) -> (Vec<Seen>, Vec<u64>) {
        (std::mem::take(&mut self.seen), std::mem::take(&mut self.times))
    }
}
