//! Checks of every partial call from outside: the observations of the world against the outcome.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chained_gpc::chain::Start;
use chained_gpc::wire::level::{Leaves, Limits};
use chained_gpc::wire::message::SubtreeReply;
use chained_gpc::wire::{CallId, Cause, CauseKind, Report, Stage, Status};
use gpc_trees::{Id, IdList, Tree};

use super::model::{leaves, text};
use super::world::{Act, COMMUTATIVE, Event, Seen, World};

/// Faults of a world, in the form of its events.
#[derive(Clone, Default, Debug)]
pub(crate) struct Misfortune {
    pub(crate) plan: BTreeMap<(Id, Stage), Act>,
    pub(crate) events: Vec<Event>,
    /// How long a call may wait for a silent peer although nothing hangs.
    pub(crate) patience: Duration,
}

impl Misfortune {
    fn crashed(&self, id: Id) -> bool {
        self.events.iter().any(|event| matches!(event, Event::Kill(dead) | Event::Pause(dead) if *dead == id))
    }

    fn any_link_lost(&self) -> bool {
        self.events.iter().any(|event| matches!(event, Event::Lose(..)))
    }

    fn any_crash(&self) -> bool {
        self.events.iter().any(|event| matches!(event, Event::Kill(_) | Event::Pause(_)))
    }

    fn acts(&self, id: Id, act: impl Fn(Act) -> bool) -> bool {
        let own = |stage| self.plan.get(&(id, stage)).copied();
        own(Stage::Func).is_some_and(&act) || own(Stage::Callback).is_some_and(act)
    }

    fn any_hangs(&self) -> bool {
        self.plan.values().any(|act| *act == Act::Hang)
    }

    /// Whether a function fails at this id.
    fn fails(&self, id: Id) -> bool {
        self.acts(id, |act| !matches!(act, Act::Defer | Act::DeferEarly))
    }
}

/// Parent of each id but the first, and its own slice.
fn slices(tree: &Tree, ids: &IdList, into: &mut BTreeMap<Id, (Id, IdList)>) {
    let parent = ids.first().expect("a list that is split has ids");
    for group in tree.split(ids.len()).expect("a good tree") {
        let slice = ids.slice(group);
        into.insert(slice.first().expect("a group is not empty"), (parent, slice.clone()));
        slices(&tree.subtree(group), &slice, into);
    }
}

/// Checks the call of a ticket, whose root is alive.
pub(crate) fn check(world: &World, ticket: u64, start: &Start, fate: &Misfortune) {
    let (call, outcome) = world.finished.get(&ticket).expect("a call ends");
    let took = Duration::from_nanos(world.ended[&ticket] - world.begun[&ticket]);
    // A death is noticed: only hanging functions are waited for until the limit.
    let late = start.limit + start.limit / 100 + Duration::from_millis(100);
    let most = if fate.any_hangs() { late } else { fate.patience };
    assert!(took <= most + Duration::from_millis(100), "the call took {took:?}; {fate:?}");
    check_routes(world, *call, start);
    check_executions(world, *call);
    let reply = match outcome {
        Ok(reply) => reply,
        Err(failure) => {
            assert_eq!(failure.cause.stage, Stage::Cancelled, "a partial call does not fail: {failure}");
            return;
        }
    };
    let report = &world.reports[&ticket];
    let asked: Vec<Id> = start.ids.iter().skip(usize::from(start.watch)).collect();
    assert_eq!(report.coverage.len(), asked.len() as u64, "coverage is of the ids asked");
    let done = check_coverage(world, *call, &asked, report, fate);
    match reply {
        None => assert!(!start.reply_wanted, "a reply was asked for"),
        Some(reply) => check_parts(reply, start, &done),
    }
}

/// No id executes a call twice, in any run, and only ids of the list execute.
fn check_executions(world: &World, call: CallId) {
    let executed = world.executed(call);
    assert!(executed.windows(2).all(|pair| pair[0] != pair[1]), "executed twice: {executed:?}");
}

/// Requests come from an ancestor that has given up the ids in between, with the slice given by the tree.
fn check_routes(world: &World, call: CallId, start: &Start) {
    let mut slices_of = BTreeMap::new();
    slices(&start.tree, &start.ids, &mut slices_of);
    let mut sent = BTreeSet::new();
    for route in world.routes.iter().filter(|route| route.call == call) {
        let to = route.ids.first().expect("a request is to somebody");
        let (parent, slice) = &slices_of[&to];
        assert_eq!(*slice, route.ids, "id {to} got another slice");
        let ancestor = (0..route.skipped).fold(*parent, |at, _| slices_of[&at].0);
        assert_eq!(ancestor, route.from, "{route:?}");
        assert!(sent.insert((route.from, to)), "asked twice: {route:?}");
    }
    for (_, seen) in world.seen.iter().filter(|(of, _)| *of == call) {
        match *seen {
            Seen::Response(child, parent) | Seen::Moved(child, parent) => {
                assert!(sent.contains(&(parent, child)), "{seen:?} to one who never asked");
            }
            Seen::Cancel(parent, child) | Seen::Release(parent, child) | Seen::Callback(parent, child) => {
                assert!(sent.contains(&(parent, child)), "{seen:?} of one who was never asked");
            }
            Seen::Func(at) => {
                assert!(start.ids.contains(at) && !(start.watch && Some(at) == start.ids.first()))
            }
            Seen::Request(..) | Seen::Finished(_) => {}
        }
    }
}

