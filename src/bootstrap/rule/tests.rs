//! Variables of launchers without a space, and the rules that follow from them.
#![allow(clippy::unwrap_used, reason = "a test's helper panics like the test itself")]

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;

use super::*;

const LONG: Duration = Duration::from_secs(60);

/// Variables as `env` prints them, separated by blanks.
fn variables(text: &str) -> Variables {
    let pair = |word: &str| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    text.split_whitespace().filter_map(pair).collect()
}

fn slurm(text: &str) -> Option<Result<Rule, String>> {
    find_slurm(&variables(text)).map(|found| found.map_err(|error| error.to_string()))
}

fn kubernetes(text: &str) -> Option<Result<Rule, String>> {
    find_kubernetes(&variables(text)).map(|found| found.map_err(|error| error.to_string()))
}

fn host(rule: &Rule, id: Id) -> String {
    match rule.at(id) {
        Some(RuleAddress::Host { name, port }) => format!("{name}:{port}"),
        Some(RuleAddress::ThisHost(address)) => address.to_string(),
        None => "nowhere".to_owned(),
    }
}

/// Printed by `srun -n 2 --mpi=none env` of Slurm 22.05.
const ONE_NODE: &str = "SLURM_CLUSTER_NAME=c SLURM_GTIDS=0,1 SLURM_JOBID=2 SLURM_JOB_ID=2 SLURM_LOCALID=1 SLURM_NNODES=1 SLURM_NODEID=0 SLURM_NODELIST=n1 SLURM_NPROCS=2 SLURM_NTASKS=2 SLURM_PROCID=1 SLURM_STEPID=0 SLURM_STEP_ID=0 SLURM_STEP_NODELIST=n1 SLURM_STEP_NUM_NODES=1 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_TASKS_PER_NODE=2 SLURM_TASKS_PER_NODE=2";

/// Printed in task 4 by `srun -N 3 -n 7 -m cyclic --mpi=none env`, with a file of the secret added.
const THREE_NODES: &str = "SLURM_JOB_ID=3 SLURM_STEP_ID=1 SLURM_PROCID=4 SLURM_NODEID=1 SLURM_LOCALID=1 SLURM_STEP_NUM_TASKS=7 SLURM_STEP_TASKS_PER_NODE=3,2(x2) SLURM_STEP_NODELIST=n[1-3] SLURM_GTIDS=1,4 SLURM_DISTRIBUTION=cyclic GPC_SECRET_FILE=/s";

#[test]
fn a_step_on_one_node_uses_names_of_the_system_and_needs_no_secret() {
    let rule = slurm(ONE_NODE).unwrap().unwrap();
    assert_eq!((rule.id(), rule.count(), rule.name(), rule.launcher()), (1, 2, "c.2.0", "Slurm"));
    assert_eq!(
        (host(&rule, 0).as_str(), host(&rule, 1).as_str()),
        ("unix:@gpc-slurm-2.0-0", "unix:@gpc-slurm-2.0-1")
    );
    assert_eq!((host(&rule, 2).as_str(), rule.secret_file()), ("nowhere", None));
    let later = slurm(&ONE_NODE.replace("STEP_ID=0", "STEP_ID=1")).unwrap().unwrap();
    assert!(rule.job() != later.job() && !rule.job().is_none());
    assert_eq!(rule.job(), slurm(ONE_NODE).unwrap().unwrap().job());
}

#[test]
fn a_step_on_several_nodes_has_ports_by_the_numbers_of_job_and_step() {
    let rule = slurm(THREE_NODES).unwrap().unwrap();
    // 16384 + 128 * (7 * 3 + 1)
    let hosts: Vec<String> = (0..7).map(|id| host(&rule, id)).collect();
    assert_eq!(hosts, ["n1:19200", "n2:19200", "n3:19200", "n1:19201", "n2:19201", "n3:19201", "n1:19202"]);
    assert_eq!((rule.host(3).as_deref(), rule.host(7)), (Some("n1"), None));
    let named = slurm(&format!("{THREE_NODES} GPC_PORT=4000")).unwrap().unwrap();
    assert_eq!(host(&named, 6), "n1:4002");
    let high = slurm(&THREE_NODES.replace("JOB_ID=3", "JOB_ID=4294967295")).unwrap().unwrap();
    assert_eq!(
        host(&high, 0),
        format!("n1:{}", 16_384 + 128 * (u32::MAX.wrapping_mul(7).wrapping_add(1) % 128))
    );
}

#[test]
fn who_is_no_task_of_a_step_is_no_id() {
    assert_eq!(slurm(""), None);
    // A batch script; shells for people.
    assert_eq!(slurm("SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=3 SLURM_NODELIST=n[1-2]"), None);
    for special in ["4294967290", "4294967291", "4294967292"] {
        assert_eq!(slurm(&ONE_NODE.replace("STEP_ID=0", &format!("STEP_ID={special}"))), None);
    }
}

