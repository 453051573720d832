//! The simulated world: nodes, a network with costs, and virtual time that advances from event to event.
//!
//! The scenario decides everything. Events are ordered by time, then by creation; no iteration order depends on the
//! machine.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gpc_trees::{Id, IdList};

use super::calls::Calls;
use super::check::{Carries, Checkers, Held, Observation, Outcome, Plan, data, header};
use super::classes::{classes_of, has_usual_classes};
use super::cores::Cores;
use super::cost::Topology;
use super::crash::Crashes;
use super::event::Event;
use super::faults::{Fault, Mishaps};
use super::hosts::Hosts;
use super::linked::{Linked, Linking};
use super::path::Paths;
use super::pieces::Pieces;
use super::profile::Profile;
use super::queue::{Next, Queue};
use super::random::Random;
use super::scenario::{REPLY_BYTES, Scenario};
use super::streaming::StreamingReplies;
use super::time::BEGIN;
use super::trace::Trace;
use chained_gpc::chain::{Heartbeat, Input, JobResult, Outputs, Start};
use chained_gpc::wire::short::KeyBuffer;
use chained_gpc::wire::{Body, CallId, Request};

/// Events between two calls of an observer: some milliseconds of simulation.
const OBSERVED: u64 = 1 << 13;

/// Bound on the events of a run: a fixed part, and a part for each id and call. A run over the bound fails as not
/// coming to rest. A call costs an id a few events, and some hundred heartbeats if it waits for its time limit.
const EVENTS_MAX: (u64, u64) = (100_000, 2_000);

/// Time limit of calls in worlds without faults: an hour.
const FAULTLESS_LIMIT_NS: u64 = 3_600_000_000_000;

/// Where nodes release memory: they do so after one in this many inputs.
const GIVING_BACK: u64 = 8;

/// Delays after the resumption of a process until it sees ended functions and expired timers, nanoseconds.
const ENDED_LATER: u64 = 1;
const TIMERS_LATER: u64 = 2;

/// Counts of a run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Counts {
    pub(super) events: u64,
    pub(super) messages: u64,
    pub(super) bytes: u64,
    /// Whether the run reached its bound on events.
    pub(super) restless: bool,
}

/// Settings of all nodes of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeSettings {
    pub(super) heartbeat: Option<Heartbeat>,
    pub(super) workers: usize,
    /// Longest time that a request may be in flight.
    pub(super) under_way_max: Duration,
}

/// Buffers that are reused from input to input.
#[derive(Default)]
pub(super) struct Buffers {
    /// Outputs of the node that handles an input; empty between inputs.
    pub(super) outputs: Outputs,
    /// Functions that ended inline, each with its call; empty between inputs.
    pub(super) ended: VecDeque<(CallId, JobResult)>,
    /// The part that short requests have in common.
    pub(super) plan: KeyBuffer,
}

