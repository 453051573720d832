//! `kill -9` of members of groups that were made by split and dup, of the process that comes first in them, and of
//! their nodes: between fences, during a fence, and while a group is made. Real processes on one node and on three.

#![allow(clippy::print_stdout, reason = "what a process prints is read")]

use std::collections::BTreeSet;
use std::time::Duration;

use gpc_bnr::client::Process as Member;
use gpc_bnr::names::{GroupId, Rank, Set};
use gpc_bnr::request::GroupState;
use gpc_bnr::{Exit, FaultKind, OnDeath, Spec};
use rustix::process::Signal;

use super::support::*;

/// Variable with the role of a started process; without it, the test of [`ENTRY`] is a test.
const ROLE: &str = "GPC_TEST_DERIVED";

/// Variables with the ranks that the test kills, and the file that lets the others go on.
const DEAD: &str = "GPC_TEST_DEAD";
const GO: &str = "GPC_TEST_GO";

/// Time limit of every step of a process, after which a test has failed.
const LIMIT: Option<Duration> = Some(Duration::from_secs(60));

const ENTRY: &str = "run::crashes_derived::a_member_of_a_split_group_is_killed";

/// Three processes for each of three nodes.
const SIZE: usize = 9;

/// The ranks that a split brings together: one list on all nodes, and one with all of node 1.
const LEFT: [Rank; 3] = [0, 1, 8];

/// How the test kills.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Victim {
    Rank(Rank),
    /// A node, and its ranks.
    Node(u32, [Rank; 3]),
}

impl Victim {
    fn ranks(self) -> Vec<Rank> {
        match self {
            Victim::Rank(rank) => vec![rank],
            Victim::Node(_, ranks) => ranks.to_vec(),
        }
    }
}

/// Runs the processes with this role until each has written this word, kills the victim, and checks that all others go
/// on well.
#[track_caller]
fn kills(nodes: &str, role: &str, victim: Victim) {
    let place = Place::new();
    let dead: Vec<String> = victim.ranks().iter().map(Rank::to_string).collect();
    let words = format!("run -n {SIZE} --on-death notify {nodes} --time-limit 120s");
    let mut command = place.gpc(words.split_whitespace());
    for (name, value) in [(ROLE, role), (DEAD, &dead.join(",")), (GO, &place.path("go"))] {
        command.arg("--env").arg(format!("{name}={value}"));
    }
    command.arg(std::env::current_exe().unwrap()).args(arguments());
    let run = Run::start(command);
    run.says("ready", SIZE);
    match victim {
        Victim::Rank(rank) => place.member(&format!("g1.{rank}")).signal(Signal::KILL),
        Victim::Node(node, _) => place.node(node).signal(Signal::KILL),
    }
    std::fs::write(place.path("go"), "").unwrap();
    let ended = run.ended();
    let text = format!("{nodes} {role}:\n{}\n{}", ended.out, ended.err);
    assert_eq!(ended.out.matches("right").count(), SIZE - dead.len(), "{text}");
    match victim {
        Victim::Rank(rank) => {
            assert_eq!(ended.err, format!("gpc: g1.{rank}: killed by signal 9 (SIGKILL)\n"), "{text}");
        }
        Victim::Node(node, _) => ended.failed(1, &format!("gpc: node {node} was lost")),
    }
    place.nothing_left();
}

/// A started process: takes part as the role says, and checks what it receives.
fn role(name: &str) {
    let process = Member::init().unwrap();
    match name {
        "split" => between_fences(&process, split(&process)),
        "dup" => between_fences(&process, process.dup(process.group(), LIMIT).unwrap()),
        "split, fence" => in_fence(&process, split(&process)),
        "dup, fence" => in_fence(&process, process.dup(process.group(), LIMIT).unwrap()),
        "splitting" => {
            in_split(&process, |process| process.split(process.group(), Some(1), 0, LIMIT).map(drop))
        }
        "dupping" => in_split(&process, |process| process.dup(process.group(), LIMIT).map(drop)),
        "parent" => return parent(&process),
        "child" => return child(&process),
        other => panic!("{other}"),
    }
    // What is left of the group still meets.
    process.fence(&living(&process), LIMIT).unwrap();
    println!("right");
    process.finalize().unwrap();
}

