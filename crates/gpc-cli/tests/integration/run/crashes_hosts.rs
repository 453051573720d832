//! `kill -9` of running nodes, and of the command that uses them, each during a start, a fence, a spawn and output. The
//! remaining nodes continue, and nothing is left there.

use rustix::process::{Signal, kill_process};

use super::crashes::{standing_fence, standing_spawn, standing_start};
use super::crashes_output::{YES, standing, told};
use super::nodes::{daemons, unix};
use super::support::*;

/// Two running nodes, of which a test kills at most one.
struct Hosts {
    nodes: Vec<Run>,
    words: String,
}

impl Hosts {
    fn new(place: &Place, test: &str) -> Hosts {
        let nodes = daemons(place, &unix(test), false);
        Hosts { nodes, words: format!("--peers {} --id 0", place.path("peers-0")) }
    }

    fn kill_second(&mut self) {
        let node = self.nodes.pop().unwrap();
        node.signal(Signal::KILL);
        node.ended();
    }

    /// Checks that the remaining nodes run another job, and end in order, and that nothing is left.
    #[track_caller]
    fn go_on(self, place: &Place) {
        let of_job = ["sleep 1000", "yes ", "sleep 0.05", " keep "];
        until("nothing of the first job is left", || of_job.iter().all(|text| place.with(text).is_empty()));
        let ended = ended(place.script(&format!("{} -n 4", self.words), "echo again"));
        assert_eq!((ended.status, ended.out.as_str()), (0, "again\n".repeat(4).as_str()), "{}", ended.err);
        let missing = ended.err.contains("node 2 has no part in the domain");
        assert_eq!(missing, self.nodes.len() == 1, "{}", ended.err);
        for node in self.nodes {
            node.signal(Signal::TERM);
            node.ended();
        }
        place.nothing_left();
    }
}

/// Checks that the first line names the lost node.
#[track_caller]
fn names_the_second(status: i32, told: &[String]) {
    assert_ne!(status, 0, "{told:?}");
    assert!(told[0].contains("node 2"), "{told:?}");
}

fn lines(err: &str) -> Vec<String> {
    err.lines().map(str::to_owned).collect()
}

#[test]
fn a_node_is_killed_in_the_middle_of_a_start() {
    let place = Place::new();
    let mut hosts = Hosts::new(&place, "start-node");
    let first = hosts.nodes[0].pid();
    let (run, supervisor) = standing_start(&place, &hosts.words, 2, |_| first);
    hosts.kill_second();
    run.complains("node 2");
    supervisor.signal(Signal::CONT);
    let ended = run.ended();
    names_the_second(ended.status, &lines(&ended.err));
    hosts.go_on(&place);
}

#[test]
fn the_command_is_killed_in_the_middle_of_a_start() {
    let place = Place::new();
    let hosts = Hosts::new(&place, "start-head");
    let first = hosts.nodes[0].pid();
    let (run, supervisor) = standing_start(&place, &hosts.words, 2, |_| first);
    run.killed(&supervisor);
    hosts.go_on(&place);
}

#[test]
fn a_node_is_killed_in_the_middle_of_a_fence() {
    let place = Place::new();
    let mut hosts = Hosts::new(&place, "fence-node");
    let run = standing_fence(&place, &hosts.words, 4);
    hosts.kill_second();
    let ended = run.ended();
    names_the_second(ended.status, &lines(&ended.err));
    assert!(
        ended.err.contains("g1.2-3: lost with node 2") && !ended.out.contains("barrier_out"),
        "{}",
        ended.err
    );
    hosts.go_on(&place);
}

#[test]
fn the_command_is_killed_in_the_middle_of_a_fence() {
    let place = Place::new();
    let hosts = Hosts::new(&place, "fence-head");
    let run = standing_fence(&place, &hosts.words, 4);
    run.signal(Signal::KILL);
    assert_eq!(run.ended().status, 137);
    hosts.go_on(&place);
}

#[test]
fn a_node_is_killed_in_the_middle_of_a_spawn() {
    let place = Place::new();
    let mut hosts = Hosts::new(&place, "spawn-node");
    let second = hosts.nodes[1].pid();
    let (run, supervisor) = standing_spawn(&place, &hosts.words, || second);
    hosts.kill_second();
    supervisor.signal(Signal::CONT);
    let ended = run.ended();
    names_the_second(ended.status, &lines(&ended.err));
    hosts.go_on(&place);
}

#[test]
fn the_command_is_killed_in_the_middle_of_a_spawn() {
    let place = Place::new();
    let hosts = Hosts::new(&place, "spawn-head");
    let second = hosts.nodes[1].pid();
    let (run, supervisor) = standing_spawn(&place, &hosts.words, || second);
    run.killed(&supervisor);
    hosts.go_on(&place);
}

#[test]
fn a_node_is_killed_in_the_middle_of_output() {
    let place = Place::new();
    let mut hosts = Hosts::new(&place, "output-node");
    let flood = standing(&place, &hosts.words, 4, YES);
    hosts.kill_second();
    let (status, _) = flood.ended();
    names_the_second(status, &told(&place));
    hosts.go_on(&place);
}

#[test]
fn the_command_is_killed_in_the_middle_of_output() {
    let place = Place::new();
    let hosts = Hosts::new(&place, "output-head");
    let flood = standing(&place, &hosts.words, 4, YES);
    kill_process(flood.pid(), Signal::KILL).unwrap();
    assert_eq!(flood.ended().0, 137);
    hosts.go_on(&place);
}
