//! Groups that are made of members of others: merge and split, their databases, deaths, and their end.

use std::time::Duration;

use gpc_bnr::names::{GroupId, Member, Set};
use gpc_bnr::order::Order;
use gpc_bnr::request::{Answer, Client, GroupState, Request};
use gpc_bnr::{Exit, Fault, FaultKind, Limits, OnDeath, Readers, Span, Spec};

use crate::domain::nodes::{Nodes, TOOL, get, member, own, process, put, says, spec};

fn fence(group: GroupId) -> Request {
    Request::Fence { over: Set::Group(group), limit: None, tag: Vec::new() }
}

fn split(group: GroupId, color: Option<u32>, key: i32) -> Request {
    Request::Split { group, color, key, limit: None }
}

/// Each client makes its request; all are answered then.
fn all(nodes: &mut Nodes, requests: Vec<(Client, Request)>) -> Vec<Result<Answer, Fault>> {
    let asked: Vec<_> =
        requests.into_iter().map(|(client, request)| (client, nodes.asks(client, request))).collect();
    asked.into_iter().map(|(client, serial)| nodes.answer(client, serial).expect("all have come")).collect()
}

/// All members of a group split it, each with its color and key.
fn splits(nodes: &mut Nodes, group: GroupId, choices: &[(Option<u32>, i32)]) -> Vec<Option<GroupId>> {
    let members = members(nodes, TOOL, group);
    let request = |(member, (color, key)): (&Member, &(Option<u32>, i32))| {
        (Client::Process(*member), split(group, *color, *key))
    };
    let told = all(nodes, members.iter().zip(choices).map(request).collect());
    let group = |answer| match answer {
        Ok(Answer::Group(group)) => Some(group),
        Ok(Answer::Done) => None,
        other => panic!("{other:?}"),
    };
    told.into_iter().map(group).collect()
}

fn members(nodes: &mut Nodes, client: Client, group: GroupId) -> Vec<Member> {
    let Ok(Answer::Rosters(rosters)) = nodes.ask(client, Request::Members(group)) else { panic!() };
    let [roster] = &rosters[..] else { panic!("{rosters:?}") };
    assert_eq!((roster.group, roster.database.as_str()), (group, own(group).as_str()));
    roster.members().collect()
}

/// All members of two groups merge them.
fn merges(nodes: &mut Nodes, one: GroupId, other: GroupId) -> Vec<Result<Answer, Fault>> {
    let merge = |first, second| Request::Merge { first, second, limit: None };
    let mut requests = Vec::new();
    for (first, second) in [(one, other), (other, one)] {
        let members = members(nodes, TOOL, first);
        requests.extend(members.into_iter().map(|of| (Client::Process(of), merge(first, second))));
    }
    all(nodes, requests)
}

fn merged(nodes: &mut Nodes, one: GroupId, other: GroupId) -> GroupId {
    let told = merges(nodes, one, other);
    let Ok(Answer::Group(group)) = told[0] else { panic!("{told:?}") };
    assert!(told.iter().all(|answer| *answer == Ok(Answer::Group(group))));
    group
}

fn state(nodes: &mut Nodes, group: GroupId) -> GroupState {
    let Ok(Answer::Groups(groups)) = nodes.ask(TOOL, Request::Status(group)) else { panic!() };
    groups[0].state
}

