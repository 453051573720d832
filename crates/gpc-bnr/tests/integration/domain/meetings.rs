//! Collective requests: waiting, distribution of puts, and reasons of failure.

use std::time::Duration;

use gpc_bnr::domain::Serial;
use gpc_bnr::names::{GroupId, Set};
use gpc_bnr::order::Order;
use gpc_bnr::request::{Answer, Client, Request};
use gpc_bnr::{Exit, FaultKind, Limits, OnDeath};

use crate::domain::nodes::{Nodes, TOOL, get, member, own, process, put, says, spawn};

fn fence(over: Set) -> Request {
    Request::Fence { over, limit: None, tag: Vec::new() }
}

fn some(group: GroupId, ranks: &[u32]) -> Set {
    Set::Members(ranks.iter().map(|rank| member(group, *rank)).collect())
}

/// All of these clients fence over a set. Returns their answers.
fn meet(nodes: &mut Nodes, clients: &[Client], over: &Set) -> Vec<Result<Answer, gpc_bnr::Fault>> {
    let serials: Vec<_> = clients.iter().map(|client| nodes.asks(*client, fence(over.clone()))).collect();
    let told = clients.iter().zip(serials).map(|(client, serial)| nodes.answer(*client, serial));
    told.map(|answer| answer.expect("all have come")).collect()
}

#[test]
fn a_fence_waits_for_all_and_the_last_rank_and_put_counts_everywhere() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let group = nodes.group(4, OnDeath::Kill);
    let all: Vec<Client> = (0..4).map(|rank| process(group, rank)).collect();
    for (rank, value) in [(3, "of 3"), (2, "of 2"), (0, "of 0"), (1, "first of 1"), (1, "of 1")] {
        nodes.ask(process(group, rank), put(&own(group), "key", value)).unwrap();
    }
    let early = nodes.asks(all[0], fence(Set::Group(group)));
    assert_eq!(nodes.answer(all[0], early), None);
    // The set is the same, however a member describes it.
    let mine = meet(&mut nodes, &all[1..], &some(group, &[0, 1, 2, 3]));
    assert!(mine.iter().all(|answer| *answer == Ok(Answer::Done)));
    assert_eq!(nodes.answer(all[0], early), Some(Ok(Answer::Done)));
    for client in all {
        assert_eq!(nodes.ask(client, get(&own(group), "key")), Ok(Answer::Value(b"of 3".to_vec())));
    }
}

/// A node received the release of a fence before the release of an earlier fence with the same members and another tag.
/// The second fence omitted the puts that the first one had distributed, and a member read an old value after it. A
/// world of `gpc sim --groups` found it, in which a node was not reached for two seconds.
#[test]
fn a_fence_that_overtakes_another_waits_for_it() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let group = nodes.group(2, OnDeath::Kill);
    let all = [process(group, 0), process(group, 1)];
    let over = Set::Group(group);
    nodes.ask(all[0], put(&own(group), "key", "old")).unwrap();
    assert!(meet(&mut nodes, &all, &over).iter().all(Result::is_ok));
    nodes.ask(all[0], put(&own(group), "key", "new")).unwrap();

    nodes.holds = |order| matches!(order, Order::Release { meeting, .. } if meeting.tag == b"beside");
    let beside = Request::Fence { over: over.clone(), limit: None, tag: b"beside".into() };
    let first = all.map(|client| nodes.asks(client, beside.clone()));
    assert_eq!(nodes.answer(all[0], first[0]), Some(Ok(Answer::Done)));
    assert_eq!(nodes.answer(all[1], first[1]), None);
    let second = all.map(|client| nodes.asks(client, fence(over.clone())));
    assert_eq!(nodes.answer(all[0], second[0]), Some(Ok(Answer::Done)));
    assert_eq!(nodes.answer(all[1], second[1]), None);

    nodes.let_go();
    for serial in [first[1], second[1]] {
        assert_eq!(nodes.answer(all[1], serial), Some(Ok(Answer::Done)));
    }
    assert_eq!(nodes.ask(all[1], get(&own(group), "key")), Ok(Answer::Value(b"new".to_vec())));
}

