//! Databases created by name, and global names.

use std::time::Duration;

use gpc_bnr::names::Set;
use gpc_bnr::order::Order;
use gpc_bnr::request::{Answer, Pair, Request};
use gpc_bnr::{Exit, FaultKind, Limits, OnDeath};

use crate::domain::nodes::{Nodes, TOOL, get, member, own, pair, process, put, says};

#[test]
fn a_database_is_reached_from_every_group_that_knows_its_name() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let (one, other) = (nodes.group(2, OnDeath::Kill), nodes.group(2, OnDeath::Kill));
    assert_eq!(
        nodes.ask(process(one, 1), Request::Create(Some("named".into()))),
        Ok(Answer::Name("named".into()))
    );
    says(&nodes.refused(TOOL, Request::Create(Some("named".into()))), FaultKind::DatabaseExists, "named");
    nodes.ask(process(one, 1), put("named", "b", "1")).unwrap();
    nodes.ask(process(other, 0), put("named", "a", "2")).unwrap();
    for reader in [process(one, 0), process(other, 1), TOOL] {
        assert_eq!(nodes.ask(reader, get("named", "b")), Ok(Answer::Value(b"1".to_vec())));
        let pairs: Vec<Pair> = vec![pair("a", "2"), pair("b", "1")];
        assert_eq!(nodes.ask(reader, Request::Iterate("named".into())), Ok(Answer::Pairs(pairs)));
    }
    let names = vec![own(one), own(other), "named".into()];
    assert_eq!(nodes.ask(TOOL, Request::Databases), Ok(Answer::Names(names)));
}

#[test]
fn a_database_that_is_destroyed_is_gone_everywhere_with_what_was_to_be_fenced() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let group = nodes.group(2, OnDeath::Kill);
    let Ok(Answer::Name(name)) = nodes.ask(process(group, 1), Request::Create(None)) else { panic!() };
    nodes.ask(process(group, 1), put(&name, "key", "1")).unwrap();
    nodes.ask(process(group, 0), Request::Destroy(name.clone())).unwrap();
    let over = Set::Group(group);
    let fence = Request::Fence { over, limit: None, tag: Vec::new() };
    nodes.asks(process(group, 0), fence.clone());
    nodes.ask(process(group, 1), fence).unwrap();
    for client in [TOOL, process(group, 0), process(group, 1)] {
        says(&nodes.refused(client, get(&name, "key")), FaultKind::NoDatabase, &name);
        says(&nodes.refused(client, put(&name, "key", "1")), FaultKind::NoDatabase, &name);
        says(&nodes.refused(client, Request::Destroy(name.clone())), FaultKind::NoDatabase, &name);
    }
    says(&nodes.refused(TOOL, Request::Destroy(own(group))), FaultKind::BadRequest, "with its group");
    says(&nodes.refused(TOOL, Request::Create(Some(own(group)))), FaultKind::BadRequest, "begin with");
}

#[test]
fn a_global_name_is_known_until_it_is_taken_back() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let group = nodes.group(2, OnDeath::Kill);
    let client = process(group, 1);
    let lookup = || Request::Lookup { name: b"port".to_vec(), wait: None };
    says(&nodes.refused(client, lookup()), FaultKind::NotFound, "port");
    nodes.ask(client, Request::Deposit(pair("port", "1"))).unwrap();
    says(&nodes.refused(TOOL, Request::Deposit(pair("port", "2"))), FaultKind::NameExists, "port");
    assert_eq!(nodes.ask(TOOL, lookup()), Ok(Answer::Value(b"1".to_vec())));
    nodes.ask(TOOL, Request::Withdraw(b"port".to_vec())).unwrap();
    says(&nodes.refused(client, Request::Withdraw(b"port".to_vec())), FaultKind::NotFound, "port");
}

/// No other node can be asked for a key.
fn nobody_is_asked(nodes: &mut Nodes) {
    nodes.holds = |order| matches!(order, Order::Find { .. });
}

#[test]
fn what_was_fenced_is_got_without_asking_another_node() {
    let mut nodes = Nodes::new(&[3, 5, 8], Limits::default());
    let group = nodes.group(3, OnDeath::Kill);
    let fence = || Request::Fence { over: Set::Group(group), limit: None, tag: Vec::new() };
    for rank in 0..3 {
        nodes.ask(process(group, rank), put(&own(group), &format!("key-{rank}"), "1")).unwrap();
    }
    let waiting: Vec<_> = (0..3).map(|rank| (rank, nodes.asks(process(group, rank), fence()))).collect();
    for (rank, serial) in waiting {
        assert_eq!(nodes.answer(process(group, rank), serial), Some(Ok(Answer::Done)));
    }
    nobody_is_asked(&mut nodes);
    for reader in 0..3 {
        for key in ["key-0", "key-1", "key-2"] {
            let value = nodes.ask(process(group, reader), get(&own(group), key));
            assert_eq!(value, Ok(Answer::Value(b"1".to_vec())), "rank {reader} gets {key}");
        }
    }
}

