//! Tests of `gpc sim` from its arguments to its output.

use super::*;
use crate::args::{Args, Command};
use gpc_sim::{Costs, run as simulate};
use gpc_trees::Tree;

fn args(line: &str) -> SimArgs {
    let words = std::iter::once("gpc").chain(line.split_whitespace());
    match Args::read(words).unwrap().command {
        Command::Sim(args) => args,
        other => panic!("{other:?} is not sim"),
    }
}

fn scenario_of(line: &str) -> Scenario {
    let args = args(line);
    let costs = RunCosts::new(&args).unwrap();
    scenario(&args, &costs, &tree_name(&args, &costs).unwrap(), args.ids()).unwrap()
}

#[test]
fn a_replay_is_the_same_scenario() {
    let first = scenario_of(
        "sim -n 9 --tree kary:3 --calls 2 --partial --faults crash,delay --hosts 3 --seed 77 --link-cost 5000,10,20,0.25 \
         --rack-cost 1,2,3,4 --host-cost 4,3,2,1 --func-cost 3us --callback-cost 7ns --reply-bytes 16 --data-bytes 99",
    );
    let replay = first.replay();
    let second = scenario_of(replay.strip_prefix("gpc ").unwrap());
    assert!(second.trace);
    assert_eq!(format!("{first:?}"), format!("{:?}", Scenario { trace: false, ..second.clone() }));
    assert_eq!(simulate(&first).hash, simulate(&second).hash);
}

#[test]
fn a_replay_names_crashes_and_files() {
    let crashed = scenario_of("sim -n 9 --tree chain --partial --crash 3@17,4@30 --seed 5");
    let replay = crashed.replay();
    assert!(replay.contains(" --crash 3@17,4@30 --seed 5 --partial "), "{replay}");
    assert_eq!(scenario_of(replay.strip_prefix("gpc ").unwrap()).crashes, crashed.crashes);
    let report = simulate(&crashed);
    assert_eq!(
        (report.injected.iter().map(|(_, times)| times).sum::<u64>(), report.violations.len()),
        (2, 0)
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, "0: 1 2 3\n2: 4\n4: 5 6\n").unwrap();
    let line = format!("sim -n 7 --tree file:{}", file.path().display());
    let replay = replay_of(&line);
    assert!(replay.starts_with(&format!("gpc {line} --calls 1 ")), "{replay}");
}

fn replay_of(line: &str) -> String {
    let args = args(line);
    let name = tree_name(&args, &RunCosts::new(&args).unwrap()).unwrap();
    replay(&scenario_of(line), &name)
}

#[test]
fn a_replay_has_the_cores() {
    let first = scenario_of("sim -n 9 --cores 2 --wake-cost 5us --cold-cost 7us");
    let replay = first.replay();
    assert!(replay.ends_with(" --cores 2 --wake-cost 5000ns --cold-cost 7000ns --trace"), "{replay}");
    let second = scenario_of(replay.strip_prefix("gpc ").unwrap());
    assert_eq!(first.sharing, second.sharing);
    assert_eq!(simulate(&first).hash, simulate(&second).hash);
    assert_ne!(simulate(&first).hash, simulate(&Scenario { sharing: None, ..first.clone() }).hash);
    assert_eq!(scenario_of("sim -n 9 --cores 0").sharing, None);
}

/// Writes the costs file of an imaginary host.
fn fitted() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fit.json");
    let text = r#"{"link": "tcp", "machine_cores": 8, "cores": 4, "latency_ns": 100, "overhead_ns": 20, "gap_ns": 20, "byte_ps": 9,
        "wake_ns": 300, "cold_ns": 500}"#;
    std::fs::write(&path, text).unwrap();
    let path = path.display().to_string();
    (folder, path)
}

#[test]
fn a_fit_says_what_a_host_is() {
    let (_folder, path) = fitted();
    let alone = scenario_of(&format!("sim -n 9 --fit {path}"));
    let cost = "100,20,20,0.009".parse().unwrap();
    assert_eq!(alone.costs, Costs { host: cost, rack: cost, elsewhere: cost });
    let sharing = alone.sharing.unwrap();
    assert_eq!((sharing.cores.get(), sharing.wake_ns, sharing.cold_ns), (4, 300, 500));
    let spread = scenario_of(&format!("sim -n 9 --hosts 3 --fit {path} --link-cost 9,8,7,6"));
    assert_eq!((spread.costs.host, spread.costs.elsewhere), (cost, "9,8,7,6".parse().unwrap()));
    let spread = scenario_of(&format!("sim -n 9 --hosts 3 --fit {path}"));
    assert_eq!((spread.costs.host, spread.costs.elsewhere), (cost, Costs::default().elsewhere));
    let more = scenario_of(&format!("sim -n 9 --fit {path} --cores 7"));
    assert_eq!(more.sharing.map(|sharing| (sharing.cores.get(), sharing.wake_ns)), Some((7, 300)));
}

#[test]
fn what_is_said_twice_is_refused() {
    let (_folder, path) = fitted();
    let refused =
        |more: &str| RunCosts::new(&args(&format!("sim -n 9 --fit {path} {more}"))).unwrap_err().to_string();
    assert!(refused("--link-cost 1,2,3,4").contains("spread the ids with --hosts H"));
    assert!(refused("--hosts 3 --host-cost 1,2,3,4").contains("leave one out"));
}

#[test]
fn loggp_alone_has_the_lag_that_is_fastest() {
    let scenario = scenario_of("sim -n 8 --tree loggp --link-cost 2000,500,300,0.1");
    let Tree::Loggp(lag) = scenario.tree else { panic!("{} is not loggp", scenario.tree) };
    assert_eq!(simulate(&scenario).calls[0].took_ns, Some(9015), "{lag}");
}

#[test]
fn what_does_not_fit_is_refused_in_words() {
    let refused = |line: &str| {
        let args = args(line);
        let costs = RunCosts::new(&args).unwrap();
        scenario(&args, &costs, &tree_name(&args, &costs).unwrap(), args.ids()).unwrap_err().to_string()
    };
    assert!(refused("sim -n 100000 --tree chain").starts_with("chain: position "));
    assert!(refused("sim -n 8 --tree mine").starts_with("no tree is named `mine`"));
    assert!(refused("sim -n 8 --reply-bytes 3").starts_with("--reply-bytes is 0"));
}

#[test]
fn a_summary_has_the_call_and_its_path() {
    let name = TreeName::Flat;
    let scenario = scenario_of("sim -n 4 --tree flat");
    let begun = Instant::now();
    let report = simulate(&scenario);
    let measured = Measured::since(begun, report.events);
    let mut text = Vec::new();
    Summary::new(&scenario, &name, &report, measured).write_table(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.starts_with("flat tree over 4 ids, faults none, seed 1\ncall from id 0: "), "{text}");
    assert!(text.contains(", done 4\n6 messages, "), "{text}");
    assert!(text.contains("critical path of 2 messages:\n  0 -> 3  request"), "{text}");
}
