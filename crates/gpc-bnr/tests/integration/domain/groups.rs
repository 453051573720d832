//! Groups: spawn, kill, status, free.

use std::time::Duration;

use gpc_bnr::domain::Input;
use gpc_bnr::names::{GroupId, Set};
use gpc_bnr::request::{Answer, Client, GroupState, Identity, Request};
use gpc_bnr::{Exit, FaultKind, Limits, OnDeath, Readers, Spec};

use crate::domain::nodes::{Nodes, TOOL, get, member, own, pair, process, says, spawn, spec};

fn state(nodes: &mut Nodes, group: GroupId) -> GroupState {
    match nodes.ask(TOOL, Request::Status(group)) {
        Ok(Answer::Groups(groups)) => groups[0].state,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_process_learns_who_it_is_and_finds_what_was_put_for_it() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let mut request = spawn(3, OnDeath::Kill);
    if let Request::SpawnMultiple { preputs, .. } = &mut request {
        preputs.push(pair("given", "1"));
    }
    let Ok(Answer::Spawned { group, same_domain: true, .. }) = nodes.ask(TOOL, request) else { panic!() };
    let identity = |rank, neighbours| Identity {
        member: member(group, rank),
        size: 3,
        parent: None,
        database: own(group),
        spec: 0,
        neighbours,
    };
    assert_eq!(nodes.ask(process(group, 1), Request::Init), Ok(Answer::Identity(identity(1, vec![0, 1]))));
    assert_eq!(nodes.ask(process(group, 2), Request::Init), Ok(Answer::Identity(identity(2, vec![2]))));
    assert_eq!(nodes.ask(process(group, 2), get(&own(group), "given")), Ok(Answer::Value(b"1".to_vec())));
    let mapping = nodes.ask(process(group, 2), get(&own(group), "PMI_process_mapping"));
    assert_eq!(mapping, Ok(Answer::Value(b"(vector,(0,1,2),(1,1,1))".to_vec())));
    assert_eq!(nodes.ask(process(group, 0), Request::Size(group)), Ok(Answer::Number(3)));
}

#[test]
fn what_a_group_leaves_behind_goes_when_its_last_process_has_ended() {
    let mut nodes = Nodes::one();
    let group = nodes.group(2, OnDeath::Kill);
    nodes.ends(member(group, 1), Exit::Code(0));
    assert_eq!(nodes.kills, []);
    assert_eq!(state(&mut nodes, group), GroupState::Running);
    nodes.ends(member(group, 0), Exit::Code(0));
    assert_eq!(nodes.kills, [(7, group, None)]);
    assert_eq!(state(&mut nodes, group), GroupState::Ended);
    says(&nodes.refused(TOOL, get(&own(group), "a")), FaultKind::NoDatabase, &own(group));
}

#[test]
fn a_process_that_dies_takes_its_group_along_unless_it_was_said_otherwise() {
    for (exit, finalizes, takes) in [
        (Exit::Code(0), true, false),
        (Exit::Code(0), false, true),
        (Exit::Code(3), true, true),
        (Exit::Signal(9), true, true),
    ] {
        for on_death in [OnDeath::Kill, OnDeath::Notify] {
            let mut nodes = Nodes::new(&[3, 5], Limits::default());
            let group = nodes.group(3, on_death);
            nodes.ask(process(group, 0), Request::Init).unwrap();
            if finalizes {
                nodes.ask(process(group, 0), Request::Finalize).unwrap();
            }
            nodes.ends(member(group, 0), exit);
            let grace = Some(Limits::default().grace);
            let expected = match takes && on_death == OnDeath::Kill {
                true => vec![(3, group, grace), (5, group, grace)],
                false => vec![],
            };
            assert_eq!(nodes.kills, expected, "{exit:?} {finalizes} {on_death:?}");
        }
    }
}

/// A process may change its link: it is ended only if it has none after ten seconds.
#[test]
fn a_process_whose_link_has_closed_is_ended_unless_it_links_again() {
    for links_again in [false, true] {
        let mut nodes = Nodes::one();
        let group = nodes.group(2, OnDeath::Kill);
        nodes.ask(process(group, 0), Request::Init).unwrap();
        nodes.input(7, Input::Gone(process(group, 0)));
        if links_again {
            nodes.ask(process(group, 0), Request::Init).unwrap();
        }
        nodes.after(Duration::from_millis(9_999));
        assert_eq!(nodes.kills, []);
        nodes.after(Duration::from_millis(1));
        assert_eq!(nodes.kills.len(), usize::from(!links_again));
    }
}

#[test]
fn where_one_cannot_be_started_the_others_are_killed_and_each_error_is_told() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    nodes.broken.insert(1, 2);
    let serial = nodes.asks(TOOL, spawn(4, OnDeath::Notify));
    assert_eq!(nodes.answer(TOOL, serial), None, "there are processes still");
    for rank in [0, 2, 3] {
        nodes.ends(member(GroupId(1), rank), Exit::Signal(15));
    }
    nodes.kill_all();
    let answer = Answer::Spawned { group: GroupId(1), errors: vec![0, 2, 0, 0], same_domain: true };
    assert_eq!(nodes.answer(TOOL, serial), Some(Ok(answer)));
    assert_eq!(state(&mut nodes, GroupId(1)), GroupState::Ended);
}

