//! Many processes at the same time, and many one after the other.

use std::collections::BTreeSet;

use gpc_bnr::Exit;
use gpc_bnr::supervisor::SupervisorEvent;

use crate::support::{Harness, PATIENCE, SIGKILL, member};

/// More processes than starts may be in transit, and more than one message holds.
#[test]
fn hundreds_run_at_a_time() {
    const COUNT: u32 = 256;
    let mut harness = Harness::new();
    let mut processes: Vec<_> = (0..COUNT)
        .map(|rank| {
            harness.queue(harness.words(
                member(1, rank),
                "sh",
                &["-c", "echo $0; exec sleep 600", &rank.to_string()],
            ))
        })
        .collect();
    for rank in 0..COUNT {
        assert!(
            matches!(harness.event(), SupervisorEvent::Started(started, _) if started == member(1, rank))
        );
    }
    for process in &mut processes {
        assert_eq!(process.line(), process.member.rank.to_string());
    }
    assert_eq!(harness.children().len(), COUNT as usize);
    harness.kill(1, None);
    let ended = harness.emptied(1);
    assert_eq!(ended.len(), COUNT as usize);
    assert_eq!(ended.iter().map(|(rank, _)| *rank).collect::<BTreeSet<_>>(), (0..COUNT).collect());
    assert!(ended.iter().all(|(_, exit)| *exit == Exit::Signal(SIGKILL)));
    assert!(harness.children().is_empty());
}

/// Some of the processes leave a child that ends later; only the supervisor can collect its exit status.
#[test]
fn thousands_that_end_at_once_leave_no_zombies() {
    const COUNT: u32 = 2000;
    let mut harness = Harness::new();
    let mut processes = Vec::new();
    let (mut started, mut ended, mut ordered) = (0, BTreeSet::new(), 0);
    while ended.len() < COUNT as usize {
        while ordered < COUNT && ordered < started + 200 {
            let order = match ordered % 10 {
                0 => harness.words(member(1, ordered), "sh", &["-c", "(sleep 0.01 &); exit 0"]),
                _ => harness.words(member(1, ordered), "true", &[]),
            };
            processes.push(harness.order(order));
            ordered += 1;
        }
        match harness.event() {
            SupervisorEvent::Started(..) => started += 1,
            SupervisorEvent::Ended(member, Exit::Code(0)) => {
                assert!(ended.insert(member));
                // The descriptors would become too many.
                processes.retain(|process| process.member != member);
            }
            other => panic!("{other:?}"),
        }
    }
    harness.kill(1, Some(PATIENCE));
    assert_eq!(harness.emptied(1), []);
    assert!(harness.children().is_empty());
    let open = std::fs::read_dir(format!("/proc/{}/fd", harness.supervisor.id())).unwrap().count();
    assert!(open < 20, "the supervisor has {open} descriptors open");
}
