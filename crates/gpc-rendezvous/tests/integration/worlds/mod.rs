//! Simulated worlds: several services, the tasks that meet there, and faults between them. A seed determines a world
//! completely.
//!
//! Messages are lost, duplicated and delayed. Services crash between any two steps and restart from their stored state.
//! Tasks die, arrive late, withdraw, and send invalid requests. `check` judges by the answers that tasks received.

mod check;
mod driver;
mod plan;
mod random;
mod site;
mod task;
mod world;

use plan::Weather;
use world::World;

/// Runs the worlds of these seeds, and prints the seed of one that fails.
fn run(weather: Weather, seeds: std::ops::Range<u64>) -> check::Seen {
    let mut seen = check::Seen::default();
    for seed in seeds {
        let world = std::panic::catch_unwind(|| {
            let mut world = World::new(seed, weather);
            world.run();
            check::check(&world)
        });
        match world {
            Ok(of_world) => seen.add(&of_world),
            Err(_) => panic!("in {weather:?} world {seed}"),
        }
    }
    seen
}

/// Services crash and messages are lost, but all tasks are honest and stay: then all rendezvous complete.
#[test]
fn in_calm_worlds_everybody_meets() {
    let seen = run(Weather::Calm, 0..1000);
    assert_eq!(seen.faults, 0);
    assert!(seen.completions > 5000 && seen.crashes > 1000, "{seen:?}");
}

/// With every kind of fault, all answers are true, and every task gets one.
#[test]
fn in_wild_worlds_nobody_is_told_what_is_not_so() {
    let seen = run(Weather::Wild, 0..2000);
    // Every kind of event has occurred.
    assert!(seen.completions > 2000 && seen.faults > 2000 && seen.crashes > 2000, "{seen:?}");
    assert!(seen.lost_controllers > 100 && seen.withdrawn > 100 && seen.tops > 300, "{seen:?}");
}
