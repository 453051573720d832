//! Whole domains in virtual time: nodes that crash, calls that are late, processes that end at any moment, and whoever asks at random. Judged from what was seen outside alone.
#![allow(clippy::unwrap_used, reason = "tests")]

mod check;
mod programs;
mod rng;
mod world;

use proptest::prelude::*;

use crate::check::check;
use crate::world::{Config, World};

/// One world, from its beginning until nothing happens any more.
fn judge(config: Config) -> Result<World, String> {
    let mut world = World::new(config);
    let rest = world.run();
    check(&world.seen, &world.times, 3).map_err(|wrong| format!("{wrong} ({config:?})"))?;
    rest.map_err(|wrong| format!("{wrong} ({config:?})"))?;
    Ok(world)
}

fn sane(seed: u64) -> Config {
    Config { seed, nodes: 1 + seed % 5, head_runs: seed % 4 != 3, ..Config::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn nothing_goes_wrong(seed: u64) {
        let world = judge(Config { noise: 4, ..sane(seed) });
        prop_assert!(world.is_ok(), "{}", world.err().unwrap());
    }

    #[test]
    fn processes_die(seed: u64) {
        let world = judge(Config { deaths: 4, not_started: 12, noise: 2, ..sane(seed) });
        prop_assert!(world.is_ok(), "{}", world.err().unwrap());
    }

    #[test]
    fn nodes_are_lost(seed: u64) {
        let world = judge(Config { crashes: 2, deaths: 12, noise: 3, ..sane(seed) });
        prop_assert!(world.is_ok(), "{}", world.err().unwrap());
    }

    #[test]
    fn the_head_is_lost(seed: u64) {
        let world = judge(Config { crashes: 4, head_crashes: true, deaths: 20, noise: 3, ..sane(seed) });
        prop_assert!(world.is_ok(), "{}", world.err().unwrap());
    }

    #[test]
    fn limits_pass_and_members_differ(seed: u64) {
        let world = judge(Config { short_limits: 5, mismatches: 12, noise: 3, ..sane(seed) });
        prop_assert!(world.is_ok(), "{}", world.err().unwrap());
    }

    #[test]
    fn everything_goes_wrong(seed: u64) {
        let world = judge(Config {
            crashes: 3, glitches: 30, deaths: 6, not_started: 20, short_limits: 9, mismatches: 25, noise: 2, ..sane(seed)
        });
        prop_assert!(world.is_ok(), "{}", world.err().unwrap());
    }
}
