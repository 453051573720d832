//! Whole domains in virtual time: nodes that crash, calls that are late, processes that end at any moment, and whoever asks at random. Judged from what was seen outside alone.
#![allow(clippy::unwrap_used, reason = "tests")]

mod check;
mod programs;
mod rng;
mod world;

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::check::check;
use crate::world::{Config, Seen, World};

/// One world, from its beginning until nothing happens any more.
fn judge(config: Config) -> Result<World, String> {
    let mut world = World::new(config);
    let rest = world.run();
    check(&world.seen, &world.times, 3).map_err(|wrong| format!("{wrong} ({config:?})"))?;
    rest.map_err(|wrong| format!("{wrong} ({config:?})"))?;
    Ok(world)
}

fn sane(seed: u64) -> Config {
    Config { seed, nodes: 1 + seed % 5, head_runs: seed % 4 != 3, late: 12, ..Config::default() }
}

proptest! {
    #![proptest_config(search())]

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
    fn subsets_overlap(seed: u64) {
        let world = judge(Config { nodes: 3 + seed % 3, deaths: if seed % 2 == 0 { 0 } else { 6 }, late: 3, rounds: 8, ..sane(seed) });
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
/// Worlds in which nothing happens would find nothing.
#[test]
fn worlds_have_something_of_everything() {
    let mut count: BTreeMap<String, u64> = BTreeMap::new();
    for seed in 0..120 {
        let config = Config {
            crashes: 6,
            glitches: 40,
            deaths: 12,
            not_started: 40,
            short_limits: 12,
            mismatches: 40,
            noise: 2,
            ..sane(seed)
        };
        let world = judge(config).unwrap();
        for (name, calls) in &world.orders {
            *count.entry(format!("call {name}")).or_default() += calls;
        }
        for (request, answer) in world.answers() {
            let name = |text: String| {
                text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
            };
            let outcome = match answer {
                Ok(_) => "Ok".into(),
                Err(fault) => format!("{:?}", fault.kind),
            };
            *count.entry(format!("{} {outcome}", name(format!("{request:?}")))).or_default() += 1;
        }
        *count.entry("notice".into()).or_default() +=
            world.seen.iter().filter(|seen| matches!(seen, Seen::Noticed { .. })).count() as u64;
    }
    println!("{count:#?}");
    for wanted in WANTED {
        assert!(count.get(*wanted).is_some_and(|count| *count > 0), "no world has {wanted}");
    }
}

/// What some world must have: calls, and requests with their outcomes.
const WANTED: &[&str] = &[
    "call AtHead",
    "call Begin",
    "call Collect",
    "call Destroyed",
    "call Died",
    "call End",
    "call Enter",
    "call Fail",
    "call Find",
    "call Forget",
    "call Kill",
    "call List",
    "call Lost",
    "call Release",
    "call Start",
    "call Status",
    "call Watch",
    "Fence Ok",
    "Fence MemberDied",
    "Fence NodeLost",
    "Fence TimedOut",
    "Fence Mismatch",
    "Fence DomainEnded",
    "Open Ok",
    "Open MemberDied",
    "Close Ok",
    "Close BadRequest",
    "Merge Ok",
    "Merge MemberDied",
    "SpawnMultiple Ok",
    "Spawn Ok",
    "Kill Ok",
    "Kill NoGroup",
    "Free Ok",
    "Size Ok",
    "Status Ok",
    "Groups Ok",
    "Subscribe Ok",
    "Subscribe NoGroup",
    "Create Ok",
    "Create DatabaseExists",
    "Destroy Ok",
    "Destroy NoDatabase",
    "Put Ok",
    "Put NoDatabase",
    "Get Ok",
    "Get NotFound",
    "Get NoDatabase",
    "Iterate Ok",
    "Deposit Ok",
    "Deposit NameExists",
    "Withdraw Ok",
    "Lookup Ok",
    "Lookup NotFound",
    "notice",
];

/// The same worlds in each run, so that a change alone can fail it; `PROPTEST_CASES` searches so many new ones.
fn search() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    match cases {
        Some(cases) => ProptestConfig::with_cases(cases),
        None => ProptestConfig { rng_seed: RngSeed::Fixed(17), ..ProptestConfig::with_cases(150) },
    }
}
