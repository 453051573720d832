//! Tests of the plan that the arguments of a call describe.

use std::path::PathBuf;

use super::*;
use crate::args::{Args, Command};
use crate::builtin;

fn args(line: &str) -> Result<CallArgs, String> {
    let words = ["gpc", "call"].into_iter().chain(line.split_whitespace());
    match Args::read(words).map_err(|error| error.to_string())?.command {
        Command::Call(args) => Ok(args),
        other => panic!("{other:?}"),
    }
}

fn plan(line: &str) -> Result<CallPlan, String> {
    let functions = Functions::new();
    builtin::register(&functions).unwrap();
    CallPlan::new(&args(line)?, &functions, None).map_err(|refused| refused.to_string())
}

fn refused(line: &str) -> String {
    plan(line).map(|plan| panic!("{plan:?}")).unwrap_err()
}

/// Creates a folder with a file; returns the path of the file, too.
fn file(text: impl AsRef<[u8]>) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

#[test]
fn a_short_line_is_a_whole_plan() {
    let plan = plan("echo -n 8 --header hello").unwrap();
    assert_eq!(plan.nodes, Nodes::Start { n: 8, link: LinkKind::DEFAULT });
    assert_eq!((plan.root, plan.ids.to_string().as_str()), (0, "0-7"));
    assert!(matches!(plan.tree, CallTree::Split(gpc_trees::Tree::Flat)));
    assert_eq!((&plan.header[..], &plan.data[..], plan.repeat), (&b"hello"[..], &b""[..], None));
    assert_eq!((plan.time_limit, plan.forward_first, plan.output), (None, true, OutputKind::Table));
}

#[test]
fn every_option_has_its_place() {
    let (_folder, path) = file([0xff, 0]);
    let line = format!(
        "digest -n 9 --tree kary:3 --ids 5,0-2 --data {} --time-limit 1m30s --execute-first --link tcp --output level --repeat 7",
        path.display()
    );
    let plan = plan(&line).unwrap();
    assert_eq!(plan.nodes, Nodes::Start { n: 9, link: LinkKind::Tcp });
    assert_eq!((plan.ids.to_string(), plan.order.to_string()), ("0,5,1-2".into(), "5,0-2".into()));
    assert_eq!((plan.tree_name.to_string().as_str(), &plan.data[..]), ("kary:3", &[0xff, 0][..]));
    assert_eq!((plan.time_limit, plan.forward_first), (Some(Duration::from_secs(90)), false));
    assert_eq!((plan.output, plan.repeat), (OutputKind::Level, Some(7)));
}

/// Long data that stream have another tree than short ones, and hosts of a peers file are kept together.
#[test]
fn the_tree_of_a_call_that_names_none_follows_its_data_and_hosts() {
    let (_folder, long) = file(vec![7; 64 << 20]);
    let named = |line: &str| plan(line).unwrap().tree_name.to_string();
    let line = format!("echo -n 8 --data {}", long.display());
    assert_eq!(
        [named(&line), named(&format!("{line} --execute-first")), named("echo -n 8 --tree auto")],
        ["chain", "binomial", "flat"]
    );
    let (_folder, peers) = file("0 10.0.0.1:7\n1 10.0.0.2:7\n2 10.0.0.1:8\n3 10.0.0.2:8\n");
    let joined = plan(&format!("echo --peers {} --id 0 --insecure", peers.display())).unwrap();
    let shown = |plan: &CallPlan| (plan.tree_name.to_string(), plan.ids.to_string());
    assert_eq!(shown(&joined), ("hosts+flat".into(), "0-1,3,2".into()));
    // Who is not listed is on a host, too.
    let stranger = plan(&format!("echo --peers {} --id 9 --insecure", peers.display())).unwrap();
    assert_eq!(shown(&stranger), ("hosts+flat".into(), "9,0,2,1,3".into()));
}

#[test]
fn the_root_takes_part() {
    let plan = plan("echo -n 9 --ids 3,5").unwrap();
    assert_eq!((plan.ids.to_string(), plan.order.to_string()), ("0,3,5".into(), "0,3,5".into()));
}

