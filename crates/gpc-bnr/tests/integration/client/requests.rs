//! The request of each method, and its result for each answer.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use gpc_bnr::client::{Process, Spawned, Tool};
use gpc_bnr::names::{GroupId, Member, Set};
use gpc_bnr::request::{Answer, GroupState, GroupStatus, Pair, Request};
use gpc_bnr::{Fault, FaultKind, Limits, OnDeath, Roster, Span, Spec};

use crate::client::fake::{Fake, GROUP, PATIENCE, begun, identity, meanwhile};

const SECOND: Duration = Duration::from_secs(1);

fn pair(key: &str, value: &str) -> Pair {
    Pair { key: key.into(), value: value.into() }
}

fn spec() -> Spec {
    Spec { count: 2, program: b"prog".to_vec(), args: vec![b"a".to_vec()], ..Spec::default() }
}

fn status(group: GroupId) -> GroupStatus {
    GroupStatus {
        group,
        parent: None,
        state: GroupState::Running,
        database: "kvs".into(),
        program: b"prog".to_vec(),
        age: SECOND,
        members: Vec::new(),
    }
}

/// Checks that a method sends this request and returns this value for its answer, a fault for a fault, and an error for
/// another answer.
fn asks<T: PartialEq + Debug + Send + 'static>(
    method: fn(&Process) -> Result<T, Fault>,
    request: &Request,
    answer: &Answer,
    value: T,
) {
    let (process, mut fake) = begun();
    let done = meanwhile(&process, method);
    fake.expect(request, Ok(answer.clone()));
    assert_eq!(done.join().unwrap(), Ok(value), "{request:?}");
    let refused = Fault::new(FaultKind::NotFound, "no");
    let done = meanwhile(&process, method);
    fake.expect(request, Err(refused.clone()));
    assert_eq!(done.join().unwrap(), Err(refused), "{request:?}");
    let done = meanwhile(&process, method);
    fake.expect(request, Ok(Answer::Identity(identity(0))));
    let fault = done.join().unwrap().unwrap_err();
    assert!(fault.kind == FaultKind::Link && fault.message.contains(": Identity;"), "{fault:?}");
}

#[test]
fn who_it_is() {
    let (process, _fake) = begun();
    assert_eq!(process.member(), Member { group: GROUP, rank: 2 });
    assert_eq!((process.group(), process.rank(), process.size()), (GROUP, 2, 4));
    assert_eq!((process.parent(), process.spec()), (Some(GroupId(1)), 1));
    assert_eq!((process.database(), process.neighbours()), ("kvs_d_4", &[0, 2][..]));
    assert_eq!(process.everybody(), Set::Group(GROUP));
    let member = |rank| Member { group: GROUP, rank };
    assert_eq!(process.some([3, 1, 3]), Set::Members(BTreeSet::from([member(1), member(3)])));
}

/// The method returned the limits of this crate instead of the domain's.
#[test]
fn the_limits_are_the_domains_and_asked_for_once() {
    let mut limits = Limits::default();
    limits.value = 77;
    let (process, mut fake) = begun();
    let asked = meanwhile(&process, Process::limits);
    let refused = Fault::new(FaultKind::TimedOut, "later");
    fake.expect(&Request::Limits, Err(refused.clone()));
    assert_eq!(asked.join().unwrap(), Err(refused));
    let asked = meanwhile(&process, Process::limits);
    fake.expect(&Request::Limits, Ok(Answer::Limits(limits)));
    assert_eq!(asked.join().unwrap(), Ok(limits));
    assert_eq!(process.limits(), Ok(limits));
    assert!(fake.has_heard_nothing());
}

