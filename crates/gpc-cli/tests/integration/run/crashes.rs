//! `kill -9` of ranks, supervisors, nodes and the command, each during a start, a fence, a spawn and output that is not
//! read. The first cause is reported, all processes end, and nothing is left.
//!
//! Each test makes the moment certain: a stopped supervisor starts no further process, an absent rank blocks a fence,
//! and a reader that does not read blocks the writers.

use std::process::Stdio;

use rustix::process::{Pid, Signal};

use super::support::*;

/// Minimum number of processes of a start that is to be interrupted; if all are started too early, twice as many are
/// tried.
const STARTED: usize = 300;

/// Begins a start on this number of nodes that does not finish: the first process stops its supervisor, which has
/// started some of the others. `first` returns the node of the first process.
pub(crate) fn standing_start(
    place: &Place,
    words: &str,
    nodes: usize,
    first: impl Fn(&Run) -> Pid,
) -> (Run, Process) {
    for count in [STARTED, 2 * STARTED, 4 * STARTED] {
        let many = count.to_string();
        let script = "kill -STOP $PPID; echo up; exec sleep 1000";
        let words = ["run"].into_iter().chain(words.split_whitespace());
        let programs = ["-n", "1", "bash", "-c", script, ":", "-n", &many, "sleep", "1000"];
        let run = Run::start(place.gpc(words.chain(programs)));
        run.says("up", 1);
        let supervisor = place.supervisor_of(first(&run));
        until("its supervisor is stopped", || supervisor.is_stopped());
        let here =
            place.processes().iter().filter(|process| process.parent() == Some(supervisor.pid)).count();
        if here < count / nodes {
            return (run, supervisor);
        }
        // All were started before the first one ran.
        run.signal(Signal::KILL);
        supervisor.signal(Signal::CONT);
        run.ended();
        until("nothing of it is left", || place.with("sleep 1000").is_empty());
    }
    panic!("no start was stopped in its middle");
}

#[test]
fn the_command_is_killed_in_the_middle_of_a_start() {
    for (words, nodes) in [("", 1), ("--nodes 3", 3)] {
        let place = Place::new();
        let (run, supervisor) = standing_start(&place, words, nodes, Run::pid);
        run.killed(&supervisor);
        place.nothing_left();
    }
}

#[test]
fn a_rank_is_killed_in_the_middle_of_a_start() {
    let place = Place::new();
    let (run, supervisor) = standing_start(&place, "", 1, Run::pid);
    place.member("g1.0").signal(Signal::KILL);
    supervisor.signal(Signal::CONT);
    let ended = run.ended();
    ended.failed(137, "gpc: g1.0: killed by signal 9 (SIGKILL)\n");
    place.nothing_left();
}

#[test]
fn a_supervisor_is_killed_in_the_middle_of_a_start() {
    let place = Place::new();
    let (run, supervisor) = standing_start(&place, "", 1, Run::pid);
    supervisor.signal(Signal::KILL);
    let ended = run.ended();
    assert_ne!(ended.status, 0, "{}", ended.err);
    assert!(ended.err.starts_with("gpc: the keeper of this host's processes is gone"), "{}", ended.err);
    place.nothing_left();
}

#[test]
fn a_node_is_killed_in_the_middle_of_a_start() {
    let place = Place::new();
    let (run, mine) = standing_start(&place, "--nodes 3", 3, Run::pid);
    place.node(2).signal(Signal::KILL);
    run.complains("node 2");
    mine.signal(Signal::CONT);
    let ended = run.ended();
    assert_ne!(ended.status, 0, "{}", ended.err);
    assert!(ended.err.lines().next().unwrap().contains("node 2"), "{}", ended.err);
    place.nothing_left();
}

/// Starts a job whose last rank is absent from the fence in which all others wait.
pub(crate) fn standing_fence(place: &Place, words: &str, count: usize) -> Run {
    let script = format!(
        "{PMI} [ $PMI_RANK = {last} ] && {{ echo away; until [ -e {go} ]; do sleep 0.05; done; finalize; exit; }}; say 'cmd=barrier_in'; echo in; hear; echo \"after: $line\"; finalize",
        last = count - 1,
        go = place.path("go"),
    );
    let run = Run::start(place.script(&format!("-n {count} {words}"), &script));
    run.says("in\n", count - 1);
    run.says("away", 1);
    place.domain_of(run.pid());
    run
}

#[test]
fn a_rank_is_killed_in_the_middle_of_a_fence() {
    for words in ["", "--nodes 3"] {
        let place = Place::new();
        let run = standing_fence(&place, words, 6);
        place.member("g1.3").signal(Signal::KILL);
        let ended = run.ended();
        ended.failed(137, "gpc: g1.3: killed by signal 9 (SIGKILL)\n");
        assert!(!ended.out.contains("barrier_out"), "{}", ended.out);
        place.nothing_left();
    }
}

