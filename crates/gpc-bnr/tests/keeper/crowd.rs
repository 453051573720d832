//! Many processes at the same time, and many one after the other.

use std::collections::BTreeSet;

use gpc_bnr::Exit;
use gpc_bnr::keeper::KeeperEvent;

use crate::support::{Kept, PATIENCE, SIGKILL, member};

/// More processes than starts may be in transit, and more than one message holds.
#[test]
fn hundreds_run_at_a_time() {
    const COUNT: u32 = 256;
    let mut kept = Kept::new();
    let mut processes: Vec<_> = (0..COUNT)
        .map(|rank| {
            kept.queue(kept.words(
                member(1, rank),
                "sh",
                &["-c", "echo $0; exec sleep 600", &rank.to_string()],
            ))
        })
        .collect();
    for rank in 0..COUNT {
        assert!(matches!(kept.event(), KeeperEvent::Started(started, _) if started == member(1, rank)));
    }
    for process in &mut processes {
        assert_eq!(process.line(), process.member.rank.to_string());
    }
    assert_eq!(kept.children().len(), COUNT as usize);
    kept.kill(1, None);
    let ended = kept.emptied(1);
    assert_eq!(ended.len(), COUNT as usize);
    assert_eq!(ended.iter().map(|(rank, _)| *rank).collect::<BTreeSet<_>>(), (0..COUNT).collect());
    assert!(ended.iter().all(|(_, exit)| *exit == Exit::Signal(SIGKILL)));
    assert!(kept.children().is_empty());
}

/// Some of the processes leave a child that ends later; only the supervisor can collect its exit status.
#[test]
fn thousands_that_end_at_once_leave_no_zombies() {
    const COUNT: u32 = 2000;
    let mut kept = Kept::new();
    let mut processes = Vec::new();
    let (mut started, mut ended, mut ordered) = (0, BTreeSet::new(), 0);
    while ended.len() < COUNT as usize {
        while ordered < COUNT && ordered < started + 200 {
            let order = match ordered % 10 {
                0 => kept.words(member(1, ordered), "sh", &["-c", "(sleep 0.01 &); exit 0"]),
                _ => kept.words(member(1, ordered), "true", &[]),
            };
            processes.push(kept.order(order));
            ordered += 1;
        }
        match kept.event() {
            KeeperEvent::Started(..) => started += 1,
            KeeperEvent::Ended(member, Exit::Code(0)) => {
                assert!(ended.insert(member));
                // The descriptors would become too many.
                processes.retain(|process| process.member != member);
            }
            other => panic!("{other:?}"),
        }
    }
    kept.kill(1, Some(PATIENCE));
    assert_eq!(kept.emptied(1), []);
    assert!(kept.children().is_empty());
    let open = std::fs::read_dir(format!("/proc/{}/fd", kept.keeper.id())).unwrap().count();
    assert!(open < 20, "the keeper has {open} descriptors open");
}
