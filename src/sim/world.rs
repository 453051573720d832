//! The world: nodes as they are, a network with its costs, time that passes only from one event to the next.
//!
//! Everything that happens is decided by the scenario: events come in the order of their time and, at one time, of their making; nothing is iterated in an order that a machine could choose.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gpc_trees::{Id, IdList, Tree};

use super::ahead::each;
use super::by_call::ByCall;
use super::check::{Carries, Checkers, Held, Observation, Outcome, Plan, data, header};
use super::cores::Cores;
use super::cost::Topology;
use super::exhaustive::{Crash, Parts};
use super::faults::{Act, Fault, Mishap, Mishaps, Passage};
use super::flows::Flows;
use super::hosts::{Host, Hosts};
use super::linked::{Linked, Linking, Step};
use super::path::{Hop, Paths};
use super::pieces::Pieces;
use super::profile::Profile;
use super::queue::{Next, Queue};
use super::random::Random;
use super::rooms::{Room, Rooms};
use super::scenario::{REPLY_BYTES, Scenario};
use super::trace::Trace;
use crate::chain::{Heartbeat, Input, JobResult, Node, Outputs, Reply, Rested, Start, Time};
use crate::wire::message::Classes;
use crate::wire::{Body, CallId, Message, Reason, Request};

/// When a world begins: its processes have been running since 0, for eleven days, if they have not just been launched.
pub(super) const BEGIN: u64 = 1_000_000_000_000_000;

/// Events between two looks of an observer: some milliseconds of the simulator.
const OBSERVED: u64 = 1 << 13;

/// Events of one run, and of each id and call of it; a run that needs more does not come to rest. A call costs an id some events, and where it waits for its limit
/// some hundred heartbeats.
const EVENTS_MAX: (u64, u64) = (100_000, 2_000);

/// Time limit of calls where nothing can go wrong: an hour.
const FAULTLESS_LIMIT_NS: u64 = 3_600_000_000_000;

/// Workers of the executor with a name that every node has beside its default workers.
pub(super) const EXECUTOR: usize = 1;

/// Which workers run the functions of a call: every other one of a root's calls is a service's, which may not wait behind the others.
pub(super) fn class_of(call: CallId) -> u8 {
    (call.sequence % 2) as u8
}

/// Those of callback are others in one call of four.
pub(super) fn classes_of(call: CallId) -> Classes {
    let (func, other) = (class_of(call), (call.sequence >> 1 & call.sequence >> 2 & 1) as u8);
    Classes { func, callback: func ^ other }
}

/// Whether the functions of a call run on the default workers.
pub(super) fn has_usual_classes(call: CallId) -> bool {
    classes_of(call) == Classes::default()
}

/// Worlds above this size do without an idle node that has no fault to fear; see [`World::rest`].
pub(super) const LARGE: u32 = 16_384;

/// What would be most of what happens in a large world is done at one in so many of its ids.
pub(super) const FEW: Id = 16;

/// Behind one in so many inputs a node gives back what calls that ended have left, where nodes do so.
const GIVING_BACK: u64 = 8;

/// Behind its resumption a process learns so much later what has ended in it, and that time has passed, nanoseconds.
const ENDED_LATER: u64 = 1;
const TIMERS_LATER: u64 = 2;

/// A message under way.
#[derive(Debug)]
pub(super) struct Parcel {
    pub(super) from: Id,
    pub(super) to: Id,
    pub(super) passage: Passage,
    /// When the run of the sender began that has sent it: its incarnation.
    pub(super) begun: u64,
    pub(super) sent: Sent,
    pub(super) message: Message,
}

/// When a message was sent, nanoseconds, and as what. In one word, so that a parcel takes two lines of memory and not three.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent(u64);

impl Sent {
    const DATA: u64 = 1 << 63;
    const LIE: u64 = 1 << 62;

    /// No world lasts so long that a time has these bits.
    pub(super) fn at(now: u64) -> Sent {
        Sent(now & !(Sent::DATA | Sent::LIE))
    }

