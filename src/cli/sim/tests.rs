//! `gpc sim` from its arguments to what it prints.

use super::*;
use crate::cli::args::{Args, Command};

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
fn what_does_not_fit_is_refused_in_words() {
    let refused = |line: &str| {
        let args = args(line);
        let costs = RunCosts::new(&args).unwrap();
        scenario(&args, &costs, &tree_name(&args, &costs).unwrap(), args.ids()).unwrap_err()
    };
    assert!(refused("sim -n 100000 --tree chain").starts_with("chain: position "));
    assert!(refused("sim -n 8 --tree mine").starts_with("no tree is named `mine`"));
    assert!(refused("sim -n 8 --reply-bytes 3").starts_with("--reply-bytes is 0"));
}

#[test]
fn a_summary_has_the_call_and_its_path() {
    let name = TreeName::Flat;
    let scenario = scenario_of("sim -n 4 --tree flat");
    let (report, measured) = timed(&scenario);
    let mut text = Vec::new();
    Summary::new(&scenario, &name, &report, measured).write_table(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.starts_with("flat tree over 4 ids, faults none, seed 1\ncall from id 0: "), "{text}");
    assert!(text.contains(", done 4\n6 messages, "), "{text}");
    assert!(text.contains("critical path of 2 messages:\n  0 -> 3  request"), "{text}");
}

#[test]
fn a_chart_has_a_point_for_every_size_and_tree() {
    assert_eq!(chart::sizes(10), [2, 4, 8, 10]);
    assert_eq!(chart::sizes(1), [1]);
    let lines = vec![("flat".into(), vec![(2, 50_000), (4, 70_000)]), ("a<b".into(), vec![(2, 1), (4, 9)])];
    let svg = chart::draw(&lines);
    assert_eq!(svg.matches("<circle").count(), 4);
    assert!(svg.contains("<title>flat, 4 ids: 70000 ns</title>") && svg.contains(">ab</text>"));
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    assert!(!chart::draw(&[]).contains("NaN"));
}
