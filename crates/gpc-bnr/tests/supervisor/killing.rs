//! Kills: everything that a group has started ends, and nothing else does.

use std::fs;
use std::time::Duration;

use gpc_bnr::Exit;
use gpc_bnr::names::GroupId;
use gpc_bnr::supervisor::SupervisorEvent;
use rustix::io::Errno;

use crate::support::{Harness, PATIENCE, SIGKILL, SIGTERM, member};

/// Each script prints `ready` when all its processes run, and then runs for ever.
const TREES: [(&str, &str); 7] = [
    ("children of children", "sh -c 'sleep 600 & echo ready; wait' & wait"),
    ("a daemon", "setsid sh -c 'setsid sh -c \"echo ready; exec sleep 600\" & exit' & wait; sleep 600"),
    ("a daemon whose parent stays", "setsid sh -c 'echo ready; exec sleep 600' & wait"),
    ("one without an environment", "setsid env -i sh -c 'echo ready; exec sleep 600' & wait"),
    ("one that ignores SIGTERM", "trap '' TERM; echo ready; while :; do sleep 600; done"),
    ("a daemon that ignores it, too", "trap '' TERM; setsid sh -c 'sleep 600 & echo ready; wait' & wait"),
    ("one that is stopped", "echo ready; kill -STOP $$"),
];

#[test]
fn whole_trees_are_killed_at_once() {
    let mut harness = Harness::new();
    for (group, (what, script)) in (1..).zip(TREES) {
        let mut process = harness.shell(member(group, 0), script);
        assert_eq!(process.line(), "ready", "{what}");
        harness.kill(group, None);
        assert_eq!(harness.emptied(group), [(0, Exit::Signal(SIGKILL))], "{what}");
        assert_eq!(process.all(), "", "{what}");
        assert!(harness.children().is_empty(), "{what}");
    }
}

#[test]
fn whole_trees_are_killed_after_a_grace() {
    let mut harness = Harness::new();
    let mut processes = Vec::new();
    for (rank, (what, script)) in (0..).zip(TREES) {
        let mut process = harness.shell(member(1, rank), script);
        assert_eq!(process.line(), "ready", "{what}");
        processes.push(process);
    }
    harness.kill(1, Some(Duration::from_millis(50)));
    let mut ended = harness.emptied(1);
    ended.sort_unstable();
    // A stopped process dies by SIGTERM, if it was sent before the process stopped, or else by SIGKILL.
    let (rank, exit) = ended.pop().unwrap();
    assert!(rank == 6 && [SIGTERM, SIGKILL].map(Exit::Signal).contains(&exit));
    let by = [SIGTERM, SIGTERM, SIGTERM, SIGTERM, SIGKILL, SIGKILL];
    assert_eq!(ended, (0..).zip(by.map(Exit::Signal)).collect::<Vec<_>>());
    for process in processes {
        assert_eq!(process.all(), "");
    }
    assert!(harness.children().is_empty());
}

/// The grace is longer than the test may take.
#[test]
fn who_ends_when_asked_is_not_waited_for_longer() {
    let mut harness = Harness::new();
    let mut processes: Vec<_> = (0..3)
        .map(|rank| {
            harness.shell(
                member(1, rank),
                "exec 2>/dev/null; trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.01; done",
            )
        })
        .collect();
    for process in &mut processes {
        assert_eq!(process.line(), "ready");
    }
    harness.kill(1, Some(100 * PATIENCE));
    let mut ended = harness.emptied(1);
    ended.sort_unstable();
    assert_eq!(ended, [(0, Exit::Code(3)), (1, Exit::Code(3)), (2, Exit::Code(3))]);
    for process in processes {
        assert_eq!(process.all(), "bye\n");
    }
}

#[test]
fn a_second_order_does_not_wait_for_the_grace_of_the_first() {
    let mut harness = Harness::new();
    let mut process = harness.shell(member(1, 0), "trap '' TERM; echo ready; while :; do sleep 600; done");
    assert_eq!(process.line(), "ready");
    harness.kill(1, Some(100 * PATIENCE));
    harness.kill(1, None);
    assert_eq!(harness.emptied(1), [(0, Exit::Signal(SIGKILL))]);
    assert_eq!(process.all(), "");
    // One answer serves both orders; the next answer belongs to group 2.
    harness.kill(2, None);
    assert_eq!(harness.event(), SupervisorEvent::Emptied(GroupId(2)));
}

/// As at the end of a group whose processes have all ended by themselves.
#[test]
fn what_was_left_behind_is_cleared_and_that_of_others_stays() {
    let mut harness = Harness::new();
    let daemon = "setsid sh -c 'setsid sh -c \"echo ready; exec sleep 600\" & exit' & wait";
    let background = "sleep 600 & echo ready";
    let mut processes = Vec::new();
    for (group, script) in [(1, daemon), (1, background), (2, daemon), (2, background)] {
        let member = member(group, u32::try_from(processes.len()).unwrap());
        let mut process = harness.shell(member, script);
        assert_eq!(process.line(), "ready");
        assert_eq!(harness.event(), SupervisorEvent::Ended(member, Exit::Code(0)));
        processes.push(process);
    }
    assert_eq!(harness.children().len(), 4);
    harness.kill(1, None);
    assert_eq!(harness.emptied(1), []);
    let others = processes.split_off(2);
    for process in processes {
        assert_eq!(process.all(), "");
    }
    let mut others = others;
    assert!(others.iter_mut().all(|process| process.is_there()));
    assert_eq!(harness.children().len(), 2);
    harness.kill(2, Some(Duration::from_millis(20)));
    assert_eq!(harness.emptied(2), []);
    for process in others {
        assert_eq!(process.all(), "");
    }
}