    /// Perhaps as the data of a long reply, whose head has gone before.
    pub(super) fn data(self, is: bool) -> Sent {
        Sent(self.0 | if is { Sent::DATA } else { 0 })
    }

    /// Perhaps by one that has no part in what it speaks of.
    pub(super) fn lie(self, is: bool) -> Sent {
        Sent(self.0 | if is { Sent::LIE } else { 0 })
    }

    pub(super) fn is_data(self) -> bool {
        self.0 & Sent::DATA > 0
    }

    pub(super) fn is_lie(self) -> bool {
        self.0 & Sent::LIE > 0
    }

    pub(super) fn time(self) -> u64 {
        Sent::at(self.0).0
    }
}

/// The name of a call in an event, which has no room for one as it lies elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Name {
    root: Id,
    sequence: [u32; 2],
}

impl From<CallId> for Name {
    fn from(CallId { root, sequence }: CallId) -> Name {
        Name { root, sequence: [(sequence >> 32) as u32, sequence as u32] }
    }
}

impl Name {
    pub(super) fn call(self) -> CallId {
        let [high, low] = self.sequence.map(u64::from);
        CallId { root: self.root, sequence: high << 32 | low }
    }
}

/// Half a line of memory.
const _: () = assert!(size_of::<Event>() == 32);

/// A heartbeat request that waits to leave: on which link, and since when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub(super) peer: Id,
    pub(super) epoch: u32,
    pub(super) asked: u64,
}

/// Something that is to happen. Small, since a large world has a million of them under way.
#[derive(Debug)]
pub(super) enum Event {
    /// The application starts a call.
    Start(usize),
    /// After all faults: nothing is to be left of them.
    Settled,
    /// A call that must reach everybody who lives.
    Probe { partial: bool },
    /// A message reaches its receiver.
    Arrive(Room<Parcel>),
    /// Its receiver has taken it in.
    Handle(Room<Parcel>),
    /// A function has ended.
    Ran { id: Id, run: u32, call: Name, result: Room<JobResult> },
    /// A function waits for something, or does not any more.
    Waits { id: Id, run: u32, call: CallId, begins: bool },
    /// The data of a long reply may go up that could not.
    GoesUp { id: Id, run: u32, call: CallId },
    /// A token is used.
    Answered { id: Id, run: u32, call: Name, reply: Box<Result<Reply, Box<Reason>>> },
    /// More of a request's data comes.
    Piece { id: Id, run: u32, from: Id, call: CallId },
    /// An end learns that its link is lost.
    Notice { id: Id, run: u32, peer: Id, epoch: u32 },
    /// A heartbeat request does not wait any more to leave.
    PingLeft { id: Id, run: u32, question: Question },
    /// A socket that was full has taken bytes.
    Taken { id: Id, run: u32, peer: Id, epoch: u32 },
    /// What is next of a connection's stream reaches the end of that side.
    Delivery { pipe: u32, side: u8 },
    /// Something happens to a connection.
    Connection(Box<Step>),
    /// The machine that makes the links of a process has something to do.
    Due { id: Id, run: u32 },
    /// A process that has a core can do the next thing.
    Turn(Id),
    /// A function has had a core for its time.
    Worked { id: Id, then: Box<Event> },
    /// A process goes on.
    Resumed(Id),
    /// Something goes wrong.
    Mishap(Box<Mishap>),
}

/// A call of a world.
#[derive(Debug)]
pub(super) struct CallState {
    pub(super) plan: Arc<Plan>,
    pub(super) acts: BTreeMap<Id, Act>,
    pub(super) callbacks_fail: BTreeSet<Id>,
    /// Where callback answers later.
    pub(super) callbacks_later: BTreeSet<Id>,
    /// How often it has merged a reply without failing, where it is to fail.
    pub(super) merged_well: BTreeMap<Id, u32>,
    /// After all faults: it must end well.
    pub(super) probe: bool,
    pub(super) name: Option<CallId>,
    pub(super) started: u64,
    pub(super) ended: Option<(u64, Outcome)>,
}

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Counts {
    pub(super) events: u64,
    pub(super) messages: u64,
    pub(super) bytes: u64,
}

