//! Spawns with the info key `soft`: fewer processes than requested.

use gpc_bnr::names::{GroupId, Set};
use gpc_bnr::order::Order;
use gpc_bnr::request::{Answer, Client, GroupState, Request};
use gpc_bnr::{Exit, FaultKind, LEFT_OUT, Limits, OnDeath, Readers, Spec};

use crate::domain::nodes::{Nodes, TOOL, get, member, own, pair, process, says, spec};

fn soft(count: u32, soft: &str) -> Spec {
    Spec { info: vec![("soft".to_owned(), soft.as_bytes().to_vec())], ..spec(count) }
}

fn spawn(specs: Vec<Spec>) -> Request {
    let preputs = vec![pair("given", "before")];
    Request::SpawnMultiple { specs, preputs, on_death: OnDeath::Notify, input: Readers::None }
}

/// Two nodes, with these ranks that cannot be started, as a check shows.
fn unfit(ranks: &[u32]) -> Nodes {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    nodes.unfit = ranks.iter().map(|rank| (*rank, 2)).collect();
    nodes
}

fn started(answer: Result<Answer, gpc_bnr::Fault>) -> (GroupId, Vec<i32>) {
    let Ok(Answer::Spawned { group, errors, .. }) = answer else { panic!("{answer:?}") };
    (group, errors)
}

/// `soft` was ignored: a spawn of at most 5 processes, with 2 or 4 acceptable, started 5.
#[test]
fn of_a_soft_spawn_the_largest_allowed_number_is_started() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let started = nodes.ask(TOOL, spawn(vec![soft(5, "2,4"), spec(1)]));
    let Ok(Answer::Spawned { group, errors, .. }) = started else { panic!("{started:?}") };
    assert_eq!(errors, [0, 0, 0, 0, LEFT_OUT, 0]);
    assert_eq!(nodes.ask(TOOL, Request::Size(group)), Ok(Answer::Number(5)));
    says(&nodes.refused(TOOL, spawn(vec![soft(5, "6:8")])), FaultKind::BadRequest, "soft");
    // A node can also be requested by its host name.
    let info = vec![("host".to_owned(), b"host5".to_vec())];
    nodes.ask(TOOL, spawn(vec![Spec { info, ..spec(2) }])).unwrap();
    let placed: Vec<_> = nodes.started.last().unwrap().blocks.iter().map(|block| block.node).collect();
    assert_eq!(placed, [5]);
}

/// A start that failed for some processes was not tried with fewer.
#[test]
fn fewer_processes_are_started_if_some_cannot_be() {
    let mut nodes = unfit(&[5]);
    let (group, errors) = started(nodes.ask(TOOL, spawn(vec![spec(1), soft(5, "0:5")])));
    assert_eq!(errors, [0, 0, 0, 0, 0, LEFT_OUT]);
    assert_eq!(nodes.ask(TOOL, Request::Size(group)), Ok(Answer::Number(5)));
    assert!(nodes.failures.is_empty() && nodes.kills.is_empty());
    // No number of the list is left.
    let mut nodes = unfit(&[3]);
    let (group, errors) = started(nodes.ask(TOOL, spawn(vec![soft(4, "4,5")])));
    assert_eq!((errors, nodes.failures.len()), (vec![125, 125, 125, 2], 1));
    assert_eq!(nodes.ask(TOOL, Request::Free(group)), Ok(Answer::Done));
}