/// A run on a busy machine failed. A detached process was loading a program, or had just been killed, when the
/// supervisor looked up its group. At such a moment a process has no environment, so it was assigned to no group, and
/// its group was reported as empty. Here each process loads programs all the time.
#[test]
fn who_is_beginning_a_program_is_not_taken_for_nobodys() {
    const GROUPS: u32 = 40;
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("again");
    fs::write(&program, "[ -n \"$1\" ] || echo ready\nexec sh \"$0\" again\n").unwrap();
    let detached = format!("setsid sh '{}' & exit", program.display());
    let mut harness = Harness::new();
    let mut other = harness.shell(member(GROUPS, 0), "echo ready; exec sleep 600");
    assert_eq!(other.line(), "ready");
    for group in 0..GROUPS {
        let mut process = harness.shell(member(group, 0), &detached);
        assert_eq!(process.line(), "ready");
        assert_eq!(harness.event(), SupervisorEvent::Ended(process.member, Exit::Code(0)));
        harness.kill(group, None);
        assert_eq!(harness.emptied(group), []);
        assert_eq!(harness.children().len(), 1, "group {group}");
        assert_eq!(process.all(), "");
    }
    assert!(other.is_there());
}

/// A descendant without any mark of its group ends with the last group.
#[test]
fn what_belongs_to_nobody_ends_with_the_last_group() {
    let mut harness = Harness::new();
    let hidden = "setsid env -i sh -c 'setsid sh -c \"echo ready; exec sleep 600\" & exit' & wait";
    let mut one = harness.shell(member(1, 0), hidden);
    assert_eq!(one.line(), "ready");
    assert_eq!(harness.event(), SupervisorEvent::Ended(member(1, 0), Exit::Code(0)));
    let mut two = harness.shell(member(2, 0), "echo ready; exec sleep 600");
    assert_eq!(two.line(), "ready");
    harness.kill(1, None);
    assert_eq!(harness.emptied(1), []);
    assert!(one.is_there());
    harness.kill(2, None);
    assert_eq!(harness.emptied(2), [(0, Exit::Signal(SIGKILL))]);
    assert_eq!(one.all(), "");
    assert_eq!(two.all(), "");
}

#[test]
fn a_signal_reaches_all_processes_of_a_group_and_of_no_other() {
    let mut harness = Harness::new();
    let script = "exec 2>/dev/null; trap 'echo got it' USR1; trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done";
    let mut processes: Vec<_> =
        [(1, 0), (1, 1), (2, 0)].map(|(group, rank)| harness.shell(member(group, rank), script)).into();
    for process in &mut processes {
        assert_eq!(process.line(), "ready");
    }
    // The group does not exist; the signal number does not exist.
    harness.signal(3, 10);
    harness.signal(2, 200);
    harness.signal(1, 10);
    assert_eq!(processes[0].line(), "got it");
    assert_eq!(processes[1].line(), "got it");
    harness.signal(2, SIGTERM);
    assert_eq!(harness.event(), SupervisorEvent::Ended(member(2, 0), Exit::Code(0)));
    assert_eq!(processes.pop().unwrap().all(), "");
}

#[test]
fn nothing_is_started_into_a_group_that_is_killed() {
    let mut harness = Harness::new();
    let mut process = harness.shell(member(1, 0), "trap '' TERM; echo ready; while :; do sleep 600; done");
    assert_eq!(process.line(), "ready");
    harness.kill(1, Some(100 * PATIENCE));
    let mut refused = harness.order(harness.words(member(1, 1), "true", &[]));
    let SupervisorEvent::NotStarted(of, error) = harness.event() else { panic!("it was started") };
    assert_eq!((of, error.errno), (member(1, 1), Errno::CANCELED.raw_os_error()));
    assert!(!refused.is_there(), "the supervisor has kept its descriptors");
    // The next process has its own descriptors, not those of the one that was refused.
    let mut other = harness.shell(member(2, 0), "echo mine; exec sleep 600");
    assert_eq!(other.line(), "mine");
    harness.kill(2, None);
    assert_eq!(harness.emptied(2), [(0, Exit::Signal(SIGKILL))]);
    harness.kill(1, None);
    assert_eq!(harness.emptied(1), [(0, Exit::Signal(SIGKILL))]);
}

/// A process that forks without end, within its process group.
#[test]
fn who_starts_more_and_more_is_killed() {
    let mut harness = Harness::new();
    let mut process = harness
        .shell(member(1, 0), "echo ready; f() { sleep 0.02; f & f & wait; }; ulimit -u 3000; f & f & wait");
    assert_eq!(process.line(), "ready");
    harness.kill(1, Some(Duration::from_millis(60)));
    harness.emptied(1);
    drop(process.link);
    assert!(harness.children().is_empty());
}