/// One run.
pub(super) struct World {
    pub(super) scenario: Scenario,
    /// The last request of each root at an id, where copies of some come: see [`remember_request`](World::remember_request).
    pub(super) asked: BTreeMap<(Id, Id), Arc<Request>>,
    pub(super) random: Random,
    pub(super) now: u64,
    pub(super) queue: Queue<Event>,
    pub(super) hosts: Hosts,
    /// A node that takes its turn as that of the next id of a large world; see [`rest`](World::rest).
    pub(super) spare: Option<Box<Node>>,
    /// None where every process has one of its own.
    pub(super) cores: Option<Cores>,
    /// None where nothing can go wrong.
    pub(super) mishaps: Option<Mishaps>,
    /// None where links are modelled.
    pub(super) linked: Option<Box<Linked>>,
    pub(super) profile: Profile,
    pub(super) pieces: Pieces,
    /// Where what is under way stands, and what nodes go on with that were let go.
    pub(super) parcels: Rooms<Parcel>,
    /// Those of results of functions.
    pub(super) results: Rooms<JobResult>,
    pub(super) rested: Rooms<Rested>,
    pub(super) calls: Vec<CallState>,
    pub(super) flows: Flows,
    pub(super) names: ByCall<usize>,
    pub(super) checkers: Checkers,
    pub(super) trace: Trace,
    pub(super) paths: Option<Paths>,
    /// That of the call that took longest.
    pub(super) path: Vec<Hop>,
    pub(super) counts: Counts,
    /// What the node that has an input asks for; empty between inputs.
    pub(super) outputs: Outputs,
    /// Functions that have ended at once, each with its call; empty between inputs.
    pub(super) ended: VecDeque<(CallId, JobResult)>,
    /// Room for what a short request has in common with others.
    pub(super) plan_room: Vec<u8>,
    pub(super) heartbeat: Option<Heartbeat>,
    pub(super) workers: usize,
    /// Longest that a request may be under way.
    pub(super) under_way_max: Duration,
    /// Processes that are to end at their events, the first one last.
    pub(super) crashes: Vec<Crash>,
    /// Where it is to be known: who had part in which event.
    pub(super) parts: Option<Parts>,
    /// Whether the end of the events was reached.
    pub(super) restless: bool,
}

impl World {
    pub(super) fn new(scenario: &Scenario) -> World {
        let topology = Topology { n: scenario.n, hosts: scenario.hosts, costs: scenario.costs };
        let faultless = scenario.faults.is_empty() && scenario.crashes.is_none();
        let mut world = World {
            scenario: scenario.clone(),
            random: Random::new(scenario.seed),
            now: BEGIN,
            queue: Queue::new(),
            hosts: Hosts::new(topology),
            spare: None,
            cores: scenario
                .sharing
                .filter(|_| scenario.faults.is_empty())
                .map(|it| Cores::new(it, &topology)),
            mishaps: None,
            linked: (scenario.links == Linking::Peering)
                .then(|| Box::new(Linked::new(scenario.n, scenario.seed, !faultless))),
            profile: Profile::default(),
            pieces: Pieces::default(),
            parcels: Rooms::default(),
            results: Rooms::default(),
            rested: Rooms::default(),
            calls: Vec::new(),
            flows: Flows::default(),
            names: ByCall::default(),
            checkers: Checkers::new(),
            asked: BTreeMap::new(),
            trace: Trace::new(scenario.trace, scenario.n),
            paths: faultless.then(|| Paths::new(scenario.n)),
            path: Vec::new(),
            counts: Counts::default(),
            outputs: Outputs::new(),
            ended: VecDeque::new(),
            plan_room: Vec::new(),
            heartbeat: None,
            workers: 1,
            under_way_max: Duration::from_secs(1),
            crashes: Vec::new(),
            parts: None,
            restless: false,
        };
        match (&scenario.crashes, faultless) {
            (Some(crashes), _) => world.plan_crashes(crashes),
            (None, true) => world.plan_faultless(),
            (None, false) => world.plan_faulty(),
        }
        world
    }