/// As in the test before, but the coordinator of the first fence is lost, so the puts that it distributed never arrive
/// here. Without them, the second fence must not succeed.
#[test]
fn a_fence_that_counts_on_one_that_has_failed_here_fails_here() {
    let mut nodes = Nodes::new(&[3, 5, 7], Limits::default());
    let group = nodes.group(3, OnDeath::Notify);
    let some_of_them = [process(group, 1), process(group, 2)];
    let over = some(group, &[1, 2]);
    nodes.ask(some_of_them[0], put(&own(group), "key", "new")).unwrap();
    nodes.holds = |order| matches!(order, Order::Release { meeting, .. } if meeting.tag == b"beside");
    let beside = Request::Fence { over: over.clone(), limit: None, tag: b"beside".into() };
    let first = some_of_them.map(|client| nodes.asks(client, beside.clone()));
    let second = some_of_them.map(|client| nodes.asks(client, fence(over.clone())));
    let done = Some(Ok(Answer::Done));
    assert_eq!(
        [first[0], second[0]].map(|serial| nodes.answer(some_of_them[0], serial)),
        [done.clone(), done]
    );

    nodes.loses(5);
    for serial in [first[1], second[1]] {
        let fault = nodes.answer(some_of_them[1], serial).unwrap().unwrap_err();
        assert_eq!((fault.kind, fault.node), (FaultKind::NodeLost, Some(5)), "{fault}");
    }
}

#[test]
fn before_a_fence_others_are_asked() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let group = nodes.group(2, OnDeath::Kill);
    nodes.ask(process(group, 0), put(&own(group), "key", "1")).unwrap();
    assert_eq!(nodes.ask(process(group, 1), get(&own(group), "key")), Ok(Answer::Value(b"1".to_vec())));
    says(&nodes.refused(process(group, 1), get(&own(group), "none")), FaultKind::NotFound, "none");
}

#[test]
fn a_fence_is_two_calls_and_gets_after_it_are_none() {
    let ids: Vec<u32> = (0..8).collect();
    let mut nodes = Nodes::new(&ids, Limits::default());
    let group = nodes.group(64, OnDeath::Kill);
    let all: Vec<Client> = (0..64).map(|rank| process(group, rank)).collect();
    let value = "x".repeat(1024);
    for round in 0..3 {
        let before = nodes.calls;
        for (rank, client) in all.iter().enumerate() {
            let key = format!("{round} of {rank}");
            nodes.ask(*client, put(&own(group), &key, &value)).unwrap();
        }
        assert_eq!(nodes.calls, before, "what is put stays where it is");
        let told = meet(&mut nodes, &all, &Set::Group(group));
        assert!(told.iter().all(|answer| *answer == Ok(Answer::Done)));
        assert_eq!(nodes.calls, before + 2, "the members are collected, and released");
        for client in &all {
            for rank in 0..64 {
                let key = format!("{round} of {rank}");
                assert_eq!(
                    nodes.ask(*client, get(&own(group), &key)),
                    Ok(Answer::Value(value.clone().into()))
                );
            }
        }
        assert_eq!(nodes.calls, before + 2, "all that is got is here");
    }
}

#[test]
fn a_fence_of_some_waits_for_nobody_else() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let group = nodes.group(4, OnDeath::Kill);
    let answers = meet(&mut nodes, &[process(group, 1), process(group, 2)], &some(group, &[1, 2]));
    assert_eq!(answers, [Ok(Answer::Done), Ok(Answer::Done)]);
    says(&nodes.refused(process(group, 3), fence(some(group, &[1, 2]))), FaultKind::NotMember, "g1.3");
    says(&nodes.refused(process(group, 3), fence(some(group, &[3, 9]))), FaultKind::NoMember, "g1.9");
    says(&nodes.refused(TOOL, fence(Set::Group(group))), FaultKind::NotMember, "tool");
}

