//! The simulated world: nodes, a network with costs, and virtual time that advances from event to event.
//!
//! The scenario decides everything. Events are ordered by time, then by creation; no iteration order depends on the
//! machine.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gpc_trees::{Id, IdList, Tree};

use super::by_call::ByCall;
use super::check::{Carries, Checkers, Held, Observation, Outcome, Plan, data, header};
use super::cores::Cores;
use super::cost::Topology;
use super::exhaustive::{Crash, Parts};
use super::faults::{Act, Fault, Mishap, Mishaps, Passage};
use super::flows::Flows;
use super::hosts::Hosts;
use super::linked::{Linked, Linking, Step};
use super::path::{Hop, Paths};
use super::pieces::Pieces;
use super::profile::Profile;
use super::queue::{Next, Queue};
use super::random::Random;
use super::scenario::{REPLY_BYTES, Scenario};
use super::trace::Trace;
use chained_gpc::chain::{Heartbeat, Input, JobResult, Node, Outputs, Reply, Start, Time};
use chained_gpc::wire::message::Classes;
use chained_gpc::wire::{Body, CallId, Message, Reason, Request};

/// Time at which a world begins, nanoseconds. Processes that were not just launched have run since 0, for eleven days.
pub(super) const BEGIN: u64 = 1_000_000_000_000_000;

/// Events between two calls of an observer: some milliseconds of simulation.
const OBSERVED: u64 = 1 << 13;

/// Bound on the events of a run: a fixed part, and a part for each id and call. A run over the bound fails as not
/// coming to rest. A call costs an id a few events, and some hundred heartbeats if it waits for its time limit.
const EVENTS_MAX: (u64, u64) = (100_000, 2_000);

/// Time limit of calls in worlds without faults: an hour.
const FAULTLESS_LIMIT_NS: u64 = 3_600_000_000_000;

/// Workers of the named executor that every node has beside its default workers.
pub(super) const EXECUTOR: usize = 1;

/// Worker class of a call's functions. Every other call of a root is a service call, which must not wait behind the
/// others.
pub(super) fn class_of(call: CallId) -> u8 {
    (call.sequence % 2) as u8
}

/// Worker classes of func and callback. In one call of four, callback runs in the other class.
pub(super) fn classes_of(call: CallId) -> Classes {
    let (func, other) = (class_of(call), (call.sequence >> 1 & call.sequence >> 2 & 1) as u8);
    Classes { func, callback: func ^ other }
}

pub(super) fn has_usual_classes(call: CallId) -> bool {
    classes_of(call) == Classes::default()
}

/// Worlds with more ids than this are large: they replace idle nodes by compact state; see [`World::rest`].
pub(super) const LARGE: u32 = 16_384;

/// In a large world, work that would dominate the run is simulated at one in this many ids.
pub(super) const FEW: Id = 16;

/// Where nodes release memory: they do so after one in this many inputs.
const GIVING_BACK: u64 = 8;

/// Delays after the resumption of a process until it sees ended functions and expired timers, nanoseconds.
const ENDED_LATER: u64 = 1;
const TIMERS_LATER: u64 = 2;

/// A message in flight.
#[derive(Debug)]
pub(super) struct Parcel {
    pub(super) from: Id,
    pub(super) to: Id,
    pub(super) passage: Passage,
    /// Incarnation of the sender.
    pub(super) begun: u64,
    pub(super) sent: Sent,
    pub(super) message: Message,
}

/// Send time of a message in nanoseconds, with two flags. Packed in one word, so that a parcel takes two cache lines,
/// not three.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent(u64);

impl Sent {
    const DATA: u64 = 1 << 63;
    const LIE: u64 = 1 << 62;

    /// No world lasts long enough for a time to use the bits of the flags.
    pub(super) fn at(now: u64) -> Sent {
        Sent(now & !(Sent::DATA | Sent::LIE))
    }

    /// Marks the data of a long reply, whose head was sent before.
    pub(super) fn data(self, is: bool) -> Sent {
        Sent(self.0 | if is { Sent::DATA } else { 0 })
    }

    /// Marks a message from a sender that has no part in the call that it names.
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

/// A [`CallId`] split into 32-bit words, which aligns to 4 bytes and so fits into an [`Event`].
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

/// Half a cache line.
const _: () = assert!(size_of::<Event>() == 32);

/// A heartbeat request that waits to be sent: its link, and since when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub(super) peer: Id,
    pub(super) epoch: u32,
    pub(super) asked: u64,
}

