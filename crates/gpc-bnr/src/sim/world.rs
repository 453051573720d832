//! The world: nodes with a domain above their chains, the network between them, processes, and the queue of events.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use chained_gpc::chain::Outputs;
use chained_gpc::trees::Id;
use gpc_sim::Random;
use gpc_sim::worlds::Scenario;

use super::config::Config;
use super::events::{Event, Queue};
use super::faults::Fault;
use super::lasting::Lasting;
use super::network::Links;
use super::node::Node;
use super::programs::Programs;
use super::record::Record;
use super::seen::Seen;
use super::time::{BEGIN, MS};
use super::totals::Totals;
use crate::domain::{Input, Serial};
use crate::fault;
use crate::names::{GroupId, Member};
use crate::request::{Answer, Client};
use crate::spec::PmixNeed;

/// The client at the head that starts everything.
pub(super) const TOOL: Client = Client::Tool(0);

/// Time after the last fault until lost nodes are given up, and time for the new group to end.
const SETTLES: u64 = 60_000 * MS;
const PROBES: u64 = 60_000 * MS;

/// Most events of one run. No run that ends comes close.
const EVENTS_MAX: u64 = 2_000_000;

/// The state of one run.
pub(super) struct World {
    pub(super) config: Config,
    pub(super) random: Random,
    pub(super) now: u64,
    queue: Queue,
    pub(super) nodes: BTreeMap<Id, Node>,
    pub(super) links: Links,
    pub(super) lasting: Lasting,
    pub(super) lives: BTreeMap<Member, (Id, Life)>,
    /// Groups with a node that cannot start its part, and their sizes: fewer processes may be started.
    pub(super) unfit: BTreeSet<(GroupId, u32)>,
    pub(super) programs: Programs,
    pub(super) outputs: Outputs,
    /// The request that is being handled.
    pub(super) asking: Option<(Client, Serial)>,
    /// Faults to inject after this many events, the last one first.
    acts: Option<Vec<(u64, Fault)>>,
    pub(super) record: Record,
    pub(super) totals: Totals,
}

/// State of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Life {
    Starts,
    Runs,
    Over,
}

impl World {
    pub(super) fn new(scenario: &Scenario<Fault>) -> World {
        let mut random = Random::new(scenario.seed);
        let config = Config::draw(&mut random, scenario.n, scenario.acts.is_some());
        let programs = Programs::new(config.clone(), random.draw());
        let mut acts = scenario.acts.clone();
        acts.iter_mut().for_each(|acts| acts.sort_unstable_by(|a, b| b.cmp(a)));
        let mut world = World {
            config,
            random,
            now: BEGIN,
            queue: Queue::default(),
            nodes: BTreeMap::new(),
            links: Links::default(),
            lasting: Lasting::default(),
            lives: BTreeMap::new(),
            unfit: BTreeSet::new(),
            programs,
            outputs: Outputs::new(),
            asking: None,
            acts,
            record: Record::new(scenario.trace),
            totals: Totals::default(),
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
        self.queue.push(at, event);
    }

    /// Adds a line to the trace.
    pub(super) fn say(&mut self, text: fmt::Arguments<'_>) {
        self.record.say(self.now, self.totals.events, text);
    }

    /// Adds an observation to the history.
    pub(super) fn see(&mut self, seen: Seen) {
        self.record.see(self.now, self.totals.events, seen);
    }

    /// The delay of a message: usually short, occasionally long.
    pub(super) fn delay(&mut self, from: Id, to: Id) -> u64 {
        let slow = self.lasting.is_late(from, to, self.now);
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
        while let Some((at, event)) = self.queue.pop() {
            self.now = self.now.max(at);
            if self.totals.events >= EVENTS_MAX {
                self.see(Seen::Left("things happen for ever".into()));
                return until_calm;
            }
            if let Some(event) = self.hold(event) {
                self.happen_by_count();
                self.totals.events += 1;
                if !self.lasting.calm {
                    until_calm = self.totals.events;
                }
                self.record.fold([at, 2, 0]);
                self.happen(event);
            }
        }
        self.look_what_is_left();
        until_calm
    }

    fn happen_by_count(&mut self) {
        let events = self.totals.events;
        while let Some((_, fault)) = self.acts.as_mut().and_then(|acts| acts.pop_if(|(at, _)| *at <= events))
        {
            self.act(fault);
        }
    }

    /// Delays events at a paused node and messages across a partition. After the delay, messages and losses come first.
    fn hold(&mut self, event: Event) -> Option<Event> {
        let (id, later) = match &event {
            Event::Arrive(parcel) => {
                if let Some(until) = self.lasting.apart_until(parcel.from, parcel.to, self.now) {
                    self.push(until, event);
                    return None;
                }
                (parcel.to, 0)
            }
            Event::Lost(id, ..) => (*id, 0),
            Event::DomainMessage(id, ..)
            | Event::ChainMessage(id, ..)
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
            | Event::DomainMessage(_, run, _)
            | Event::ChainMessage(_, run, _)
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
            Event::DomainMessage(id, _, message) => self.take_domain_message(id, message),
            Event::ChainMessage(id, _, message) => self.take_chain_message(id, message),
            Event::Wakes(id, _, which) => self.wakes(id, which),
            Event::Killed(id, _, group, signal) => self.killed(id, group, signal),
            Event::Checked(id, _, group, failed) => {
                let pmix = PmixNeed::No;
                self.input(id, Input::Checked { group, failed, port: None, pmix, mpi: None });
            }
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
                self.lasting.end();
                self.see(Seen::Calm);
                self.push(self.now + SETTLES, Event::Probe);
            }
            Event::Probe => {
                let nodes = self.config.nodes;
                self.programs.probe(nodes);
                self.push(self.now + 1, Event::Acts(TOOL));
                self.push(self.now + PROBES, Event::Ends);
            }
            Event::Ends => {
                self.see_what_is_held();
                self.end_domain();
            }
        }
    }

    /// Before the end: what each node holds, if no process runs any more.
    fn see_what_is_held(&mut self) {
        if !self.is_up(self.head()) || !self.running_members().is_empty() {
            return;
        }
        for id in self.ids() {
            let part = self.nodes.get(&id).filter(|node| node.up).and_then(|node| node.part.as_ref());
            if let Some(held) = part.map(|part| part.domain.held()) {
                self.see(Seen::Holds(id, held));
            }
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
}
