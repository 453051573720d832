//! Killed processes, signals, and time limits: the call ends, gives the reason, and leaves nothing.

use rustix::process::Signal;
use serde_json::Value;

use crate::processes::support::{Ended, Gpc, coverage, until};

/// A call that lasts far longer than any test.
const LONG: &str = "--header 10m --time-limit 20m --output json";

/// Kills the process of id 1, and returns the result of the call.
fn kill_the_first(call: Gpc) -> (Ended, Value) {
    call.node(1).kill(Signal::KILL);
    let ended = call.end();
    let value = ended.json();
    assert_eq!(
        (ended.code(), &value["cause"]["id"], &value["cause"]["stage"]),
        (Some(1), &1.into(), &"link".into())
    );
    let message = value["cause"]["message"].as_str().unwrap();
    assert!(message.ends_with("its process ended: killed by signal 9 (SIGKILL)"), "{message}");
    assert_eq!(value["cause"]["kind"], "link-lost");
    assert_eq!(ended.said(), format!("gpc: id 1 failed at stage link (link-lost): {message}"));
    (ended, value)
}

#[test]
fn a_process_that_is_killed_while_all_are_at_work_ends_the_call() {
    for tree in ["binary", "binomial", "kary:3", "chain", "flat"] {
        for link in ["tcp", "unix", "shm"] {
            let call =
                Gpc::start(&format!("call sleep -n 12 --tree {tree} --link {link} --forward-first {LONG}"));
            (0..12).for_each(|id| call.until_asleep(id));
            let (_, value) = kill_the_first(call);
            // All have received the request, and none has answered.
            assert_eq!(coverage(&value), [0, 0, 0, 12], "{tree} {link}");
        }
    }
}

#[test]
fn a_process_that_is_killed_before_the_call_gets_to_it_ends_the_call() {
    for (tree, link) in [("binary", "unix"), ("chain", "tcp"), ("binary", "shm")] {
        let call =
            Gpc::start(&format!("call sleep -n 12 --tree {tree} --link {link} --execute-first {LONG}"));
        call.until_asleep(0);
        let (_, value) = kill_the_first(call);
        assert_eq!(coverage(&value)[0], 0, "nobody is done: {value}");
    }
}

#[test]
fn a_process_that_is_killed_deep_in_the_tree_is_named() {
    for link in ["tcp", "unix", "shm"] {
        let call = Gpc::start(&format!("call sleep -n 12 --tree chain --link {link} --forward-first {LONG}"));
        (0..12).for_each(|id| call.until_asleep(id));
        call.node(7).kill(Signal::KILL);
        let ended = call.end();
        assert_eq!((ended.code(), &ended.json()["cause"]["id"]), (Some(1), &7.into()), "{}", ended.stderr);
    }
}

#[test]
fn a_process_that_takes_no_part_may_die() {
    let call =
        Gpc::start("call sleep -n 4 --ids 0-1 --header 10m --time-limit 20m --forward-first --output json");
    call.until_asleep(1);
    call.node(3).kill(Signal::KILL);
    call.node(1).kill(Signal::KILL);
    let ended = call.end();
    assert_eq!((ended.code(), &ended.json()["cause"]["id"]), (Some(1), &1.into()));

    // A dead id that was not called hid the death of a higher one that was.
    let call = Gpc::start("call sleep -n 4 --ids 0,3 --header 10m --time-limit 20m --output json");
    call.until_asleep(0);
    call.node(1).kill(Signal::KILL);
    call.node(3).kill(Signal::KILL);
    let ended = call.end();
    assert_eq!((ended.code(), &ended.json()["cause"]["id"]), (Some(1), &3.into()));
}

#[test]
fn when_the_command_is_killed_its_nodes_end() {
    for link in ["tcp", "unix", "shm"] {
        for more in ["", "--execute-first"] {
            let call = Gpc::start(&format!("call sleep -n 16 --link {link} {more} {LONG}"));
            call.until_asleep(if more.is_empty() { 15 } else { 0 });
            call.process().kill(Signal::KILL);
            let ended = call.end_soon();
            assert_eq!((ended.code(), ended.stdout.len(), ended.stderr.as_str()), (None, 0, ""));
        }
    }
}

#[test]
fn a_signal_ends_the_command_and_its_nodes() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        for more in ["", "--execute-first", "--repeat 1000"] {
            let call = Gpc::start(&format!("call sleep -n 16 {more} {LONG}"));
            call.until_asleep(0);
            call.process().kill(signal);
            let ended = call.end();
            assert_eq!(
                (ended.code(), ended.stdout.len(), ended.stderr.as_str()),
                (Some(code), 0, ""),
                "{signal:?} {more}"
            );
        }
    }
}

#[test]
fn a_node_that_does_not_end_is_killed() {
    let call = Gpc::start(&format!("call sleep -n 8 --forward-first {LONG}"));
    (0..8).for_each(|id| call.until_asleep(id));
    call.node(5).kill(Signal::STOP);
    call.process().kill(Signal::INT);
    assert_eq!(call.end().code(), Some(130));
}

#[test]
fn what_ends_the_command_while_it_starts_processes_ends_those_there_are() {
    // So many processes that, when the first ones are seen, others are still to be started or to receive their
    // addresses.
    let start = || {
        let call = Gpc::start("call echo -n 400 --repeat 1000000");
        until("some nodes run", || call.processes().len() > 10);
        call
    };
    let call = start();
    call.process().kill(Signal::TERM);
    let ended = call.end();
    assert_eq!((ended.code(), ended.stderr.as_str()), (Some(143), ""));
    // The nodes have no parent to report to.
    let call = start();
    call.process().kill(Signal::KILL);
    let ended = call.end_soon();
    assert_eq!((ended.code(), ended.stderr.as_str()), (None, ""));
}

#[test]
fn the_time_limit_names_an_id_that_hangs() {
    let ended =
        Gpc::start("call sleep -n 8 --header 10m --time-limit 300ms --execute-first --output json").end();
    let value = ended.json();
    assert_eq!(
        (ended.code(), &value["cause"]["id"], &value["cause"]["stage"]),
        (Some(1), &0.into(), &"func".into())
    );
    assert!(
        ended.said().contains("id 0 has been in func `sleep` for ")
            && ended.said().contains("; the time limit (300ms here) passed while func was running"),
        "{}",
        ended.said()
    );
    // A stopped process is named by the process that waits for it.
    let call = Gpc::start("call sleep -n 2 --header 300ms --time-limit 4s --repeat 1000 --output json");
    call.until_asleep(0);
    call.node(1).kill(Signal::STOP);
    let ended = call.end();
    let value = ended.json();
    assert_eq!(
        (ended.code(), &value["cause"]["id"], &value["cause"]["stage"]),
        (Some(1), &1.into(), &"reply".into())
    );
}