#[test]
fn members_of_one_color_are_ordered_by_key_and_have_a_database() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let group = nodes.group(4, OnDeath::Notify);
    let made = splits(&mut nodes, group, &[(Some(7), 1), (Some(2), 0), (Some(7), 0), (None, 9)]);
    let [Some(seven), Some(two), Some(again), None] = made[..] else { panic!("{made:?}") };
    assert_eq!(seven, again);
    // Clients of both nodes, and one that is no member.
    for client in [process(group, 0), process(group, 2), process(group, 3), TOOL] {
        assert_eq!(members(&mut nodes, client, seven), [member(group, 2), member(group, 0)]);
        assert_eq!(nodes.ask(client, Request::Size(seven)), Ok(Answer::Number(2)));
    }
    assert_eq!(members(&mut nodes, TOOL, two), [member(group, 1)]);
    assert_eq!(members(&mut nodes, process(group, 0), group), [0, 1, 2, 3].map(|rank| member(group, rank)));
    // Its own database, from the node's own copy after a fence.
    nodes.ask(process(group, 2), put(&own(seven), "key", "of 2")).unwrap();
    let fences = [0, 2].map(|rank| (process(group, rank), fence(seven)));
    assert_eq!(all(&mut nodes, fences.to_vec()), [Ok(Answer::Done), Ok(Answer::Done)]);
    let calls = nodes.calls;
    assert_eq!(nodes.ask(process(group, 0), get(&own(seven), "key")), Ok(Answer::Value(b"of 2".to_vec())));
    assert_eq!(nodes.calls, calls, "without another node");
    says(&nodes.refused(process(group, 0), get(&own(two), "key")), FaultKind::NotFound, "key");
    let Ok(Answer::Groups(groups)) = nodes.ask(TOOL, Request::Status(seven)) else { panic!() };
    assert_eq!((groups[0].state, groups[0].database.as_str()), (GroupState::Derived, own(seven).as_str()));
    let pids: Vec<_> = groups[0].members.iter().map(|status| (status.rank, status.pid)).collect();
    assert_eq!(pids, [(0, Some(102)), (1, Some(100))]);
    // One that is no member.
    let fault = nodes.refused(process(group, 1), fence(seven));
    says(&fault, FaultKind::NotMember, &format!("g1.1 is not of group {seven}"));
    let fault = nodes.refused(process(group, 1), Request::Members(GroupId(99)));
    says(&fault, FaultKind::NoGroup, "the processes of g99, for g1.1: there is no group g99");
}

#[test]
fn groups_are_merged_split_and_merged_again() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let (low, high) = (nodes.group(2, OnDeath::Notify), nodes.group(2, OnDeath::Notify));
    let both = merged(&mut nodes, high, low);
    let all = [member(low, 0), member(low, 1), member(high, 0), member(high, 1)];
    assert_eq!(members(&mut nodes, process(high, 1), both), all);
    // Backwards, and in two halves of both groups.
    let halves = splits(&mut nodes, both, &[(Some(0), 4), (Some(1), 3), (Some(1), 2), (Some(0), 1)]);
    let (one, other) = (halves[0].unwrap(), halves[1].unwrap());
    assert_eq!(members(&mut nodes, TOOL, one), [member(high, 1), member(low, 0)]);
    assert_eq!(members(&mut nodes, TOOL, other), [member(high, 0), member(low, 1)]);
    // The freed ones are not needed.
    nodes.ask(TOOL, Request::Free(both)).unwrap();
    let whole = merged(&mut nodes, one, other);
    let expected = [member(high, 1), member(low, 0), member(high, 0), member(low, 1)];
    assert_eq!(members(&mut nodes, TOOL, whole), expected);
    let copy = splits(&mut nodes, whole, &[(Some(0), 0); 4])[3].unwrap();
    assert_eq!(members(&mut nodes, process(low, 0), copy), expected);
    // A process of both groups cannot be in their union twice. All are told, those of one group as well.
    let merge = |first, second| Request::Merge { first, second, limit: None };
    let fault = nodes.refused(process(high, 1), merge(one, low));
    says(&fault, FaultKind::BadRequest, &format!("{} is of {low} and of {one}", member(low, 0)));
    says(
        &nodes.refused(process(low, 0), merge(one, low)),
        FaultKind::NotMember,
        "g1.0 cannot merge g4 and g1",
    );
}