#[test]
fn a_member_that_ends_without_coming_fails_the_fence_at_all_naming_it_after_the_notice() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let group = nodes.group(4, OnDeath::Notify);
    let far = process(group, 2);
    nodes.ask(far, Request::Subscribe(group)).unwrap();
    let waiting = [(far, nodes.asks(far, fence(Set::Group(group))))];
    nodes.ends(member(group, 0), Exit::Signal(9));
    for (client, serial) in waiting {
        let fault = nodes.answer(client, serial).unwrap().unwrap_err();
        says(&fault, FaultKind::MemberDied, "g1.0 was killed by signal 9");
        assert_eq!(fault.deaths.len(), 1);
    }
    assert_eq!(nodes.notices.len(), 1);
    // A member that arrives later gets the same fault; fences without the dead member succeed.
    says(&nodes.refused(process(group, 1), fence(Set::Group(group))), FaultKind::MemberDied, "g1.0");
    let answers = meet(&mut nodes, &[process(group, 1), far], &some(group, &[1, 2]));
    assert_eq!(answers, [Ok(Answer::Done), Ok(Answer::Done)]);
}

/// A process was killed, and the fence of its group failed. One member was notified of that death, and ended because of
/// the failure. The next member of the same fence got both deaths in the order of ranks: the consequence first.
#[test]
fn all_members_are_told_the_same_deaths_and_the_first_is_the_cause() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let group = nodes.group(4, OnDeath::Notify);
    let over = Set::Group(group);
    let waiting = nodes.asks(process(group, 0), fence(over.clone()));
    nodes.ends(member(group, 2), Exit::Signal(9));
    let told = nodes.answer(process(group, 0), waiting).unwrap().unwrap_err();
    says(&told, FaultKind::MemberDied, "g1.2 was killed by signal 9");
    nodes.ends(member(group, 0), Exit::Code(1));
    for rank in [3, 1] {
        assert_eq!(nodes.refused(process(group, rank), fence(over.clone())), told, "rank {rank}");
    }
    // The next fence fails because of both deaths: the first death is the cause, whichever rank it has.
    let next = [1, 3].map(|rank| nodes.refused(process(group, rank), fence(over.clone())));
    assert_eq!(next[0], next[1]);
    let ranks: Vec<_> = next[0].deaths.iter().map(|death| death.member.rank).collect();
    assert_eq!(ranks, [2, 0]);
    let named = nodes.refused(process(group, 1), fence(some(group, &[0, 1, 2])));
    assert_eq!(named.deaths, next[0].deaths);
}

/// Two nodes reported a death and its consequence. The second report reached a third node first, which took the
/// consequence for the cause.
#[test]
fn a_death_is_reported_with_those_that_it_may_follow_from() {
    let mut nodes = Nodes::new(&[3, 5, 7], Limits::default());
    let group = nodes.group(3, OnDeath::Notify);
    nodes.holds = |order| matches!(order, Order::Died(deaths) if deaths.len() == 1);
    nodes.ends(member(group, 1), Exit::Signal(9));
    nodes.input(
        3,
        gpc_bnr::domain::Input::Order {
            token: 1 << 40,
            root: 5,
            order: Order::Died(vec![gpc_bnr::Death {
                member: member(group, 1),
                exit: Exit::Signal(9),
                finalized: true,
            }]),
        },
    );
    nodes.ends(member(group, 0), Exit::Code(1));
    let fault = nodes.refused(process(group, 2), fence(some(group, &[0, 1, 2])));
    let ranks: Vec<_> = fault.deaths.iter().map(|death| death.member.rank).collect();
    assert_eq!(ranks, [1, 0]);
}

/// The report of a death had not reached a node when its member entered a fence with the dead process. The coordinator
/// knew of the death, and collected. The member then waited until the report arrived, which other nodes can delay.
#[test]
fn a_fence_with_a_process_that_the_coordinator_knows_to_be_dead_fails_at_once() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let [one, two] = [nodes.group(2, OnDeath::Notify), nodes.group(2, OnDeath::Notify)];
    nodes.holds = |order| matches!(order, Order::Died(_));
    nodes.ends(member(one, 0), Exit::Signal(9));
    let over = Set::Members([member(one, 0), member(two, 1)].into());
    says(&nodes.refused(process(two, 1), fence(over)), FaultKind::MemberDied, "g1.0 was killed by signal 9");
}

