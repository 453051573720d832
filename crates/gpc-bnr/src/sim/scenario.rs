//! Makes worlds of domains a kind of [worlds].

use std::ops::RangeInclusive;

use gpc_sim::worlds;

use super::check;
use super::counts::count;
use super::faults::Fault;
use super::world::World;

/// Parameters of a run.
pub type Scenario = worlds::Scenario<Fault>;
/// The result of a run; messages are those between its nodes.
pub type Report = worlds::Report<Fault>;
/// The result of many runs.
pub type Swarm = worlds::Swarm<Fault>;

impl worlds::Fault for Fault {
    const ALL: &'static [Fault] = &Fault::ALL;
    const OPTION: &'static str = "groups";
    const IDS: RangeInclusive<u32> = 1..=16;

    fn run(scenario: &Scenario) -> Report {
        let mut world = World::new(scenario);
        world.run();
        let (head, trace) = (world.head(), world.record.take_lines());
        let (seen, times) = world.record.take_history();
        // Orders, requests with their outcomes, and notices.
        let mut counts = count(&seen);
        counts.extend(world.totals.orders.iter().map(|(name, calls)| (format!("order {name}"), *calls)));
        counts.insert(format!("world {:?}", world.config.profile), 1);
        Report {
            hash: world.record.hash,
            events: world.totals.events,
            passed: world.totals.messages,
            injected: world.totals.injected,
            counts,
            violations: check::check(&seen, &times, head),
            trace,
        }
    }

    fn until_calm(scenario: &Scenario) -> u64 {
        World::new(scenario).run()
    }
}
