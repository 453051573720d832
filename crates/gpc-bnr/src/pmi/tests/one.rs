//! Tests of PMI-1, line by line.

use super::*;
use crate::pmi::step::{JOB_LIMIT, OneReply};

#[test]
fn the_lines_of_pmi_1() {
    let mut node = Node::one();
    for (line, answer) in [
        ("cmd=get_maxes", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n"),
        ("cmd=get_appnum", "cmd=appnum appnum=0\n"),
        ("cmd=get_my_kvsname", "cmd=my_kvsname kvsname=kvs_0011223344556677_3\n"),
        ("cmd=get_universe_size", "cmd=universe_size size=-1\n"),
        ("cmd=put kvsname=K key=k value=v", "cmd=put_result rc=0 msg=success\n"),
        ("cmd=get kvsname=K key=k", "cmd=get_result rc=0 msg=success value=v\n"),
        ("cmd=get kvsname=K key=none", "cmd=get_result rc=-1 msg=key_none_not_found value=unknown\n"),
        ("cmd=put kvsname=K key=k value=a = key=b -", "cmd=put_result rc=0 msg=success\n"),
        ("cmd=get kvsname=K key=k", "cmd=get_result rc=0 msg=success value=a = key=b -\n"),
        ("cmd=put kvsname=K key=k value=", "cmd=put_result rc=0 msg=success\n"),
        ("cmd=get kvsname=K key=k", "cmd=get_result rc=0 msg=success value=\n"),
        ("cmd=get key=k", "cmd=get_result rc=-1 msg=key_k_not_found value=unknown\n"),
        ("cmd=barrier_in", "cmd=barrier_out\n"),
        ("cmd=publish_name service=S port=P", "cmd=publish_result info=ok rc=0 msg=success\n"),
        ("cmd=publish_name service=S port=P", "cmd=publish_result rc=1 msg=key_already_present\n"),
        ("cmd=lookup_name service=S", "cmd=lookup_result port=P info=ok rc=0 msg=success\n"),
        ("cmd=unpublish_name service=S", "cmd=unpublish_result info=ok rc=0 msg=success\n"),
        ("cmd=unpublish_name service=S", "cmd=unpublish_result rc=1 msg=service_not_found\n"),
        ("cmd=lookup_name service=S", "cmd=lookup_result rc=1 msg=service_not_found\n"),
        ("cmd=create_kvs", "cmd=newkvs kvsname=kvs_0011223344556677_n1\n"),
        ("cmd=getbyidx kvsname=K idx=0", "cmd=getbyidx_results rc=0 nextidx=1 key=k val=\n"),
        ("cmd=getbyidx kvsname=K idx=1", "cmd=getbyidx_results rc=-1 reason=no_more_keyvals\n"),
        ("cmd=destroy_kvs kvsname=K", "cmd=kvs_destroyed rc=0 msg=success\n"),
        ("cmd=finalize", "cmd=finalize_ack\n"),
    ] {
        assert_eq!(node.line(line), answer, "{line}");
    }
    let put = |value: &str| Request::Put {
        database: "K".into(),
        pair: Pair { key: b"k".to_vec(), value: value.into() },
        advice: None,
    };
    assert_eq!((&node.asked[1], node.asked.contains(&put("a = key=b -"))), (&put("v"), true));
    let fence = Request::Fence { over: Set::Group(GroupId(3)), limit: Some(JOB_LIMIT), tag: Vec::new() };
    assert!(node.asked.contains(&fence) && node.asked.last() == Some(&Request::Finalize));
}

#[test]
fn the_lines_of_a_spawn() {
    let mut node = Node::one();
    let first = "mcmd=spawn\nnprocs=2\nexecname=X\ntotspawns=1\nspawnssofar=1\narg1=-v\nargcnt=1\npreput_num=1\npreput_key_0=PARENT_ROOT_PORT_NAME\npreput_val_0=tag#0\ninfo_num=2\ninfo_key_0=path\ninfo_val_0=/opt/bin\ninfo_key_1=wdir\ninfo_val_1=/tmp\nendcmd";
    assert_eq!(node.line(first), "cmd=spawn_result rc=0 errcodes=0,0\n");
    let Some(Request::SpawnMultiple { specs, preputs, on_death, input: crate::spec::Readers::None }) =
        node.asked.last()
    else {
        panic!("{:?}", node.asked)
    };
    assert_eq!(
        (specs.len(), specs[0].count, &specs[0].program[..], *on_death),
        (1, 2, &b"X"[..], OnDeath::Kill)
    );
    assert_eq!(specs[0].info, [("path".into(), b"/opt/bin".to_vec()), ("wdir".into(), b"/tmp".to_vec())]);
    assert_eq!(preputs, &[Pair { key: b"PARENT_ROOT_PORT_NAME".to_vec(), value: b"tag#0".to_vec() }]);
    // Two blocks make one spawn.
    let block = |number| {
        format!(
            "mcmd=spawn\nnprocs=1\nexecname=Y\ntotspawns=2\nspawnssofar={number}\nargcnt=0\ninfo_num=0\nendcmd"
        )
    };
    assert_eq!(node.line(&block(1)), "");
    assert_eq!(node.line(&block(2)), "cmd=spawn_result rc=0 errcodes=0,0\n");
    // The client continues after an invalid spawn.
    assert_eq!(node.line(&block(2)), "");
    assert_eq!(node.line(&block(2)), "cmd=spawn_result rc=-1 msg=its_blocks_are_not_in_order\n");
    assert_eq!(node.line("cmd=get_appnum"), "cmd=appnum appnum=0\n");
    let missing = Fault::new(FaultKind::NotStarted, "X: No such file or directory");
    node.fails = Some(missing);
    assert_eq!(node.line(first), "cmd=spawn_result rc=-1 msg=X:_No_such_file_or_directory\n");
    assert_eq!(node.closed, None);
}

/// A client that ignores the error codes would wait for processes that have been killed, so the spawn fails as a whole.
#[test]
fn a_spawn_in_which_one_fails_has_failed() {
    assert_eq!(one_spawned(&[0, 0]), "cmd=spawn_result rc=0 errcodes=0,0\n");
    assert_eq!(
        one_spawned(&[0, 2]),
        "cmd=spawn_result rc=-1 msg=processes_could_not_be_started errcodes=0,2\n"
    );
    // MPICH's clients read lines of 1,024 bytes. If the list is missing, they take all codes for 0.
    assert_eq!(one_spawned(&[0; 1000]), "cmd=spawn_result rc=0\n");
    assert!(one_spawned(&[0; 450]).len() < 1000);
}

fn one_spawned(errors: &[i32]) -> String {
    let mut one = One::default();
    let answer = Answer::Spawned { group: GroupId(1), errors: errors.to_vec(), same_domain: true };
    String::from_utf8(one.answer(&OneReply::Spawn, Ok(answer))).unwrap()
}

#[test]
fn requests_of_lines_are_taken_one_after_the_other() {
    let mut pmi = Pmi::new();
    pmi.bytes(b"cmd=init pmi_version=1 pmi_subversion=1\ncmd=get key=a\ncmd=get key=b\ncmd=get_appnum\n");
    let mut said = Vec::new();
    for value in ["", "1", "2"] {
        let Some(ProtocolOutput::Request(serial, request)) = pmi.next() else { panic!("{value}") };
        assert_eq!(pmi.next(), None, "one at a time");
        pmi.answered(
            serial,
            Ok(match request {
                Request::Init => Answer::Identity(identity(0, 2)),
                _ => Answer::Value(value.into()),
            }),
        );
        let Some(ProtocolOutput::Send(bytes)) = pmi.next() else { panic!("{value}") };
        said.extend_from_slice(&bytes);
    }
    let expected = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\ncmd=get_result rc=0 msg=success value=1\ncmd=get_result rc=0 msg=success value=2\n";
    assert_eq!(String::from_utf8(said).unwrap(), expected);
    assert_eq!(pmi.next(), Some(ProtocolOutput::Send("cmd=appnum appnum=0\n".into())));
}

#[test]
fn barriers_of_groups_carry_their_tags_and_hold_up_nobody() {
    let mut node = Node::new(identity(1, 3), Pmi::new());
    node.me.neighbours = vec![1, 2];
    assert_eq!(
        node.line("cmd=init pmi_version=1 pmi_subversion=2"),
        "cmd=response_to_init pmi_version=1 pmi_subversion=2 rc=0\n"
    );
    for (line, answer) in [
        ("cmd=barrier_in", "cmd=barrier_out tag=0\n"),
        ("cmd=barrier_in group=0,1:77", "cmd=barrier_out tag=77\n"),
        ("cmd=barrier_in group=WORLD:5", "cmd=barrier_out tag=5\n"),
        ("cmd=barrier_in group=WORLD", "cmd=barrier_out tag=0\n"),
        ("cmd=barrier_in group=NODE:6", "cmd=barrier_out tag=6\n"),
        ("cmd=barrier_in group=0,3:1", "cmd=barrier_failed rc=-1 msg=its_group_has_no_such_rank_below_3\n"),
    ] {
        assert_eq!(node.line(line), answer, "{line}");
    }
    let members =
        |ranks: [Rank; 2]| Set::Members(ranks.map(|rank| Member { group: GroupId(3), rank }).into());
    let fence = |over, tag: &str| Request::Fence { over, limit: Some(JOB_LIMIT), tag: tag.into() };
    let world = Set::Group(GroupId(3));
    let expected = [
        fence(world.clone(), ""),
        fence(members([0, 1]), "77"),
        fence(world.clone(), "5"),
        fence(world, ""),
        fence(members([1, 2]), "6"),
    ];
    assert_eq!(node.asked[1..], expected);

    // One thread waits in a barrier, other threads go on.
    node.pmi.bytes(b"cmd=barrier_in group=0,1:7\ncmd=barrier_in group=NODE:8\ncmd=get_appnum\n");
    let said: Vec<ProtocolOutput> = std::iter::from_fn(|| node.pmi.next()).collect();
    let [ProtocolOutput::Request(seven, _), ProtocolOutput::Request(eight, _), ProtocolOutput::Send(appnum)] =
        &said[..]
    else {
        panic!("{said:?}")
    };
    assert_eq!(&appnum[..], b"cmd=appnum appnum=0\n");
    node.pmi.answered(*eight, Ok(Answer::Done));
    let death =
        Death { member: Member { group: GroupId(3), rank: 0 }, exit: Exit::Signal(9), finalized: false };
    node.pmi.answered(*seven, Err(Fault::died(vec![death])));
    node.turn();
    assert_eq!(
        node.heard(),
        "cmd=barrier_out tag=8\ncmd=barrier_failed tag=7 rc=-1 msg=g3.0_was_killed_by_signal_9\n"
    );
}

#[test]
fn a_barrier_that_fails_is_answered_by_another_word() {
    let mut node = Node::one();
    let death =
        Death { member: Member { group: GroupId(3), rank: 0 }, exit: Exit::Code(0), finalized: false };
    node.fails = Some(Fault::died(vec![death]));
    let said = node.line("cmd=barrier_in");
    assert_eq!(said, "cmd=barrier_failed rc=-1 msg=g3.0_ended_with_status_0_without_finalizing\n");
}

#[test]
fn what_cannot_stand_in_a_line_is_not_written_into_it() {
    let mut node = Node::one();
    let of = |database: &str, key: &str| (database.to_owned(), key.as_bytes().to_vec());
    node.values.insert(of("K", "two"), b"1\ncmd=barrier_out".to_vec());
    node.values.insert(of("K", "a key"), b"1".to_vec());
    node.values.insert(of("K", "z"), b"last one".to_vec());
    node.names.insert(b"S".to_vec(), b"P rc=0\ncmd=put_result".to_vec());
    assert_eq!(
        node.line("cmd=get kvsname=K key=two"),
        "cmd=get_result rc=-1 msg=the_value_has_more_than_one_line value=unknown\n"
    );
    assert_eq!(
        node.line("cmd=lookup_name service=S"),
        "cmd=lookup_result rc=1 msg=the_port_has_more_than_one_word\n"
    );
    assert_eq!(
        node.line("cmd=getbyidx kvsname=K idx=0"),
        "cmd=getbyidx_results rc=0 nextidx=1 key=z val=last one\n"
    );
    node.fails = Some(Fault::new(FaultKind::NoDatabase, "no database `x`\ncmd=put_result rc=0"));
    assert_eq!(
        node.line("cmd=put kvsname=x key=k value=v"),
        "cmd=put_result rc=-1 msg=no_database__x__cmd_put_result_rc_0\n"
    );
}

#[test]
fn what_lacks_something_is_refused_and_the_client_goes_on() {
    let mut node = Node::one();
    for line in [
        "cmd=put kvsname=K value=v",
        "cmd=put kvsname=K key=k",
        "cmd=put key=PMI_process_mapping value=",
        "cmd=get kvsname=K",
        "cmd=get key=",
        "cmd=getbyidx kvsname=K idx=-1",
        "cmd=getbyidx kvsname=K",
        "cmd=publish_name service=S",
        "cmd=publish_name port=P",
        "cmd=lookup_name",
        "cmd=unpublish_name",
        "cmd=destroy_kvs",
        "cmd=barrier_in group=:",
    ] {
        let said = node.line(line);
        assert!(
            (said.contains(" rc=-1 ") || said.contains(" rc=1 ")) && said.lines().count() == 1,
            "{line}: {said}"
        );
    }
    assert_eq!((&node.asked[..], &node.closed), (&[Request::Init][..], &None));
}

/// One thread waits in a barrier of a group, and another one has a request that blocks. The end of the barrier must not
/// let the next request overtake the blocking one.
#[test]
fn only_its_own_answer_ends_the_block_of_a_request() {
    let mut pmi = Pmi::new();
    pmi.bytes(b"cmd=init pmi_version=1 pmi_subversion=2\n");
    pmi.next();
    pmi.answered(1, Ok(Answer::Identity(identity(0, 2))));
    pmi.next();
    pmi.bytes(b"cmd=barrier_in group=WORLD:7\ncmd=get key=a\ncmd=get_appnum\n");
    let asked: Vec<ProtocolOutput> = std::iter::from_fn(|| pmi.next()).collect();
    let [ProtocolOutput::Request(barrier, _), ProtocolOutput::Request(get, _)] = asked[..] else {
        panic!("{asked:?}")
    };
    pmi.answered(barrier, Ok(Answer::Done));
    assert_eq!(pmi.next(), Some(ProtocolOutput::Send("cmd=barrier_out tag=7\n".into())));
    assert_eq!(pmi.next(), None, "the get is not answered");
    pmi.answered(get, Ok(Answer::Value(b"1".to_vec())));
    assert_eq!(pmi.next(), Some(ProtocolOutput::Send("cmd=get_result rc=0 msg=success value=1\n".into())));
    assert_eq!(pmi.next(), Some(ProtocolOutput::Send("cmd=appnum appnum=0\n".into())));
}

/// `getbyidx` reads a copy of the database, which index 0 makes anew, and which is dropped at its end.
#[test]
fn getbyidx_reads_the_database_that_is_named_as_it_was_at_index_zero() {
    let mut node = Node::one();
    for line in ["cmd=put kvsname=K key=a value=1", "cmd=put kvsname=L key=b value=2"] {
        assert_eq!(node.line(line), "cmd=put_result rc=0 msg=success\n");
    }
    let by_index = |node: &mut Node, database: &str, index: u32| {
        let before = node.asked.len();
        let said = node.line(&format!("cmd=getbyidx kvsname={database} idx={index}"));
        let pair = said.strip_prefix("cmd=getbyidx_results rc=0 nextidx=").map(str::trim_end);
        (pair.unwrap_or("-").to_owned(), node.asked.len() - before)
    };
    assert_eq!(by_index(&mut node, "K", 0), ("1 key=a val=1".into(), 1));
    node.line("cmd=put kvsname=K key=c value=3");
    assert_eq!(by_index(&mut node, "K", 1), ("-".into(), 0), "the copy has no more");
    assert_eq!(by_index(&mut node, "K", 1), ("2 key=c val=3".into(), 1), "the copy was dropped at its end");
    node.line("cmd=put kvsname=K key=d value=4");
    assert_eq!(by_index(&mut node, "K", 2), ("-".into(), 0));
    assert_eq!(by_index(&mut node, "K", 0).1, 1);
    // The copy is that of K.
    assert_eq!(by_index(&mut node, "L", 1), ("-".into(), 1));
    assert_eq!(by_index(&mut node, "L", 0), ("1 key=b val=2".into(), 1));
    node.line("cmd=put kvsname=L key=a value=5");
    assert_eq!(by_index(&mut node, "L", 0), ("1 key=a val=5".into(), 1), "index 0 reads it anew");
}

/// Processes that `soft` has left out were not wanted: the spawn has not failed.
#[test]
fn a_spawn_that_leaves_processes_out_is_no_failure() {
    assert_eq!(one_spawned(&[0, crate::spec::LEFT_OUT]), "cmd=spawn_result rc=0 errcodes=0,-1\n");
}

/// A database that is too large to be copied was answered, from index 1 on, from the copy of its earlier contents.
#[test]
fn a_database_that_is_too_large_has_no_copy() {
    let mut node = Node::one();
    node.line("cmd=put kvsname=K key=a value=1");
    node.line("cmd=put kvsname=K key=b value=2");
    assert_eq!(
        node.line("cmd=getbyidx kvsname=K idx=0"),
        "cmd=getbyidx_results rc=0 nextidx=1 key=a val=1\n"
    );
    node.values.insert(("K".into(), b"c".to_vec()), vec![b'x'; 16 << 20]);
    let large = "cmd=getbyidx_results rc=-1 reason=the_database_is_too_large\n";
    for index in 0..2 {
        assert_eq!(node.line(&format!("cmd=getbyidx kvsname=K idx={index}")), large);
    }
    // The bound holds to the byte: two keys and values of one byte each, and the third key.
    let longest = vec![b'x'; (16 << 20) - 2 * 2 - 1];
    node.values.insert(("K".into(), b"c".to_vec()), longest);
    assert!(
        node.line("cmd=getbyidx kvsname=K idx=1").starts_with("cmd=getbyidx_results rc=0 nextidx=2 key=b")
    );
}

/// The bytes of a spawn are those of its own blocks.
#[test]
fn each_spawn_has_room_of_its_own() {
    let mut node = Node::one();
    let argument = "x".repeat(600_000);
    let block = format!(
        "mcmd=spawn\nnprocs=1\nexecname=X\ntotspawns=1\nspawnssofar=1\nargcnt=1\narg1={argument}\nendcmd"
    );
    for _ in 0..3 {
        assert_eq!(node.line(&block), "cmd=spawn_result rc=0 errcodes=0\n");
    }
    assert_eq!(node.closed, None);
}