#[test]
fn what_is_wrong_is_said_before_anything_is_started() {
    let unknown = refused("nothing -n 2");
    assert_eq!(
        unknown,
        "id 0, this process, has no function named `nothing`; it has: digest, echo, facts, fail, fill, sleep, sum; --load LIB adds those of a library"
    );
    let expected = "--ids names id 8, but with -n 8 the ids are 0 to 7: raise -n or correct the list";
    assert_eq!(refused("echo -n 8 --ids 0-4294967294"), expected);
    assert!(refused("echo -n 8 --ids 4294967295").starts_with("--ids names id 4294967295, "));
    assert!(refused("echo -n 8 --ids 1,1").contains("id 1 is listed twice"));
    assert!(refused("echo -n 8 --ids=").contains("--ids names no id"));
    assert!(refused("echo -n 0").contains("0 is not in 1..=4096"));
    assert!(refused("echo -n 4097").contains("4097 is not in 1..=4096"));
    let alone = refused("echo");
    assert!(alone.contains("-n N") && alone.contains("--peers") && alone.contains("launcher"), "{alone}");
    assert!(refused("echo -n 2 --tree kary:0").contains("the number is too small"));
    assert!(refused("echo -n 2 --tree mine").contains("mine"));
    assert!(refused("echo -n 2 --time-limit 5").contains("has no unit"));
    assert_eq!(refused("echo -n 2 --time-limit 0s"), "--time-limit 0s leaves no time for the call");
    assert!(refused("echo -n 2 --repeat 0").contains("0 is not in 1..="));
    assert!(
        refused("echo -n 2 --data /nowhere/x")
            .starts_with("cannot read the data of --data /nowhere/x: No such file")
    );
    assert!(refused("echo -n 2 --link carrier-pigeon").contains("[possible values: tcp, unix, shm]"));
    let long = refused(&format!("echo -n 2 --header {}", "x".repeat(65_536)));
    assert!(long.starts_with("--header has 65536 bytes, at most 65535"), "{long}");
}

#[test]
fn a_tree_file_orders_the_ids() {
    let (_folder, path) = file("0: 2 1\n2: 3\n");
    let tree = format!("--tree file:{}", path.display());
    let plan = plan(&format!("echo -n 4 {tree}")).unwrap();
    assert_eq!((plan.ids.to_string(), plan.order.to_string()), ("0,2-3,1".into(), "0-3".into()));
    let wrong = refused(&format!("echo -n 5 {tree}"));
    assert!(wrong.ends_with("the tree is for 4 ids and the list holds 5"), "{wrong}");
}

#[test]
fn running_nodes_are_joined_as_one_of_them() {
    let (_folder, path) = file("7 unix:@a\n3 unix:@b\n1 127.0.0.1:9\n");
    let peers = format!("--peers {}", path.display());
    let plan = plan(&format!("facts {peers} --id 3")).unwrap();
    assert_eq!((plan.root, plan.ids.to_string().as_str()), (3, "3,1,7"));
    assert!(matches!(plan.nodes, Nodes::Join { peers, .. } if peers.len() == 3));
    assert!(refused(&format!("facts {peers}")).contains("--id"));
    assert!(refused("facts -n 4 --id 3").contains("--peers"));
    assert!(refused(&format!("facts {peers} --id 3 -n 4")).contains("cannot be used with"));
    let missing = refused(&format!("facts {peers} --id 9 --ids 1,8"));
    assert_eq!(missing, "--ids names id 8, which the peers file does not have");
    assert!(CallPlan::new(&args(&format!("facts {peers} --id 9")).unwrap(), &registered(), None).is_ok());
}

fn registered() -> Functions {
    let functions = Functions::new();
    builtin::register(&functions).unwrap();
    functions
}

#[test]
fn a_hosts_file_keeps_hosts_together() {
    let (_folder, path) = file("0 a\n1 b\n2 a\n3 b\n");
    let tree = format!("--tree hosts:{}+flat", path.display());
    let plan = plan(&format!("echo -n 4 {tree}")).unwrap();
    assert_eq!((plan.ids.to_string(), plan.levels), ("0-1,3,2".into(), 2));
    let missing = refused(&format!("echo -n 5 {tree}"));
    assert!(missing.ends_with("id 4 has no line: say on which host it is"), "{missing}");
}

