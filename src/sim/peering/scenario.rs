//! What a world is run with, what it came to, and many of them over all cores.

use super::faults::{Fault, acts_text};
use super::world::World;
use crate::sim::check::Violation;

/// What decides a run: equal scenarios have equal hashes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scenario {
    /// How many ids, at least 2.
    pub n: u32,
    /// Decides everything that is drawn.
    pub seed: u64,
    /// What goes wrong after how many events; none for what the seed draws.
    pub acts: Option<Vec<(u64, Fault)>>,
    /// Whether a line is kept for each thing that happens.
    pub trace: bool,
}

impl Scenario {
    /// With faults that the seed draws.
    pub fn new(n: u32, seed: u64) -> Scenario {
        Scenario { n, seed, acts: None, trace: false }
    }

    /// The command that runs it again.
    pub fn replay(&self) -> String {
        let acts = self.acts.as_ref().map_or_else(String::new, |acts| format!(" --acts {}", acts_text(acts)));
        format!("gpc sim -n {} --peering --seed {}{acts} --trace", self.n, self.seed)
    }
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// A hash of every event.
    pub hash: u64,
    /// Events of the world.
    pub events: u64,
    /// Connections that there were.
    pub connections: u64,
    /// How often each fault took effect.
    pub injected: Vec<(Fault, u64)>,
    /// What must not be and was.
    pub violations: Vec<Violation>,
    /// A line for each thing that happened, if they were asked for.
    pub trace: Vec<String>,
}

/// Runs a scenario.
pub fn run(scenario: &Scenario) -> Report {
    let mut world = World::new(scenario);
    world.run();
    Report {
        hash: world.trace.hash(),
        events: world.events,
        connections: world.pipes.len() as u64,
        injected: world.injected.into_iter().collect(),
        violations: world.checkers.violations().to_vec(),
        trace: world.trace.take_lines(),
    }
}

/// What many runs came to.
#[derive(Clone, Debug, Default)]
pub struct Swarm {
    /// Runs.
    pub runs: u64,
    /// Events of all of them.
    pub events: u64,
    /// Connections of all of them.
    pub connections: u64,
    /// A hash of the runs' hashes, in their order.
    pub hash: u64,
    /// How often each fault took effect.
    pub injected: std::collections::BTreeMap<Fault, u64>,
    /// The first that failed, and what was found: at most [`FAILURES_MAX`].
    pub failures: Vec<(Scenario, Vec<Violation>)>,
    /// How many failed.
    pub failed: u64,
}

/// Failing runs that are kept.
pub const FAILURES_MAX: usize = 16;

/// Runs that are made at a time.
const BATCH: usize = 512;

/// Runs all of these, over all cores. Stops after the batch in which [`FAILURES_MAX`] have failed.
pub fn run_all(scenarios: impl IntoIterator<Item = Scenario>) -> Swarm {
    let (mut swarm, mut scenarios) = (Swarm::default(), scenarios.into_iter().peekable());
    while scenarios.peek().is_some() && swarm.failures.len() < FAILURES_MAX {
        let batch: Vec<Scenario> = scenarios.by_ref().take(BATCH).collect();
        let reports = each(&batch);
        batch.into_iter().zip(reports).for_each(|(scenario, report)| swarm.add(scenario, report));
    }
    swarm
}

impl Swarm {
    fn add(&mut self, scenario: Scenario, report: Report) {
        self.runs += 1;
        self.events += report.events;
        self.connections += report.connections;
        self.hash = (self.hash ^ report.hash).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(17);
        report
            .injected
            .into_iter()
            .for_each(|(fault, count)| *self.injected.entry(fault).or_default() += count);
        if !report.violations.is_empty() {
            self.failed += 1;
            if self.failures.len() < FAILURES_MAX {
                self.failures.push((scenario, report.violations));
            }
        }
    }
}

/// Small worlds of `of.n` ids: every fault at every event, and every two of them where `faults` is 2. A world is the same up to the event at which a fault happens.
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
    let events = from..World::events_until_calm(of);
    // A flood is a matter of numbers, not of moments.
    let faults = || Fault::ALL.iter().filter(|fault| **fault != Fault::Flood);
    let with = |event, fault: &Fault| Scenario {
        acts: Some([&acts[..], &[(event, *fault)]].concat()),
        ..of.clone()
    };
    events
        .flat_map(|event| faults().map(move |fault| (event, fault)))
        .map(|(event, fault)| with(event, fault))
        .collect()
}

#[cfg(feature = "rayon")]
fn each(all: &[Scenario]) -> Vec<Report> {
    use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};
    all.par_iter().map(run).collect()
}

#[cfg(not(feature = "rayon"))]
fn each(all: &[Scenario]) -> Vec<Report> {
    all.iter().map(run).collect()
}