/// A member entered a fence and died before its node was asked for its members. The node reported that all had arrived,
/// but had dropped the puts of the dead member. The fence succeeded without them.
#[test]
fn a_node_whose_member_has_come_and_died_does_not_say_that_all_are_in() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let group = nodes.group(2, OnDeath::Notify);
    nodes.ask(process(group, 1), put(&own(group), "key", "1")).unwrap();
    nodes.asks(process(group, 1), fence(Set::Group(group)));
    nodes.holds = |order| matches!(order, Order::Died(_) | Order::Fail { .. });
    nodes.ends(member(group, 1), Exit::Signal(9));
    let serial = nodes.asks(process(group, 0), fence(Set::Group(group)));
    assert_eq!(nodes.answer(process(group, 0), serial), None);
    nodes.let_go();
    says(&nodes.answer(process(group, 0), serial).unwrap().unwrap_err(), FaultKind::MemberDied, "g1.1");
}

#[test]
fn a_limit_fails_the_meeting_at_all_also_at_those_who_come_later() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let group = nodes.group(2, OnDeath::Notify);
    let limit = Some(Duration::from_secs(1));
    let request = Request::Fence { over: Set::Group(group), limit, tag: Vec::new() };
    let serial = nodes.asks(process(group, 1), request);
    nodes.after(Duration::from_millis(900));
    assert_eq!(nodes.answer(process(group, 1), serial), None);
    nodes.after(Duration::from_millis(100));
    says(&nodes.answer(process(group, 1), serial).unwrap().unwrap_err(), FaultKind::TimedOut, "g1.1");
    says(&nodes.refused(process(group, 0), fence(Set::Group(group))), FaultKind::TimedOut, "g1.1");
    let answers = meet(&mut nodes, &[process(group, 0), process(group, 1)], &Set::Group(group));
    assert_eq!(answers, [Ok(Answer::Done), Ok(Answer::Done)]);
}

/// A group of three at nodes 3, 5 and 7, of which only node 7 has heard; the members 1 and 2, at nodes 5 and 7; and the
/// fence of member 2 over both, whose limit has passed.
fn a_fence_before_the_coordinator_hears_of_its_group() -> (Nodes, Serial, GroupId, Serial) {
    let mut nodes = Nodes::new(&[3, 5, 7], Limits::default());
    nodes.holds = |order| matches!(order, Order::Start(_));
    let spawning = nodes.asks(TOOL, spawn(3, OnDeath::Notify));
    nodes.let_go_at(7);
    let group = nodes.started[0].group;
    let limit = Some(Duration::from_secs(1));
    let request = Request::Fence { over: some(group, &[1, 2]), limit, tag: Vec::new() };
    let waiting = nodes.asks(process(group, 2), request);
    nodes.after(Duration::from_secs(1));
    assert_eq!(nodes.answer(process(group, 2), waiting), None);
    (nodes, spawning, group, waiting)
}

/// The time limit of a fence passed before the group had started at the coordinator, which then could not name the
/// missing members. The simulator found this.
#[test]
fn a_limit_that_has_passed_before_the_group_starts_at_the_coordinator_names_who_is_missing() {
    let (mut nodes, spawning, group, waiting) = a_fence_before_the_coordinator_hears_of_its_group();
    nodes.after(Duration::from_millis(200));
    nodes.let_go();
    assert!(nodes.answer(TOOL, spawning).unwrap().is_ok());
    nodes.after(Duration::from_millis(50));
    let told = nodes.answer(process(group, 2), waiting).unwrap().unwrap_err();
    says(&told, FaultKind::TimedOut, ": g1.1 has not come");
    assert_eq!(told.missing, [member(group, 1)]);
    assert_eq!(nodes.refused(process(group, 1), fence(some(group, &[1, 2]))), told);
}