/// The clusters x and y each have a host named a, read from a file or known.
#[test]
fn groups_of_hosts_are_kept_together() {
    let text = "0 x/a\n1 y/a\n2 x/b\n3 y/b\n4 x/a\n5 y/a\n";
    let (_folder, path) = file(text);
    let from_file = plan(&format!("echo -n 6 --tree hosts:{}+chain", path.display())).unwrap();
    let peers = (0..6).map(|id| format!("{id} unix:@{id}\n")).collect::<String>().parse().unwrap();
    let started = Started { peers, hosts: gpc_trees::Hosts::parse(text).unwrap(), clusters: true };
    // Clusters that have met are kept together unless a tree is named.
    for (line, tree) in [("echo", "hosts+binomial"), ("echo --tree flat", "flat")] {
        let plan = CallPlan::new(&args(line).unwrap(), &registered(), Some(&started));
        assert_eq!(plan.map_err(|refused| refused.to_string()).unwrap().tree_name.to_string(), tree);
    }
    let known = CallPlan::new(&args("echo --tree hosts+chain").unwrap(), &registered(), Some(&started));
    let known = known.map_err(|refused| refused.to_string()).unwrap();
    // Id 0 leads cluster x, where 2 is on another host and 4 on the same one; id 1 leads cluster y in the same way.
    for plan in [from_file, known] {
        assert_eq!((plan.ids.to_string(), plan.levels), ("0-1,3,5,2,4".into(), 2));
    }
}

#[test]
fn who_only_watches_is_not_among_the_ids() {
    let plan_of =
        |line: &str| plan(line).map(|plan| (plan.part, plan.ids.to_string(), plan.order.to_string()));
    let of = |part, ids: &str, order: &str| Ok((part, ids.into(), order.into()));
    assert_eq!(plan_of("echo -n 4"), of(RootPart::Listed, "0-3", "0-3"));
    assert_eq!(plan_of("echo -n 4 --ids 3,1"), of(RootPart::Added, "0,3,1", "0,3,1"));
    assert_eq!(plan_of("echo -n 4 --watch"), of(RootPart::Watching, "1-3", "1-3"));
    assert_eq!(plan_of("echo -n 4 --ids 3,1 --watch"), of(RootPart::Watching, "3,1", "3,1"));
    assert!(refused("echo -n 1 --watch").contains("there is no other id"));
    assert!(refused("echo -n 4 --ids 0-2 --watch").contains("--ids names it: leave one out"));
}

/// After a start by a launcher, the arguments contain neither the number of processes nor their addresses.
#[test]
fn processes_of_a_launcher_are_a_whole_plan() {
    let functions = Functions::new();
    builtin::register(&functions).unwrap();
    let started = Started {
        peers: "0 unix:@a\n1 unix:@b\n2 unix:@c\n3 unix:@d\n".parse().unwrap(),
        hosts: gpc_trees::Hosts::parse("0 x\n1 y\n2 x\n3 y\n").unwrap(),
        clusters: false,
    };
    let plan = |line: &str| {
        CallPlan::new(&args(line)?, &functions, Some(&started)).map_err(|refused| refused.to_string())
    };
    let all = plan("echo").unwrap();
    // Its hosts are known, and each has several ids.
    assert_eq!((all.root, all.ids.to_string()), (0, "0-1,3,2".into()));
    assert_eq!((all.order.to_string(), all.tree_name.to_string()), ("0-3".into(), "hosts+flat".into()));
    assert!(matches!(all.nodes, Nodes::Started { peers } if peers.len() == 4));
    // The leader of each host, then the other ids on it.
    let hosts = plan("echo --tree hosts+flat").unwrap();
    assert_eq!((hosts.ids.to_string(), hosts.levels), ("0-1,3,2".into(), 2));
    let error = plan("echo --ids 0-4").unwrap_err();
    assert!(error.contains("id 4, but the launcher has started 4 processes: the ids are 0 to 3"), "{error}");
    assert!(matches!(plan("echo -n 2").unwrap().nodes, Nodes::Start { n: 2, .. }));
    assert!(plan("echo --tree hosts:nowhere+flat").unwrap_err().contains("nowhere"));
    assert!(
        super::tests::plan("echo --tree hosts+flat -n 4")
            .unwrap_err()
            .contains("goes with --hosts LIST, a launcher")
    );
}