#[test]
fn a_step_that_does_not_add_up_is_refused() {
    let refused = |from: &str, to: &str| {
        let text = THREE_NODES.replace(from, to);
        assert_ne!(text, THREE_NODES);
        slurm(&text).unwrap().unwrap_err()
    };
    let secret = refused("GPC_SECRET_FILE=/s", "");
    assert!(secret.contains("gpc secret FILE") && secret.contains("GPC_SECRET_FILE"), "{secret}");
    assert!(refused("3,2(x2)", "3,2").contains("7 tasks on 3 nodes, and `3,2` says 5 on 2"));
    assert!(refused("3,2(x2)", "x").contains("does not say how many tasks each node has"));
    assert!(refused("=cyclic", "=block").contains("in the order `block`"));
    assert!(refused("=cyclic", "=arbitrary").contains("of which no rule is known"));
    assert!(refused("GTIDS=1,4", "GTIDS=1,5").contains("task 4 is on node 1 as its number 1"));
    assert!(refused("LOCALID=1", "LOCALID=0").contains("task 4 is on node 1 as its number 0"));
    assert!(refused("n[1-3]", "n[1-3").contains("its list of nodes: the brackets"));
    assert!(
        refused("SLURM_STEP_NODELIST=n[1-3]", "")
            .contains("SLURM_NODELIST is not set, nor SLURM_STEP_NODELIST")
    );
    assert!(refused("SLURM_JOB_ID=3", "").contains("SLURM_JOBID is not set"));
    assert!(refused("SLURM_PROCID=4", "SLURM_PROCID=x").contains("SLURM_PROCID is `x`, which is no number"));
    assert!(refused("STEP_NUM_TASKS=7", "STEP_NUM_TASKS=-7").contains("`-7` is no number of tasks"));
    assert!(refused("=/s", "=/s GPC_PORT=0").contains("GPC_PORT is no TCP port"));
    assert!(
        refused("=/s", "=/s GPC_PORT=65534")
            .contains("a node has 3 tasks, and from port 65534 on there are fewer")
    );
    assert!(refused("=cyclic", "=plane").contains("SLURM_DIST_PLANESIZE is not set"));
    let one = slurm(&ONE_NODE.replace("PROCID=1", "PROCID=2")).unwrap().unwrap_err();
    assert!(one.contains("this is id 2 of 2"), "{one}");
}

#[test]
fn pods_of_a_job_and_of_a_set_are_found_by_their_names() {
    let job = "JOB_COMPLETION_INDEX=2 HOSTNAME=solver-2 GPC_COUNT=4 GPC_SERVICE=peers GPC_SECRET_FILE=/s";
    let rule = kubernetes(job).unwrap().unwrap();
    assert_eq!((rule.id(), rule.count(), rule.name(), rule.launcher()), (2, 4, "solver.peers", "Kubernetes"));
    assert_eq!(
        (host(&rule, 0).as_str(), host(&rule, 3).as_str()),
        ("solver-0.peers:7117", "solver-3.peers:7117")
    );
    assert_eq!(host(&rule, 4), "nowhere");
    let set = "HOSTNAME=db-main-11.peers.default.svc GPC_COUNT=12 GPC_SERVICE=peers.default.svc GPC_PORT=9 GPC_SECRET_FILE=/s";
    let rule = kubernetes(set).unwrap().unwrap();
    assert_eq!((rule.id(), host(&rule, 0).as_str()), (11, "db-main-0.peers.default.svc:9"));
    let named = job.replace("HOSTNAME=solver-2", "HOSTNAME=node7 GPC_NAME=solver");
    assert_eq!(host(&kubernetes(&named).unwrap().unwrap(), 1), "solver-1.peers:7117");
    assert_eq!(kubernetes("HOSTNAME=solver-2"), None);
    // Kubernetes starts a pod again in place of one that has ended; Slurm starts no task again.
    assert!(rule.may_restart() && !slurm(THREE_NODES).unwrap().unwrap().may_restart());
}

