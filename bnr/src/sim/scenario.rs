//! What a world is run with, what it came to, and many of them over all cores.

use std::collections::BTreeMap;

use chained_gpc::sim::check::Violation;
use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};

use super::check;
use super::counts::count;
use super::faults::{Fault, acts_text};
use super::world::World;

/// Most nodes of a world.
pub const NODES_MAX: u32 = 16;

/// What decides a run: equal scenarios have equal hashes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scenario {
    /// How many nodes, 1 to [`NODES_MAX`]; some worlds have fewer.
    pub n: u32,
    /// Decides everything that is drawn.
    pub seed: u64,
    /// What goes wrong after how many events, in a small world; none for what the seed draws.
    pub acts: Option<Vec<(u64, Fault)>>,
    /// Whether a line is kept for each thing that happens.
    pub trace: bool,
}

impl Scenario {
    /// With faults that the seed draws.
    pub fn new(n: u32, seed: u64) -> Scenario {
        Scenario { n: n.clamp(1, NODES_MAX), seed, acts: None, trace: false }
    }

    /// The command that runs it again.
    pub fn replay(&self) -> String {
        let acts = self.acts.as_ref().map_or_else(String::new, |acts| format!(" --acts {}", acts_text(acts)));
        format!("gpc sim -n {} --groups --seed {}{acts} --trace", self.n, self.seed)
    }
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// A hash of every event.
    pub hash: u64,
    /// Events of the world, and those of them until all faults were over.
    pub events: u64,
    /// See [`events`](Self::events).
    pub until_calm: u64,
    /// Messages between nodes.
    pub messages: u64,
    /// How often each fault took effect.
    pub injected: Vec<(Fault, u64)>,
    /// How often each thing happened: orders, requests with their outcomes, notices.
    pub counts: BTreeMap<String, u64>,
    /// What must not be and was.
    pub violations: Vec<Violation>,
    /// A line for each thing that happened, if they were asked for.
    pub trace: Vec<String>,
}

/// Runs a scenario.
pub fn run(scenario: &Scenario) -> Report {
    let mut world = World::new(scenario);
    let until_calm = world.run();
    let (head, trace) = (world.head(), world.take_lines());
    let (seen, times) = world.history();
    let mut counts = count(&seen);
    counts.extend(world.orders.iter().map(|(name, calls)| (format!("order {name}"), *calls)));
    counts.insert(format!("world {:?}", world.config.profile), 1);
    Report {
        hash: world.hash,
        events: world.events,
        until_calm,
        messages: world.messages,
        injected: world.injected.into_iter().collect(),
        counts,
        violations: check::check(&seen, &times, head),
        trace,
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
    /// A hash of the runs' hashes, in their order.
    pub hash: u64,
    /// How often each fault took effect.
    pub injected: BTreeMap<Fault, u64>,
    /// How often each thing happened.
    pub counts: BTreeMap<String, u64>,
    /// The first that failed, and what was found: at most [`FAILURES_MAX`].
    pub failures: Vec<(Scenario, Vec<Violation>)>,
    /// How many failed.
    pub failed: u64,
}

/// Failing runs that are kept.
pub const FAILURES_MAX: usize = 16;

/// Runs that are made at a time.
const BATCH: usize = 256;

/// Runs all of these, over all cores. Stops after the batch in which [`FAILURES_MAX`] have failed.
pub fn run_all(scenarios: impl IntoIterator<Item = Scenario>) -> Swarm {
    let (mut swarm, mut scenarios) = (Swarm::default(), scenarios.into_iter().peekable());
    while scenarios.peek().is_some() && swarm.failures.len() < FAILURES_MAX {
        let batch: Vec<Scenario> = scenarios.by_ref().take(BATCH).collect();
        let reports: Vec<Report> = batch.par_iter().map(run).collect();
        batch.into_iter().zip(reports).for_each(|(scenario, report)| swarm.add(scenario, report));
    }
    swarm
}

impl Swarm {
    fn add(&mut self, scenario: Scenario, report: Report) {
        self.runs += 1;
        self.events += report.events;
        self.messages += report.messages;
        self.hash = (self.hash ^ report.hash).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(17);
        report
            .injected
            .into_iter()
            .for_each(|(fault, count)| *self.injected.entry(fault).or_default() += count);
        report.counts.into_iter().for_each(|(name, count)| *self.counts.entry(name).or_default() += count);
        if !report.violations.is_empty() {
            self.failed += 1;
            if self.failures.len() < FAILURES_MAX {
                self.failures.push((scenario, report.violations));
            }
        }
    }
}

/// A small world of `of.n` nodes: every fault at every event, and every two of them where `faults` is 2. It is the same up to the event at which a fault happens.
pub fn exhaustive(of: &Scenario, faults: u32) -> impl Iterator<Item = Scenario> + use<> {
    let calm = Scenario { acts: Some(Vec::new()), ..of.clone() };
    let first = singles(&calm, 0);
    let seconds = if faults > 1 { first.clone() } else { Vec::new() };
    let second = seconds.into_iter().flat_map(|one| {
        let from = one.acts.as_ref().and_then(|acts| acts.last()).map_or(0, |(event, _)| *event);
        singles(&one, from)
    });
    std::iter::once(calm).chain(first).chain(second)
}

/// One more fault, at every event from one on.
fn singles(of: &Scenario, from: u64) -> Vec<Scenario> {
    let acts = of.acts.clone().unwrap_or_default();
    let last = run(of).until_calm;
    let at = |event| Fault::ALL.iter().map(move |fault| (event, *fault));
    let with = |act| Scenario { acts: Some([&acts[..], &[act]].concat()), ..of.clone() };
    (from..last).flat_map(at).map(with).collect()
}