/// A program was missing on one of two nodes. The ranks of the other node ran, although no process of a group may run
/// unless all can be started.
#[test]
fn where_a_node_cannot_start_its_part_no_process_of_the_group_runs() {
    for unfit in [0, 3] {
        let mut nodes = Nodes::new(&[3, 5], Limits::default());
        nodes.unfit.insert(unfit, 2);
        let answer = nodes.ask(TOOL, spawn(4, OnDeath::Kill));
        let errors = (0..4).map(|rank| if rank == unfit { 2 } else { 125 }).collect();
        let group = GroupId(1);
        assert_eq!(answer, Ok(Answer::Spawned { group, errors, same_domain: true }));
        assert_eq!((nodes.started.len(), nodes.kills.len()), (0, 0), "nothing was started");
        let failures = &nodes.failures;
        let said: Vec<_> = failures.iter().map(|failure| (failure.node, &failure.ranks[..])).collect();
        assert_eq!(said, [(if unfit == 0 { 3 } else { 5 }, &[unfit][..])]);
        assert_eq!((state(&mut nodes, group), failures_of(&nodes)), (GroupState::Ended, b"./a".to_vec()));
        // The next group starts.
        nodes.unfit.clear();
        nodes.group(4, OnDeath::Kill);
    }
}

/// A command on many hosts ran nowhere, since one of them could start no process.
#[test]
fn a_group_that_starts_partly_runs_without_what_cannot_be_started() {
    let partly = |specs: &mut Vec<gpc_bnr::Spec>| {
        specs.iter_mut().for_each(|spec| spec.info.push(("start".into(), b"partial".to_vec())));
    };
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    nodes.broken.extend([(1, 11), (2, 2)]);
    nodes.unfit.insert(0, 2);
    let mut request = spawn(4, OnDeath::Notify);
    if let Request::SpawnMultiple { specs, .. } = &mut request {
        partly(specs);
    }
    let group = GroupId(1);
    let answer = nodes.ask(TOOL, request.clone());
    assert_eq!(answer, Ok(Answer::Spawned { group, errors: vec![0, 11, 2, 0], same_domain: true }));
    assert_eq!((state(&mut nodes, group), nodes.kills.len()), (GroupState::Running, 0));
    assert_eq!(subscribed(&mut nodes, TOOL, group), [group]);
    let never: Vec<_> = nodes.notices.iter().map(|(_, death)| (death.member.rank, death.exit)).collect();
    assert_eq!(never, [(1, Exit::Never), (2, Exit::Never)]);
    let said: Vec<_> = nodes.failures.iter().map(|failure| (failure.node, &failure.ranks[..])).collect();
    assert_eq!(said, [(3, &[1][..]), (5, &[2][..])]);
    for rank in [0, 3] {
        nodes.ends(member(group, rank), Exit::Code(0));
    }
    assert_eq!(state(&mut nodes, group), GroupState::Ended);
    // Where all fail, the group has ended at once.
    nodes.broken = (0..4).map(|rank| (rank, 2)).collect();
    let Ok(Answer::Spawned { group, errors, .. }) = nodes.ask(TOOL, request) else { panic!() };
    assert_eq!((errors, state(&mut nodes, group)), (vec![2; 4], GroupState::Ended));
}

