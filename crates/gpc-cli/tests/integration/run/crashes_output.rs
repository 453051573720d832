//! `kill -9` during output that is not read: the writers are blocked, and the window of every node is full.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use super::flood::stall;
use super::support::*;

/// A job with blocked writers.
pub(crate) struct Flood {
    child: Child,
    out: ChildStdout,
}

/// Starts writers to both outputs; they block, since the first output is not read.
pub(crate) fn standing(place: &Place, words: &str, count: usize, script: &str) -> Flood {
    let mut command = place.script(&format!("-n {count} {words}"), script);
    command.stdout(Stdio::piped()).stderr(Stdio::from(std::fs::File::create(place.path("err")).unwrap()));
    let mut child = command.spawn().unwrap();
    let out = child.stdout.take().unwrap();
    until("all write", || place.writers().len() == count);
    place.domain_of(Pid::from_child(&child));
    stall(&place.writers());
    Flood { child, out }
}

impl Flood {
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Reads the rest of the output, and waits for the end. Returns the status, and the lines that are not part of the
    /// flood.
    pub(crate) fn ended(mut self) -> (i32, Vec<String>) {
        let out = BufReader::new(self.out);
        let reader = thread::spawn(move || {
            let lines = out.lines().map(|line| line.unwrap());
            lines.filter(|line| !FLOOD.starts_with(line.as_str())).collect()
        });
        until("it has ended", || self.child.try_wait().unwrap().is_some());
        (shown(self.child.wait().unwrap()), reader.join().unwrap())
    }
}

/// Returns the lines of `gpc` itself on standard error.
pub(crate) fn told(place: &Place) -> Vec<String> {
    let err = std::fs::read_to_string(place.path("err")).unwrap();
    err.lines().filter(|line| line.starts_with("gpc: ")).map(str::to_owned).collect()
}

const FLOOD: &str = "0123456789012345678901234567890123456789";
pub(crate) const YES: &str = "exec yes 0123456789012345678901234567890123456789";

#[test]
fn a_rank_is_killed_in_the_middle_of_output() {
    for words in ["", "--nodes 3"] {
        let place = Place::new();
        let flood = standing(&place, words, 3, YES);
        place.member("g1.1").signal(Signal::KILL);
        let (status, out) = flood.ended();
        let told = told(&place);
        assert_eq!(status, 137, "{told:?}");
        assert_eq!(told[0], "gpc: g1.1: killed by signal 9 (SIGKILL)", "{told:?}");
        assert!(out.is_empty(), "lines are whole: {out:?}");
        place.nothing_left();
    }
}

#[test]
fn a_node_is_killed_in_the_middle_of_output() {
    let place = Place::new();
    let flood = standing(&place, "--nodes 3", 3, YES);
    place.node(1).signal(Signal::KILL);
    let (status, _) = flood.ended();
    let told = told(&place);
    assert_eq!(status, 1, "{told:?}");
    assert!(told[0].starts_with("gpc: node 1 was lost"), "{told:?}");
    assert!(told.contains(&"gpc: g1.1: lost with node 1".into()), "{told:?}");
    place.nothing_left();
}

/// Node 4 sends its output through node 0 or one of the others. Whichever is lost, the output of the others is printed.
#[test]
fn what_went_by_a_node_that_is_lost_comes_by_another() {
    for lost in 1..4 {
        let place = Place::new();
        // A process that is asked to end writes a last line after all its output.
        let script = format!(
            "trap 'kill $!; wait; echo end of $PMI_RANK; exit 0' USR1; {} & while :; do wait; done",
            &YES[5..]
        );
        let flood = standing(&place, "--nodes 5 --on-death notify", 5, &script);
        place.node(lost).signal(Signal::KILL);
        until("its process is gone", || place.writers().len() == 4);
        kill_process(flood.pid(), Signal::USR1).unwrap();
        let (status, out) = flood.ended();
        assert_eq!(status, 1, "{:?}", told(&place));
        for rank in (0..5).filter(|rank| *rank != lost) {
            // A writer that ends in the middle of a line leaves a part of it.
            let end = format!("end of {rank}");
            assert!(out.iter().any(|line| line.ends_with(&end)), "rank {rank} without node {lost}: {out:?}");
        }
        place.nothing_left();
    }
}

#[test]
fn the_command_is_killed_in_the_middle_of_output() {
    for words in ["", "--nodes 3"] {
        let place = Place::new();
        let flood = standing(&place, words, 3, YES);
        kill_process(flood.pid(), Signal::KILL).unwrap();
        assert_eq!(flood.ended().0, 137);
        place.nothing_left();
    }
}

/// A node that lost its supervisor also killed the processes of the other nodes on its host, and those were reported as
/// the first cause.
#[test]
fn a_supervisor_is_killed_in_the_middle_of_output() {
    let place = Place::new();
    let flood = standing(&place, "--nodes 3", 3, YES);
    place.supervisor_of(place.node(2).pid).signal(Signal::KILL);
    let (status, _) = flood.ended();
    let told = told(&place);
    assert_eq!(status, 137, "{told:?}");
    assert!(told.iter().any(|line| line.starts_with("gpc: g1.2: killed by signal 9")), "{told:?}");
    place.nothing_left();
}

/// Both outputs of several ranks are not read: the time limit still ends the run.
#[test]
fn a_flood_of_both_outputs_ends_with_the_time_limit() {
    let place = Place::new();
    let script = "yes error >&2 & exec yes output";
    let mut command = place.script("-n 3 --nodes 2 --time-limit 30s", script);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("they flood", || place.writers().len() == 6);
    // No byte has been read.
    until("they are killed", || place.writers().is_empty());
    drop((child.stdout.take(), child.stderr.take()));
    let status = child.wait().unwrap();
    assert!(!status.success(), "{status:?}");
    place.nothing_left();
}
