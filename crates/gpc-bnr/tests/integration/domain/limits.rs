//! Requests beyond a limit are refused, and the refusal names the limit.

use std::time::Duration;

use gpc_bnr::domain::{Domain, Input, Output, Settings};
use gpc_bnr::names::Set;
use gpc_bnr::order::Order;
use gpc_bnr::request::{Answer, Request};
use gpc_bnr::{FaultKind, Limits, OnDeath};

use crate::domain::nodes::{Nodes, TOOL, get, own, pair, process, put, says, spawn, spec};

fn small() -> Limits {
    let mut limits = Limits::default();
    limits.key = 4;
    limits.value = 5;
    limits.name = 30;
    limits.database = 100;
    limits.databases = 1;
    limits.names = 1;
    limits.group = 6;
    limits.groups = 2;
    limits.spawn = 50;
    limits.waiting = 2;
    limits
}

#[test]
fn keys_values_and_databases_have_limits() {
    let mut nodes = Nodes::new(&[3, 5], small());
    let group = nodes.group(2, OnDeath::Kill);
    let (client, name) = (process(group, 1), own(group));
    for (request, text) in [
        (put(&name, "12345", ""), "the most are 4"),
        (put(&name, "1", "123456"), "the most are 5"),
        (put(&"n".repeat(31), "1", "1"), "the most are 30"),
        (Request::Create(Some("n".repeat(31))), "the most are 30"),
        (Request::Deposit(pair("12345", "1")), "the most are 4"),
        (Request::Deposit(pair("1", "123456")), "the most are 5"),
        (Request::Fence { over: Set::Group(group), limit: None, tag: b"12345".to_vec() }, "the most are 4"),
    ] {
        says(&nodes.refused(client, request), FaultKind::TooLarge, text);
    }
    says(&nodes.refused(client, put(&name, "", "1")), FaultKind::BadRequest, "one byte");
    nodes.ask(TOOL, Request::Create(None)).unwrap();
    says(&nodes.refused(TOOL, Request::Create(None)), FaultKind::TooLarge, "1 databases");
    nodes.ask(TOOL, Request::Deposit(pair("1", "1"))).unwrap();
    says(&nodes.refused(TOOL, Request::Deposit(pair("2", "1"))), FaultKind::TooLarge, "1 names");
}

#[test]
fn a_fence_that_would_fill_a_database_beyond_its_limit_fails_at_all() {
    let mut nodes = Nodes::new(&[3, 5], small());
    let group = nodes.group(2, OnDeath::Kill);
    // The mapping takes 35 bytes; each of the two nodes has room for 9 more pairs.
    for rank in 0..2 {
        for number in 0..9 {
            nodes.ask(process(group, rank), put(&own(group), &format!("{rank}{number}"), "12345")).unwrap();
        }
        says(
            &nodes.refused(process(group, rank), put(&own(group), "more", "12345")),
            FaultKind::TooLarge,
            "100 bytes",
        );
    }
    let fence = Request::Fence { over: Set::Group(group), limit: None, tag: Vec::new() };
    let serial = nodes.asks(process(group, 0), fence.clone());
    says(&nodes.refused(process(group, 1), fence), FaultKind::TooLarge, "100 bytes");
    says(&nodes.answer(process(group, 0), serial).unwrap().unwrap_err(), FaultKind::TooLarge, "100 bytes");
}

#[test]
fn groups_and_what_is_spawned_have_limits() {
    let mut nodes = Nodes::one();
    says(&nodes.refused(TOOL, spawn(0, OnDeath::Kill)), FaultKind::BadRequest, "one process");
    let mut nodes = Nodes::new(&[7], small());
    says(&nodes.refused(TOOL, spawn(7, OnDeath::Kill)), FaultKind::TooLarge, "the most are 6");
    let mut long = spec(1);
    long.args = vec![b"x".repeat(50)];
    let request = |spec| Request::SpawnMultiple {
        specs: vec![spec],
        preputs: Vec::new(),
        on_death: OnDeath::Kill,
        input: gpc_bnr::Readers::None,
    };
    says(&nodes.refused(TOOL, request(long)), FaultKind::TooLarge, "the most are 50");
    // A refused request uses no group number.
    let first = nodes.group(1, OnDeath::Kill);
    assert_eq!(first.0, 1);
    nodes.group(1, OnDeath::Kill);
    says(&nodes.refused(TOOL, spawn(1, OnDeath::Kill)), FaultKind::TooLarge, "2 groups");
    // An ended group makes room.
    nodes.ends(gpc_bnr::names::Member { group: first, rank: 0 }, gpc_bnr::Exit::Code(0));
    nodes.group(1, OnDeath::Kill);
    says(&nodes.refused(TOOL, Request::Status(first)), FaultKind::NoGroup, &first.to_string());
}