    /// Calls over all ids one after another, started at id 0.
    fn plan_faultless(&mut self) {
        let Scenario { n, tree, partial, .. } = self.scenario.clone();
        let reply_bytes = self.scenario.reply_bytes.unwrap_or(REPLY_BYTES);
        for _ in 0..self.scenario.calls {
            let plan = Plan {
                ids: IdList::range(0..n),
                tree: tree.clone(),
                partial,
                watch: false,
                reply_wanted: reply_bytes > 0,
                callback: false,
                forward_first: false,
                data_bytes: self.scenario.data_bytes.unwrap_or(0),
                limit_ns: FAULTLESS_LIMIT_NS,
                reply_bytes: reply_bytes.max(4),
                carries: Carries::default(),
            };
            self.add_call(plan, false);
        }
        self.queue.push(self.now, Event::Start(0));
    }

    pub(super) fn add_call(&mut self, plan: Plan, probe: bool) -> usize {
        self.calls.push(CallState {
            plan: Arc::new(plan),
            acts: BTreeMap::new(),
            callbacks_fail: BTreeSet::new(),
            callbacks_later: BTreeSet::new(),
            merged_well: BTreeMap::new(),
            probe,
            name: None,
            started: 0,
            ended: None,
        });
        self.calls.len() - 1
    }

    /// Lets everything happen.
    pub(super) fn run(&mut self) {
        self.run_observed(|_| {});
    }

    /// Lets everything happen, and tells now and then how many messages have been sent.
    pub(super) fn run_observed(&mut self, mut observe: impl FnMut(u64)) {
        let (all, each) = EVENTS_MAX;
        let most = all + each * u64::from(self.scenario.n) * u64::from(self.scenario.calls);
        loop {
            self.crash_those_due();
            let Some((at, next)) = self.queue.pop() else { break };
            match next {
                _ if self.scenario.n <= LARGE => {}
                Next::Timer(_) => self.look_ahead_at_timers(),
                Next::Event(_) => self.look_ahead(),
            }
            self.step(at, next);
            if self.counts.events.is_multiple_of(OBSERVED) {
                observe(self.counts.messages);
            }
            if self.scenario.n > LARGE && self.mishaps.is_none() && self.queue.only_timers() {
                // Most of a million are of ids that have been let go.
                let hosts = &self.hosts;
                self.queue.keep_timers(|id| hosts.has_node(id));
            }
            if self.counts.events > most {
                self.restless = true;
                return;
            }
        }
        self.quiet();
    }

    /// One thing happens.
    pub(super) fn step(&mut self, at: u64, next: Next<Event>) {
        self.now = at;
        self.counts.events += 1;
        match next {
            Next::Timer(id) => {
                self.took_part(id);
                self.timer(id);
            }
            Next::Event(event) => self.happen(event),
        }
        if self.linked.is_some() {
            self.take_in_arrivals();
        }
    }

    /// Nothing is left of what has happened.
    pub(super) fn quiet(&mut self) {
        let all = self.hosts.iter().map(|(id, host)| (id, host.held()));
        let held: Vec<(Id, Held)> = all.filter(|(_, held)| *held != Held::default()).collect();
        self.observe(&Observation::Quiet { held: &held });
    }

    pub(super) fn observe(&mut self, seen: &Observation<'_>) {
        self.checkers.observe(self.now, seen);
    }

