//! Starts of processes.

use super::*;
use crate::fault::FaultKind;
use crate::names::Set;
use crate::start_error::StartError;
use crate::streams::Stream;
use crate::supervisor::{BindOrder, BindTo};

fn start_error(errno: i32) -> StartError {
    StartError::new(errno, StartError::NOT_EXECUTED, "no")
}

/// The value of a variable in a start order.
fn variable(process: &Process, wanted: &str) -> Option<String> {
    let SupervisorOrder::Start { env, .. } = &process.order else { return None };
    let value = crate::supervisor::env_value(env, wanted.as_bytes())?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// A process that was started next after one that was refused got the standard input and the socket of that one.
#[test]
fn each_process_has_its_own_input_output_and_link() {
    let mut rig = Rig::new();
    let (group, mut processes) = rig.start(3, true);
    assert_eq!(group, GroupId(1));
    let fed = rig.feed(b"to rank 0");
    assert!(fed.try_recv().unwrap().is_ok());
    assert_eq!(processes[0].reads().as_deref(), Some(b"to rank 0".as_slice()));
    for rank in [1, 2] {
        assert_eq!(processes[rank].reads(), Some(Vec::new()), "the others have an empty input");
    }
    for (rank, process) in (0..).zip(&mut processes) {
        assert_eq!(process.member, Member { group, rank });
        writeln!(process.out, "out {rank}").unwrap();
        writeln!(process.err, "err {rank}").unwrap();
        rig.turns();
        let member = process.member;
        let expected =
            [(member, Stream::Out, format!("out {rank}\n")), (member, Stream::Err, format!("err {rank}\n"))];
        assert_eq!(rig.written(), expected);
        let serial = process.asks(&Request::Init);
        rig.turns();
        let answers = process.answers();
        let [Down::Answer(answered, Ok(Answer::Identity(identity)))] = &answers[..] else {
            panic!("{answers:?}")
        };
        assert_eq!((*answered, identity.member, identity.size), (serial, member, 3));
        assert_eq!(identity.neighbours, [0, 1, 2]);
    }
    rig.ends_all(processes);
    rig.assert_empty();
}

#[test]
fn a_process_is_told_its_place() {
    let mut rig = Rig::new();
    let (_, processes) = rig.start(2, false);
    for (rank, process) in processes.iter().enumerate() {
        for (name, value) in [
            ("PMI_RANK", rank.to_string()),
            ("PMI_SIZE", "2".into()),
            ("MPI_LOCALRANKID", rank.to_string()),
            ("PMI_LOCAL_RANK", rank.to_string()),
            ("MPI_LOCALNRANKS", "2".into()),
            ("GPC_BNR_NODE", ME.to_string()),
            ("GPC_BNR_GROUP", "d0/g1".into()),
        ] {
            assert_eq!(variable(process, name), Some(value), "{name}");
        }
        assert_eq!((variable(process, "PMI_SPAWNED"), variable(process, "PMI_ID")), (None, None));
    }
}

#[test]
fn hints_become_the_folder_the_path_and_the_core() {
    let mut rig = Rig::new();
    let env = [("A", "1"), ("PATH", "/own")].map(|(name, value)| (name.into(), value.into()));
    let info = [
        ("wdir", "/"),
        ("path", "/bin"),
        ("bind", "core"),
        ("bind-order", "socket"),
        ("report-bindings", "1"),
    ];
    let info = info.map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec())).to_vec();
    let spec = Spec { count: 2, program: b"sh".to_vec(), args: vec![b"x".to_vec()], env: env.to_vec(), info };
    let _answer = rig.spawns(spec, false);
    let processes = rig.ordered();
    assert_eq!(processes.len(), 2);
    for process in &processes {
        assert_eq!(variable(process, "PATH").as_deref(), Some("/bin:/own"));
        assert_eq!(variable(process, "A").as_deref(), Some("1"));
        let SupervisorOrder::Start { program, args, wdir, bind, .. } = &process.order else { panic!() };
        assert_eq!((program.as_slice(), wdir.as_deref()), (b"sh".as_slice(), Some(b"/".as_slice())));
        assert_eq!(
            (args.as_slice(), bind.as_ref().map(|bind| (&bind.to, bind.order, bind.index, bind.report))),
            (
                [b"x".to_vec()].as_slice(),
                Some((&BindTo::Core, BindOrder::Socket, process.member.rank as usize, true))
            )
        );
    }
}

