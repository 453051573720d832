//! One run from its scenario to its report, and many of them over all cores.

use gpc_trees::Id;

use super::check::Violation;
use super::faults::{Fault, FaultSet, themes};
use super::many::{FAILURES_MAX, each, hash_with, keep_failure};
use super::path::Hop;
use super::scenario::Scenario;
use super::world::{BEGIN, CallState, World};
use crate::wire::{Cause, Coverage, CoverageCounts, Status};

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// A hash of every event: equal for equal scenarios, on any machine and any number of threads.
    pub hash: u64,
    /// Events of the world.
    pub events: u64,
    /// Messages sent.
    pub messages: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// The calls, in the order of the plan; those that show at the end that all is well are not among them.
    pub calls: Vec<CallReport>,
    /// The critical path of the call that took longest; empty where faults were allowed.
    pub path: Vec<Hop>,
    /// How often each fault took effect.
    pub injected: Vec<(Fault, u64)>,
    /// Faults that were drawn together, for they show more so.
    pub theme: Option<FaultSet>,
    /// What must not be and was.
    pub violations: Vec<Violation>,
    /// A line for each thing that happened, if they were asked for.
    pub trace: Vec<String>,
}

/// What a call came to.
#[derive(Clone, Debug)]
pub struct CallReport {
    /// Its root.
    pub root: Id,
    /// From its start to its end, nanoseconds; `None` if its root did not live to see it.
    pub took_ns: Option<u64>,
    /// How many ids fared how.
    pub coverage: CoverageCounts,
    /// Why it failed, or left the first id out.
    pub cause: Option<Cause>,
}

/// Runs a scenario.
pub fn run(scenario: &Scenario) -> Report {
    run_and_leave(scenario).0
}

/// A world that has come to its end. To take one of ten million ids apart costs seconds, which a process that ends next can spare.
pub struct Ended {
    /// Kept for its memory alone.
    _world: World,
}

/// Runs a scenario, and leaves its world to the caller.
pub fn run_and_leave(scenario: &Scenario) -> (Report, Ended) {
    run_observed(scenario, |_| {})
}

/// Runs a scenario, tells now and then how many messages have been sent so far, and leaves its world to the caller. What is observed changes nothing.
pub fn run_observed(scenario: &Scenario, observe: impl FnMut(u64)) -> (Report, Ended) {
    let mut world = World::new(scenario);
    world.run_observed(observe);
    (report(&mut world), Ended { _world: world })
}

/// What a world that has come to its end came to.
pub(super) fn report(world: &mut World) -> Report {
    let since_begin = |at: u64| at.saturating_sub(BEGIN);
    let mut violations =
        world.linked.as_mut().map(|linked| std::mem::take(&mut linked.wrong)).unwrap_or_default();
    violations.extend_from_slice(world.checkers.violations());
    violations.sort_by_key(|violation| violation.at_ns);
    violations.iter_mut().for_each(|violation| violation.at_ns = since_begin(violation.at_ns));
    let at_ns = since_begin(world.now);
    let mut add = |checker, what: String| violations.push(Violation { checker, at_ns, what });
    if world.restless {
        add("liveness", format!("no rest after {} events", world.counts.events));
    }
    for call in world.calls.iter().filter(|call| call.probe) {
        call_well(call).into_iter().for_each(|what| add("liveness", what));
    }
    Report {
        hash: world.trace.hash(),
        events: world.counts.events,
        messages: world.counts.messages,
        bytes: world.counts.bytes,
        calls: world.calls.iter().filter(|call| !call.probe).map(CallReport::new).collect(),
        path: std::mem::take(&mut world.path),
        injected: world.checkers.injected(),
        theme: world.profile.theme,
        violations,
        trace: world.trace.take_lines(),
    }
}

/// What is wrong with a call after all faults, which must reach everybody.
fn call_well(call: &CallState) -> Option<String> {
    let kind = if call.plan.partial { "partial call" } else { "call" };
    let n = call.plan.ids.len();
    let report = CallReport::new(call);
    match report.cause {
        Some(cause) => Some(format!("after all faults a {kind} over the {n} ids that live blames: {cause}")),
        None if report.coverage.done != n => {
            let coverage = report.coverage;
            Some(format!("after all faults a {kind} over the {n} ids that live comes to {coverage:?}"))
        }
        None => None,
    }
}

