//! Tests of the time limit of each request, by a clock on which a day passes with each reading.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::fault::FaultKind;

/// A process whose node is silent: each request ends at its limit at once, which its fault names.
fn process(socket: OwnedFd) -> Process {
    let days = Arc::new(AtomicU64::new(0));
    let clock = Clock::reading(move || Duration::from_secs(86_400 * days.fetch_add(1, Ordering::SeqCst)));
    let time_limits = TimeLimits {
        collective: Duration::from_secs(30),
        other: Duration::from_secs(10),
        margin: Duration::from_secs(100),
    };
    let identity = Identity {
        member: Member { group: GroupId(1), rank: 0 },
        size: 2,
        parent: None,
        database: "db".into(),
        spec: 0,
        neighbours: vec![0],
    };
    let link = Link::begin(socket, time_limits.margin, clock).unwrap();
    Process { link, identity, time_limits, limits: OnceLock::new() }
}

/// Requests that wait for other processes have the limit of their caller, or the collective one; all others have the
/// other one. The client waits for the margin longer.
#[test]
fn each_request_has_its_limit() {
    type Ask = fn(&Process) -> Result<(), Fault>;
    const OWN: Option<Duration> = Some(Duration::from_secs(7));
    let requests: [(&str, u64, Ask); 39] = [
        ("limits", 110, |p| p.limits().map(drop)),
        ("size_of", 130, |p| p.size_of(GroupId(1)).map(drop)),
        ("rank_of", 110, |p| p.rank_of(GroupId(2)).map(drop)),
        ("members_of", 110, |p| p.members_of(GroupId(2)).map(drop)),
        ("database_of", 110, |p| p.database_of(GroupId(2)).map(drop)),
        ("open", 130, |p| p.open(&p.everybody(), None).map(drop)),
        ("open by an own limit", 107, |p| p.open(&p.everybody(), OWN).map(drop)),
        ("spawn", 110, |p| p.spawn(GroupId(1), Vec::new(), Vec::new(), None)),
        ("close", 130, |p| p.close(&p.everybody(), GroupId(2), None).map(drop)),
        ("close by an own limit", 107, |p| p.close(&p.everybody(), GroupId(2), OWN).map(drop)),
        ("spawn_multiple", 130, |p| p.spawn_multiple(Vec::new(), Vec::new(), OnDeath::Kill).map(drop)),
        ("merge", 130, |p| p.merge(GroupId(1), GroupId(2), None).map(drop)),
        ("merge by an own limit", 107, |p| p.merge(GroupId(1), GroupId(2), OWN).map(drop)),
        ("split", 130, |p| p.split(GroupId(1), Some(1), 2, None).map(drop)),
        ("split by an own limit", 107, |p| p.split(GroupId(1), None, 2, OWN).map(drop)),
        ("dup", 130, |p| p.dup(GroupId(1), None).map(drop)),
        ("dup by an own limit", 107, |p| p.dup(GroupId(1), OWN).map(drop)),
        ("free", 110, |p| p.free(GroupId(2))),
        ("kill", 130, |p| p.kill(GroupId(2))),
        ("status", 110, |p| p.status(GroupId(2)).map(drop)),
        ("groups", 110, |p| p.groups().map(drop)),
        ("subscribe", 110, |p| p.subscribe(GroupId(2)).map(drop)),
        ("subscribe_with", 110, |p| p.subscribe_with(GroupId(2), |_| {})),
        ("create", 110, |p| p.create(None).map(drop)),
        ("destroy", 110, |p| p.destroy("db")),
        ("databases", 110, |p| p.databases().map(drop)),
        ("get", 110, |p| p.get("db", "k").map(drop)),
        ("iterate", 130, |p| p.iterate("db").map(drop)),
        ("deposit", 110, |p| p.deposit("n", "v")),
        ("withdraw", 110, |p| p.withdraw("n")),
        ("lookup", 110, |p| p.lookup("n").map(drop)),
        ("fence", 130, |p| p.fence(&p.everybody(), None)),
        ("fence by an own limit", 107, |p| p.fence(&p.everybody(), OWN)),
        ("fence_by", 130, |p| p.fence_by(&p.everybody(), None, b"t")),
        ("fence_by an own limit", 107, |p| p.fence_by(&p.everybody(), OWN, b"t")),
        ("barrier", 130, Process::barrier),
        // The put is not answered.
        ("commit", 110, |p| p.put("db", "k", "v", None).and_then(|()| p.commit("db"))),
        ("commit of another database", 0, |p| p.commit("other")),
        ("finalize", 110, Process::finalize),
    ];
    let (_node, client) = std::os::unix::net::UnixStream::pair().unwrap();
    let process = process(client.into());
    for (name, seconds, ask) in requests {
        let late = format!("the node has not answered within {:?}", Duration::from_secs(seconds));
        let expected = if seconds == 0 { Ok(()) } else { Err(Fault::new(FaultKind::TimedOut, late)) };
        assert_eq!(ask(&process), expected, "{name}");
    }
    // The link has ended with finalize, whether the node has answered it or not.
    let fault = process.barrier().unwrap_err();
    assert_eq!((fault.kind, fault.message.as_str()), (FaultKind::Link, "this process has finalized"));
}

/// The limits of the domain do not change: a process that knows them asks no more.
#[test]
fn limits_that_are_known_are_not_asked_for() {
    let (_node, client) = std::os::unix::net::UnixStream::pair().unwrap();
    let process = process(client.into());
    let limits = Limits { value: 77, ..Limits::default() };
    process.limits.set(limits).unwrap();
    assert_eq!(process.limits(), Ok(limits));
}