/// A member of a group of both gets the deaths of its members alone, and its fences fail by these alone.
#[test]
fn a_death_breaks_the_groups_that_the_process_belongs_to() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let group = nodes.group(4, OnDeath::Notify);
    let made = splits(&mut nodes, group, &[(Some(0), 0), (Some(1), 0), (Some(0), 0), (Some(1), 0)]);
    let (even, odd) = (made[0].unwrap(), made[1].unwrap());
    for of in [even, even] {
        nodes.ask(process(group, 0), Request::Subscribe(of)).unwrap();
    }
    let waiting = nodes.asks(process(group, 0), fence(even));
    nodes.ends(member(group, 3), Exit::Signal(9));
    assert_eq!((nodes.notices.len(), nodes.answer(process(group, 0), waiting)), (0, None));
    nodes.ends(member(group, 2), Exit::Signal(9));
    let told: Vec<_> = nodes.notices.iter().map(|(to, death)| (*to, death.member)).collect();
    assert_eq!(told, [(process(group, 0), member(group, 2))]);
    let fault = nodes.answer(process(group, 0), waiting).unwrap().unwrap_err();
    says(&fault, FaultKind::MemberDied, "g1.2");
    assert_eq!(fault.deaths.len(), 1);
    assert_eq!(nodes.refused(process(group, 1), fence(odd)).deaths[0].member, member(group, 3));
    // A subscriber to more gets what it has not got yet.
    nodes.ask(process(group, 0), Request::Subscribe(group)).unwrap();
    let told: Vec<_> = nodes.notices.iter().map(|(_, death)| death.member.rank).collect();
    assert_eq!(told, [2, 3]);
}

/// The group and its database are gone at all nodes, whatever waits there; what a fence brings late does not create the
/// database again.
#[test]
fn a_freed_group_leaves_nothing() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let group = nodes.group(2, OnDeath::Notify);
    let copy = splits(&mut nodes, group, &[(Some(0), 0); 2])[0].unwrap();
    nodes.ask(process(group, 1), put(&own(copy), "key", "of 1")).unwrap();
    let waiting = nodes.asks(process(group, 0), fence(copy));
    nodes.ask(TOOL, Request::Free(copy)).unwrap();
    let fault = nodes.answer(process(group, 0), waiting).unwrap().unwrap_err();
    says(&fault, FaultKind::NoGroup, &copy.to_string());
    assert_eq!(nodes.ask(TOOL, Request::Databases), Ok(Answer::Names(vec![own(group)])));
    says(&nodes.refused(process(group, 1), Request::Members(copy)), FaultKind::NoGroup, "g2");
    assert_eq!(nodes.refused(process(group, 1), fence(copy)).kind, FaultKind::NotMember);
    let second = splits(&mut nodes, group, &[(Some(0), 0); 2])[0].unwrap();
    nodes.ask(process(group, 1), put(&own(second), "key", "of 1")).unwrap();
    nodes.holds = |order| matches!(order, Order::Release { .. });
    let fences = [0, 1].map(|rank| (process(group, rank), nodes.asks(process(group, rank), fence(second))));
    nodes.ask(TOOL, Request::Free(second)).unwrap();
    nodes.let_go();
    assert!(fences.iter().all(|(client, serial)| nodes.answer(*client, *serial) == Some(Ok(Answer::Done))));
    for client in [process(group, 0), process(group, 1), TOOL] {
        assert_eq!(nodes.refused(client, get(&own(second), "key")).kind, FaultKind::NoDatabase);
    }
    let fences = [0, 1].map(|rank| (process(group, rank), fence(group)));
    assert_eq!(all(&mut nodes, fences.to_vec()), [Ok(Answer::Done), Ok(Answer::Done)]);
    for (id, kind) in
        [(3, "databases of ended groups"), (3, "groups that were forgotten"), (5, "logs of processes")]
    {
        assert_eq!(nodes.held(id, kind), 0, "{kind}");
    }
}

/// A group that was freed was forgotten after its last process, and with it the deaths of its processes: a member of a
/// derived group that subscribed later never received them.
#[test]
fn deaths_are_known_as_long_as_a_derived_group_has_the_process() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let (low, high) = (nodes.group(2, OnDeath::Notify), nodes.group(2, OnDeath::Notify));
    let both = merged(&mut nodes, low, high);
    let copy = splits(&mut nodes, both, &[(Some(0), 0); 4])[0].unwrap();
    nodes.ask(TOOL, Request::Free(low)).unwrap();
    for rank in [0, 1] {
        nodes.ends(member(low, rank), Exit::Signal(9));
    }
    nodes.kill_all();
    nodes.ask(TOOL, Request::Free(both)).unwrap();
    nodes.ask(process(high, 1), Request::Subscribe(copy)).unwrap();
    let told: Vec<_> = nodes.notices.iter().map(|(to, death)| (*to, death.member)).collect();
    assert_eq!(told, [0, 1].map(|rank| (process(high, 1), member(low, rank))));
    assert_eq!(nodes.refused(process(high, 0), fence(copy)).deaths.len(), 2);
    let Ok(Answer::Groups(groups)) = nodes.ask(TOOL, Request::Status(copy)) else { panic!() };
    let dead: Vec<bool> = groups[0].members.iter().map(|status| status.death.is_some()).collect();
    assert_eq!(dead, [true, true, false, false]);
    // The last group with these processes takes the freed one with it.
    assert_eq!(state(&mut nodes, low), GroupState::Ended);
    nodes.ask(TOOL, Request::Free(copy)).unwrap();
    for group in [low, both, copy] {
        assert_eq!(nodes.refused(TOOL, Request::Status(group)).kind, FaultKind::NoGroup);
    }
    for id in [3, 5] {
        assert_eq!(nodes.held(id, "groups that were forgotten"), 0);
    }
}

