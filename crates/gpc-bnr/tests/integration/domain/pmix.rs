//! What the PMIx servers of the nodes need from the domain: fences with data, the data of one process, layouts.

use std::time::Duration;

use gpc_bnr::domain::{Input, Serial};
use gpc_bnr::names::{GroupId, Set};
use gpc_bnr::order::Order;
use gpc_bnr::request::{Answer, Client, Request};
use gpc_bnr::{Exit, Fault, FaultKind, Limits, Mpi, OnDeath, PmixHost, PmixNeed, PmixPlan, Readers, Spec};

use crate::domain::nodes::{Nodes, TOOL, member, process, says, spawn, spec};

fn exchange(group: GroupId, data: &[u8]) -> Request {
    Request::Exchange { over: Set::Group(group), limit: None, tag: b"pmix".to_vec(), data: data.to_vec() }
}

fn fence(group: GroupId) -> Request {
    Request::Fence { over: Set::Group(group), limit: None, tag: b"pmix".to_vec() }
}

/// A node stands in for its members: the first one of each carries the data of all.
fn enter(nodes: &mut Nodes, group: GroupId, node: u32, data: &[u8]) -> [(Client, Serial); 2] {
    let [first, second] = [process(group, 2 * node), process(group, 2 * node + 1)];
    [(first, nodes.asks(first, exchange(group, data))), (second, nodes.asks(second, fence(group)))]
}

#[test]
fn a_fence_returns_the_data_of_all_nodes_in_their_order() {
    let mut nodes = Nodes::new(&[3, 5, 7], Limits::default());
    let group = nodes.group(6, OnDeath::Kill);
    for round in ["a", "b"] {
        let mut asked = Vec::new();
        for node in [2, 0, 1] {
            assert!(asked.iter().all(|(client, serial)| nodes.answer(*client, *serial).is_none()));
            asked.extend(enter(&mut nodes, group, node, format!("{round}{node}").as_bytes()));
        }
        let all = format!("{round}0{round}1{round}2").into_bytes();
        for (at, (client, serial)) in asked.into_iter().enumerate() {
            let expected = if at % 2 == 0 { Answer::Value(all.clone()) } else { Answer::Done };
            assert_eq!(nodes.answer(client, serial), Some(Ok(expected)), "{client:?}");
        }
    }
}

#[test]
fn data_of_a_fence_are_bounded() {
    let mut limits = Limits::default();
    limits.database = 10;
    let mut nodes = Nodes::new(&[3, 5], limits);
    let group = nodes.group(4, OnDeath::Notify);
    let asked = [enter(&mut nodes, group, 0, b"123456"), enter(&mut nodes, group, 1, b"12345")].concat();
    for (client, serial) in asked {
        let fault = nodes.answer(client, serial).unwrap().unwrap_err();
        says(&fault, FaultKind::TooLarge, "11 bytes of data in a fence of all members; at most 10");
    }
    let own = Request::Exchange { over: Set::Group(group), limit: None, tag: vec![0], data: Vec::new() };
    says(&nodes.refused(process(group, 0), own), FaultKind::BadRequest, "zero byte");
}

/// A member whose data were too long was answered alone: the others waited for it, and its next fence was their first.
#[test]
fn data_that_are_too_long_fail_the_fence_at_all_nodes() {
    for (too_long, others) in [(1, 0), (0, 1)] {
        let mut nodes = Nodes::new(&[3, 5], Limits::default());
        let group = nodes.group(4, OnDeath::Notify);
        let mut asked = enter(&mut nodes, group, others, b"short").to_vec();
        asked.extend(enter(&mut nodes, group, too_long, &vec![0; (16 << 20) + 1]));
        for (client, serial) in asked {
            let fault = nodes.answer(client, serial).unwrap().unwrap_err();
            says(
                &fault,
                FaultKind::TooLarge,
                "16777217 bytes of data in a fence; a member brings at most 16777216",
            );
        }
        let again = [enter(&mut nodes, group, 0, b"a"), enter(&mut nodes, group, 1, b"b")].concat();
        assert_eq!(nodes.answer(again[0].0, again[0].1), Some(Ok(Answer::Value(b"ab".to_vec()))));
    }
}

/// A node whose server has lost a member enters without time. If it was the last to enter, the fence succeeded.
#[test]
fn a_fence_without_time_fails_also_if_all_others_have_entered() {
    for (last, other) in [(1, 0), (0, 1)] {
        let mut nodes = Nodes::new(&[3, 5], Limits::default());
        let group = nodes.group(2, OnDeath::Notify);
        let (last, other) = (process(group, last), process(group, other));
        let waits = nodes.asks(other, exchange(group, b"data"));
        let limit = Some(Duration::ZERO);
        let (over, tag) = (Set::Group(group), b"pmix".to_vec());
        let without = nodes.asks(last, Request::Exchange { over, limit, tag, data: Vec::new() });
        nodes.after(Duration::from_millis(1));
        for (client, serial) in [(other, waits), (last, without)] {
            let fault = nodes.answer(client, serial).unwrap().unwrap_err();
            says(&fault, FaultKind::TimedOut, "");
        }
    }
}