/// The file is held until nothing of the group is left, and its data are not in the environment or in a log.
#[test]
fn a_private_file_is_there_as_long_as_its_group() {
    let mut rig = Rig::new();
    let hint = |data: &str| ("private-file".to_owned(), data.as_bytes().to_vec());
    let spec = Spec { info: vec![hint("TOKEN=secret"), hint("OTHER=x")], ..spec(2) };
    assert!(!format!("{spec:?}").contains(&format!("{:?}", b"secret")[1..]), "{spec:?}");
    let _answer = rig.spawns(spec, false);
    let processes = rig.ordered();
    for process in &processes {
        let path = variable(process, "TOKEN").unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "secret");
        assert!(!format!("{:?}", process.order).contains(&format!("{:?}", b"secret")[1..]));
        rig.tell(SupervisorEvent::Started(process.member, 1_000_000 + process.member.rank));
    }
    assert_eq!(rig.engine.local.private.len(), 1);
    rig.ends_all(processes);
    rig.assert_empty();
}

#[test]
fn a_process_executes_the_program_that_was_sent_here() {
    let mut rig = Rig::new();
    rig.engine
        .local
        .programs
        .insert(7, std::sync::Arc::new(std::fs::File::open("/bin/sh").unwrap()))
        .unwrap();
    let spec = Spec { info: vec![("image".into(), b"7".to_vec())], ..spec(1) };
    let _answer = rig.spawns(spec, false);
    let processes = rig.ordered();
    let SupervisorOrder::Start { image, .. } = &processes[0].order else { panic!() };
    let begin = format!("/proc/{}/fd/", std::process::id()).into_bytes();
    assert!(image.as_ref().is_some_and(|path| path.starts_with(&begin)), "{image:?}");
    rig.tell(SupervisorEvent::Started(processes[0].member, 1_000_000));
    rig.ends_all(processes);
}

#[test]
fn a_group_is_started_when_its_last_process_is() {
    let mut rig = Rig::new();
    let answer = rig.spawns(spec(2), false);
    let processes = rig.ordered();
    rig.tell(SupervisorEvent::Started(processes[1].member, 11));
    assert!(answer.try_recv().is_err(), "rank 0 does not run yet");
    // An event of a process that is not awaited counts for no other.
    rig.tell(SupervisorEvent::Started(processes[1].member, 11));
    assert!(answer.try_recv().is_err());
    rig.tell(SupervisorEvent::Started(processes[0].member, 10));
    assert!(matches!(answer.try_recv(), Ok(Ok(Answer::Spawned { .. }))));
    let Ok(Answer::Groups(groups)) = rig.ask(Request::Status(GroupId(1))).recv().unwrap() else { panic!() };
    let pids: Vec<_> = groups[0].members.iter().map(|member| (member.rank, member.pid)).collect();
    assert_eq!(pids, [(0, Some(10)), (1, Some(11))]);
}