/// An acceptable number of 0 was refused.
#[test]
fn a_group_without_processes_has_ended_when_it_starts() {
    let mut nodes = unfit(&[0, 1]);
    let parent = GroupId(1);
    nodes.unfit.clear();
    nodes.ask(TOOL, spawn(vec![spec(1)])).unwrap();
    nodes.unfit.insert(0, 2);
    let (group, errors) = started(nodes.ask(process(parent, 0), spawn(vec![soft(1, "0:1")])));
    assert_eq!((errors, nodes.failures.len()), (vec![LEFT_OUT], 0));
    assert_eq!(nodes.ask(TOOL, Request::Size(group)), Ok(Answer::Number(0)));
    let Ok(Answer::Rosters(rosters)) = nodes.ask(process(parent, 0), Request::Members(group)) else {
        panic!()
    };
    assert_eq!((rosters.len(), rosters[0].size()), (1, 0));
    assert_eq!(state(&mut nodes, group), GroupState::Ended);
    assert!(nodes.spawned.iter().all(|(other, _)| *other != group), "a job that waits for it waits forever");
    assert_eq!(nodes.ask(process(parent, 0), Request::Subscribe(group)).map(drop), Ok(()));
    assert_eq!(nodes.refused(TOOL, get(&own(group), "given")).kind, FaultKind::NoDatabase);
    assert_eq!(nodes.ask(TOOL, Request::Kill(group)), Ok(Answer::Done));
    assert_eq!(nodes.ask(TOOL, Request::Free(group)), Ok(Answer::Done));
    assert_eq!(nodes.refused(TOOL, Request::Size(group)).kind, FaultKind::NoGroup);
    let (group, errors) = started(nodes.ask(TOOL, spawn(vec![soft(3, "0")])));
    assert_eq!((errors, state(&mut nodes, group)), (vec![LEFT_OUT; 3], GroupState::Ended));
}

/// The system refuses a process after others run: these are killed, and the others are started as another group.
#[test]
fn what_the_system_refuses_is_left_out_of_another_group() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    nodes.broken.insert(3, 11);
    let serial = nodes.asks(TOOL, spawn(vec![soft(4, "1:4")]));
    assert_eq!((nodes.answer(TOOL, serial), nodes.started.len()), (None, 2));
    (0..3).for_each(|rank| nodes.ends(member(GroupId(1), rank), Exit::Signal(15)));
    assert_eq!(nodes.started.len(), 2, "some are left");
    nodes.kill_all();
    let (group, errors) = started(nodes.answer(TOOL, serial).expect("it is started"));
    assert_eq!((group, errors), (GroupId(2), vec![0, 0, 0, LEFT_OUT]));
    assert!(nodes.failures.is_empty());
    assert_eq!(nodes.ask(TOOL, get(&own(group), "given")), Ok(Answer::Value(b"before".to_vec())));
    let states = [GroupId(1), group].map(|group| state(&mut nodes, group));
    assert_eq!(states, [GroupState::Ended, GroupState::Running]);
}

/// Others may know the number of an opened group.
#[test]
fn an_opened_group_is_tried_again_only_before_a_process_runs() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    nodes.ask(TOOL, spawn(vec![spec(2)])).unwrap();
    let over = Set::Members([member(GroupId(1), 0)].into());
    let opener = process(GroupId(1), 0);
    let closed = |nodes: &mut Nodes, waits: bool| {
        let opens = Request::Open { over: over.clone(), limit: None };
        let Ok(Answer::Group(group)) = nodes.ask(opener, opens) else { panic!() };
        let specs = vec![soft(4, "0:4")];
        let spawns = Request::Spawn { group, specs, preputs: Vec::new(), on_death: None };
        nodes.ask(opener, spawns).unwrap();
        // One waits for the number of processes, which is known after the check.
        let size = nodes.asks(TOOL, Request::Size(group));
        nodes.holds = if waits { |order| matches!(order, Order::Check(_)) } else { |_| false };
        let closes = nodes.asks(opener, Request::Close { over: over.clone(), group, limit: None });
        if waits {
            assert_eq!(nodes.answer(TOOL, size), None, "{:?}", nodes.answer(TOOL, size));
            let members = nodes.asks(TOOL, Request::Members(group));
            assert_eq!(nodes.answer(TOOL, members), None);
            nodes.holds = |_| false;
            nodes.let_go();
        }
        (group, size, closes)
    };
    nodes.unfit.insert(3, 2);
    let (group, size, closes) = closed(&mut nodes, true);
    let told = started(nodes.answer(opener, closes).expect("it is started"));
    assert_eq!(told, (group, vec![0, 0, 0, LEFT_OUT]));
    assert_eq!(nodes.answer(TOOL, size), Some(Ok(Answer::Number(3))));
    nodes.unfit.clear();
    nodes.broken.insert(3, 11);
    let (group, _, closes) = closed(&mut nodes, false);
    (0..3).for_each(|rank| nodes.ends(member(group, rank), Exit::Signal(15)));
    nodes.kill_all();
    let told = started(nodes.answer(opener, closes).expect("it has failed"));
    assert_eq!((told, nodes.failures.len()), ((group, vec![0, 0, 0, 11]), 1));
}