    /// An id's timer is due, unless it was set anew.
    fn timer(&mut self, id: Id) {
        if self.hosts.at(id).timer != self.now {
            return;
        }
        self.hosts.at(id).timer = u64::MAX;
        if let Some(until) = self.paused_until(id) {
            // Its driver looks at the time when it has taken in what has come, and what has ended.
            let until = until + TIMERS_LATER;
            self.hosts.at(id).timer = until;
            return self.queue.push_timer(until, id);
        }
        let Host { node, rested, .. } = self.hosts.at(id);
        if node.is_some() || rested.is_some() {
            self.trace.fold([self.now, 1, id.into(), 0]);
        }
        // Who was let go has nothing to look at until something is due: what was may be over.
        let later = match (node, rested) {
            (None, Some(rested)) => rested.next_deadline().map_or(u64::MAX, Time::as_nanos),
            _ => self.now,
        };
        if later <= self.now {
            self.input(id, Input::Tick);
        } else if later < u64::MAX {
            self.hosts.at(id).timer = later;
            self.queue.push_timer(later, id);
        }
    }

    fn happen(&mut self, event: Event) {
        if let Some(until) = event.at().and_then(|id| self.paused_until(id)) {
            // In the order that the chain asks of its drivers: who has stood still hears first what became of its links.
            let later = u64::from(matches!(event, Event::Ran { .. } | Event::Answered { .. })) * ENDED_LATER;
            return self.queue.push(until + later, event);
        }
        if let Some(at) = self.behind_what_has_come(&event) {
            return self.queue.push(at, event);
        }
        let event = self.share_cores(event);
        event.into_iter().for_each(|event| self.happen_at_once(event));
    }

    pub(super) fn happen_at_once(&mut self, event: Event) {
        if self.parts.is_some() {
            each(event.parts(), |id| self.took_part(id));
        }
        match event {
            Event::Start(index) => self.start(index),
            Event::Settled => {
                self.planned_is_over();
                // What a sender has never had whole, and nobody waits for any more.
                self.pieces = Pieces::default();
                self.links_are_settled();
                self.quiet();
            }
            Event::Probe { partial } => self.probe(partial),
            Event::Arrive(parcel) => self.arrive(parcel),
            Event::Handle(parcel) => {
                let parcel = self.parcels.take(parcel);
                self.handle(parcel);
            }
            Event::Ran { id, run, call, result } => {
                let call = call.call();
                if self.hosts.is_up(id) && self.hosts.run(id) == run {
                    self.ran(id, call, &result);
                    let result = self.results.take(result);
                    self.input(id, Input::Ran { call, result });
                }
            }
            Event::Answered { id, run, call, reply } => {
                let call = call.call();
                if self.hosts.is_up(id) && self.hosts.run(id) == run {
                    self.trace.fold([self.now, 3, id.into(), call.sequence]);
                    self.trace.say(self.now, format_args!("{id} gives its deferred reply to {call}"));
                    self.observe(&Observation::TokenUsed { id, call });
                    self.input(id, Input::Answered { call, result: *reply });
                }
            }
            Event::Waits { id, run, call, begins } => self.function_waits(id, run, call, begins),
            Event::GoesUp { id, run, call } => self.goes_up(id, run, call),
            Event::Piece { id, run, from, call } => self.piece(id, run, from, call),
            Event::Notice { id, run, peer, epoch } => self.notice(id, run, peer, epoch),
            Event::PingLeft { id, run, question } => self.ping_left(id, run, question),
            Event::Taken { id, run, peer, epoch } => self.taken(id, run, peer, epoch),
            // It may have ended, begun anew, and stand still again.
            Event::Resumed(id) if self.paused_until(id).is_some() || !self.hosts.is_up(id) => {}
            Event::Resumed(id) => self.resume(id),
            Event::Mishap(mishap) => self.mishap(*mishap),
            Event::Delivery { pipe, side } => self.delivery(pipe, side.into()),
            Event::Connection(step) => self.step_of_connection(*step),
            Event::Due { id, run } => self.peering_is_due(id, run),
            // They are for cores that are shared.
            Event::Turn(_) | Event::Worked { .. } => {}
        }
    }

