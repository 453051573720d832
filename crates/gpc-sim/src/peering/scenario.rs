//! Makes worlds of peers a kind of [worlds].

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::fault::Fault;
use super::world::World;
use crate::worlds;

/// Parameters of a run.
pub type Scenario = worlds::Scenario<Fault>;
/// Result of a run.
pub type Report = worlds::Report<Fault>;
/// Result of many runs.
pub type Swarm = worlds::Swarm<Fault>;

impl worlds::Fault for Fault {
    const ALL: &'static [Fault] = &Fault::ALL;
    const OPTION: &'static str = "peering";
    /// The number of connections grows with the pairs of ids, and faults may strike all of them.
    const IDS: RangeInclusive<u32> = 2..=16;

    fn run(scenario: &Scenario) -> Report {
        let mut world = World::new(scenario);
        world.run();
        Report {
            hash: world.trace.hash(),
            events: world.events,
            passed: world.pipes.len() as u64,
            injected: world.injected,
            counts: BTreeMap::new(),
            violations: world.checkers.violations().to_vec(),
            trace: world.trace.take_lines(),
        }
    }

    fn until_calm(scenario: &Scenario) -> u64 {
        World::events_until_calm(scenario)
    }

    /// A flood depends on its size, not on its event.
    fn has_moment(self) -> bool {
        self != Fault::Flood
    }
}