#[test]
fn a_rank_that_is_killed_in_a_fence_fails_it_at_those_who_go_on() {
    let place = Place::new();
    let run = standing_fence(&place, "--nodes 3 --on-death notify", 6);
    place.member("g1.3").signal(Signal::KILL);
    run.says("after: cmd=barrier_failed", 4);
    std::fs::write(place.path("go"), "").unwrap();
    let ended = run.ended();
    assert_eq!(ended.status, 137, "{}", ended.err);
    assert_eq!(ended.out.matches("g1.3").count(), 4, "the dead rank is named: {}", ended.out);
    assert_eq!(ended.err, "gpc: g1.3: killed by signal 9 (SIGKILL)\n");
    place.nothing_left();
}

#[test]
fn a_node_is_killed_in_the_middle_of_a_fence() {
    let place = Place::new();
    let run = standing_fence(&place, "--nodes 3", 6);
    place.node(1).signal(Signal::KILL);
    let ended = run.ended();
    ended.failed(1, "gpc: node 1 was lost");
    assert!(ended.err.contains("gpc: g1.2-3: lost with node 1\n"), "{}", ended.err);
    assert!(!ended.out.contains("barrier_out"), "{}", ended.out);
    place.nothing_left();
}

#[test]
fn a_node_that_is_killed_in_a_fence_fails_it_at_those_who_go_on() {
    let place = Place::new();
    let run = standing_fence(&place, "--nodes 3 --on-death notify", 6);
    place.node(1).signal(Signal::KILL);
    run.says("after: cmd=barrier_failed", 3);
    std::fs::write(place.path("go"), "").unwrap();
    let ended = run.ended();
    assert_eq!(ended.status, 1, "{}", ended.err);
    assert_eq!(
        ended.out.matches("lost_with_node_1,").count(),
        3,
        "which node was lost is named: {}",
        ended.out
    );
    assert!(ended.err.contains("gpc: g1.2-3: lost with node 1\n"), "{}", ended.err);
    place.nothing_left();
}

#[test]
fn the_command_is_killed_in_the_middle_of_a_fence() {
    for words in ["", "--nodes 3"] {
        let place = Place::new();
        let run = standing_fence(&place, words, 6);
        run.signal(Signal::KILL);
        let ended = run.ended();
        assert_eq!((ended.status, ended.out.contains("barrier_out")), (137, false));
        place.nothing_left();
    }
}

/// Begins a spawn of two processes on two nodes that does not finish: the first process is started, and the supervisor
/// of the second is stopped.
pub(crate) fn standing_spawn(place: &Place, words: &str, second: impl Fn() -> Pid) -> (Run, Process) {
    let child = "echo child; exec sleep 1000";
    let script = format!(
        "{PMI} echo up; [ $PMI_RANK = 0 ] || exec sleep 1000; read go; spawn 2 bash -c '{child}'; echo \"spawned: $line\"; finalize"
    );
    let mut command = place.script(&format!("-n 2 {words}"), &script);
    command.stdin(Stdio::piped());
    let mut run = Run::start(command);
    run.says("up", 2);
    // A process may speak before its supervisor has reported its start, without which its group does not spawn.
    place.domain_of(run.pid());
    let supervisor = place.supervisor_of(second());
    supervisor.signal(Signal::STOP);
    until("the second supervisor is stopped", || supervisor.is_stopped());
    run.write("go\n");
    run.says("child", 1);
    (run, supervisor)
}

/// The job waited forever: the processes that the rank had spawned ran on, and held its output open.
#[test]
fn a_rank_is_killed_in_the_middle_of_its_spawn() {
    let place = Place::new();
    let (run, supervisor) = standing_spawn(&place, "--nodes 2", || place.node(1).pid);
    place.member("g1.0").signal(Signal::KILL);
    supervisor.signal(Signal::CONT);
    let ended = run.ended();
    ended.failed(137, "gpc: g1.0: killed by signal 9 (SIGKILL)\n");
    place.nothing_left();
}

#[test]
fn a_spawned_process_is_killed_in_the_middle_of_the_spawn() {
    let place = Place::new();
    let (run, supervisor) = standing_spawn(&place, "--nodes 2 --on-death notify", || place.node(1).pid);
    place.member("g2.0").signal(Signal::KILL);
    supervisor.signal(Signal::CONT);
    run.says("spawned: ", 1);
    // Rank 1 would sleep on. The command is not ended itself: a death that it does not know by then would be missing.
    place.member("g1.1").signal(Signal::KILL);
    let ended = run.ended();
    assert!(ended.err.contains("g2.0: killed by signal 9 (SIGKILL)\n"), "{}\n{}", ended.out, ended.err);
    place.nothing_left();
}

#[test]
fn a_node_is_killed_in_the_middle_of_a_spawn() {
    let place = Place::new();
    let (run, supervisor) = standing_spawn(&place, "--nodes 2", || place.node(1).pid);
    place.node(1).signal(Signal::KILL);
    supervisor.signal(Signal::CONT);
    let ended = run.ended();
    assert_eq!(ended.status, 1, "{}", ended.err);
    assert!(ended.err.lines().next().unwrap().contains("node 1"), "{}", ended.err);
    assert!(ended.err.contains("g1.1: lost with node 1\n"), "{}", ended.err);
    place.nothing_left();
}

#[test]
fn the_command_is_killed_in_the_middle_of_a_spawn() {
    let place = Place::new();
    let (run, supervisor) = standing_spawn(&place, "--nodes 2", || place.node(1).pid);
    run.killed(&supervisor);
    place.nothing_left();
}