/// A scheduled event. It is small because a large world has a million of them pending.
#[derive(Debug)]
pub(super) enum Event {
    /// The application starts a call.
    Start(usize),
    /// All faults are over; nodes must hold nothing of them.
    Settled,
    /// The application starts a call that must reach every live id.
    Probe { partial: bool },
    /// A message reaches its receiver.
    Arrive(Box<Parcel>),
    /// The receiver has read the message.
    Handle(Box<Parcel>),
    /// A function has ended.
    Ran { id: Id, run: u32, call: Name, result: Box<JobResult> },
    /// A function begins or ends a wait.
    Waits { id: Id, run: u32, call: CallId, begins: bool },
    /// Data of a long reply that had stopped may now be sent to the parent.
    GoesUp { id: Id, run: u32, call: CallId },
    /// A deferred reply is given.
    Answered { id: Id, run: u32, call: Name, reply: Box<Result<Reply, Box<Reason>>> },
    /// More data of a request arrive.
    Piece { id: Id, run: u32, from: Id, call: CallId },
    /// One end of a link learns that the link is lost.
    Notice { id: Id, run: u32, peer: Id, epoch: u32 },
    /// A heartbeat request has left the send queue.
    PingLeft { id: Id, run: u32, question: Question },
    /// A socket that was full accepts bytes again.
    Taken { id: Id, run: u32, peer: Id, epoch: u32 },
    /// The next bytes of a connection reach this side.
    Delivery { pipe: u32, side: u8 },
    /// An event of a connection.
    Connection(Box<Step>),
    /// The peering machine of a process has a timer due.
    Due { id: Id, run: u32 },
    /// A process that holds a core takes its next step.
    Turn(Id),
    /// A function has used its core time.
    Worked { id: Id, then: Box<Event> },
    /// A paused process continues.
    Resumed(Id),
    /// A fault happens.
    Mishap(Box<Mishap>),
}

/// A call and its state in this world.
#[derive(Debug)]
pub(super) struct CallState {
    pub(super) plan: Arc<Plan>,
    pub(super) acts: BTreeMap<Id, Act>,
    pub(super) callbacks_fail: BTreeSet<Id>,
    /// Ids whose callback defers its reply.
    pub(super) callbacks_later: BTreeSet<Id>,
    /// For each id whose callback is to fail: the replies that it has merged so far.
    pub(super) merged_well: BTreeMap<Id, u32>,
    /// The call starts after all faults, and must reach every id.
    pub(super) probe: bool,
    pub(super) name: Option<CallId>,
    pub(super) started: u64,
    pub(super) ended: Option<(u64, Outcome)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Counts {
    pub(super) events: u64,
    pub(super) messages: u64,
    pub(super) bytes: u64,
}

/// The state of one run.
pub(super) struct World {
    pub(super) scenario: Scenario,
    /// The last request of each root at an id, in worlds that duplicate requests: see
    /// [`remember_request`](World::remember_request).
    pub(super) asked: BTreeMap<(Id, Id), Arc<Request>>,
    pub(super) random: Random,
    pub(super) now: u64,
    pub(super) queue: Queue<Event>,
    pub(super) hosts: Hosts,
    /// `None` if every process has a core of its own.
    pub(super) cores: Option<Cores>,
    /// `None` if the run has no faults.
    pub(super) mishaps: Option<Mishaps>,
    /// `None` if links are modelled.
    pub(super) linked: Option<Box<Linked>>,
    pub(super) profile: Profile,
    pub(super) pieces: Pieces,
    pub(super) calls: Vec<CallState>,
    pub(super) flows: Flows,
    pub(super) names: ByCall<usize>,
    pub(super) checkers: Checkers,
    pub(super) trace: Trace,
    pub(super) paths: Option<Paths>,
    /// Critical path of the slowest call.
    pub(super) path: Vec<Hop>,
    pub(super) counts: Counts,
    /// Outputs of the node that handles an input; empty between inputs.
    pub(super) outputs: Outputs,
    /// Functions that ended inline, each with its call; empty between inputs.
    pub(super) ended: VecDeque<(CallId, JobResult)>,
    /// Reused buffer for the part that short requests have in common.
    pub(super) plan_room: Vec<u8>,
    pub(super) heartbeat: Option<Heartbeat>,
    pub(super) workers: usize,
    /// Longest time that a request may be in flight.
    pub(super) under_way_max: Duration,
    /// Processes to end, each at its event; the first is last in the list.
    pub(super) crashes: Vec<Crash>,
    /// The ids that took part in each event, if the caller needs them.
    pub(super) parts: Option<Parts>,
    /// Whether the run reached its bound on events.
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
            cores: scenario
                .sharing
                .filter(|_| scenario.faults.is_empty())
                .map(|it| Cores::new(it, &topology)),
            mishaps: None,
            linked: (scenario.links == Linking::Peering)
                .then(|| Box::new(Linked::new(scenario.n, scenario.seed, !faultless))),
            profile: Profile::default(),
            pieces: Pieces::default(),
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

    /// Plans calls over all ids, one after another, started at id 0.
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