/// The members at another node count on their server, which has not called up yet.
#[test]
fn a_death_fails_a_fence_at_the_nodes_that_have_entered_and_at_those_that_enter_later() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let group = nodes.group(4, OnDeath::Notify);
    let early = enter(&mut nodes, group, 0, b"0");
    nodes.ends(member(group, 3), Exit::Signal(9));
    for (client, serial) in early {
        says(&nodes.answer(client, serial).unwrap().unwrap_err(), FaultKind::MemberDied, "");
    }
    says(&nodes.refused(process(group, 2), exchange(group, b"1")), FaultKind::MemberDied, "");
}

#[test]
fn the_data_of_a_process_come_from_its_node_whoever_asks() {
    let mut nodes = Nodes::new(&[3, 5, 7], Limits::default());
    let group = nodes.group(6, OnDeath::Notify);
    let ask = |nodes: &mut Nodes, rank| nodes.asks(process(group, 0), Request::Fetch(member(group, rank)));
    let (far, near) = (ask(&mut nodes, 5), ask(&mut nodes, 1));
    let [(7, at_far, of_far), (3, at_near, of_near)] = nodes.fetches[..] else { panic!() };
    assert_eq!((of_far, of_near), (member(group, 5), member(group, 1)));
    nodes.input(7, Input::Fetched { number: at_far, data: Ok(b"five".to_vec()) });
    assert_eq!(nodes.answer(process(group, 0), far), Some(Ok(Answer::Value(b"five".to_vec()))));
    let fault = Fault::new(FaultKind::NotFound, "none");
    nodes.input(3, Input::Fetched { number: at_near, data: Err(fault.clone()) });
    assert_eq!(nodes.answer(process(group, 0), near), Some(Err(fault)));
    // A second answer, and one to a question that no node has asked.
    nodes.input(3, Input::Fetched { number: at_near, data: Ok(Vec::new()) });
    nodes.input(3, Input::Fetched { number: 99, data: Ok(Vec::new()) });

    says(&nodes.refused(process(group, 0), Request::Fetch(member(group, 6))), FaultKind::NoMember, "g1.6");
    let unknown = Request::Fetch(member(GroupId(9), 0));
    says(&nodes.refused(process(group, 0), unknown.clone()), FaultKind::NoGroup, "g9");
    says(&nodes.refused(process(group, 4), unknown), FaultKind::NoGroup, "g9");
}

/// A node that does not run the group asks the head, which asks the node of the process.
#[test]
fn the_data_of_a_process_of_a_group_elsewhere_come_through_the_head() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let near = nodes.group(2, OnDeath::Notify);
    let far = nodes.group(1, OnDeath::Notify);
    let asked = nodes.asks(process(near, 1), Request::Fetch(member(far, 0)));
    let (node, number, _) = nodes.fetches[0];
    assert_eq!(node, 3);
    nodes.input(node, Input::Fetched { number, data: Ok(b"far".to_vec()) });
    assert_eq!(nodes.answer(process(near, 1), asked), Some(Ok(Answer::Value(b"far".to_vec()))));
}

/// The order to start a group was late at one node. A process of another node, which had started, asked for the data of
/// a process there, and got an error instead of the data.
#[test]
fn a_question_that_comes_before_its_group_waits_for_the_start() {
    let mut limits = Limits::default();
    limits.fence = Duration::from_secs(5);
    let mut nodes = Nodes::new(&[3, 5], limits);
    nodes.holds = |order| matches!(order, Order::Start(_));
    nodes.asks(TOOL, spawn(4, OnDeath::Notify));
    assert_eq!((nodes.delayed(), nodes.started.len()), (vec![(3, 5)], 1));
    let group = nodes.started[0].group;
    let ask = |nodes: &mut Nodes| nodes.asks(process(group, 0), Request::Fetch(member(group, 2)));
    let asked = ask(&mut nodes);
    nodes.after(Duration::from_secs(1));
    assert_eq!((nodes.fetches.len(), nodes.answer(process(group, 0), asked)), (0, None));
    nodes.let_go();
    nodes.after(Duration::from_millis(250));
    let [(5, number, of)] = nodes.fetches[..] else { panic!("{:?}", nodes.fetches) };
    assert_eq!(of, member(group, 2));
    nodes.input(5, Input::Fetched { number, data: Ok(b"late".to_vec()) });
    assert_eq!(nodes.answer(process(group, 0), asked), Some(Ok(Answer::Value(b"late".to_vec()))));
}

