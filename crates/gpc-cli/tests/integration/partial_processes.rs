//! Partial calls over real processes: some are killed, some are stopped and continued, and the replies of the others
//! count.
//!
//! Nothing is timed: every wait is for a condition, and its limit passes only if something is broken.

#![cfg(target_os = "linux")]

use crate::processes::support::{Ended, Gpc, coverage, ids, run};
use rustix::process::Signal;

/// Every process sleeps long enough to be seen asleep, all at once.
const ASLEEP: &str = "--forward-first --partial --time-limit 10m --output json";

/// Each process executes before it forwards, so that its descendants receive the request later.
const FIRST_AWAKE: &str = "--partial --time-limit 10m --output json";

fn all_asleep(call: &Gpc, n: u32) {
    (0..n).for_each(|id| call.until_asleep(id));
}

#[track_caller]
fn check_without(ended: &Ended, n: u64, missing: &[u64], counts: [u64; 4], stage: &str) {
    let value = ended.json();
    let expected: Vec<u64> = (0..n).filter(|id| !missing.contains(id)).collect();
    assert_eq!((ended.code(), coverage(&value), ids(&value)), (Some(1), counts, expected), "{value}");
    assert_eq!((&value["cause"]["id"], &value["cause"]["stage"]), (&missing[0].into(), &stage.into()));
    let listed = value["missing"].as_array().unwrap();
    let listed_ids: Vec<u64> = listed.iter().map(|one| one["id"].as_u64().unwrap()).collect();
    assert_eq!(listed_ids, missing, "programs learn the missing ids");
    let listed_as = |status| listed.iter().filter(|one| one["status"] == status).count() as u64;
    assert_eq!(["failed", "unreached", "unknown"].map(listed_as), counts[1..], "{value}");
    assert_eq!(listed[0]["cause"], value["cause"]);
}

#[test]
fn a_process_that_is_killed_in_the_middle_is_left_out_alone() {
    for (tree, link) in
        [("binary", "tcp"), ("binomial", "unix"), ("chain", "unix"), ("flat", "tcp"), ("binomial", "shm")]
    {
        let call = Gpc::start(&format!("call sleep -n 10 --tree {tree} --link {link} --header 3s {ASLEEP}"));
        all_asleep(&call, 10);
        call.node(1).kill(Signal::KILL);
        let ended = call.end();
        check_without(&ended, 10, &[1], [9, 0, 0, 1], "link");
        assert!(
            ended.said().ends_with("its process ended: killed by signal 9 (SIGKILL)"),
            "{}",
            ended.said()
        );
    }
}

/// Twelve of twelve runs reported some 27 living ids as unknown. The ids were younger than the call plus its age, which
/// every hop rounds up. So they treated an adopter's request as one that an earlier process of the id might have
/// executed.
#[test]
fn processes_that_have_just_started_are_not_lost_with_their_parent() {
    for tree in ["chain", "binary", "binomial"] {
        let call = Gpc::start(&format!("call sleep -n 24 --tree {tree} --header 1s {FIRST_AWAKE}"));
        call.until_asleep(1);
        call.node(1).kill(Signal::KILL);
        check_without(&call.end(), 24, &[1], [23, 0, 0, 1], "link");
    }
}

#[test]
fn several_that_are_killed_one_below_the_other_are_left_out() {
    let call = Gpc::start(&format!("call sleep -n 10 --tree chain --header 4s {ASLEEP}"));
    all_asleep(&call, 10);
    for id in [3, 4, 7] {
        call.node(id).kill(Signal::KILL);
    }
    check_without(&call.end(), 10, &[3, 4, 7], [7, 0, 0, 3], "link");
}

#[test]
fn a_process_that_is_killed_before_the_call_gets_to_it_is_unreached() {
    let call = Gpc::start(
        "call sleep -n 7 --header 1500ms --execute-first --partial --time-limit 10m --output json",
    );
    call.until_asleep(0);
    call.node(1).kill(Signal::KILL);
    check_without(&call.end(), 7, &[1], [6, 0, 1, 0], "link");
}

/// The children of a stopped process are adopted after its silence. If it continues later, during the same call,
/// nothing changes.
#[test]
fn a_process_that_is_stopped_is_given_up_and_comes_back_to_nothing() {
    for link in ["tcp", "unix", "shm"] {
        let line = format!("call sleep -n 7 --link {link} --header 10s --dead-after 3s {ASLEEP}");
        let call = Gpc::start_in(&line, b"", &[("GPC_LOG", "debug")]);
        all_asleep(&call, 7);
        let stopped = call.node(1);
        stopped.kill(Signal::STOP);
        call.until_said("no heartbeat");
        stopped.kill(Signal::CONT);
        check_without(&call.end(), 7, &[1], [6, 0, 0, 1], "link");
    }
}

#[test]
fn a_process_that_stays_stopped_is_left_out() {
    let call = Gpc::start(&format!("call sleep -n 7 --header 2s --dead-after 3s {ASLEEP}"));
    all_asleep(&call, 7);
    call.node(2).kill(Signal::STOP);
    check_without(&call.end(), 7, &[2], [6, 0, 0, 1], "link");
}

#[test]
fn a_silent_process_ends_a_call_that_wants_all() {
    let call = Gpc::start(
        "call sleep -n 2 --header 10m --time-limit 20m --forward-first --dead-after 3s --output json",
    );
    all_asleep(&call, 2);
    call.node(1).kill(Signal::STOP);
    let ended = call.end();
    let value = ended.json();
    assert_eq!((ended.code(), coverage(&value)), (Some(1), [0, 0, 0, 2]));
    assert!(
        ended.said().contains("id 1 failed at stage link (link-lost): it sent no heartbeat for"),
        "{}",
        ended.said()
    );
}

#[test]
fn a_function_that_fails_is_left_out_alone() {
    let ended = run("call fail -n 8 --header 5 --partial --output json");
    let value = ended.json();
    assert_eq!((ended.code(), coverage(&value), &value["cause"]["id"]), (Some(1), [7, 1, 0, 0], &5.into()));
    let data = value["replies"][0]["data"].as_str().unwrap();
    assert_eq!((data.lines().count(), data.contains("5 ok")), (7, false), "{data}");
    let ended = run("call fail -n 8 --header 5 --partial");
    let table = String::from_utf8(ended.stdout.clone()).unwrap();
    assert!(
        table.contains("\n 5  failed     func: ") && table.contains("done 7 of 8, failed 1 in "),
        "{table}"
    );
    assert_eq!(ended.code(), Some(1));
    // The table has the reason, so the error only refers to it.
    assert!(ended.said().contains("gpc: 1 of 8 ids did not finish: the table says why"), "{}", ended.said());
}

/// The sum is 1 + 4 + 9 + ...: a failed id would reduce it by its own number, and by nothing else.
#[test]
fn a_whole_partial_call_is_like_any_other() {
    let ended = run("call sum -n 16 --partial --output json");
    let value = ended.json();
    assert_eq!((ended.code(), coverage(&value), value["cause"].is_null()), (Some(0), [16, 0, 0, 0], true));
    assert_eq!(value["replies"][0]["data"], "1496");
}

#[test]
fn a_silence_that_is_too_short_is_refused() {
    for line in [
        "call echo -n 2 --dead-after 10ms",
        "node --id 1 --listen unix:@none --peers /dev/null --dead-after 10ms",
    ] {
        let ended = run(line);
        assert_eq!(ended.code(), Some(2));
        assert!(ended.said().contains("--dead-after 10ms is too short"), "{}", ended.said());
    }
}
