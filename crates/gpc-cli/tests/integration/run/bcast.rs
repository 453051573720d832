//! `gpc run --bcast`: programs that hosts execute from memory, and of which nothing is left.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;

use rustix::process::{Pid, Signal};

use super::hosts::{agent, over_program};
use super::nodes::{daemons, unix};
use super::support::*;

/// Length of a program that is on its way for a while, bytes.
const LONG: u64 = 256 << 20;

/// Creates an executable file.
fn program(place: &Place, name: &str, text: &str) -> String {
    let path = place.path(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// The files without names in memory that a process has open.
fn in_memory(pid: Pid) -> usize {
    let open = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).into_iter().flatten().flatten();
    let targets = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("/dev/shm/#")).count()
}

#[test]
fn executables_and_scripts_run_from_memory_under_their_names() {
    let place = Place::new();
    let path = place.path("own-bash");
    fs::copy("/bin/bash", &path).unwrap();
    let script = "read -r -d '' name < /proc/$$/cmdline; echo $name $(readlink /proc/$$/exe)";
    let ran = ended(over_program(&place, "h[1-5] --fan-out 2 --bcast", &[&path, "-c", script]));
    assert_eq!((ran.status, ran.lines().len(), ran.err.as_str()), (0, 5, ""), "{ran:?}");
    let begin = format!("{path} /dev/shm/#");
    assert!(
        ran.lines().iter().all(|line| line.starts_with(&begin) && line.ends_with(" (deleted)")),
        "{ran:?}"
    );
    // One with an interpreter, and one that the shell runs.
    for (name, text) in [("with", "#!/bin/bash\necho $0 $*"), ("without", "echo $0 $*")] {
        let path = program(&place, name, text);
        let ran = ended(over_program(&place, "a:2,b --bcast", &[&path, "some", "words"]));
        assert_eq!((ran.status, ran.lines().len()), (0, 3), "{ran:?}");
        let is_copy = |line: &&str| line.starts_with("/proc/") && line.ends_with(" some words");
        assert!(ran.lines().iter().all(is_copy), "{ran:?}");
    }
    // On this machine it is executed from its place.
    let here = ended(place.gpc(["run", "--bcast", &place.path("with")]));
    assert_eq!((here.status, here.out.trim_end()), (0, place.path("with").as_str()), "{}", here.err);
    place.nothing_left();
}

/// Hosts that had other numbers of bytes free each had a line of their own.
#[test]
fn a_program_that_cannot_be_sent_is_named_with_its_hosts() {
    let place = Place::new();
    // Memory without a bound, which reports no blocks, would be filled.
    if rustix::fs::statvfs("/dev/shm").unwrap().f_blocks > 0 {
        let long = program(&place, "long", "#!/bin/sh\n");
        File::options().write(true).open(&long).unwrap().set_len(1 << 40).unwrap();
        let refused = ended(over_program(&place, "h[1-3] --bcast", &[&long]));
        let why = "gpc: --bcast: hosts h[1-3]: cannot hold 1099511627776 bytes of a program in /dev/shm: ";
        refused.failed(1, why);
        assert!(refused.err.contains("less is free there: enlarge it"), "{}", refused.err);
    }
    let text = place.path("text");
    fs::write(&text, "").unwrap();
    for (path, why) in [
        (place.path("none"), "this machine has no such program"),
        (place.path(""), "it is a folder"),
        (text, "Permission denied"),
    ] {
        let refused = ended(over_program(&place, "a --bcast", &[&path]));
        refused.failed(1, "gpc: --bcast: cannot send ");
        assert!(refused.err.contains(why), "{}", refused.err);
    }
    place.nothing_left();
}

#[test]
fn nothing_is_left_of_a_program_when_an_agent_or_the_command_is_killed() {
    let place = Place::new();
    let path = program(&place, "stays", "#!/bin/bash\ntrap '' TERM; echo up; while :; do sleep 1000; done\n");
    for of_agent in [true, false] {
        let run = Run::start(over_program(&place, "h[1-7] --fan-out 2 --bcast", &[&path]));
        run.says("up", 7);
        let first = agent(&place, 1);
        assert_eq!(in_memory(first.pid), 1);
        match of_agent {
            true => first.signal(Signal::KILL),
            false => run.signal(Signal::KILL),
        }
        assert_eq!(run.ended().status, if of_agent { 1 } else { 137 });
        place.nothing_left();
    }
}

#[test]
fn an_agent_that_is_killed_while_a_program_comes_ends_the_job() {
    let place = Place::new();
    let long = program(&place, "long", "#!/bin/sh\nsleep 1000\n");
    File::options().write(true).open(&long).unwrap().set_len(LONG).unwrap();
    let run = Run::start(over_program(&place, "h[1-2] --bcast", &[&long]));
    let second = agent(&place, 2);
    until("the program comes", || in_memory(second.pid) > 0);
    second.signal(Signal::KILL);
    let ended = run.ended();
    let says = |text| ended.err.contains(text);
    assert!(ended.status == 1 && says("--bcast") && says("h2"), "{ended:?}");
    place.nothing_left();
}

/// Nodes that run on would keep programs for ever.
#[test]
fn nodes_that_run_on_keep_no_program() {
    let place = Place::new();
    let nodes = daemons(&place, &unix("bcast"), false);
    let words = format!("--peers {} --id 0 -n 4 --bcast", place.path("peers-0"));
    let path = program(&place, "once", "#!/bin/sh\necho ran $*\n");
    let ran = ended(super::hosts::run_program(&place, &words, &[&path, "here"]));
    ran.well(["ran here"; 4]);
    let path = program(&place, "stays", "#!/bin/sh\necho up; exec sleep 1000\n");
    let run = Run::start(super::hosts::run_program(&place, &words, &[&path]));
    run.says("up", 4);
    assert_eq!([&nodes[0], &nodes[1]].map(|node| in_memory(node.pid())), [1, 1]);
    run.signal(Signal::KILL);
    run.ended();
    until("the nodes have dropped it", || nodes.iter().all(|node| in_memory(node.pid()) == 0));
    for node in nodes {
        node.signal(Signal::TERM);
        node.ended();
    }
    place.nothing_left();
}
