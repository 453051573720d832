//! Runs many worlds of one kind, and every fault at every event of small worlds.

use std::collections::BTreeMap;

use super::{Fault, Report, Scenario};
use crate::check::Violation;
use crate::many::{FAILURES_MAX, each, hash_with, keep_failure};

/// Number of runs in a batch.
const BATCH: usize = 256;

/// Result of many runs.
#[derive(Clone, Debug)]
pub struct Swarm<F> {
    /// Number of runs.
    pub runs: u64,
    /// Events of all runs.
    pub events: u64,
    /// Messages or connections of all runs: see [`Report::passed`].
    pub passed: u64,
    /// Hash over the hashes of the runs, in order.
    pub hash: u64,
    /// How often each fault took effect.
    pub injected: BTreeMap<F, u64>,
    /// How often each counted event happened.
    pub counts: BTreeMap<String, u64>,
    /// The first failed runs with their violations, at most [`FAILURES_MAX`].
    pub failures: Vec<(Scenario<F>, Vec<Violation>)>,
    /// Number of runs that failed.
    pub failed: u64,
}

/// Runs all scenarios on all cores. Stops after the batch in which [`FAILURES_MAX`] have failed.
pub fn run_all<F: Fault>(scenarios: impl IntoIterator<Item = Scenario<F>>) -> Swarm<F> {
    let (mut swarm, mut scenarios) = (Swarm::default(), scenarios.into_iter().peekable());
    while scenarios.peek().is_some() && swarm.failures.len() < FAILURES_MAX {
        let batch: Vec<Scenario<F>> = scenarios.by_ref().take(BATCH).collect();
        let reports = each(&batch, F::run);
        batch.into_iter().zip(reports).for_each(|(scenario, report)| swarm.add(scenario, report));
    }
    swarm
}

// A derived implementation would require a default fault.
impl<F> Default for Swarm<F> {
    fn default() -> Swarm<F> {
        let (injected, counts, failures) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        Swarm { runs: 0, events: 0, passed: 0, hash: 0, injected, counts, failures, failed: 0 }
    }
}

impl<F: Fault> Swarm<F> {
    fn add(&mut self, scenario: Scenario<F>, report: Report<F>) {
        self.runs += 1;
        self.events += report.events;
        self.passed += report.passed;
        self.hash = hash_with(self.hash, report.hash);
        add_to(&mut self.injected, report.injected);
        add_to(&mut self.counts, report.counts);
        self.failed += keep_failure(&mut self.failures, scenario, report.violations);
    }
}

fn add_to<K: Ord>(all: &mut BTreeMap<K, u64>, some: BTreeMap<K, u64>) {
    some.into_iter().for_each(|(what, times)| *all.entry(what).or_default() += times);
}

/// The scenarios of a small world of `of.n` ids: every fault at every event, and every pair of faults if `faults` is 2.
/// A world is unchanged up to the event of its fault.
pub fn exhaustive<F: Fault>(of: &Scenario<F>, faults: u32) -> impl Iterator<Item = Scenario<F>> + use<F> {
    let calm = Scenario { acts: Some(Vec::new()), ..of.clone() };
    let first = singles(&calm, 0);
    let seconds = if faults > 1 { first.clone() } else { Vec::new() };
    let second = seconds.into_iter().flat_map(|one| {
        let from = one.acts.as_ref().and_then(|acts| acts.last()).map_or(0, |(event, _)| *event);
        singles(&one, from)
    });
    std::iter::once(calm).chain(first).chain(second)
}

/// Adds one more fault, at every event from `from` on.
fn singles<F: Fault>(of: &Scenario<F>, from: u64) -> Vec<Scenario<F>> {
    let acts = of.acts.clone().unwrap_or_default();
    let faults = || F::ALL.iter().filter(|fault| fault.has_moment());
    let with = |act| Scenario { acts: Some([&acts[..], &[act]].concat()), ..of.clone() };
    (from..F::until_calm(of)).flat_map(|event| faults().map(move |fault| (event, *fault))).map(with).collect()
}