#[test]
fn a_question_to_a_group_that_never_starts_ends_at_its_limit() {
    let mut limits = Limits::default();
    limits.fence = Duration::from_secs(5);
    let mut nodes = Nodes::new(&[3, 5], limits);
    nodes.input(5, Input::Order { token: 1 << 40, root: 3, order: Order::Fetch(member(GroupId(9), 0)) });
    let questions = |nodes: &Nodes| nodes.held(5, "questions to the PMIx server");
    assert_eq!(questions(&nodes), 1);
    for _ in 0..21 {
        nodes.after(Duration::from_millis(250));
    }
    assert_eq!((questions(&nodes), nodes.held(5, "timers")), (0, 0));
}

/// The questions of a node that had given up stayed at the node that was asked, whose room for questions became full.
#[test]
fn a_question_that_is_cancelled_is_dropped() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let group = nodes.group(4, OnDeath::Notify);
    let order = Order::Fetch(member(group, 2));
    for token in [1 << 40, (1 << 40) + 1] {
        nodes.input(5, Input::Order { token, root: 3, order: order.clone() });
    }
    assert_eq!(nodes.held(5, "questions to the PMIx server"), 2);
    nodes.input(5, Input::Cancelled(1 << 40));
    assert_eq!(nodes.held(5, "questions to the PMIx server"), 1);
}

#[test]
fn a_process_that_ends_or_a_node_that_is_silent_fails_the_wait_for_its_data() {
    let mut limits = Limits::default();
    (limits.fence, limits.ask) = (Duration::from_secs(5), Duration::from_secs(5));
    let mut nodes = Nodes::new(&[3, 5], limits);
    let group = nodes.group(4, OnDeath::Notify);
    let asked = [1, 2, 3].map(|rank| nodes.asks(process(group, 0), Request::Fetch(member(group, rank))));
    nodes.ends(member(group, 1), Exit::Code(0));
    nodes.ends(member(group, 3), Exit::Signal(9));
    let answer = |nodes: &Nodes, at: usize| nodes.answer(process(group, 0), asked[at]);
    for at in [0, 2] {
        says(&answer(&nodes, at).unwrap().unwrap_err(), FaultKind::MemberDied, "has ended");
    }
    assert_eq!(answer(&nodes, 1), None);
    says(&nodes.refused(process(group, 0), Request::Fetch(member(group, 3))), FaultKind::NoMember, "g1.3");
    nodes.after(Duration::from_secs(5));
    says(&answer(&nodes, 1).unwrap().unwrap_err(), FaultKind::TimedOut, "");
}

#[test]
fn the_nodes_of_a_group_serve_pmix_if_a_program_needs_it() {
    let mut nodes = Nodes::named(&[3, 5], Limits::default(), |_| "same".into());
    nodes.group(2, OnDeath::Kill);
    assert_eq!(nodes.started[0].pmix, None);
    let host = |node, name: &str, before| PmixHost { node, name: name.to_owned(), before };
    for (need, required, before) in [(PmixNeed::Maybe, false, 0), (PmixNeed::Sure, true, 1)] {
        nodes.pmix = need;
        nodes.group(2, OnDeath::Kill);
        let hosts = vec![host(3, "same", before), host(5, "same-5", before)];
        assert_eq!(nodes.started.last().unwrap().pmix, Some(PmixPlan { required, hosts }));
    }
    let hinted = |hint: &str| {
        let Request::SpawnMultiple { mut specs, preputs, on_death, input } = spawn(1, OnDeath::Kill) else {
            panic!()
        };
        specs[0].info.push(("pmix".into(), hint.as_bytes().to_vec()));
        Request::SpawnMultiple { specs, preputs, on_death, input }
    };
    nodes.ask(TOOL, hinted("never")).unwrap();
    assert_eq!(nodes.started.last().unwrap().pmix, None);
    nodes.pmix = PmixNeed::No;
    nodes.ask(TOOL, hinted("always")).unwrap();
    let last = nodes.started.last().unwrap();
    let [node] = last.nodes()[..] else { panic!("one process") };
    let name = if node == 3 { "same" } else { "same-5" };
    // Two earlier groups have a process on each node.
    let plan = PmixPlan { required: true, hosts: vec![host(node, name, 2)] };
    assert_eq!(nodes.started.last().unwrap().pmix, Some(plan), "a node has the same name in all groups");
}