/// A program of a group that does not start partly keeps the others from running.
#[test]
fn a_group_starts_partly_only_if_all_its_programs_do() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    nodes.unfit.insert(0, 2);
    let mut request = spawn(2, OnDeath::Notify);
    if let Request::SpawnMultiple { specs, .. } = &mut request {
        specs[0].info.push(("start".into(), b"partial".to_vec()));
        specs.push(spec(1));
    }
    let Ok(Answer::Spawned { errors, .. }) = nodes.ask(TOOL, request) else { panic!() };
    assert_eq!((errors, nodes.started.len()), (vec![2, 125, 125], 0));
}

#[test]
fn the_head_reports_the_hosts_of_the_nodes_that_have_begun() {
    let nodes = Nodes::new(&[3, 5, 7], Limits::default());
    assert_eq!(nodes.begun, [5, 7].map(|id| (id, format!("host{id}.example"))));
}

/// A node that called itself `../.ssh/authorized_keys` got output into a file of that name.
#[test]
fn a_host_name_that_is_none_is_replaced() {
    for bad in
        ["../.ssh/authorized_keys", "..", ".rc", "a b", "a\n", "\u{1b}[2J", "\u{e4}", "", &"x".repeat(256)]
    {
        let name = |id| if id == 5 { bad.to_owned() } else { "x".repeat(255) };
        let nodes = Nodes::named(&[3, 5, 7], Limits::default(), name);
        assert_eq!(nodes.begun, [(5, "node-5".to_owned()), (7, "x".repeat(255))], "{bad:?}");
    }
}

/// Programs of `torch.distributed` ran on one machine alone, since the head chose a port of its own.
#[test]
fn programs_of_torch_learn_a_port_of_the_node_of_rank_0() {
    for (node, port) in [(3, 30), (5, 50)] {
        let torch = |env: &[(&str, &str)]| Spec {
            count: 2,
            program: b"./a".to_vec(),
            env: env
                .iter()
                .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
                .collect(),
            info: [("env-for", "torch"), ("host", &node.to_string())]
                .map(|(key, value)| (key.into(), value.into()))
                .into(),
            ..Spec::default()
        };
        let plain = Spec { count: 2, program: b"./b".to_vec(), ..Spec::default() };
        let mut nodes = Nodes::new(&[3, 5], Limits::default());
        // The node of other ranks says one, too.
        nodes.ports = [(3, 30), (5, 50)].into();
        let request = Request::SpawnMultiple {
            specs: vec![torch(&[]), torch(&[("MASTER_PORT", "7")]), plain],
            preputs: Vec::new(),
            on_death: OnDeath::Kill,
            input: Readers::None,
        };
        let answer = nodes.ask(TOOL, request);
        assert!(matches!(&answer, Ok(Answer::Spawned { errors, .. }) if errors == &[0; 6]), "{answer:?}");
        assert_eq!(nodes.started.len(), 2);
        for layout in &nodes.started {
            let env: Vec<_> = layout.specs.iter().map(variables).collect();
            let (address, port) = (format!("MASTER_ADDR=10.0.0.{node}"), format!("MASTER_PORT={port}"));
            let own = "MASTER_PORT=7".to_owned();
            assert_eq!(env, [vec![address.clone(), port], vec![own, address], vec![]]);
        }
    }
}