fn split(process: &Member) -> GroupId {
    let color = u32::from(LEFT.contains(&process.rank()));
    process.split(process.group(), Some(color), 0, LIMIT).unwrap().unwrap()
}

/// The ranks of the first group that the test kills.
fn dead() -> BTreeSet<Rank> {
    std::env::var(DEAD).unwrap().split(',').map(|rank| rank.parse().unwrap()).collect()
}

fn living(process: &Member) -> Set {
    process.some((0..process.size()).filter(|rank| !dead().contains(rank)))
}

/// The ranks of the first group that a derived group has, and those of them that the test kills.
fn ranks(process: &Member, group: GroupId) -> (BTreeSet<Rank>, BTreeSet<Rank>) {
    let all: BTreeSet<Rank> = process.members_of(group).unwrap().iter().map(|member| member.rank).collect();
    let dead = all.intersection(&dead()).copied().collect();
    (all, dead)
}

/// Waits until the test has killed. A process of a node that is killed ends a little later: it does nothing until then.
fn until_go(process: &Member) {
    if dead().contains(&process.rank()) {
        std::thread::sleep(PATIENCE);
    }
    let go = std::env::var(GO).unwrap();
    until("the test has killed", || std::path::Path::new(&go).exists());
}

/// A member of the group dies while no fence is under way.
fn between_fences(process: &Member, group: GroupId) {
    let (_, dead) = ranks(process, group);
    let deaths = process.subscribe(group).unwrap();
    process.fence(&Set::Group(group), LIMIT).unwrap();
    println!("ready");
    until_go(process);
    let told: BTreeSet<Rank> = dead.iter().map(|_| deaths.wait(PATIENCE).unwrap().member.rank).collect();
    assert_eq!(told, dead);
    fails_by_death(process, group);
    assert_eq!(deaths.try_next(), None, "each death is reported once");
}

/// A fence of the group fails if a member is dead, and each of its deaths is one of these.
fn fails_by_death(process: &Member, group: GroupId) {
    let (_, dead) = ranks(process, group);
    let Err(fault) = process.fence(&Set::Group(group), LIMIT) else {
        return assert!(dead.is_empty(), "a fence with {dead:?} succeeds");
    };
    assert!(matches!(fault.kind, FaultKind::MemberDied | FaultKind::NodeLost), "{fault}");
    assert!(fault.deaths.iter().all(|death| dead.contains(&death.member.rank)), "{fault}");
    let ends = |exit: Exit| matches!(exit, Exit::Signal(9) | Exit::Node(1));
    assert!(!fault.deaths.is_empty() && fault.deaths.iter().all(|death| ends(death.exit)), "{fault}");
}

/// A member dies while the others wait in a fence, all but the last, which enters it later.
fn in_fence(process: &Member, group: GroupId) {
    let (all, dead) = ranks(process, group);
    let deaths = process.subscribe(group).unwrap();
    process.fence(&Set::Group(group), LIMIT).unwrap();
    println!("ready");
    let is_late = dead.is_empty() || all.last() == Some(&process.rank());
    if is_late {
        until_go(process);
        for _ in &dead {
            deaths.wait(PATIENCE).unwrap();
        }
    }
    fails_by_death(process, group);
    assert_eq!(deaths.try_next().is_some(), !is_late, "a death is reported before the fence fails");
}

/// A member dies while the others make a group, all but the last.
fn in_split(process: &Member, make: impl Fn(&Member) -> Result<(), gpc_bnr::Fault>) {
    let deaths = process.subscribe(process.group()).unwrap();
    println!("ready");
    if process.rank() + 1 == process.size() {
        until_go(process);
        deaths.wait(PATIENCE).unwrap();
    }
    let fault = make(process).unwrap_err();
    assert!(matches!(fault.kind, FaultKind::MemberDied | FaultKind::NodeLost), "{fault}");
    let groups = process.groups().unwrap();
    assert!(groups.iter().all(|group| group.state != GroupState::Derived), "{groups:?}");
}