#[test]
fn groups() {
    let everybody = Set::Group(GROUP);
    let open = |limit| Request::Open { over: Set::Group(GROUP), limit: Some(limit) };
    let group = Answer::Group(GroupId(9));
    asks(|p| p.size_of(GroupId(3)), &Request::Size(GroupId(3)), &Answer::Number(7), 7);
    asks(|p| p.open(&p.everybody(), Some(SECOND)), &open(SECOND), &group, GroupId(9));
    asks(|p| p.open(&p.everybody(), None), &open(PATIENCE), &group, GroupId(9));
    let request = Request::Spawn {
        group: GroupId(9),
        specs: vec![spec()],
        preputs: vec![pair("k", "v")],
        on_death: Some(OnDeath::Notify),
    };
    let spawn = |p: &Process| p.spawn(GroupId(9), vec![spec()], vec![pair("k", "v")], Some(OnDeath::Notify));
    asks(spawn, &request, &Answer::Done, ());
    let answer = Answer::Spawned { group: GroupId(9), errors: vec![0, 2], same_domain: true };
    let spawned = || Spawned { group: GroupId(9), errors: vec![0, 2], same_domain: true };
    let request = Request::Close { over: everybody, group: GroupId(9), limit: Some(PATIENCE) };
    asks(|p| p.close(&p.everybody(), GroupId(9), None), &request, &answer, spawned());
    let request = Request::SpawnMultiple {
        specs: vec![spec()],
        preputs: Vec::new(),
        on_death: OnDeath::Kill,
        input: gpc_bnr::Readers::None,
    };
    asks(|p| p.spawn_multiple(vec![spec()], Vec::new(), OnDeath::Kill), &request, &answer, spawned());
    assert!(!spawned().is_whole() && spawned().failed().eq([(1, 2)]));
    let request = Request::Merge { first: GROUP, second: GroupId(9), limit: Some(SECOND) };
    asks(|p| p.merge(p.group(), GroupId(9), Some(SECOND)), &request, &group, GroupId(9));
    let split = |color, key, limit| Request::Split { group: GROUP, color, key, limit: Some(limit) };
    let splits = |p: &Process| p.split(GROUP, Some(3), -4, Some(SECOND));
    asks(splits, &split(Some(3), -4, SECOND), &group, Some(GroupId(9)));
    asks(|p| p.split(GROUP, None, 5, None), &split(None, 5, PATIENCE), &Answer::Done, None);
    asks(|p| p.dup(GROUP, None), &split(Some(0), 0, PATIENCE), &group, GroupId(9));
    asks(|p| p.free(GroupId(9)), &Request::Free(GroupId(9)), &Answer::Done, ());
    asks(|p| p.kill(GroupId(9)), &Request::Kill(GroupId(9)), &Answer::Done, ());
    let answer = Answer::Groups(vec![status(GroupId(9))]);
    asks(|p| p.status(GroupId(9)), &Request::Status(GroupId(9)), &answer, status(GroupId(9)));
    asks(Process::groups, &Request::Groups, &answer, vec![status(GroupId(9))]);
}

#[test]
fn members_of_groups() {
    let span = |group, first, count| Span { group, first, count };
    let spans = vec![span(GroupId(1), 3, 2), span(GROUP, 0, 4)];
    let roster = Roster { group: GroupId(9), database: "kvs_d_9".into(), spans };
    let (request, answer) = (Request::Members(GroupId(9)), Answer::Rosters(vec![roster.clone()]));
    asks(|p| p.rank_of(GroupId(9)), &request, &answer, 4);
    asks(|p| p.database_of(GroupId(9)), &request, &answer, "kvs_d_9".into());
    asks(|p| p.members_of(GroupId(9)), &request, &answer, roster.members().collect());
    // A process that does not belong to the group has no rank there.
    let (process, mut fake) = begun();
    let asking = meanwhile(&process, |process| process.rank_of(GroupId(8)));
    fake.expect(
        &Request::Members(GroupId(8)),
        Ok(Answer::Rosters(vec![Roster::new(GroupId(8), String::new(), [])])),
    );
    let fault = asking.join().unwrap().unwrap_err();
    assert_eq!(fault.kind, FaultKind::NotMember);
    assert!(fault.message.contains("g4.2") && fault.message.contains("g8"), "{fault}");
    // Its own group it knows.
    assert_eq!((process.rank_of(GROUP), process.database_of(GROUP)), (Ok(2), Ok("kvs_d_4".into())));
    assert!(fake.has_heard_nothing());
}

#[test]
fn databases_and_names() {
    let name = || "db".to_owned();
    asks(|p| p.create(Some("db")), &Request::Create(Some(name())), &Answer::Name(name()), name());
    asks(|p| p.create(None), &Request::Create(None), &Answer::Name(name()), name());
    asks(|p| p.destroy("db"), &Request::Destroy(name()), &Answer::Done, ());
    let names = vec![name(), "other".into()];
    asks(Process::databases, &Request::Databases, &Answer::Names(names.clone()), names);
    let request = Request::Get { database: name(), key: b"k".to_vec() };
    asks(|p| p.get("db", "k"), &request, &Answer::Value(b"v".to_vec()), b"v".to_vec());
    let pairs = vec![pair("a", "1"), pair("b", "2")];
    let answer = Answer::Pairs(pairs.clone());
    asks(|p| p.iterate("db"), &Request::Iterate(name()), &answer, pairs.into());
    let request = Request::Deposit(pair("port", "7"));
    asks(|p| p.deposit("port", "7"), &request, &Answer::Done, ());
    asks(|p| p.withdraw("port"), &Request::Withdraw(b"port".to_vec()), &Answer::Done, ());
    let request = Request::Lookup { name: b"port".to_vec(), wait: None };
    asks(|p| p.lookup("port"), &request, &Answer::Value(b"7".to_vec()), b"7".to_vec());
}

#[test]
fn fences() {
    let fence = |over, limit, tag: &[u8]| Request::Fence { over, limit: Some(limit), tag: tag.to_vec() };
    asks(Process::barrier, &fence(Set::Group(GROUP), PATIENCE, b""), &Answer::Done, ());
    let member = |rank| Member { group: GROUP, rank };
    let some = Set::Members(BTreeSet::from([member(1), member(2)]));
    let request = fence(some, SECOND, b"tag");
    asks(|p| p.fence_by(&p.some([2, 1]), Some(SECOND), b"tag"), &request, &Answer::Done, ());
}