fn variables(spec: &Spec) -> Vec<String> {
    let shown = |(name, value): &(Vec<u8>, Vec<u8>)| {
        format!("{}={}", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
    };
    spec.env.iter().map(shown).collect()
}

fn failures_of(nodes: &Nodes) -> Vec<u8> {
    nodes.failures[0].program.clone()
}

/// A node reported a rank of another node, and one that does not exist; only its own rank counts.
#[test]
fn a_node_speaks_for_its_own_ranks_alone() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    nodes.unfit.extend([(2, 2), (3, 2)]);
    nodes.lies = Some(vec![0, 3, 99]);
    let answer = nodes.ask(TOOL, spawn(4, OnDeath::Kill));
    let Ok(Answer::Spawned { errors, .. }) = answer else { panic!("{answer:?}") };
    assert_eq!(errors, [125, 125, 125, 2]);
    assert_eq!(nodes.failures.iter().map(|failure| &failure.ranks[..]).collect::<Vec<_>>(), [&[3][..]]);
}

#[test]
fn a_kill_is_answered_when_none_is_left_and_how_they_ended_is_known_then() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let group = nodes.group(2, OnDeath::Kill);
    nodes.holds = |order| matches!(order, gpc_bnr::order::Order::Died(_));
    let serial = nodes.asks(TOOL, Request::Kill(group));
    assert_eq!(state(&mut nodes, group), GroupState::Killed);
    nodes.ends(member(group, 0), Exit::Signal(15));
    nodes.ends(member(group, 1), Exit::Signal(15));
    assert_eq!(nodes.answer(TOOL, serial), None);
    nodes.kill_all();
    assert_eq!(nodes.answer(TOOL, serial), Some(Ok(Answer::Done)));
    assert_eq!(state(&mut nodes, group), GroupState::Ended);
    // Another kill of the group is harmless; a group that does not exist cannot be killed.
    assert_eq!(nodes.ask(TOOL, Request::Kill(group)), Ok(Answer::Done));
    says(&nodes.refused(TOOL, Request::Kill(GroupId(9))), FaultKind::NoGroup, "g9");
}

/// Subscribes, and returns the groups whose deaths will be reported.
fn subscribed(nodes: &mut Nodes, client: Client, group: GroupId) -> Vec<GroupId> {
    match nodes.ask(client, Request::Subscribe(group)) {
        Ok(Answer::Rosters(groups)) => groups[0].spans.iter().map(|span| span.group).collect(),
        other => panic!("{other:?}"),
    }
}

/// Each node told all others of its deaths itself: the end of 64 processes at 64 nodes opened thousands of links, and
/// the system ran out of room for the addresses of neighbours.
#[test]
fn deaths_go_to_the_head_which_tells_all_of_many_at_once() {
    let ids = [3, 5, 7, 9];
    let mut nodes = Nodes::new(&ids, Limits::default());
    let [group, other] = [nodes.group(4, OnDeath::Notify), nodes.group(4, OnDeath::Notify)];
    nodes.holds = |order| matches!(order, gpc_bnr::order::Order::Died(_));
    (1..4).for_each(|rank| nodes.ends(member(group, rank), Exit::Code(0)));
    assert_eq!(nodes.delayed(), [(5, 3), (7, 3), (9, 3)]);
    nodes.let_go_at(3);
    // One call tells of the first death; those that come meanwhile share the next one.
    assert_eq!(nodes.delayed(), [(3, 5), (3, 7), (3, 9)]);
    let calls = nodes.calls;
    nodes.let_go();
    assert_eq!(nodes.calls - calls, 1);
    assert_eq!(subscribed(&mut nodes, process(other, 2), group), [group]);
    let mut told: Vec<_> = nodes.notices.iter().map(|(_, death)| death.member.rank).collect();
    told.sort_unstable();
    assert_eq!(told, [1, 2, 3]);
}