/// Checks each status against the observations; returns the ids that are done.
fn check_coverage(world: &World, call: CallId, asked: &[Id], report: &Report, fate: &Misfortune) -> Vec<Id> {
    let executed = world.executed(call);
    let mut done = Vec::new();
    for (&at, status) in asked.iter().zip(report.coverage.statuses()) {
        let causes =
            || format!("{:?} of {}; {fate:?}", report.causes, super::model::letters(&report.coverage));
        match status {
            Status::Done => {
                assert!(executed.contains(&at), "id {at} is not done: {}", causes());
                done.push(at);
            }
            Status::Unreached => {
                assert!(!executed.contains(&at), "id {at} has executed: {}", causes());
                assert!(fate.crashed(at) || fate.any_hangs(), "id {at} was not reached: {}", causes());
            }
            Status::Failed => {
                assert!(fate.fails(at) || fate.any_hangs(), "id {at} has not failed: {}", causes());
                assert!(report.cause_of(at).is_some(), "no cause of id {at}: {}", causes());
            }
            Status::Unknown => {
                let lost = fate.crashed(at) || fate.any_link_lost() || fate.any_hangs();
                assert!(lost, "id {at} lives and is unknown: {}", causes());
            }
        }
        // If processes only die, every live id without faults takes part.
        let well = !fate.crashed(at) && !fate.fails(at) && !fate.any_link_lost() && !fate.any_hangs();
        assert!(!well || status == Status::Done, "id {at} is {status:?}: {}", causes());
    }
    for cause in &report.causes {
        check_cause(cause, fate);
    }
    let all = done.len() == asked.len();
    let amiss = fate.any_crash() || fate.any_link_lost() || fate.any_hangs();
    assert!(all || !report.causes.is_empty(), "ids are missing without a cause");
    assert!(amiss || all || asked.iter().any(|&at| fate.fails(at)), "{:?}", report.causes);
    done
}

fn check_cause(cause: &Cause, fate: &Misfortune) {
    let Cause { id, stage, kind, message, .. } = cause;
    let acts = |stage, acts: &[Act]| fate.plan.get(&(*id, stage)).is_some_and(|act| acts.contains(act));
    let lost = || fate.crashed(*id) || fate.any_link_lost();
    let is_true = match (stage, kind) {
        (Stage::Func | Stage::Callback | Stage::Reply, CauseKind::TimeLimit) => fate.any_hangs(),
        (Stage::Func | Stage::Callback, CauseKind::Failed) => acts(*stage, &[Act::Fail]),
        (Stage::Func | Stage::Callback, CauseKind::NoAnswer) => acts(*stage, &[Act::DropToken]),
        (Stage::Link, CauseKind::LinkLost | CauseKind::Unreachable | CauseKind::SecondParent) => lost(),
        (Stage::Setup, CauseKind::UnknownFunction) => {
            acts(Stage::Func, &[Act::Unknown]) || acts(Stage::Callback, &[Act::Unknown])
        }
        // A run that started too late, or a call that has ended there.
        (Stage::Setup, CauseKind::LostIncarnation | CauseKind::AlreadyEnded | CauseKind::SecondParent) => {
            lost()
        }
        _ => false,
    };
    assert!(is_true, "an untrue cause: id {id} at {stage}, {kind}: {message}; {fate:?}");
}

/// The reply has the part of every id that is done, once, and in the caller's order unless the callback is commutative.
fn check_parts(reply: &SubtreeReply, start: &Start, done: &[Id]) {
    assert!(start.reply_wanted, "no reply was asked for");
    if start.callback.is_none() {
        let (headers, data) = leaves(reply);
        assert_eq!(headers, done.iter().map(|id| format!("h{id} ")).collect::<Vec<_>>());
        assert_eq!(data, done.iter().map(|id| format!("{id} ")).collect::<Vec<_>>());
        return;
    }
    // One value, or several that could not be merged: each names its ids.
    let data = reply.data.to_bytes();
    let values: Vec<String> = match reply.level {
        0 => vec![text(data)],
        1 => Leaves::new(1, &data, Limits::default())
            .map(|leaf| String::from_utf8_lossy(leaf.expect("good level-1 data")).into_owned())
            .collect(),
        level => panic!("merged values at level {level}"),
    };
    let mut merged: Vec<Id> = values
        .iter()
        .flat_map(|value| value.split_whitespace())
        .map(|id| id.parse().expect("an id"))
        .collect();
    let mut expected = done.to_vec();
    if start.callback == Some(COMMUTATIVE) {
        merged.sort_unstable();
        expected.sort_unstable();
    }
    assert_eq!(merged, expected);
}