/// The state of one run.
pub(super) struct World {
    pub(super) scenario: Scenario,
    pub(super) random: Random,
    pub(super) now: u64,
    pub(super) queue: Queue<Event>,
    pub(super) hosts: Hosts,
    pub(super) settings: NodeSettings,
    /// `None` if every process has a core of its own.
    pub(super) cores: Option<Cores>,
    /// `None` if the run has no faults.
    pub(super) mishaps: Option<Mishaps>,
    pub(super) crashes: Crashes,
    /// `None` if links are modelled.
    pub(super) linked: Option<Box<Linked>>,
    pub(super) profile: Profile,
    pub(super) calls: Calls,
    pub(super) pieces: Pieces,
    pub(super) streaming: StreamingReplies,
    /// The last request of each root at an id, in worlds that duplicate requests: see
    /// [`remember_request`](World::remember_request).
    pub(super) asked: BTreeMap<(Id, Id), Arc<Request>>,
    pub(super) checkers: Checkers,
    pub(super) trace: Trace,
    pub(super) paths: Option<Paths>,
    pub(super) counts: Counts,
    pub(super) buffers: Buffers,
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
            settings: NodeSettings { heartbeat: None, workers: 1, under_way_max: Duration::from_secs(1) },
            cores: scenario
                .sharing
                .filter(|_| scenario.faults.is_empty())
                .map(|it| Cores::new(it, &topology)),
            mishaps: None,
            crashes: Crashes::default(),
            linked: (scenario.links == Linking::Peering)
                .then(|| Box::new(Linked::new(scenario.n, scenario.seed, !faultless))),
            profile: Profile::default(),
            calls: Calls::default(),
            pieces: Pieces::default(),
            streaming: StreamingReplies::default(),
            asked: BTreeMap::new(),
            checkers: Checkers::new(),
            trace: Trace::new(scenario.trace, scenario.n),
            paths: faultless.then(|| Paths::new(scenario.n)),
            counts: Counts::default(),
            buffers: Buffers::default(),
        };
        if world.linked.is_some() {
            world.observe(&Observation::RequestsWait);
        }
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
                carries: Carries { trace: self.scenario.traced, ..Carries::default() },
            };
            self.calls.add(plan, false);
        }
        self.queue.push(self.now, Event::Start(0));
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
                self.counts.restless = true;
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
            Next::Event(event) => self.handle_event(event),
        }
        if self.linked.is_some() {
            self.serve_links();
        }
    }

    /// Reports to the checkers what nodes still hold at the end of a phase.
    pub(super) fn quiet(&mut self) {
        self.links_are_settled();
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

    fn handle_event(&mut self, event: Event) {
        if let Some(until) = event.at().and_then(|id| self.paused_until(id)) {
            // After a pause the chain expects its inputs in this order: lost links before ended functions.
            let later = u64::from(matches!(event, Event::Ran { .. } | Event::Answered { .. })) * ENDED_LATER;
            return self.queue.push(until + later, event);
        }
        if let Some(at) = self.behind_what_has_come(&event) {
            return self.queue.push(at, event);
        }
        let event = self.share_cores(event);
        event.into_iter().for_each(|event| self.handle_now(event));
    }

    pub(super) fn handle_now(&mut self, event: Event) {
        if self.crashes.parts.is_some() {
            event.parts().into_iter().flatten().for_each(|id| self.took_part(id));
        }
        match event {
            Event::Start(index) => self.start(index),
            Event::Follow(index) => self.follow(index),
            Event::Settled => {
                self.planned_is_over();
                // Drop pieces of request data whose sender never had the rest; no node waits for them.
                self.pieces = Pieces::default();
                self.quiet();
            }
            Event::Probe { partial } => self.probe(partial),
            Event::Speaks(parcel) => {
                let parcel = *parcel;
                self.speaks(parcel);
            }
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
            Event::Due { id, run } => self.links_are_due(id, run),
            // Only shared cores use these.
            Event::Turn(_) | Event::Worked { .. } => {}
        }
    }

    /// Starts a call, if its root is up.
    pub(super) fn start(&mut self, index: usize) {
        let call = &self.calls.all[index];
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
        let call = &mut self.calls.all[index];
        call.name = Some(name);
        if self.cores.is_none() {
            call.started = self.now;
        }
        let started = call.started;
        self.calls.names.insert(name, index);
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
            trace: plan.carries.trace,
            follow: plan.carries.follow_ns == Some(0),
            watch: plan.watch,
            limit: Duration::from_nanos(plan.limit_ns),
            tree: plan.tree.clone(),
            ids: plan.ids.clone(),
            header: Bytes::from(header(name, plan.carries.header_bytes)),
            data: Body::whole(Bytes::from(data(name, plan.data_bytes))),
            parts: plan.parts(),
            classes: classes_of(name),
            merging: plan.carries.merging,
            reply_limits: plan.carries.reply_limits,
            ..Start::new(plan.carries.func)
        };
        let ticket = index as u64;
        match plan.carries.follow_ns {
            None => {}
            Some(0) => self.observe(&Observation::Followed { call: name }),
            Some(later) => self.queue.push(self.now + later, Event::Follow(index)),
        }
        if !has_usual_classes(name) || !self.starts_on_fast_path(root, ticket, &start) {
            self.input(root, Input::Start { ticket, start: start.into() });
        }
    }

    /// The caller of a call begins to take the replies of its children as they arrive.
    fn follow(&mut self, index: usize) {
        let Some(call) = self.calls.all[index].name.filter(|call| self.hosts.is_up(call.root)) else {
            return;
        };
        if let Some(until) = self.paused_until(call.root) {
            return self.queue.push(until, Event::Follow(index));
        }
        if self.calls.all[index].ended.is_none() {
            self.observe(&Observation::Followed { call });
        }
        self.trace.fold([self.now, 15, call.root.into(), index as u64]);
        self.input(call.root, Input::Follow { ticket: index as u64 });
    }

    /// Ends a call at its root.
    pub(super) fn finished(&mut self, root: Id, index: usize, name: CallId, outcome: Outcome) {
        let took = self.now - self.calls.all[index].started;
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
        let longest =
            self.calls.all.iter().filter_map(|call| Some(call.ended.as_ref()?.0 - call.started)).max();
        if let Some(paths) = self.paths.as_mut().filter(|_| longest.is_none_or(|longest| took > longest)) {
            paths.slowest = paths.critical(root);
        }
        self.calls.all[index].ended = Some((self.now, outcome));
        if self.mishaps.is_none() && index + 1 < self.calls.all.len() {
            self.queue.push(self.now, Event::Start(index + 1));
        }
    }

    /// Has the node of an id release memory now and then, in worlds whose drivers do so.
    pub(super) fn release_spare_memory(&mut self, id: Id) {
        if self.profile.gives_back && self.random.chance(1, GIVING_BACK) {
            self.hosts.at(id).node.iter_mut().for_each(|node| node.release_spare_memory());
            if self.linked.is_some() {
                self.links_release_memory(id);
            }
        }
    }

    pub(super) fn paused_until(&self, id: Id) -> Option<u64> {
        self.mishaps.as_ref()?.timing.paused_until(id, self.now)
    }

    pub(super) fn slowness(&self, id: Id) -> u64 {
        self.mishaps.as_ref().map_or(1, |mishaps| mishaps.timing.slowness(id, self.now))
    }

    pub(super) fn inject(&mut self, fault: Fault, ids: &[Id]) {
        self.trace.say(self.now, format_args!("*** {fault} {ids:?}"));
        self.trace.fold([self.now, 6, fault as u64, ids.first().copied().unwrap_or_default().into()]);
        self.observe(&Observation::Injected { fault, ids });
    }
}