/// The head had learned of a death from a fence that failed with it, and did not pass it on when its node reported it.
#[test]
fn a_death_that_the_head_learns_from_a_fence_is_passed_on_too() {
    let mut nodes = Nodes::new(&[3, 5, 7], Limits::default());
    let group = nodes.group(6, OnDeath::Notify);
    let far = process(group, 5);
    assert_eq!(subscribed(&mut nodes, far, group), [group]);
    let over = Set::Members([0, 2, 3].map(|rank| member(group, rank)).into());
    nodes.asks(process(group, 3), Request::Fence { over, limit: None, tag: Vec::new() });
    nodes.holds = |order| matches!(order, gpc_bnr::order::Order::Died(_));
    nodes.ends(member(group, 2), Exit::Signal(9));
    assert_eq!(nodes.delayed(), [(5, 3), (3, 5), (3, 7)], "the head knows of it already");
    nodes.let_go();
    let told: Vec<_> = nodes.notices.iter().map(|(client, death)| (*client, death.member.rank)).collect();
    assert_eq!(told, [(far, 2)]);
}

#[test]
fn whoever_subscribes_is_told_once_of_each_death_also_of_earlier_ones() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let watched = nodes.group(2, OnDeath::Notify);
    let other = nodes.group(2, OnDeath::Notify);
    nodes.ends(member(watched, 0), Exit::Code(4));
    let client = process(other, 1);
    for _ in 0..2 {
        assert_eq!(subscribed(&mut nodes, client, watched), [watched]);
    }
    nodes.ends(member(watched, 1), Exit::Signal(6));
    let told: Vec<_> = nodes.notices.iter().map(|(to, death)| (*to, death.member.rank, death.exit)).collect();
    assert_eq!(told, [(client, 0, Exit::Code(4)), (client, 1, Exit::Signal(6))]);
}

#[test]
fn a_group_is_opened_spawned_into_and_closed_by_those_who_opened_it() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let group = nodes.group(2, OnDeath::Kill);
    let over = Set::Group(group);
    let (first, second) = (process(group, 0), process(group, 1));
    let open = Request::Open { over: over.clone(), limit: None };
    let before = nodes.asks(first, open.clone());
    assert_eq!(nodes.answer(first, before), None);
    let Ok(Answer::Group(child)) = nodes.ask(second, open) else { panic!() };
    assert_eq!(nodes.answer(first, before), Some(Ok(Answer::Group(child))));
    let size = nodes.asks(second, Request::Size(child));
    let more = |count| Request::Spawn {
        group: child,
        specs: vec![spec(count)],
        preputs: Vec::new(),
        on_death: None,
    };
    nodes.ask(first, more(1)).unwrap();
    nodes.ask(second, more(2)).unwrap();
    says(&nodes.refused(TOOL, Request::Kill(child)), FaultKind::GroupOpen, "close it");
    let close = Request::Close { over, group: child, limit: None };
    let before = nodes.asks(first, close.clone());
    let spawned = Answer::Spawned { group: child, errors: vec![0, 0, 0], same_domain: true };
    assert_eq!(nodes.ask(second, close), Ok(spawned.clone()));
    assert_eq!(nodes.answer(first, before), Some(Ok(spawned)));
    assert_eq!(nodes.answer(second, size), Some(Ok(Answer::Number(3))));
    says(&nodes.refused(first, more(1)), FaultKind::GroupClosed, &child.to_string());
    let Ok(Answer::Identity(identity)) = nodes.ask(process(child, 2), Request::Init) else { panic!() };
    assert_eq!((identity.parent, identity.size, identity.spec), (Some(group), 3, 1));
}