#[test]
fn so_many_requests_of_one_process_may_wait() {
    let mut nodes = Nodes::new(&[7], small());
    let group = nodes.group(2, OnDeath::Kill);
    let fence = Request::Fence { over: Set::Group(group), limit: None, tag: Vec::new() };
    let client = process(group, 0);
    let waiting = [nodes.asks(client, fence.clone()), nodes.asks(client, fence.clone())];
    says(&nodes.refused(client, Request::Groups), FaultKind::TooLarge, "2 requests");
    assert_eq!(nodes.ask(process(group, 1), fence.clone()), Ok(Answer::Done));
    assert_eq!(nodes.answer(client, waiting[0]), Some(Ok(Answer::Done)));
    assert_eq!(nodes.answer(client, waiting[1]), None);
    nodes.ask(client, Request::Groups).unwrap();
}

#[test]
fn every_node_tells_the_limits_of_the_domain() {
    let mut limits = Limits::default();
    limits.value = 77;
    let mut nodes = Nodes::new(&[3, 5], limits);
    let group = nodes.group(2, OnDeath::Kill);
    for client in [TOOL, process(group, 0), process(group, 1)] {
        assert_eq!(nodes.ask(client, Request::Limits), Ok(Answer::Limits(limits)));
    }
}

/// A node that was to wait longer for silent peers ended its part of a domain after 20 s, while a stopped node held up
/// the standing order of the head.
#[test]
fn a_node_waits_for_its_head_longer_than_for_a_silent_peer() {
    for (dead_after, limit) in [(None, 20), (Some(1), 20), (Some(10), 20), (Some(60), 120)] {
        let settings = Settings {
            me: 5,
            nodes: vec![3, 5],
            runs: true,
            name: "d0".into(),
            limits: Limits::default(),
            slots: std::collections::BTreeMap::new(),
            addresses: std::collections::BTreeMap::new(),
            host: "here".into(),
            dead_after: dead_after.map(Duration::from_secs),
        };
        let mut domain = Domain::new(settings, Duration::ZERO);
        let mut ends = |input, now| {
            domain.handle(input, now);
            std::iter::from_fn(|| domain.next_output()).any(|output| output == Output::End)
        };
        let begun = Limits::default().ask;
        assert!(!ends(Input::Order { token: 1, root: 3, order: Order::Watch }, begun));
        // Watched, it waits as long as it takes.
        let cancelled = begun + Duration::from_secs(10_000);
        assert!(!ends(Input::Time, cancelled) && !ends(Input::Cancelled(1), cancelled));
        let limit = cancelled + Duration::from_secs(limit);
        assert!(!ends(Input::Time, limit - Duration::from_millis(1)), "{dead_after:?}");
        assert!(ends(Input::Time, limit), "{dead_after:?}");
    }
}

/// A node did not answer a question of another node. The process that waited for it must not wait longer than the limit
/// of such questions.
#[test]
fn a_question_to_other_nodes_ends_at_its_limit() {
    let limits = Limits::default();
    let mut nodes = Nodes::new(&[3, 5], limits);
    let group = nodes.group(2, OnDeath::Kill);
    nodes.holds = |order| matches!(order, Order::Find { .. } | Order::List(_) | Order::AtHead { .. });
    let asked = [(0, get(&own(group), "none")), (0, Request::Iterate(own(group))), (1, Request::Groups)];
    for (rank, request) in asked {
        let client = process(group, rank);
        let waiting = nodes.asks(client, request);
        nodes.after(limits.ask - Duration::from_millis(1));
        assert_eq!(nodes.answer(client, waiting), None);
        nodes.after(Duration::from_millis(1));
        says(&nodes.answer(client, waiting).unwrap().unwrap_err(), FaultKind::TimedOut, "is late");
    }
}