/// A process spawned softly, of which nothing could be started, and merged its group with the empty one. The list of
/// the merged group had a span without ranks: other nodes refused such a list, and the group's database outlived its
/// processes.
#[test]
fn a_merge_with_a_group_without_processes_lists_the_others() {
    for empty_first in [false, true] {
        let mut nodes = Nodes::new(&[3, 5], Limits::default());
        let spawn = || {
            let specs = vec![Spec { info: vec![("soft".to_owned(), b"0".to_vec())], ..spec(2) }];
            let (preputs, on_death) = (Vec::new(), OnDeath::Notify);
            Request::SpawnMultiple { specs, preputs, on_death, input: Readers::None }
        };
        let empty = if empty_first { GroupId(1) } else { GroupId(2) };
        if empty_first {
            nodes.ask(TOOL, spawn()).unwrap();
        }
        let group = nodes.group(4, OnDeath::Notify);
        if !empty_first {
            nodes.ask(TOOL, spawn()).unwrap();
        }
        let both = merged(&mut nodes, group, empty);
        let all = [0, 1, 2, 3].map(|rank| member(group, rank));
        // At the head, and at the other node.
        for client in [TOOL, process(group, 0), process(group, 3)] {
            assert_eq!(members(&mut nodes, client, both), all);
            let Ok(Answer::Rosters(rosters)) = nodes.ask(client, Request::Subscribe(both)) else { panic!() };
            assert_eq!(rosters[0].spans, [Span { group, first: 0, count: 4 }]);
        }
        all.into_iter().for_each(|member| nodes.ends(member, Exit::Code(0)));
        assert_eq!(nodes.refused(TOOL, get(&own(both), "key")).kind, FaultKind::NoDatabase);
    }
}

/// At the bound, an ended group is forgotten, but none whose processes belong to a derived group.
#[test]
fn a_derived_group_keeps_the_groups_of_its_members_at_the_bound() {
    let mut limits = Limits::default();
    limits.groups = 3;
    let mut nodes = Nodes::new(&[3, 5], limits);
    let (low, high) = (nodes.group(1, OnDeath::Notify), nodes.group(1, OnDeath::Notify));
    let both = merged(&mut nodes, low, high);
    nodes.ends(member(low, 0), Exit::Code(0));
    nodes.kill_all();
    let opens = Request::Open { over: Set::Group(high), limit: None };
    says(&nodes.refused(process(high, 0), opens.clone()), FaultKind::TooLarge, "3 groups already");
    nodes.ask(TOOL, Request::Free(both)).unwrap();
    for _ in 0..2 {
        nodes.ask(process(high, 0), opens.clone()).unwrap();
    }
    assert_eq!(nodes.refused(TOOL, Request::Status(low)).kind, FaultKind::NoGroup);
}