    /// The application starts a call, if its process lives.
    pub(super) fn start(&mut self, index: usize) {
        let call = &self.calls[index];
        let plan = call.plan.clone();
        let Some(root) = plan.ids.first().filter(|&root| self.hosts.is_up(root)) else { return };
        if let Some(until) = self.paused_until(root) {
            return self.queue.push(until, Event::Start(index));
        }
        self.took_part(root);
        self.calls_others(root);
        let incarnation = self.hosts.incarnation(root);
        let host = self.hosts.at(root);
        let name = CallId { root, sequence: incarnation + u64::from(host.started) };
        host.started += 1;
        let call = &mut self.calls[index];
        call.name = Some(name);
        if self.cores.is_none() {
            call.started = self.now;
        }
        let started = call.started;
        self.names.insert(name, index);
        self.paths.iter_mut().for_each(|paths| paths.begin(started));
        self.trace.fold([self.now, 4, root.into(), index as u64]);
        let kind = if plan.partial { "partial call" } else { "call" };
        self.trace
            .say(self.now, format_args!("{root} starts {kind} {name} over {}, {}", plan.ids, plan.tree));
        self.observe(&Observation::Started { call: name, plan: plan.clone() });
        let start = Start {
            callback: plan.callback.then_some(plan.carries.callback),
            reply_wanted: plan.reply_wanted,
            forward_first: plan.forward_first,
            partial: plan.partial,
            watch: plan.watch,
            limit: Duration::from_nanos(plan.limit_ns),
            tree: plan.tree.clone(),
            ids: plan.ids.clone(),
            header: Bytes::from(header(name, plan.carries.header_bytes)),
            data: Body::whole(Bytes::from(data(name, plan.data_bytes))),
            classes: classes_of(name),
            merging: plan.carries.merging,
            ..Start::new(plan.carries.func)
        };
        let ticket = index as u64;
        if !has_usual_classes(name) || !self.starts_on_the_spot(root, ticket, &start) {
            self.input(root, Input::Start { ticket, start: start.into() });
        }
    }

    /// A call ends at its root.
    pub(super) fn finished(&mut self, root: Id, index: usize, name: CallId, outcome: Outcome) {
        let took = self.now - self.calls[index].started;
        self.trace.fold([self.now, 5, root.into(), u64::from(outcome.result.is_ok())]);
        match &outcome.result {
            Ok(_) => self.trace.say(self.now, format_args!("{root} ends {name} well, {took} ns")),
            Err(failure) => self.trace.say(self.now, format_args!("{root} ends {name}: {}", failure.cause)),
        }
        if let Some(report) = &outcome.report {
            self.trace.say(self.now, format_args!("  {:?}", report.coverage.runs()));
            report.causes.iter().for_each(|cause| self.trace.say(self.now, format_args!("  {cause}")));
        }
        self.observe(&Observation::Finished { call: name, outcome: &outcome });
        let longest = self.calls.iter().filter_map(|call| Some(call.ended.as_ref()?.0 - call.started)).max();
        if let Some(paths) = self.paths.as_ref().filter(|_| longest.is_none_or(|longest| took > longest)) {
            self.path = paths.critical(root);
        }
        self.calls[index].ended = Some((self.now, outcome));
        if self.mishaps.is_none() && index + 1 < self.calls.len() {
            self.queue.push(self.now, Event::Start(index + 1));
        }
    }

    /// A node of a large world that waits is let go, so that a million of them fit (and in some small worlds, to show that it may be), and its id keeps what it goes on with. Where no call is in flight that is the memory of calls that ended, which keeps a second request from executing: where no
    /// fault can send one, that goes, too. The checkers still see every execution.
    pub(super) fn rest(&mut self, id: Id) {
        let forgets = self.mishaps.is_none();
        let gives_back = self.profile.gives_back && self.random.chance(1, GIVING_BACK);
        let host = self.hosts.at(id);
        if gives_back {
            host.node.iter_mut().for_each(|node| node.release_room());
        }
        if self.scenario.n <= LARGE && !self.profile.rests || forgets && host.started > 0 {
            return;
        }
        if let Some(mut node) = host.node.take_if(|node| node.can_rest()) {
            match forgets && node.calls() == 0 && node.answers_kept() == 0 {
                true => node.rest_for_good(),
                false => host.rested = Some(self.rested.put(node.rest())),
            }
            self.spare = Some(node);
        }
    }

