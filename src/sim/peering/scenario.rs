//! What makes worlds of peers a kind of [worlds].

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::faults::Fault;
use super::world::World;
use crate::sim::worlds;

/// What decides a run.
pub type Scenario = worlds::Scenario<Fault>;
/// What a run came to.
pub type Report = worlds::Report<Fault>;
/// What many runs came to.
pub type Swarm = worlds::Swarm<Fault>;

impl worlds::Fault for Fault {
    const ALL: &'static [Fault] = &Fault::ALL;
    const OPTION: &'static str = "peering";
    /// Connections are as many as pairs, and each world has faults at all of them.
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

    /// A flood is a matter of numbers.
    fn has_moment(self) -> bool {
        self != Fault::Flood
    }
}