impl CallReport {
    fn new(call: &CallState) -> CallReport {
        let members = call.plan.ids.len() - u32::from(call.plan.watch);
        let root = call.plan.ids.first().unwrap_or_default();
        let Some((at, outcome)) = &call.ended else {
            let coverage = Coverage::all(Status::Unknown, members).counts();
            return CallReport { root, took_ns: None, coverage, cause: None };
        };
        let (coverage, cause) = match (&outcome.result, &outcome.report) {
            (Err(failure), _) => (failure.coverage.counts(), Some(failure.cause.clone())),
            (Ok(_), Some(report)) => (report.coverage.counts(), report.causes.first().cloned()),
            (Ok(_), None) => (Coverage::all(Status::Done, members).counts(), None),
        };
        CallReport { root, took_ns: Some(at - call.started), coverage, cause }
    }
}

/// What many runs came to.
#[derive(Clone, Debug, Default)]
pub struct Swarm {
    /// Runs.
    pub runs: u64,
    /// Events of all of them.
    pub events: u64,
    /// Messages of all of them.
    pub messages: u64,
    /// Calls that ended well, with everybody.
    pub complete: u64,
    /// Calls that ended otherwise.
    pub incomplete: u64,
    /// A hash of the runs' hashes, in the order of their seeds.
    pub hash: u64,
    /// How often each fault took effect, over all runs; in how many runs it did.
    pub injected: Vec<(Fault, u64, u64)>,
    /// Every theme, faults that show more together, and how many runs drew it.
    pub themes: Vec<(FaultSet, u64)>,
    /// The first seeds that failed, and what was found: at most [`FAILURES_MAX`].
    pub failures: Vec<(Scenario, Vec<Violation>)>,
    /// How many failed.
    pub failed: u64,
}

/// Runs that are made at a time, so that a failure is found early and little is kept: few at first, then twice as many each time.
const BATCHES: std::ops::RangeInclusive<u64> = 32..=1024;

/// Runs as many scenarios: see [`swarm_unless`].
pub fn swarm(most: &Scenario, runs: u64, keep_tree: bool) -> Swarm {
    swarm_unless(most, runs, keep_tree, || false)
}

/// Runs `runs` scenarios drawn from seeds that count up from `most.seed`, each up to the size of `most`. Stops after the batch in
/// which [`FAILURES_MAX`] have failed, and begins no run any more when it is to `stop`: what there is then are the first runs, without a gap.
pub fn swarm_unless(most: &Scenario, runs: u64, keep_tree: bool, stop: impl Fn() -> bool + Sync) -> Swarm {
    let mut swarm = Swarm { themes: themes().map(|theme| (theme, 0)).collect(), ..Swarm::default() };
    let mut times = vec![(0u64, 0u64); Fault::ALL.len()];
    let (mut next, mut batch) = (0, *BATCHES.start());
    while next < runs && swarm.failures.len() < FAILURES_MAX && !stop() {
        let seeds: Vec<u64> =
            (next..runs.min(next + batch)).map(|offset| most.seed.wrapping_add(offset)).collect();
        next += seeds.len() as u64;
        batch = (batch * 2).min(*BATCHES.end());
        // A later one may have been under way when an earlier one was not begun any more.
        let made = each(&seeds, |seed| (!stop()).then(|| run_one(most, keep_tree, *seed)));
        made.into_iter()
            .map_while(|made| made)
            .for_each(|(scenario, report)| swarm.add(scenario, report, &mut times));
    }
    let all = Fault::ALL.into_iter().zip(times).filter(|(_, (count, _))| *count > 0);
    swarm.injected = all.map(|(fault, (count, runs))| (fault, count, runs)).collect();
    swarm
}

impl Swarm {
    fn add(&mut self, scenario: Scenario, report: Report, times: &mut [(u64, u64)]) {
        self.runs += 1;
        self.events += report.events;
        self.messages += report.messages;
        self.hash = hash_with(self.hash, report.hash);
        let complete = |call: &&CallReport| call.cause.is_none() && call.took_ns.is_some();
        let well = report.calls.iter().filter(complete).count() as u64;
        self.complete += well;
        self.incomplete += report.calls.len() as u64 - well;
        for (fault, count) in report.injected {
            let (all, runs) = &mut times[fault as usize];
            *all += count;
            *runs += 1;
        }
        let drawn = self.themes.iter_mut().find(|(theme, _)| report.theme == Some(*theme));
        drawn.into_iter().for_each(|(_, runs)| *runs += 1);
        self.failed += keep_failure(&mut self.failures, scenario, report.violations);
    }
}

fn run_one(most: &Scenario, keep_tree: bool, seed: u64) -> (Scenario, Report) {
    let scenario = most.swarm(seed, keep_tree);
    let report = run(&scenario);
    (scenario, report)
}