    pub(super) fn paused_until(&self, id: Id) -> Option<u64> {
        self.mishaps.as_ref()?.paused_until(id, self.now)
    }

    pub(super) fn slowness(&self, id: Id) -> u64 {
        self.mishaps.as_ref().map_or(1, |mishaps| mishaps.slowness(id, self.now))
    }

    pub(super) fn inject(&mut self, fault: Fault, ids: &[Id]) {
        self.trace.say(self.now, format_args!("*** {fault} {ids:?}"));
        self.trace.fold([self.now, 6, fault as u64, ids.first().copied().unwrap_or_default().into()]);
        self.observe(&Observation::Injected { fault, ids });
    }
}

impl Event {
    /// Who has part in it, beside those who are sent something because of it.
    pub(super) fn parts(&self) -> [Option<Id>; 2] {
        match self {
            Event::Arrive(parcel) | Event::Handle(parcel) => [Some(parcel.from), Some(parcel.to)],
            Event::Notice { id, peer, .. } | Event::Taken { id, peer, .. } => [Some(*id), Some(*peer)],
            Event::Piece { id, from, .. } => [Some(*id), Some(*from)],
            Event::Connection(step) => [Some(step.from), Some(step.to)],
            Event::PingLeft { id, question, .. } => [Some(*id), Some(question.peer)],
            other => [other.at(), None],
        }
    }

    /// At whom it waits while that process stands still.
    pub(super) fn at(&self) -> Option<Id> {
        match self {
            Event::Arrive(parcel) | Event::Handle(parcel) => Some(parcel.to),
            Event::Ran { id, .. } | Event::Answered { id, .. } | Event::Notice { id, .. } => Some(*id),
            Event::Piece { id, .. }
            | Event::Waits { id, .. }
            | Event::GoesUp { id, .. }
            | Event::PingLeft { id, .. }
            | Event::Taken { id, .. }
            | Event::Due { id, .. }
            | Event::Turn(id)
            | Event::Worked { id, .. } => Some(*id),
            Event::Connection(step) => Some(step.to),
            Event::Delivery { .. }
            | Event::Start(_)
            | Event::Settled
            | Event::Probe { .. }
            | Event::Resumed(_)
            | Event::Mishap(_) => None,
        }
    }
}

/// What a node holds whose next deadline is this. In a large world nobody looks for entries that belong to nothing.
pub(super) fn held(node: &Node, next: Option<Time>, looks: bool) -> Held {
    Held {
        calls: node.calls(),
        answers_kept: node.answers_kept(),
        jobs: node.jobs_running(),
        deadline: next.is_some(),
        goes_on: false,
        memory: node.config().memory.used(),
        kept_bytes: node.kept_bytes(),
        strays: if looks { node.strays() } else { 0 },
        links: if looks { node.links() } else { 0 },
    }
}

/// How long a call over `n` ids takes without faults, roughly and rather too long, nanoseconds.
pub(super) fn expected_ns(scenario: &Scenario, tree: &Tree, n: u32) -> u64 {
    let depth = u64::from(tree.depth(n).unwrap_or(n.min(64)));
    let fan_out = u64::from(tree.fan_out(n).unwrap_or(n));
    let cost = scenario.costs.elsewhere;
    let hop = cost.latency_ns + 2 * cost.overhead_ns + cost.gap_ns;
    let work = scenario.func_ns + scenario.callback_ns * fan_out.min(64);
    2 * (depth + 1) * hop + 2 * fan_out * (cost.overhead_ns + cost.gap_ns) + (depth + 1) * work + 50_000
}