/// A program ended a group of its own by a kill, and its run was reported as failed. The head saw processes ended by
/// SIGTERM, and not the reason.
#[test]
fn a_kill_that_a_process_asks_for_is_reported_before_the_deaths() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let (first, second) = (nodes.group(2, OnDeath::Kill), nodes.group(2, OnDeath::Kill));
    nodes.ends(member(second, 1), Exit::Code(0));
    nodes.asks(process(first, 1), Request::Kill(second));
    nodes.asks(process(first, 0), Request::Kill(second));
    nodes.asks(TOOL, Request::Kill(first));
    assert_eq!(nodes.killed, [(second, member(first, 1), 1)], "once, and of processes alone");
}

/// A tool that watched a group learned of the deaths of what its processes spawned only after it had asked for these,
/// too: later ends elsewhere came first.
#[test]
fn who_watches_a_group_hears_of_what_it_spawns_in_order() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let group = nodes.group(2, OnDeath::Notify);
    assert_eq!(nodes.spawned, []);
    nodes.ask(TOOL, Request::Subscribe(group)).unwrap();
    nodes.ask(process(group, 1), Request::Subscribe(group)).unwrap();
    let started = nodes.ask(process(group, 0), spawn(2, OnDeath::Notify));
    let Ok(Answer::Spawned { group: spawned, .. }) = started else { panic!("{started:?}") };
    assert_eq!(nodes.spawned, [(spawned, 2)]);
    let ends = [member(spawned, 1), member(group, 0), member(spawned, 0)];
    ends.into_iter().for_each(|member| nodes.ends(member, Exit::Code(3)));
    let told = |whom| nodes.notices.iter().filter(move |(to, _)| *to == whom).map(|(_, death)| death.member);
    assert!(told(TOOL).eq(ends), "{:?}", nodes.notices);
    assert!(told(process(group, 1)).eq([member(group, 0)]), "a process watches what it asks for");
}

#[test]
fn two_groups_become_one_the_lower_number_in_front() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let (low, high) = (nodes.group(2, OnDeath::Kill), nodes.group(1, OnDeath::Kill));
    let merge = |first, second| Request::Merge { first, second, limit: None };
    let waiting = [
        (process(low, 0), nodes.asks(process(low, 0), merge(low, high))),
        (process(high, 0), nodes.asks(process(high, 0), merge(high, low))),
    ];
    let Ok(Answer::Group(both)) = nodes.ask(process(low, 1), merge(low, high)) else { panic!() };
    for (client, serial) in waiting {
        assert_eq!(nodes.answer(client, serial), Some(Ok(Answer::Group(both))));
    }
    assert_eq!(nodes.ask(process(high, 0), Request::Size(both)), Ok(Answer::Number(3)));
    let Ok(Answer::Groups(groups)) = nodes.ask(TOOL, Request::Status(both)) else { panic!() };
    let pids: Vec<_> = groups[0].members.iter().map(|status| (status.rank, status.pid)).collect();
    assert_eq!(pids, [(0, Some(100)), (1, Some(101)), (2, Some(100))]);
    let fence = Request::Fence { over: Set::Group(both), limit: None, tag: Vec::new() };
    let waiting = [nodes.asks(process(low, 0), fence.clone()), nodes.asks(process(low, 1), fence.clone())];
    assert_eq!(nodes.ask(process(high, 0), fence), Ok(Answer::Done));
    assert_eq!(nodes.answer(process(low, 0), waiting[0]), Some(Ok(Answer::Done)));
    // The answer to a subscription lists the parts: a process is identified by the group that it was started in.
    assert_eq!(subscribed(&mut nodes, process(high, 0), both), [low, high]);
    nodes.ends(member(low, 1), Exit::Code(3));
    let told: Vec<_> = nodes.notices.iter().map(|(to, death)| (*to, death.member)).collect();
    assert_eq!(told, [(process(high, 0), member(low, 1))]);
    nodes.ask(TOOL, Request::Free(both)).unwrap();
    says(&nodes.refused(TOOL, Request::Status(both)), FaultKind::NoGroup, &both.to_string());
    says(&nodes.refused(process(high, 0), merge(low, high)), FaultKind::NotMember, "must be a member of");
}