/// Layouts of groups that were not started, and the secrets of their processes, stayed at the node.
#[test]
fn a_failed_start_leaves_nothing_and_names_its_reason() {
    let mut rig = Rig::with(None, true);
    let answer = rig.spawns(spec(2), true);
    let processes = rig.ordered();
    let (first, second) = (processes[0].member, processes[1].member);
    assert_eq!(rig.engine.snapshot().count("secrets"), 2);
    drop(processes);
    rig.tell(SupervisorEvent::Started(first, 10));
    rig.tell(SupervisorEvent::NotStarted(second, start_error(12)));
    let kills = rig.supervisor.orders();
    assert!(matches!(kills[..], [(SupervisorOrder::Kill { group: GroupId(1), .. }, _)]), "{kills:?}");
    rig.ends(first, Exit::Signal(15));
    rig.tell(SupervisorEvent::Emptied(GroupId(1)));
    let Ok(Ok(Answer::Spawned { errors, .. })) = answer.try_recv() else { panic!("no answer") };
    assert_eq!(errors, [0, 12]);
    let events: Vec<HostEvent> = rig.events.try_iter().collect();
    let [HostEvent::NotStarted(failure)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((failure.node, failure.ranks.as_slice(), failure.error.errno), (ME, [1].as_slice(), 12));
    assert!(!failure.error.host.is_empty());
    rig.assert_empty();
    // Nobody reads the input that was meant for the group.
    assert!(rig.feed(b"late").try_recv().unwrap().is_err());
}

#[test]
fn what_cannot_be_started_is_found_before_anything_is() {
    let mut rig = Rig::new();
    let answer = rig.spawns(Spec { program: b"/nowhere/program".to_vec(), ..spec(3) }, false);
    let Ok(Ok(Answer::Spawned { errors, .. })) = answer.try_recv() else { panic!("no answer") };
    assert_eq!(errors, [2, 2, 2]);
    assert!(rig.supervisor.orders().is_empty());
    rig.assert_empty();
}

/// The supervisor of a node was lost: its processes counted as running for ever, and starts were not answered.
#[test]
fn with_the_supervisor_all_processes_are_lost_and_starts_fail() {
    let mut rig = Rig::new();
    let (group, processes) = rig.start(2, true);
    drop(processes);
    let _subscribed = rig.ask(Request::Subscribe(group));
    let answer = rig.spawns(spec(1), false);
    drop(rig.ordered());
    let (_, other) = StandIn::supervisor(Clock::system());
    drop(std::mem::replace(&mut rig.supervisor, other));
    rig.until(|rig| rig.engine.supervisor.process.is_none());
    let Ok(Ok(Answer::Spawned { errors, .. })) = answer.try_recv() else { panic!("no answer") };
    assert_eq!(errors, [10], "ECHILD");
    let events: Vec<HostEvent> = rig.events.try_iter().collect();
    let dead = events
        .iter()
        .filter(|event| matches!(event, HostEvent::Death(death) if death.exit == Exit::Signal(9)));
    assert_eq!(dead.count(), 2, "{events:?}");
    assert!(events.iter().any(|event| matches!(event, HostEvent::Warning(text) if text.contains("is gone"))));
    rig.assert_empty();
    // Another supervisor is started for the next group. This one cannot be.
    let answer = rig.spawns(spec(1), false);
    let Ok(Ok(Answer::Spawned { errors, .. })) = answer.try_recv() else { panic!("no answer") };
    assert_eq!(errors, [2]);
    rig.assert_empty();
}

/// A sandbox denied what a supervisor needs: the one that is started with the node ended, and so did the one for the
/// first group. The reason stood there twice, where the start was ordered after the first end.
#[test]
fn a_second_supervisor_that_is_lost_for_the_same_reason_is_no_news_unless_it_had_processes() {
    let mut rig = Rig::new();
    let warnings =
        |rig: &Rig| rig.events.try_iter().filter(|event| matches!(event, HostEvent::Warning(_))).count();
    for (why, alive, told) in
        [("no", 0, 1), ("no", 0, 0), ("it died", 0, 1), ("it died", 1, 1), ("it died", 0, 0)]
    {
        rig.engine.local.alive.extend((0..alive).map(|rank| Member { group: GroupId(9), rank }));
        rig.engine.lose_supervisor(&std::io::Error::other(why));
        assert_eq!(warnings(&rig), told, "{why}, with {alive} processes");
    }
}

#[test]
fn members_of_a_group_meet_and_read_what_was_put() {
    let mut rig = Rig::new();
    let (group, mut processes) = rig.start(2, false);
    for process in &mut processes {
        process.asks(&Request::Init);
        process.asks(&Request::Put {
            database: "kvs_d0_1".into(),
            pair: crate::request::Pair { key: vec![b'a' + process.member.rank as u8], value: b"v".to_vec() },
            advice: None,
        });
    }
    let fence = Request::Fence { over: Set::Group(group), limit: None, tag: Vec::new() };
    processes[0].asks(&fence);
    rig.turns();
    assert_eq!(processes[0].answers().len(), 2, "the fence waits");
    processes[1].asks(&fence);
    rig.turns();
    assert!(matches!(processes[0].answers()[..], [Down::Answer(3, Ok(Answer::Done))]));
    processes[0].asks(&Request::Get { database: "kvs_d0_1".into(), key: b"b".to_vec() });
    processes[0].asks(&Request::Get { database: "kvs_d0_1".into(), key: b"c".to_vec() });
    rig.turns();
    let answers = processes[0].answers();
    let [Down::Answer(4, Ok(Answer::Value(value))), Down::Answer(5, Err(fault))] = &answers[..] else {
        panic!("{answers:?}")
    };
    assert_eq!((value.as_slice(), fault.kind), (b"v".as_slice(), FaultKind::NotFound));
    for process in &mut processes {
        process.asks(&Request::Finalize);
    }
    rig.turns();
    rig.ends_all(processes);
    rig.assert_empty();
}
