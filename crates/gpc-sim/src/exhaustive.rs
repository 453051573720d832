//! Exhaustive runs of small worlds: every process ends at every event of a call, and every pair of processes.
//!
//! A world is unchanged up to the event at which a process ends. So the events of a world without crashes are the
//! points for a first crash. Those of a world with one crash are the points for a second. A single crash is tried after
//! every event. Of two crashes, each is tried only after events in which its process took part: as sender, as receiver,
//! or as owner of the link. Events among other processes neither observe the crash nor are observed by it. A crash
//! before and a crash after such an event differ only in their time. That time is drawn anyway: a peer learns of the
//! loss some time later. Two crashes at the same event are tried in one order.
//!
//! After one crash, further calls must reach every live id; after two crashes, only the state that is left is checked.

use gpc_trees::{Id, TreeName};

use super::check::Violation;
use super::crash::{Crash, Parts};
use super::faults::FaultSet;
use super::many::{FAILURES_MAX, each};
use super::run::report;
use super::scenario::Scenario;
use super::world::World;

/// Built-in trees to try by default.
const TREES: [&str; 10] = [
    "binary",
    "binomial",
    "kary:1",
    "kary:3",
    "kary:8",
    "knomial:3",
    "chain",
    "flat",
    "loggp:1",
    "loggp:2.5",
];

/// Results of all worlds.
#[derive(Clone, Debug, Default)]
pub struct Exhaustive {
    /// Number of worlds.
    pub worlds: u64,
    /// Events of all worlds.
    pub events: u64,
    /// The first failed worlds with their violations, at most [`FAILURES_MAX`].
    pub failures: Vec<(Scenario, Vec<Violation>)>,
    /// Number of worlds that failed.
    pub failed: u64,
}

/// Trees to try by default.
pub fn exhaustive_trees() -> Vec<TreeName> {
    TREES.iter().filter_map(|name| name.parse().ok()).collect()
}

/// Runs `of`, a call over all its ids, with up to `crashes` processes (0, 1 or 2) that end at every event.
pub fn exhaustive(of: &Scenario, crashes: u32) -> Exhaustive {
    // Each tree, size and mode draws its own kind of call.
    let kind = of.tree.wire_id().wrapping_mul(31).wrapping_add(of.tree.wire_param().into());
    let seed = of
        .seed
        .wrapping_add(kind.wrapping_mul(1000))
        .wrapping_add(u64::from(of.n) * 2 + u64::from(of.partial));
    let calm = Scenario { calls: 1, faults: FaultSet::NONE, crashes: Some(Vec::new()), seed, ..of.clone() };
    let mut all = Exhaustive::default();
    let parts = all.run(&calm);
    if crashes == 0 {
        return all;
    }
    let first: Vec<Scenario> = match crashes {
        1 => every_event(&parts).flat_map(|event| (0..calm.n).map(move |id| Crash { event, id })).collect(),
        _ => events_of_each(&parts, calm.n),
    }
    .into_iter()
    .map(|crash| Scenario { crashes: Some(vec![crash]), ..calm.clone() })
    .collect();
    for one in each(&first, |scenario| with_others(scenario, crashes)) {
        all.add(one);
    }
    all
}

/// Runs a world with one crash, and with each second crash if there are to be two.
fn with_others(scenario: &Scenario, crashes: u32) -> Exhaustive {
    let mut all = Exhaustive::default();
    let parts = all.run(scenario);
    let Some(&[first]) = scenario.crashes.as_deref().filter(|_| crashes > 1) else { return all };
    for second in events_of_each(&parts, scenario.n) {
        if second.id != first.id && (second.event, second.id) > (first.event, first.id) {
            all.run(&Scenario { crashes: Some(vec![first, second]), ..scenario.clone() });
        }
    }
    all
}

/// Every event, and the moment before the first.
fn every_event(parts: &[(u64, Id)]) -> std::ops::RangeInclusive<u64> {
    0..=parts.last().map_or(0, |(event, _)| *event)
}

/// Each process with the events in which it took part, and the moment before the first.
fn events_of_each(parts: &[(u64, Id)], n: u32) -> Vec<Crash> {
    let mut crashes: Vec<Crash> = parts.iter().map(|&(event, id)| Crash { event, id }).collect();
    crashes.extend((0..n).map(|id| Crash { event: 0, id }));
    crashes.sort_unstable();
    crashes.dedup();
    crashes
}

impl Exhaustive {
    /// Runs one world; returns the ids that took part in each event.
    fn run(&mut self, scenario: &Scenario) -> Vec<(u64, Id)> {
        let mut world = World::new(scenario);
        world.crashes.parts = Some(Parts::default());
        world.run();
        let parts = world.crashes.parts.take().unwrap_or_default().seen;
        let report = report(&mut world);
        let failed = !report.violations.is_empty();
        let failures = if failed { vec![(scenario.clone(), report.violations)] } else { Vec::new() };
        self.add(Exhaustive { worlds: 1, events: report.events, failures, failed: failed.into() });
        parts
    }

    /// Adds the results of other worlds.
    pub fn add(&mut self, other: Exhaustive) {
        self.worlds += other.worlds;
        self.events += other.events;
        self.failed += other.failed;
        let room = FAILURES_MAX.saturating_sub(self.failures.len());
        self.failures.extend(other.failures.into_iter().take(room));
    }
}