#[test]
fn a_member_of_a_split_group_is_killed() {
    if let Ok(name) = std::env::var(ROLE) {
        return role(&name);
    }
    for nodes in ["", "--nodes 3"] {
        kills(nodes, "split", Victim::Rank(3));
        kills(nodes, "dup", Victim::Rank(3));
    }
}

#[test]
fn a_member_is_killed_in_the_middle_of_a_fence_of_a_derived_group() {
    for nodes in ["", "--nodes 3"] {
        kills(nodes, "split, fence", Victim::Rank(3));
        kills(nodes, "dup, fence", Victim::Rank(3));
    }
}

/// Rank 0 is the first member, and its node the first of a split's.
#[test]
fn the_first_member_of_a_derived_group_is_killed() {
    for role in ["split", "dup", "split, fence", "dup, fence"] {
        kills("--nodes 3", role, Victim::Rank(0));
    }
}

#[test]
fn a_process_is_killed_while_a_group_is_split() {
    for (role, rank) in [("splitting", 0), ("splitting", 4), ("dupping", 0)] {
        kills("--nodes 3", role, Victim::Rank(rank));
    }
}

#[test]
fn the_node_of_members_of_a_derived_group_is_killed() {
    for role in ["split", "dup", "split, fence", "dup, fence", "splitting"] {
        kills("--nodes 3", role, Victim::Node(1, [3, 4, 5]));
    }
}

/// The group of the children is freed and has ended when a parent subscribes to the merged group: the deaths of the
/// children were forgotten with it.
#[test]
fn deaths_of_a_freed_group_are_reported_to_a_later_subscriber() {
    for nodes in ["", "--nodes 3"] {
        let place = Place::new();
        let words = format!("run -n 2 {nodes} --time-limit 120s --env {ROLE}=parent");
        let mut command = place.gpc(words.split_whitespace());
        command.arg(std::env::current_exe().unwrap()).args(arguments());
        let ended = ended(command);
        assert_eq!(
            (ended.status, ended.out.matches("right").count()),
            (0, 2),
            "{}\n{}",
            ended.out,
            ended.err
        );
        place.nothing_left();
    }
}

fn arguments() -> [&'static str; 4] {
    ["--exact", ENTRY, "--nocapture", "--test-threads=1"]
}

fn parent(process: &Member) {
    let everybody = process.everybody();
    let group = process.open(&everybody, LIMIT).unwrap();
    if process.rank() == 0 {
        let child = Spec {
            count: 3,
            program: std::env::current_exe().unwrap().to_str().unwrap().into(),
            args: arguments().map(|word| word.as_bytes().to_vec()).into(),
            env: vec![(ROLE.into(), b"child".to_vec())],
            ..Spec::default()
        };
        process.spawn(group, vec![child], Vec::new(), Some(OnDeath::Notify)).unwrap();
    }
    process.barrier().unwrap();
    process.close(&everybody, group, LIMIT).unwrap();
    let both = process.merge(process.group(), group, LIMIT).unwrap();
    if process.rank() == 0 {
        process.free(group).unwrap();
    }
    process.fence(&Set::Group(both), LIMIT).unwrap();
    let children = |members: Vec<gpc_bnr::request::MemberStatus>| {
        members.into_iter().filter(|member| member.death.is_some()).count()
    };
    until("the children have ended", || children(process.status(both).unwrap().members) == 3);
    process.barrier().unwrap();
    let deaths = process.subscribe(both).unwrap();
    let ranks: BTreeSet<Rank> = (0..3)
        .map(|_| deaths.wait(PATIENCE).unwrap().member)
        .filter(|member| member.group == group)
        .map(|member| member.rank)
        .collect();
    assert_eq!(ranks, BTreeSet::from([0, 1, 2]));
    process.barrier().unwrap();
    println!("right");
    process.finalize().unwrap();
}

fn child(process: &Member) {
    let both = process.merge(process.group(), process.parent().unwrap(), LIMIT).unwrap();
    process.fence(&Set::Group(both), LIMIT).unwrap();
    process.finalize().unwrap();
}
