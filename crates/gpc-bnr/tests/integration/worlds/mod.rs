//! Whole domains in virtual time, many at once. `gpc sim --groups` runs more of them.
#![cfg(feature = "sim")]

use std::collections::BTreeMap;

use gpc_bnr::sim::{Fault, Scenario, Swarm, exhaustive, run, run_all};

/// Fixed worlds with this many nodes.
fn swarm(nodes: u32, seeds: std::ops::Range<u64>) -> Swarm {
    run_all(seeds.map(|seed| Scenario::new(nodes, seed)))
}

fn assert_good(swarm: &Swarm) {
    let failures: Vec<(String, String)> = swarm
        .failures
        .iter()
        .map(|(scenario, violations)| {
            (scenario.replay(), violations.iter().map(ToString::to_string).collect())
        })
        .collect();
    assert_eq!(swarm.failed, 0, "{failures:#?}");
}

#[test]
fn no_checker_complains_of_worlds_of_any_size() {
    for nodes in [1, 2, 5, 16] {
        assert_good(&swarm(nodes, 0..40));
    }
}

#[test]
fn equal_scenarios_have_equal_hashes() {
    let hash = |seed| run(&Scenario::new(4, seed)).hash;
    assert_eq!(hash(5), hash(5));
    assert_ne!(hash(5), hash(6));
    let traced = run(&Scenario { trace: true, ..Scenario::new(4, 5) });
    assert!(traced.hash == hash(5) && traced.trace.len() > 100);
}

/// Worlds without any events would find no errors.
#[test]
fn worlds_have_something_of_everything() {
    let swarm = swarm(4, 1120..1420);
    assert_good(&swarm);
    let missing: Vec<&&str> = WANTED.iter().filter(|wanted| !swarm.counts.contains_key(**wanted)).collect();
    let faults: Vec<&Fault> = Fault::ALL.iter().filter(|fault| !swarm.injected.contains_key(fault)).collect();
    assert!(
        missing.is_empty() && faults.is_empty(),
        "no world has {missing:?} {faults:?}: {:#?}",
        swarm.counts
    );
}

/// Some of the faults at each event of a small world; `gpc sim` runs the rest.
#[test]
fn faults_at_many_events_of_a_small_world() {
    let all = exhaustive(&Scenario::new(2, 1), 1).step_by(61);
    let swarm = run_all(all);
    assert_good(&swarm);
    let kinds: BTreeMap<Fault, u64> = swarm.injected;
    assert!(kinds.len() > 6, "{kinds:?}");
}

/// A stopped node delayed the head's new standing order for 5 s, until heartbeats gave the node up. Two healthy nodes
/// below it had lost the old order. They waited 3 s, the limit of all orders in this world, and then killed their
/// processes.
#[test]
fn nodes_wait_for_a_standing_order_that_a_stopped_node_holds_up() {
    assert_good(&run_all([Scenario::new(8, 204_000_007_600)]));
}

/// A node was stopped when the domain began. The head waited for it up to the limit of an order. The other nodes waited
/// as long for their first standing order, and ended just before it arrived.
#[test]
fn nodes_wait_for_their_first_standing_order_longer_than_the_head_for_all_to_begin() {
    assert_good(&run_all([Scenario::new(8, 205_000_008_876)]));
}

/// Processes of a world request kills of random groups. A late request killed the final test group.
#[test]
fn no_process_kills_the_final_test_group() {
    assert_good(&run_all([Scenario::new(8, 205_000_006_864)]));
}

/// Two members at one node had different purposes before the coordinator knew their group. The failure did not reach a
/// member at a third node.
#[test]
fn a_failure_before_the_start_at_the_coordinator_reaches_all_nodes() {
    assert_good(&run_all([Scenario::new(4, 211_000_000_207)]));
}

/// A group was removed before a group that its process had spawned ran. A tool that watched the first watched the
/// second by a request of its own, later, and was blamed for not watching what the second had spawned before that.
#[test]
fn a_tool_watches_what_a_group_spawns_from_its_own_request_on() {
    assert_good(&run_all([Scenario::new(2, 240_002_005_905)]));
}

/// A process requested a value of another node while it waited for a fence. The owner put the value and entered the
/// fence, which was answered before the request was. The request was judged as if it had come after the fence.
#[test]
fn a_request_before_the_end_of_a_fence_may_miss_what_the_fence_brings() {
    assert_good(&run_all([Scenario::new(8, 240_008_021_797)]));
}

/// Orders, and requests with their outcomes, that at least one world must contain.
const WANTED: &[&str] = &[
    "order AtHead",
    "order Begin",
    "order Collect",
    "order Destroyed",
    "order Died",
    "order End",
    "order Enter",
    "order Fail",
    "order Find",
    "order Forget",
    "order Kill",
    "order List",
    "order Missing",
    "order Lost",
    "order Release",
    "order Start",
    "order Status",
    "order Watch",
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
    "Subscribe derived Ok",
    "Split Ok",
    "Split MemberDied",
    "Members Ok",
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
    "not started",
    "ended well",
    "ended abnormally",
];

/// A process that had ended got puts and releases into its log again, and its group's database came back.
#[test]
fn what_ended_processes_leave_goes_with_them() {
    assert_good(&run_all([Scenario::new(2, 2103)]));
}

/// The checkers blamed domains for what they may hold: the request of a client that waits for the size of a group that
/// nobody closes, and a group whose last process ended just before the look. A node that stood still for more than a
/// second was blamed for not having said which members had come, or for orders that reached it late.
#[test]
fn a_domain_holds_what_is_under_way_and_a_stopped_node_answers_late() {
    let two = [322_000_005_176, 322_020_003_591, 322_012_004_759].map(|seed| Scenario::new(2, seed));
    assert_good(&run_all(two.into_iter().chain([Scenario::new(4, 324_011_003_603)])));
}