/// Each process of MPICH requests some reserved keys that do not exist, and each request went to all nodes.
#[test]
fn a_key_of_the_domains_own_is_here_or_nowhere() {
    let mut nodes = Nodes::new(&[3, 5, 8], Limits::default());
    let group = nodes.group(3, OnDeath::Kill);
    nobody_is_asked(&mut nodes);
    for rank in 0..3 {
        let client = process(group, rank);
        nodes.ask(client, get(&own(group), "PMI_process_mapping")).unwrap();
        says(&nodes.refused(client, get(&own(group), "PMI_hwloc_xmlfile")), FaultKind::NotFound, "PMI_hwloc");
        says(&nodes.refused(client, put(&own(group), "PMI_mine", "1")), FaultKind::BadRequest, "domain's");
    }
    // In other databases, such keys are not reserved.
    let Ok(Answer::Name(name)) = nodes.ask(TOOL, Request::Create(None)) else { panic!() };
    nodes.ask(process(group, 1), put(&name, "PMI_mine", "1")).unwrap();
    nodes.let_go();
    assert_eq!(nodes.ask(process(group, 2), get(&name, "PMI_mine")), Ok(Answer::Value(b"1".to_vec())));
}

/// A negative answer is valid only for its moment: other processes may put at any time.
#[test]
fn what_is_put_after_a_fence_is_found_before_the_next() {
    let mut nodes = Nodes::new(&[3, 5, 8], Limits::default());
    let group = nodes.group(3, OnDeath::Kill);
    let fence = || Request::Fence { over: Set::Group(group), limit: None, tag: Vec::new() };
    for rank in 0..3 {
        nodes.asks(process(group, rank), fence());
    }
    for turn in ["1", "2"] {
        let key = format!("late-{turn}");
        says(&nodes.refused(process(group, 2), get(&own(group), &key)), FaultKind::NotFound, &key);
        nodes.ask(process(group, 1), put(&own(group), &key, turn)).unwrap();
        for reader in [0, 2] {
            let value = nodes.ask(process(group, reader), get(&own(group), &key));
            assert_eq!(value, Ok(Answer::Value(turn.into())));
        }
    }
}

fn await_name(seconds: u64) -> Request {
    Request::Lookup { name: b"port".to_vec(), wait: Some(Duration::from_secs(seconds)) }
}

/// A server of PMIx asked again every 50 ms.
#[test]
fn who_waits_for_a_global_name_is_told_when_it_is_deposited() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let group = nodes.group(4, OnDeath::Notify);
    let (here, there) = (process(group, 0), process(group, 3));
    let waits = [(here, nodes.asks(here, await_name(60))), (there, nodes.asks(there, await_name(100)))];
    nodes.after(Duration::from_secs(59));
    assert!(waits.iter().all(|(client, serial)| nodes.answer(*client, *serial).is_none()));
    assert_eq!(nodes.ask(process(group, 2), Request::Deposit(pair("other", "0"))), Ok(Answer::Done));
    assert!(waits.iter().all(|(client, serial)| nodes.answer(*client, *serial).is_none()));
    assert_eq!(nodes.ask(process(group, 2), Request::Deposit(pair("port", "1"))), Ok(Answer::Done));
    for (client, serial) in waits {
        assert_eq!(nodes.answer(client, serial), Some(Ok(Answer::Value(b"1".to_vec()))));
    }
    assert_eq!(nodes.held(3, "waits for global names"), 0);
    // It is there.
    assert_eq!(nodes.ask(there, await_name(1)), Ok(Answer::Value(b"1".to_vec())));
}

#[test]
fn a_wait_for_a_global_name_ends_at_its_limit_and_with_its_process() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let group = nodes.group(4, OnDeath::Notify);
    for rank in [0, 3] {
        let client = process(group, rank);
        let serial = nodes.asks(client, await_name(2));
        assert_eq!(nodes.held(3, "waits for global names"), 1);
        nodes.after(Duration::from_secs(2));
        let fault = nodes.answer(client, serial).unwrap().unwrap_err();
        says(&fault, FaultKind::TimedOut, "port was not deposited in time");
        nodes.asks(client, await_name(1000));
        nodes.ends(member(group, rank), Exit::Signal(9));
        assert_eq!(nodes.held(3, "waits for global names"), 0, "{rank}");
    }
}

/// Such a name was stored at the head until the wait ended, however long it was.
#[test]
fn a_lookup_of_a_name_that_is_too_long_does_not_wait() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let group = nodes.group(4, OnDeath::Notify);
    let name = vec![b'x'; Limits::default().key + 1];
    let lookup = Request::Lookup { name, wait: Some(Duration::from_secs(60)) };
    says(&nodes.refused(process(group, 3), lookup), FaultKind::TooLarge, "bytes, the most are");
    assert_eq!(nodes.held(3, "waits for global names"), 0);
}