/// While the nodes checked a soft group, a merge with it failed: there was no such group. Who asked for its members was
/// told that it is open.
#[test]
fn a_request_that_names_a_group_waits_until_it_is_checked() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let first = nodes.group(1, OnDeath::Notify);
    let opener = process(first, 0);
    let over = Set::Members([member(first, 0)].into());
    let Ok(Answer::Group(group)) = nodes.ask(opener, Request::Open { over: over.clone(), limit: None })
    else {
        panic!()
    };
    let specs = vec![soft(3, "0:3")];
    nodes.ask(opener, Request::Spawn { group, specs, preputs: Vec::new(), on_death: None }).unwrap();
    assert_eq!(nodes.refused(TOOL, Request::Members(group)).kind, FaultKind::GroupOpen);
    nodes.holds = |order| matches!(order, Order::Check(_));
    let closes = nodes.asks(opener, Request::Close { over, group, limit: None });
    let merge = Request::Merge { first, second: group, limit: None };
    let merges = nodes.asks(opener, merge);
    let asked = [Request::Members(group), Request::Layout(group), Request::Fetch(member(group, 2))];
    let asked = asked.map(|request| nodes.asks(TOOL, request));
    let mut waiting = asked.iter().map(|serial| (TOOL, *serial)).chain([(opener, closes), (opener, merges)]);
    assert!(waiting.all(|(client, serial)| nodes.answer(client, serial).is_none()));
    // Node 5 has the last two, and can start none.
    nodes.unfit = [(1, 2), (2, 2)].into();
    nodes.let_go();
    assert_eq!(started(nodes.answer(opener, closes).unwrap()), (group, vec![0, LEFT_OUT, LEFT_OUT]));
    let [members, layout, fetched] = asked.map(|serial| nodes.answer(TOOL, serial).unwrap());
    let Ok(Answer::Rosters(rosters)) = members else { panic!("{members:?}") };
    assert_eq!(rosters[0].members().collect::<Vec<_>>(), [member(group, 0)]);
    let Ok(Answer::Layout(layout)) = layout else { panic!("{layout:?}") };
    assert_eq!((layout.size(), layout.nodes()), (1, vec![nodes.started[1].nodes()[0]]));
    says(&fetched.unwrap_err(), FaultKind::NoMember, "g2.2");
    let other = process(group, 0);
    let merged = nodes.ask(other, Request::Merge { first: group, second: first, limit: None });
    assert!(matches!(merged, Ok(Answer::Group(_))), "{merged:?}");
    assert_eq!(nodes.answer(opener, merges), Some(merged));
}

/// A kill that came in the meantime holds.
#[test]
fn a_killed_group_is_not_tried_again() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    nodes.unfit.insert(3, 2);
    nodes.holds = |order| matches!(order, Order::Check(_));
    let serial = nodes.asks(TOOL, spawn(vec![soft(4, "0:4")]));
    let kill = nodes.asks(Client::Tool(1), Request::Kill(GroupId(1)));
    nodes.holds = |_| false;
    nodes.let_go();
    assert_eq!(started(nodes.answer(TOOL, serial).unwrap()).1, [125, 125, 125, 2]);
    assert_eq!(nodes.answer(Client::Tool(1), kill), Some(Ok(Answer::Done)));
    assert!(nodes.started.is_empty());
}

/// Each attempt fails for one more process: the attempts are bounded.
#[test]
fn fewer_processes_are_tried_a_few_times() {
    let mut nodes = Nodes::new(&[3], Limits::default());
    nodes.unfit.insert(0, 2);
    let (_, errors) = started(nodes.ask(TOOL, spawn(vec![soft(20, "1:20")])));
    assert_eq!(errors.iter().filter(|error| **error == LEFT_OUT).count(), 8);
    assert_eq!(nodes.failures.len(), 1);
}

fn state(nodes: &mut Nodes, group: GroupId) -> GroupState {
    let Ok(Answer::Groups(groups)) = nodes.ask(TOOL, Request::Status(group)) else { panic!() };
    groups[0].state
}