#[test]
fn a_pod_that_does_not_know_enough_is_refused() {
    let refused = |text: &str| kubernetes(text).unwrap().unwrap_err();
    let rest = "GPC_COUNT=4 GPC_SERVICE=peers GPC_SECRET_FILE=/s";
    assert!(refused("JOB_COMPLETION_INDEX=0").contains("GPC_COUNT is not set"));
    assert!(refused("JOB_COMPLETION_INDEX=0 GPC_COUNT=1").contains("GPC_SERVICE is not set"));
    assert!(refused(rest).contains("says which pod this is"));
    assert!(refused(&format!("{rest} HOSTNAME=web-03")).contains("says which pod this is"));
    assert!(refused(&format!("{rest} HOSTNAME=web-4")).contains("this is id 4 of 4"));
    assert!(
        refused(&format!("{rest} HOSTNAME=web-1 JOB_COMPLETION_INDEX=2")).contains("does not end with -2")
    );
    assert!(refused(&format!("{rest} HOSTNAME=web JOB_COMPLETION_INDEX=2")).contains("GPC_NAME"));
    assert!(refused(&format!("{rest} GPC_NAME=a/b JOB_COMPLETION_INDEX=2")).contains("is no name of a host"));
    let secret = refused("HOSTNAME=web-1 GPC_COUNT=4 GPC_SERVICE=peers");
    assert!(secret.contains("gpc secret FILE"), "{secret}");
    assert!(refused(&format!("{rest} HOSTNAME=web-1 GPC_COUNT=1048577")).contains("are the most"));
}

fn pods(count: u32) -> Rule {
    let text = format!("HOSTNAME=w-0 GPC_COUNT={count} GPC_SERVICE=s GPC_SECRET_FILE=/s");
    find_kubernetes(&variables(&text)).unwrap().unwrap()
}

/// The address 10.0.0.(1 + index) of a pod's name.
fn of_pod(name: &str) -> io::Result<Vec<IpAddr>> {
    let index = name.strip_prefix("w-").and_then(|rest| rest.strip_suffix(".s"));
    let index: u8 = index.unwrap().parse().map_err(io::Error::other)?;
    Ok(vec![IpAddr::from([10, 0, 0, 1 + index])])
}

#[test]
fn names_are_looked_up_until_they_are_there() {
    let tries = AtomicU32::new(0);
    let resolve = Resolve::by(move |name| match tries.fetch_add(1, Ordering::Relaxed) {
        0..5 => Err(io::Error::other("not yet")),
        5..8 => Ok(vec![]),
        _ => of_pod(name),
    });
    let found = resolve.addresses(&pods(4), [3, 0, 9], LONG).unwrap();
    let found: Vec<String> = found.iter().map(|(id, address)| format!("{id} {address}")).collect();
    assert_eq!(found, ["3 10.0.0.4:7117", "0 10.0.0.1:7117"]);
}

#[test]
fn each_host_is_looked_up_once() {
    let rule = slurm(&format!("{THREE_NODES} ")).unwrap().unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let resolve = Resolve::by(move |name| {
        seen.lock().unwrap().push(name.to_owned());
        Ok(vec![IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2])])
    });
    let found = resolve.addresses(&rule, 0..7, LONG).unwrap();
    assert_eq!((found.len(), found[6].1.to_string().as_str()), (7, "10.0.0.1:19202"));
    let asked = asked.lock().unwrap();
    assert_eq!((asked.len(), asked.iter().collect::<BTreeSet<_>>().len()), (3, 3));
    // Abstract names are not looked up.
    let here = slurm(ONE_NODE).unwrap().unwrap();
    let never = Resolve::by(|_| panic!("nobody asks"));
    assert_eq!(never.addresses(&here, 0..2, Duration::ZERO).unwrap().len(), 2);
}

/// Values that are nearly valid, so that many branches of the parser are reached.
fn value() -> impl Strategy<Value = String> {
    let near = [
        "0",
        "1",
        "2",
        "7",
        "4294967295",
        "4294967291",
        "1,1",
        "3,2(x2)",
        "n[1-3]",
        "solver-2",
        "block",
        "plane=2",
        "cyclic",
        "/s",
    ];
    prop_oneof![4 => prop::sample::select(near.to_vec()).prop_map(str::to_owned), 1 => any::<String>()]
}

const NAMES: [&str; 18] = [
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_PROCID",
    "SLURM_NODEID",
    "SLURM_LOCALID",
    "SLURM_GTIDS",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_STEP_NODELIST",
    "SLURM_DISTRIBUTION",
    "SLURM_DIST_PLANESIZE",
    "JOB_COMPLETION_INDEX",
    "HOSTNAME",
    "GPC_COUNT",
    "GPC_SERVICE",
    "GPC_NAME",
    "GPC_PORT",
    "GPC_SECRET_FILE",
];

proptest! {
    #[test]
    fn any_variables_are_a_rule_in_which_each_id_has_a_place_of_its_own_or_refused(
        variables in prop::collection::btree_map(prop::sample::select(NAMES.to_vec()).prop_map(str::to_owned), value(), 0..18),
    ) {
        if let Ok(Some(rule)) = crate::bootstrap::rule_of(&variables) {
            prop_assert!(rule.id() < rule.count());
            let places: BTreeSet<String> = (0..rule.count().min(1000)).map(|id| host(&rule, id)).collect();
            prop_assert_eq!(places.len(), rule.count().min(1000) as usize);
            prop_assert!(!places.contains("nowhere"));
            prop_assert!(rule.is_here() || rule.secret_file().is_some());
        }
    }
}