/// A member's fence failed before the coordinator had heard of the group. The coordinator passed the fault on and kept
/// nothing, so its own member got another fault later. The simulator found this.
#[test]
fn a_failure_that_is_older_than_the_group_at_the_coordinator_is_that_of_all_members() {
    let (mut nodes, spawning, group, waiting) = a_fence_before_the_coordinator_hears_of_its_group();
    // No member waits longer for the names of the missing.
    nodes.after(Duration::from_secs(1));
    let told = nodes.answer(process(group, 2), waiting).unwrap().unwrap_err();
    says(&told, FaultKind::TimedOut, "g1.2");
    nodes.let_go();
    assert!(nodes.answer(TOOL, spawning).unwrap().is_ok());
    let over = some(group, &[1, 2]);
    assert_eq!(nodes.refused(process(group, 1), fence(over.clone())), told);
    let next = meet(&mut nodes, &[process(group, 1), process(group, 2)], &over);
    assert_eq!(next, [Ok(Answer::Done), Ok(Answer::Done)]);
}

/// A fence failed at one node before the coordinator knew the group. The coordinator did not report the failure to the
/// other nodes, so a member at a third node waited for its own limit. The simulator found this.
#[test]
fn a_failure_that_is_older_than_the_group_at_the_coordinator_reaches_all_nodes() {
    let mut nodes = Nodes::new(&[3, 5, 7, 9], Limits::default());
    nodes.holds = |order| matches!(order, Order::Start(_));
    let spawning = nodes.asks(TOOL, spawn(4, OnDeath::Notify));
    nodes.let_go_at(7);
    nodes.let_go_at(9);
    let group = nodes.started[0].group;
    let over = some(group, &[1, 2, 3]);
    let limit = Some(Duration::from_secs(1));
    let short = Request::Fence { over: over.clone(), limit, tag: Vec::new() };
    let first = nodes.asks(process(group, 2), short);
    let second = nodes.asks(process(group, 3), fence(over.clone()));
    nodes.after(Duration::from_secs(1));
    // No member waits longer for the names of the missing.
    nodes.after(Duration::from_secs(1));
    let told = nodes.answer(process(group, 2), first).unwrap().unwrap_err();
    assert_eq!(nodes.answer(process(group, 3), second), None);
    nodes.let_go();
    assert!(nodes.answer(TOOL, spawning).unwrap().is_ok());
    assert_eq!(nodes.answer(process(group, 3), second), Some(Err(told.clone())));
    assert_eq!(nodes.refused(process(group, 1), fence(over)), told);
}

/// A fence timed out. The fault at one node had only the number of missing members there, without their names. At
/// another node it stated that members elsewhere were late.
#[test]
fn a_limit_that_has_passed_names_who_has_not_come_at_every_member() {
    let mut nodes = Nodes::new(&[3, 5, 7], Limits::default());
    let group = nodes.group(6, OnDeath::Notify);
    let request =
        Request::Fence { over: Set::Group(group), limit: Some(Duration::from_secs(1)), tag: Vec::new() };
    let come = [1, 4].map(|rank| (process(group, rank), nodes.asks(process(group, rank), request.clone())));
    nodes.after(Duration::from_secs(1));
    let told = come.map(|(client, serial)| nodes.answer(client, serial).unwrap().unwrap_err());
    says(&told[0], FaultKind::TimedOut, ": g1.0, g1.2-3, g1.5 have not come");
    assert_eq!(told[0].missing, [0, 2, 3, 5].map(|rank| member(group, rank)));
    assert_eq!(told[0], told[1]);
    assert_eq!(nodes.refused(process(group, 5), request), told[0]);
    // For a merged group, the fault lists members by the groups that they were started in.
    let other = nodes.group(3, OnDeath::Notify);
    let merge = |first, second| Request::Merge { first, second, limit: Some(Duration::from_secs(1)) };
    let serial = nodes.asks(process(other, 2), merge(other, group));
    nodes.after(Duration::from_secs(1));
    let fault = nodes.answer(process(other, 2), serial).unwrap().unwrap_err();
    says(&fault, FaultKind::TimedOut, "merging g1 and g2");
    says(&fault, FaultKind::TimedOut, ": g1.0-5, g2.0-1 have not come");
}