#[test]
fn a_layout_is_told_without_what_its_programs_keep_for_themselves() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let group = nodes.group(3, OnDeath::Kill);
    let Ok(Answer::Layout(layout)) = nodes.ask(process(group, 2), Request::Layout(group)) else { panic!() };
    assert_eq!((layout.size(), layout.nodes()), (3, vec![3, 5]));
    assert!(layout.specs.iter().all(|spec| spec.env.is_empty() && spec.args.is_empty()));
    says(&nodes.refused(process(group, 0), Request::Layout(GroupId(9))), FaultKind::NoGroup, "g9");
}

/// Two nodes of which each had programs of one MPI started them as one world, whose halves did not find each other.
#[test]
fn two_mpis_on_different_nodes_are_refused_with_their_names() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let mpi = |open, library: &str| Mpi { open, library: library.into() };
    nodes.mpis.insert(3, mpi(true, "libmpi.so.40"));
    nodes.group(2, OnDeath::Kill);
    nodes.mpis.insert(5, mpi(false, "libmpich.so.12"));
    let Ok(Answer::Spawned { errors, .. }) = nodes.ask(TOOL, spawn(2, OnDeath::Kill)) else { panic!() };
    assert!(errors.iter().all(|errno| *errno > 0), "{errors:?}");
    assert_eq!(nodes.started.len(), 2);
    assert!(nodes.failures.iter().any(|failure| {
        let why = &failure.error.why;
        why.contains("(libmpi.so.40)") && why.contains("(libmpich.so.12)") && why.contains("one world")
    }));
    // With `soft`, the half with one of the two was started.
    let reported = nodes.failures.len();
    let hints = vec![("soft".to_owned(), b"0:2".to_vec())];
    let Ok(Answer::Spawned { errors, .. }) = nodes.ask(TOOL, hinted(2, hints.clone())) else { panic!() };
    assert!(errors.iter().all(|errno| *errno > 0), "{errors:?}");
    assert_eq!((nodes.started.len(), nodes.failures.len()), (2, reported + 1));
    // The same where one node had both.
    nodes.mpis.clear();
    nodes.unfit.insert(1, MIXED);
    let Ok(Answer::Spawned { errors, .. }) = nodes.ask(TOOL, hinted(2, hints.clone())) else { panic!() };
    assert!(errors.iter().all(|errno| *errno > 0), "{errors:?}");
    assert_eq!((nodes.started.len(), nodes.failures.len()), (2, reported + 2));
    // What cannot be started for another reason is left out.
    nodes.unfit.insert(1, MISSING);
    let Ok(Answer::Spawned { errors, .. }) = nodes.ask(TOOL, hinted(2, hints)) else { panic!() };
    assert_eq!((errors, nodes.started.len()), (vec![0, -1], 3));
}

/// Errors of a start: programs of two MPIs, and a program that is not there.
const MIXED: i32 = 82;
const MISSING: i32 = 2;

fn hinted(count: u32, info: Vec<(String, Vec<u8>)>) -> Request {
    let specs = vec![Spec { info, ..spec(count) }];
    Request::SpawnMultiple { specs, preputs: Vec::new(), on_death: OnDeath::Kill, input: Readers::None }
}

/// A node of a host was lost. A process named another one as PMIx does, and its spawn was refused.
#[test]
fn a_node_keeps_the_name_that_pmix_has_for_it() {
    let host = |id| if id == 3 { "head".to_owned() } else { "same".to_owned() };
    let mut nodes = Nodes::named(&[3, 5, 7], Limits::default(), host);
    nodes.pmix = PmixNeed::Sure;
    nodes.head_loses(5);
    nodes.group(2, OnDeath::Kill);
    let names = |nodes: &Nodes| {
        let plan = nodes.started.last().and_then(|layout| layout.pmix.clone()).unwrap();
        plan.hosts.into_iter().map(|host| host.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&nodes), ["head", "same-7"]);
    let on = |name: &str| hinted(1, vec![("host".to_owned(), name.into())]);
    for name in ["same-7", "same", "7"] {
        nodes.ask(TOOL, on(name)).unwrap();
        assert_eq!(names(&nodes), ["same-7"]);
    }
    says(&nodes.refused(TOOL, on("5")), FaultKind::BadRequest, "no node that runs processes");
}

/// A process ran and ended while the server of another node prepared its part, which then was not started: that was the
/// error.
#[test]
fn no_process_runs_before_all_servers_know_its_group() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    nodes.pmix = PmixNeed::Sure;
    nodes.holds = |order| matches!(order, Order::Check(layout) if layout.pmix.is_some());
    let asked = nodes.asks(TOOL, spawn(2, OnDeath::Kill));
    assert_eq!((nodes.delayed(), nodes.started.len()), (vec![(3, 5)], 0));
    nodes.let_go();
    assert!(nodes.answer(TOOL, asked).is_some_and(|answer| answer.is_ok()));
    assert_eq!(nodes.started.len(), 2);
}