    /// Runs the world to its end.
    pub(super) fn run(&mut self) {
        self.run_observed(|_| {});
    }

    /// Runs the world to its end, and reports the number of messages sent at intervals.
    pub(super) fn run_observed(&mut self, mut observe: impl FnMut(u64)) {
        let (all, each) = EVENTS_MAX;
        let most = all + each * u64::from(self.scenario.n) * u64::from(self.scenario.calls);
        loop {
            self.crash_those_due();
            let Some((at, next)) = self.queue.pop() else { break };
            self.step(at, next);
            if self.counts.events.is_multiple_of(OBSERVED) {
                observe(self.counts.messages);
            }
            if self.counts.events > most {
                self.restless = true;
                return;
            }
        }
        self.quiet();
    }

    /// Handles one event.
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

    /// Reports to the checkers what nodes still hold at the end of a phase.
    pub(super) fn quiet(&mut self) {
        let all = self.hosts.iter().map(|(id, host)| (id, host.held()));
        let held: Vec<(Id, Held)> = all.filter(|(_, held)| *held != Held::default()).collect();
        self.observe(&Observation::Quiet { held: &held });
    }

    pub(super) fn observe(&mut self, seen: &Observation<'_>) {
        self.checkers.observe(self.now, seen);
    }

    /// Handles the timer of an id, unless the timer was set again.
    fn timer(&mut self, id: Id) {
        if self.hosts.at(id).timer != self.now {
            return;
        }
        self.hosts.at(id).timer = u64::MAX;
        if let Some(until) = self.paused_until(id) {
            // After a pause a driver reads messages and ended functions before it checks the time.
            let until = until + TIMERS_LATER;
            self.hosts.at(id).timer = until;
            return self.queue.push_timer(until, id);
        }
        if self.hosts.has_node(id) {
            self.trace.fold([self.now, 1, id.into(), 0]);
        }
        self.input(id, Input::Tick);
    }

    fn happen(&mut self, event: Event) {
        if let Some(until) = event.at().and_then(|id| self.paused_until(id)) {
            // After a pause the chain expects its inputs in this order: lost links before ended functions.
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
            event.parts().into_iter().flatten().for_each(|id| self.took_part(id));
        }
        match event {
            Event::Start(index) => self.start(index),
            Event::Settled => {
                self.planned_is_over();
                // Drop pieces of request data whose sender never had the rest; no node waits for them.
                self.pieces = Pieces::default();
                self.links_are_settled();
                self.quiet();
            }
            Event::Probe { partial } => self.probe(partial),
            Event::Arrive(parcel) => self.arrive(parcel),
            Event::Handle(parcel) => {
                let parcel = *parcel;
                self.handle(parcel);
            }
            Event::Ran { id, run, call, result } => {
                let call = call.call();
                if self.hosts.is_up(id) && self.hosts.run(id) == run {
                    self.ran(id, call, &result);
                    let result = *result;
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
            // The process may have ended, restarted and been paused again.
            Event::Resumed(id) if self.paused_until(id).is_some() || !self.hosts.is_up(id) => {}
            Event::Resumed(id) => self.resume(id),
            Event::Mishap(mishap) => self.mishap(*mishap),
            Event::Delivery { pipe, side } => self.delivery(pipe, side.into()),
            Event::Connection(step) => self.step_of_connection(*step),
            Event::Due { id, run } => self.peering_is_due(id, run),
            // Only shared cores use these.
            Event::Turn(_) | Event::Worked { .. } => {}
        }
    }

    /// Starts a call, if its root is up.
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

    /// Ends a call at its root.
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

    /// Has the node of an id release memory now and then, in worlds whose drivers do so.
    pub(super) fn release_room(&mut self, id: Id) {
        if self.profile.gives_back && self.random.chance(1, GIVING_BACK) {
            self.hosts.at(id).node.iter_mut().for_each(|node| node.release_room());
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
    /// Ids that take part in an event, besides receivers of messages that it causes.
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

    /// Id at which the event waits while that process is paused.
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

/// State that a node holds, given its next deadline. In a large world leaks are not counted.
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

/// Rough upper estimate of the time of a call over `n` ids without faults, nanoseconds.
pub(super) fn expected_ns(scenario: &Scenario, tree: &Tree, n: u32) -> u64 {
    let depth = u64::from(tree.depth(n).unwrap_or(n.min(64)));
    let fan_out = u64::from(tree.fan_out(n).unwrap_or(n));
    let cost = scenario.costs.elsewhere;
    let hop = cost.latency_ns + 2 * cost.overhead_ns + cost.gap_ns;
    let work = scenario.func_ns + scenario.callback_ns * fan_out.min(64);
    2 * (depth + 1) * hop + 2 * fan_out * (cost.overhead_ns + cost.gap_ns) + (depth + 1) * work + 50_000
}