#[test]
fn the_database_goes_with_the_last_member() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let group = nodes.group(3, OnDeath::Notify);
    let some = splits(&mut nodes, group, &[(Some(0), 0), (None, 0), (Some(0), 0)])[0].unwrap();
    nodes.ends(member(group, 0), Exit::Code(0));
    nodes.ask(process(group, 1), put(&own(some), "key", "value")).unwrap();
    assert_eq!(nodes.ask(process(group, 2), get(&own(some), "key")), Ok(Answer::Value(b"value".to_vec())));
    nodes.ends(member(group, 2), Exit::Code(0));
    // A job that waits for groups would wait for the deaths of its members again.
    assert_eq!(state(&mut nodes, some), GroupState::Derived);
    for client in [process(group, 1), TOOL] {
        assert_eq!(nodes.refused(client, get(&own(some), "key")).kind, FaultKind::NoDatabase);
    }
    assert_eq!(nodes.ask(TOOL, Request::Databases), Ok(Answer::Names(vec![own(group)])));
    assert_eq!(nodes.ask(process(group, 1), Request::Size(some)), Ok(Answer::Number(2)), "it is not freed");
}

/// A member dies while the others split the group: all get the same fault, and no group is made.
#[test]
fn a_death_in_a_split_fails_it_at_all_members() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let group = nodes.group(4, OnDeath::Notify);
    let come =
        [0, 2].map(|rank| (process(group, rank), nodes.asks(process(group, rank), split(group, Some(1), 0))));
    nodes.ends(member(group, 1), Exit::Signal(9));
    let faults = come.map(|(client, serial)| nodes.answer(client, serial).unwrap().unwrap_err());
    says(&faults[0], FaultKind::MemberDied, "g1.1");
    assert_eq!(faults[0], faults[1]);
    assert_eq!(nodes.refused(process(group, 3), split(group, Some(1), 0)), faults[0]);
    let Ok(Answer::Groups(groups)) = nodes.ask(TOOL, Request::Groups) else { panic!() };
    assert_eq!(groups.len(), 1);
}

#[test]
fn who_does_not_split_is_named() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let group = nodes.group(3, OnDeath::Notify);
    let limit = Some(Duration::from_secs(1));
    let request = Request::Split { group, color: None, key: 0, limit };
    let waiting = nodes.asks(process(group, 1), request);
    nodes.after(Duration::from_secs(1));
    let fault = nodes.answer(process(group, 1), waiting).unwrap().unwrap_err();
    says(&fault, FaultKind::TimedOut, "splitting the group has not completed");
    says(&fault, FaultKind::TimedOut, "g1.0, g1.2 have not come");
}

/// Processes die with the group that they were started in.
#[test]
fn a_kill_kills_the_groups_of_the_members() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let (one, other, third) =
        (nodes.group(2, OnDeath::Notify), nodes.group(2, OnDeath::Notify), nodes.group(2, OnDeath::Notify));
    let both = merged(&mut nodes, one, other);
    let some = splits(&mut nodes, both, &[(None, 0), (Some(1), 0), (Some(1), 0), (None, 0)])[1].unwrap();
    let killing = nodes.asks(process(third, 0), Request::Kill(some));
    let killed: Vec<_> = nodes.kills.iter().map(|(_, group, _)| *group).collect();
    assert!(killed.contains(&one) && killed.contains(&other) && !killed.contains(&third));
    assert_eq!(nodes.answer(process(third, 0), killing), None);
    nodes.kill_all();
    assert_eq!(nodes.answer(process(third, 0), killing), Some(Ok(Answer::Done)));
    assert_eq!([one, other].map(|group| state(&mut nodes, group)), [GroupState::Ended; 2]);
}

/// Too many processes, or too many groups: nothing is made of a split that cannot be made as a whole.
#[test]
fn a_group_beyond_the_limits_is_not_made() {
    let mut limits = Limits::default();
    (limits.group, limits.groups) = (3, 3);
    let mut nodes = Nodes::new(&[3, 5], limits);
    let (one, other) = (nodes.group(2, OnDeath::Notify), nodes.group(2, OnDeath::Notify));
    for answer in merges(&mut nodes, one, other) {
        says(&answer.unwrap_err(), FaultKind::TooLarge, "4 processes, the most are 3");
    }
    let told = all(&mut nodes, (0..2).map(|rank| (process(one, rank), split(one, Some(rank), 0))).collect());
    for answer in told {
        says(&answer.unwrap_err(), FaultKind::TooLarge, "3 groups already");
    }
    let copy = splits(&mut nodes, one, &[(Some(0), 0); 2])[0].unwrap();
    assert_eq!(members(&mut nodes, TOOL, copy).len(), 2);
}
