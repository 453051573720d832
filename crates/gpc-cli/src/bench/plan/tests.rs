//! Tests of combinations of arguments.

use super::*;
use crate::args::{Args, Command};
use crate::builtin;

fn args_of(line: &str) -> BenchArgs {
    let args = Args::read(line.split_whitespace()).unwrap();
    let Command::Bench(args) = args.command else { panic!("not gpc bench") };
    args
}

fn planned(line: &str) -> Result<BenchPlan, String> {
    let functions = Functions::new();
    builtin::register(&functions).unwrap();
    BenchPlan::new(&args_of(&format!("gpc bench {line}")), &functions, None)
        .map_err(|refused| refused.to_string())
}

fn refused(line: &str) -> String {
    planned(line).unwrap_err()
}

#[test]
fn every_combination_is_a_row_in_the_order_of_the_lists() {
    let plan = planned("-n 8,2,8 --tree flat,binomial --bytes 0,4k --link tcp,unix --in-flight 1,4").unwrap();
    let shown: Vec<String> = plan
        .rows
        .iter()
        .map(|row| {
            let Key { n, tree, bytes, in_flight, link, .. } = &row.key;
            format!("{n} {tree} {bytes} {in_flight} {link}")
        })
        .collect();
    assert_eq!(shown.len(), 32, "a value that stands twice counts once");
    assert_eq!(shown[..3], ["8 flat 0 1 tcp", "8 flat 0 1 unix", "8 flat 0 4 tcp"]);
    assert_eq!(shown[31], "2 binomial 4096 4 unix");
    let mut distinct = shown.clone();
    distinct.dedup();
    assert_eq!(distinct, shown);
    assert_eq!(
        plan.rows[4].reply.as_ref().map(Bytes::len),
        Some(4096),
        "echo replies with the request's data"
    );
    assert_eq!(
        (plan.sets.len(), plan.groups.len()),
        (4, 1),
        "rows share processes unless n or the link is another"
    );
    assert_eq!(plan.rows_of(&plan.groups[0]).len(), 32);
    assert_eq!(plan.bound, Bound { rounds: None, time: Some(TURN) });
    assert_eq!(planned("-n 2 --rounds 7").unwrap().bound, Bound { rounds: Some(7), time: None });
    let both = planned("-n 2 --rounds 7 --time 1s").unwrap().bound;
    assert_eq!(both, Bound { rounds: Some(7), time: Some(Duration::from_secs(1)) });
}

#[test]
fn ways_of_waiting_and_roots_have_processes_of_their_own() {
    let plan = planned("-n 2 --wait block,spin:50us,adaptive --root polled,thread").unwrap();
    assert_eq!((plan.rows.len(), plan.sets.len()), (6, 6));
    assert_eq!((plan.rows[2].key.wait.as_str(), plan.rows[3].key.root.as_str()), ("spin:50us", "thread"));
}

#[test]
fn sets_stand_together_as_long_as_they_are_not_too_many_processes() {
    let plan = planned("-n 1024,64,8,600,1024").unwrap();
    let together: Vec<u32> = plan.groups.iter().map(|group| plan.processes_of(group)).collect();
    assert_eq!(together, [1023 + 63 + 7, 599]);
    assert_eq!(plan.groups.concat(), [0, 1, 2, 3]);
    assert_eq!(planned("-n 1024,1024 --link tcp,unix").unwrap().groups, [[0], [1]]);
    assert_eq!(planned("-n 4096").unwrap().groups, [[0]], "a row alone may need more");
    assert_eq!(planned("-n 1").unwrap().processes_of(&[0]), 0);
}

#[test]
fn functions_and_replies_are_what_was_asked_for() {
    let plan = planned("-n 4 --bytes 64 --reply-bytes 4k").unwrap();
    assert_eq!((plan.what.func.as_str(), plan.what.header.as_str()), ("fill", "4096"));
    assert_eq!((plan.rows[0].key.bytes, plan.rows[0].key.reply_bytes), (64, Some(4096)));
    let plan = planned("sum -n 4").unwrap();
    assert_eq!((plan.what.func.as_str(), plan.rows[0].key.reply_bytes), ("sum", None));
    assert!(plan.rows[0].reply.is_none());
    assert!(refused("summ -n 4").contains("summ"));
    assert!(refused("-n 4 --reply-bytes 65M").contains("at most 64 MiB"));
}

#[test]
fn what_cannot_be_measured_is_said_before_anything_starts() {
    let many = (2..600).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    assert!(refused(&format!("-n {many}")).contains("598 combinations, at most 500"));
    assert!(refused("-n 64 --bytes 1M --in-flight 4096").contains("at most 4096 are taken"));
    assert!(refused("-n 4 --time 0s").contains("no time for a turn"));
    assert!(refused("-n 4 --time-limit 0s").contains("no time for a call"));
    assert!(refused("-n 4 --tree mine").contains("no tree is named `mine`"));
    assert!(refused("-n 4 --tree file:/nowhere/tree").contains("/nowhere/tree"));
    assert!(refused("-n 4 --save /nowhere/x.json").contains("its folder is not there"));
    assert!(refused("-n 4 --svg /nowhere/x.svg").contains("its folder is not there"));
    assert!(
        refused("-n 4 --compare /nowhere/x.json")
            .starts_with("cannot read the earlier results /nowhere/x.json: No such file")
    );
    let header = "x".repeat(HEADER_MAX + 1);
    assert!(refused(&format!("echo -n 4 --header {header}")).contains("at most 65535"));
}

#[test]
fn nodes_that_run_already_are_taken_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("peers");
    std::fs::write(&path, "0 unix:@a\n5 unix:@b\n2 unix:@c\n").unwrap();
    let peers = format!("--peers {}", path.display());
    let plan = planned(&format!("{peers} --id 2")).unwrap();
    let row = &plan.rows[0];
    assert_eq!((row.key.n, row.key.link.as_str(), row.ids.first()), (3, "joined", Some(2)));
    let plan = planned(&format!("{peers} --id 9 -n 2,4")).unwrap();
    assert_eq!((plan.rows.len(), plan.sets.len()), (2, 1), "there is one root");
    assert_eq!((plan.rows[0].ids.len(), plan.rows[0].ids.first()), (2, Some(9)));
    assert!(refused(&format!("{peers} --id 9 -n 5")).contains("-n 5 is more than the 4 ids"));
    assert!(refused(&format!("{peers} --id 9 --wait block,adaptive")).contains("there is one root"));
    assert!(refused(&format!("{peers} --id 9 --root polled,thread")).contains("there is one root"));
}

#[test]
fn a_file_of_something_else_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("thesis.json");
    std::fs::write(&path, "{\"title\": \"One\"}").unwrap();
    let error = refused(&format!("-n 2 --save {}", path.display()));
    assert!(error.contains("it has no version\n--save would replace it"), "{error}");
    let report = super::super::sample::report();
    std::fs::write(&path, serde_json::to_string(&report).unwrap()).unwrap();
    assert!(planned(&format!("-n 2 --save {}", path.display())).is_ok(), "an earlier run is");
}