/// A fence passed its time limit, and the coordinator asked each node which members were missing. If one node did not
/// answer, the members waited as long as for another fence.
#[test]
fn a_node_that_does_not_say_who_is_missing_delays_the_fault_by_one_second() {
    let mut nodes = Nodes::new(&[3, 5, 7], Limits::default());
    let group = nodes.group(3, OnDeath::Notify);
    let (over, limit) = (Set::Group(group), Some(Duration::from_secs(5)));
    let waiting = nodes.asks(process(group, 0), Request::Fence { over, limit, tag: Vec::new() });
    nodes.holds = |order| matches!(order, Order::Missing { .. });
    nodes.after(Duration::from_secs(5));
    nodes.let_go_at(5);
    nodes.after(Duration::from_millis(999));
    assert_eq!(nodes.answer(process(group, 0), waiting), None);
    nodes.after(Duration::from_millis(1));
    let fault = nodes.answer(process(group, 0), waiting).unwrap().unwrap_err();
    says(&fault, FaultKind::TimedOut, ": g1.1 has not come; of the members on node 7 it is not known");
}

/// The coordinator asks a node which members are missing, after their group was freed. The node knows no member of such
/// a group, and answers at once.
#[test]
fn a_node_says_at_once_that_nobody_of_a_freed_group_is_missing() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let [low, high] = [(); 2].map(|()| nodes.group(2, OnDeath::Notify));
    let all = [(low, 0), (low, 1), (high, 0), (high, 1)];
    let merging = all.map(|(group, rank)| {
        let (first, second) = if group == low { (low, high) } else { (high, low) };
        (
            process(group, rank),
            nodes.asks(process(group, rank), Request::Merge { first, second, limit: None }),
        )
    });
    let [Some(Ok(Answer::Group(both))), ..] = merging.map(|(of, serial)| nodes.answer(of, serial)) else {
        panic!("all have come")
    };
    let limit = Some(Duration::from_secs(5));
    let fence = Request::Fence { over: Set::Group(both), limit, tag: Vec::new() };
    let waiting = nodes.asks(process(low, 1), fence);
    nodes.holds = |order| matches!(order, Order::Missing { .. });
    nodes.after(Duration::from_secs(5));
    nodes.ask(TOOL, Request::Free(both)).unwrap();
    nodes.let_go();
    says(&nodes.answer(process(low, 1), waiting).unwrap().unwrap_err(), FaultKind::TimedOut, "g1.1");
}

#[test]
fn members_who_want_different_things_are_told() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let group = nodes.group(2, OnDeath::Kill);
    let serial = nodes.asks(process(group, 1), fence(Set::Group(group)));
    let fault = nodes.refused(process(group, 0), Request::Open { over: Set::Group(group), limit: None });
    says(&fault, FaultKind::Mismatch, "open a group");
    says(&nodes.answer(process(group, 1), serial).unwrap().unwrap_err(), FaultKind::Mismatch, "fence");
}

#[test]
fn nobody_fences_with_members_of_a_group_that_is_open() {
    let mut nodes = Nodes::one();
    let group = nodes.group(1, OnDeath::Kill);
    let open = Request::Open { over: Set::Group(group), limit: None };
    let Ok(Answer::Group(child)) = nodes.ask(process(group, 0), open) else { panic!() };
    let both = Set::Members([member(group, 0), member(child, 0)].into());
    says(&nodes.refused(process(group, 0), fence(both)), FaultKind::GroupOpen, "close it");
    let gone = Set::Members([member(group, 0), member(GroupId(9), 0)].into());
    says(&nodes.refused(process(group, 0), fence(gone)), FaultKind::NoGroup, "g9");
}

#[test]
fn two_fences_of_one_member_with_two_tags_are_on_at_a_time() {
    let mut nodes = Nodes::one();
    let group = nodes.group(2, OnDeath::Kill);
    let tagged = |tag: &str| Request::Fence { over: Set::Group(group), limit: None, tag: tag.into() };
    let one = nodes.asks(process(group, 0), tagged("one"));
    let two = nodes.asks(process(group, 0), tagged("two"));
    assert_eq!(nodes.ask(process(group, 1), tagged("two")), Ok(Answer::Done));
    assert_eq!(nodes.answer(process(group, 0), one), None);
    assert_eq!(nodes.answer(process(group, 0), two), Some(Ok(Answer::Done)));
    says(&nodes.refused(process(group, 0), tagged("\0own")), FaultKind::BadRequest, "tag");
}