/// A merge waits at one process. Then the other group, itself merged, is freed and cannot be entered any more.
#[test]
fn a_merge_ends_when_either_of_its_groups_is_freed() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let merge = |first, second| Request::Merge { first, second, limit: None };
    for merged_is_first in [true, false] {
        let [before, low, high] = [(); 3].map(|()| nodes.group(1, OnDeath::Kill));
        nodes.asks(process(low, 0), merge(low, high));
        let merged = nodes.ask(process(high, 0), merge(high, low));
        let Ok(Answer::Group(both)) = merged else { panic!("{merged:?}") };
        // In the merge, the lower number is first.
        let other = if merged_is_first { nodes.group(1, OnDeath::Kill) } else { before };
        let serial = nodes.asks(process(other, 0), merge(other, both));
        assert_eq!(nodes.answer(process(other, 0), serial), None);
        nodes.ask(TOOL, Request::Free(both)).unwrap();
        let fault = nodes.answer(process(other, 0), serial).expect("it waits for nobody").unwrap_err();
        says(&fault, FaultKind::NoGroup, &both.to_string());
    }
}

#[test]
fn a_group_that_is_freed_goes_with_its_last_process_and_its_deaths_are_told_before() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let group = nodes.group(2, OnDeath::Notify);
    nodes.ask(TOOL, Request::Subscribe(group)).unwrap();
    nodes.ask(TOOL, Request::Free(group)).unwrap();
    assert_eq!(state(&mut nodes, group), GroupState::Running);
    nodes.ends(member(group, 0), Exit::Code(1));
    nodes.ends(member(group, 1), Exit::Code(1));
    assert_eq!(nodes.notices.len(), 2);
    says(&nodes.refused(TOOL, Request::Status(group)), FaultKind::NoGroup, &group.to_string());
}

#[test]
fn a_domain_ends_at_all_nodes_when_nothing_is_left() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    let group = nodes.group(2, OnDeath::Kill);
    let waiting =
        nodes.asks(process(group, 0), Request::Fence { over: Set::Group(group), limit: None, tag: vec![] });
    nodes.input(3, gpc_bnr::domain::Input::End);
    says(&nodes.answer(process(group, 0), waiting).unwrap().unwrap_err(), FaultKind::DomainEnded, "ended");
    assert_eq!(nodes.ended, []);
    nodes.kill_all();
    assert_eq!(nodes.ended, [5, 3]);
    says(&nodes.refused(TOOL, Request::Groups), FaultKind::DomainEnded, "ended");
}

#[test]
fn a_node_that_is_not_watched_ends_by_itself() {
    let mut nodes = Nodes::new(&[3, 5], Limits::default());
    nodes.group(2, OnDeath::Kill);
    nodes.head_is_lost();
    nodes.after(Duration::from_secs(61));
    nodes.kill_all();
    assert_eq!(nodes.ended, [5]);
}

/// A late subscriber was notified in the order of ranks, and considered a process that was killed later to be the
/// cause.
#[test]
fn deaths_of_the_past_are_told_in_their_order() {
    let mut nodes = Nodes::one();
    let group = nodes.group(3, OnDeath::Kill);
    let ends = [(2, Exit::Code(7)), (0, Exit::Signal(15)), (1, Exit::Signal(15))];
    ends.iter().for_each(|(rank, exit)| nodes.ends(member(group, *rank), *exit));
    nodes.ask(TOOL, Request::Subscribe(group)).unwrap();
    let told: Vec<_> = nodes.notices.iter().map(|(_, death)| (death.member.rank, death.exit)).collect();
    assert_eq!(told, ends);
}