#[test]
fn who_has_finalized_asks_nothing_more() {
    let (process, mut fake) = begun();
    let done = meanwhile(&process, Process::finalize);
    fake.expect(&Request::Finalize, Ok(Answer::Done));
    assert_eq!(done.join().unwrap(), Ok(()));
    assert_eq!(fake.hear_or_end(), None);
    let fault = process.barrier().unwrap_err();
    assert_eq!(fault.kind, FaultKind::Link);
    assert_eq!(process.put("db", "k", "v", None).unwrap_err().kind, FaultKind::Link);
}

#[test]
fn an_abort_is_said_and_not_answered() {
    let (process, mut fake) = begun();
    process.abort(3, "enough").unwrap();
    let (_, heard) = fake.hear();
    assert_eq!(heard, Request::Abort { code: 3, message: "enough".into() });
    // The process runs on until it is killed.
    let done = meanwhile(&process, |p| p.lookup("x"));
    fake.expect(&Request::Lookup { name: b"x".to_vec(), wait: None }, Ok(Answer::Value(Vec::new())));
    assert_eq!(done.join().unwrap(), Ok(Vec::new()));
}

/// Each thread gets its own answers, in any order.
#[test]
fn threads_ask_at_the_same_time() {
    const THREADS: u32 = 8;
    const EACH: u32 = 200;
    let (process, mut fake) = begun();
    let asking: Vec<_> = (0..THREADS)
        .map(|thread| {
            meanwhile(&process, move |p| {
                for number in 0..EACH {
                    let key = format!("{thread}-{number}");
                    p.put("db", key.as_str(), "x", None).unwrap();
                    assert_eq!(p.get("db", key.as_str()), Ok(key.into_bytes()));
                }
                p.commit("db")
            })
        })
        .collect();
    let (mut waiting, mut seen, mut gets) = (Vec::new(), BTreeSet::new(), 0);
    let mut answered = BTreeMap::<Vec<u8>, u32>::new();
    for _ in 0..THREADS * EACH * 2 {
        match fake.hear() {
            // A thread's put arrives before its get of the same key.
            (serial, Request::Put { pair, .. }) => {
                seen.insert(pair.key);
                waiting.push((serial, Ok(Answer::Done)));
            }
            (serial, Request::Get { key, .. }) => {
                assert!(seen.contains(&key));
                gets += 1;
                *answered.entry(key[..1].to_vec()).or_default() += 1;
                waiting.push((serial, Ok(Answer::Value(key))));
            }
            other => panic!("{other:?}"),
        }
        // Waits until more than half of the unfinished threads have sent a get, then answers in reverse order.
        let busy = THREADS as usize - answered.values().filter(|count| **count == EACH).count();
        if gets > busy / 2 || waiting.len() > 500 {
            waiting.drain(..).rev().for_each(|(serial, answer)| fake.answer(serial, answer));
            gets = 0;
        }
    }
    waiting.drain(..).for_each(|(serial, answer)| fake.answer(serial, answer));
    for thread in asking {
        assert_eq!(thread.join().unwrap(), Ok(()));
    }
}

#[test]
fn a_command_asks_at_a_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("head");
    let error = Tool::connect(&path, PATIENCE).unwrap_err();
    assert!(error.to_string().contains("gpc run"), "{error}");
    assert_eq!(error.kind(), FaultKind::Link);
    let listener = UnixListener::bind(&path).unwrap();
    let tool = Arc::new(Tool::connect(&path, PATIENCE).unwrap());
    let mut fake = Fake::new(listener.accept().unwrap().0);
    let asking = Arc::clone(&tool);
    let asking = thread::spawn(move || {
        let groups = asking.groups().unwrap();
        assert_eq!(groups, [status(GroupId(1))]);
        assert_eq!(asking.status(GroupId(1)), Ok(status(GroupId(1))));
        assert_eq!(asking.databases(), Ok(vec!["db".into()]));
        assert_eq!(asking.iterate("db").unwrap().pairs(), [pair("a", "1")]);
        assert_eq!(asking.kill(GroupId(1)), Ok(()));
    });
    let groups = || Ok(Answer::Groups(vec![status(GroupId(1))]));
    fake.expect(&Request::Groups, groups());
    fake.expect(&Request::Status(GroupId(1)), groups());
    fake.expect(&Request::Databases, Ok(Answer::Names(vec!["db".into()])));
    fake.expect(&Request::Iterate("db".into()), Ok(Answer::Pairs(vec![pair("a", "1")])));
    fake.expect(&Request::Kill(GroupId(1)), Ok(Answer::Done));
    asking.join().unwrap();
    drop(tool);
    assert_eq!(fake.hear_or_end(), None);
}
