//! Runs one scenario and reports on it, or many scenarios on all cores.

use gpc_trees::Id;

use super::calls::CallState;
use super::check::Violation;
use super::faults::{Fault, FaultSet, themes};
use super::many::{FAILURES_MAX, each, hash_with, keep_failure};
use super::path::Hop;
use super::scenario::Scenario;
use super::time::BEGIN;
use super::world::World;
use chained_gpc::wire::{Cause, Coverage, CoverageCounts, Status};

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Hash over every event: equal for equal scenarios, on any machine and with any number of threads.
    pub hash: u64,
    /// Number of events.
    pub events: u64,
    /// Number of messages sent.
    pub messages: u64,
    /// Bytes sent, as on the wire.
    pub bytes: u64,
    /// The planned calls, in order; the calls of the liveness phase are left out.
    pub calls: Vec<CallReport>,
    /// Critical path of the slowest call; empty in runs with faults.
    pub path: Vec<Hop>,
    /// How often each fault took effect.
    pub injected: Vec<(Fault, u64)>,
    /// Theme of the run: faults drawn together because they find more in combination.
    pub theme: Option<FaultSet>,
    /// Violations that the checkers found.
    pub violations: Vec<Violation>,
    /// One line for each event, if the scenario asks for a trace.
    pub trace: Vec<String>,
}

/// Result of a call.
#[derive(Clone, Debug)]
pub struct CallReport {
    /// Root of the call.
    pub root: Id,
    /// Duration of the call, nanoseconds; `None` if its root ended first.
    pub took_ns: Option<u64>,
    /// Number of ids in each state.
    pub coverage: CoverageCounts,
    /// First cause of a failure, or of an id that a partial call left out.
    pub cause: Option<Cause>,
}

/// Runs a scenario to its end.
pub fn run(scenario: &Scenario) -> Report {
    run_and_leave(scenario).0
}

/// A world that has ended. Freeing one of ten million ids takes seconds; a process that exits next can skip it.
pub struct Ended {
    /// Held for its memory alone.
    _world: World,
}

/// Runs a scenario, and returns its world to the caller.
pub fn run_and_leave(scenario: &Scenario) -> (Report, Ended) {
    run_observed(scenario, |_| {})
}

/// Runs a scenario, passes the number of messages sent so far to `observe` at intervals, and returns the world.
/// Observing does not change the run.
pub fn run_observed(scenario: &Scenario, observe: impl FnMut(u64)) -> (Report, Ended) {
    let mut world = World::new(scenario);
    world.run_observed(observe);
    (report(&mut world), Ended { _world: world })
}

/// Makes the report of a world that has ended.
pub(super) fn report(world: &mut World) -> Report {
    let since_begin = |at: u64| at.saturating_sub(BEGIN);
    let mut violations =
        world.linked.as_mut().map(|linked| std::mem::take(&mut linked.wrong)).unwrap_or_default();
    violations.extend_from_slice(world.checkers.violations());
    violations.sort_by_key(|violation| violation.at_ns);
    violations.iter_mut().for_each(|violation| violation.at_ns = since_begin(violation.at_ns));
    let at_ns = since_begin(world.now);
    let mut add = |checker, what: String| violations.push(Violation { checker, at_ns, what });
    if world.counts.restless {
        add("liveness", format!("no rest after {} events", world.counts.events));
    }
    for call in world.calls.all.iter().filter(|call| call.probe) {
        call_well(call).into_iter().for_each(|what| add("liveness", what));
    }
    Report {
        hash: world.trace.hash(),
        events: world.counts.events,
        messages: world.counts.messages,
        bytes: world.counts.bytes,
        calls: world.calls.all.iter().filter(|call| !call.probe).map(CallReport::new).collect(),
        path: world.paths.as_mut().map(|paths| std::mem::take(&mut paths.slowest)).unwrap_or_default(),
        injected: world.checkers.injected(),
        theme: world.profile.theme,
        violations,
        trace: world.trace.take_lines(),
    }
}

/// Describes what is wrong with a call of the liveness phase, which must reach every id.
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

/// Result of many runs.
#[derive(Clone, Debug, Default)]
pub struct Swarm {
    /// Number of runs.
    pub runs: u64,
    /// Events of all runs.
    pub events: u64,
    /// Messages of all runs.
    pub messages: u64,
    /// Calls that reached every id.
    pub complete: u64,
    /// All other calls.
    pub incomplete: u64,
    /// Hash over the hashes of the runs, in the order of their seeds.
    pub hash: u64,
    /// For each fault: how often it took effect over all runs, and in how many runs.
    pub injected: Vec<(Fault, u64, u64)>,
    /// Each theme, a set of faults that are drawn together, and the number of runs that drew it.
    pub themes: Vec<(FaultSet, u64)>,
    /// The first failed runs with their violations, at most [`FAILURES_MAX`].
    pub failures: Vec<(Scenario, Vec<Violation>)>,
    /// Number of runs that failed.
    pub failed: u64,
}

/// Runs in a batch. Batches start small and double, so that a failure is found early and little memory is used.
const BATCHES: std::ops::RangeInclusive<u64> = 32..=1024;

/// Runs many scenarios: see [`swarm_unless`].
pub fn swarm(most: &Scenario, runs: u64, keep_tree: bool) -> Swarm {
    swarm_unless(most, runs, keep_tree, || false)
}

/// Runs `runs` scenarios drawn from seeds that count up from `most.seed`, each at most the size of `most`. Stops after
/// the batch in which [`FAILURES_MAX`] have failed. Begins no run once `stop` returns true; the result then covers the
/// first runs, without a gap.
pub fn swarm_unless(most: &Scenario, runs: u64, keep_tree: bool, stop: impl Fn() -> bool + Sync) -> Swarm {
    let mut swarm = Swarm { themes: themes().map(|theme| (theme, 0)).collect(), ..Swarm::default() };
    let mut times = vec![(0u64, 0u64); Fault::ALL.len()];
    let (mut next, mut batch) = (0, *BATCHES.start());
    while next < runs && swarm.failures.len() < FAILURES_MAX && !stop() {
        let seeds: Vec<u64> =
            (next..runs.min(next + batch)).map(|offset| most.seed.wrapping_add(offset)).collect();
        next += seeds.len() as u64;
        batch = (batch * 2).min(*BATCHES.end());
        // A later run may have started before `stop` kept an earlier one from starting.
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
