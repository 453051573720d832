//! Properties of every call, for all trees, orders, options and faults.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use chained_gpc::chain::Start;
use chained_gpc::wire::{CallId, Cause, CauseKind, Coverage, Stage, Status};
use gpc_trees::{Id, Radix, Shape, Tree};
use proptest::prelude::*;

use super::model::{aggregate, call, edges, ids, leaves, text};
use super::world::{Act, COMMUTATIVE, Event, Outcome, Seen, World};

/// Contents of a case.
#[derive(Clone, Debug)]
struct Case {
    n: u32,
    workers: usize,
    seed: u64,
    /// The ticket is the index in this list.
    calls: Vec<Start>,
    plan: BTreeMap<(Id, Stage), Act>,
    events: Vec<Event>,
}

pub(crate) fn trees(n: u32) -> BoxedStrategy<Tree> {
    let shape = prop::collection::vec(any::<u32>(), n as usize).prop_map(move |cuts| {
        let mut sizes = vec![0; cuts.len()];
        let mut slices = vec![(0, n)];
        while let Some((start, len)) = slices.pop() {
            sizes[start as usize] = len;
            let mut at = start + 1;
            while at < start + len {
                let group = 1 + cuts[at as usize] % (start + len - at);
                slices.push((at, group));
                at += group;
            }
        }
        Tree::Explicit(Shape::from_sizes(sizes).expect("sizes that were cut from slices"))
    });
    prop_oneof![
        Just(Tree::Binary),
        Just(Tree::Binomial),
        Just(Tree::Chain),
        Just(Tree::Flat),
        (1u32..6).prop_map(|k| Tree::Kary(NonZeroU32::new(k).expect("1 or more"))),
        (2u32..6).prop_map(|k| Tree::Knomial(Radix::new(k).expect("2 or more"))),
        shape,
    ]
    .boxed()
}

/// A call on some of the ids in any order, one of them the root.
pub(crate) fn starts(n: u32) -> impl Strategy<Value = Start> {
    let order = Just((0..n).collect::<Vec<Id>>()).prop_shuffle();
    let list = (order, 1..=n).prop_map(|(order, len)| order[..len as usize].to_vec());
    let options = (0usize..3, any::<bool>(), any::<bool>(), any::<bool>());
    (list.prop_flat_map(|list| (trees(list.len() as u32), Just(list))), options).prop_map(
        |((tree, list), options)| {
            let (merged, reply_wanted, forward_first, watch) = options;
            let callback = [None, Some(9), Some(COMMUTATIVE)][merged];
            Start { callback, reply_wanted, forward_first, watch, ..call(tree, ids(&list)) }
        },
    )
}

pub(crate) fn plans(n: u32, most: usize) -> impl Strategy<Value = BTreeMap<(Id, Stage), Act>> {
    let act = prop_oneof![
        Just(Act::Fail),
        Just(Act::Unknown),
        Just(Act::Hang),
        Just(Act::Defer),
        Just(Act::DeferEarly),
        Just(Act::DropToken)
    ];
    let stage = prop_oneof![2 => Just(Stage::Func), 1 => Just(Stage::Callback)];
    prop::collection::btree_map((0..n, stage), act, 0..=most)
}

fn cases(calls: usize, acts: usize, events: usize) -> impl Strategy<Value = Case> {
    let sized = (1u32..40).prop_flat_map(move |n| {
        let event = prop_oneof![
            2 => (0..n, 0..n).prop_filter_map("two ids", |(a, b)| (a != b).then_some(Event::Lose(a, b))),
            1 => (0..n).prop_map(Event::Kill),
            1 => any::<u64>().prop_map(|ticket| Event::GiveUp(0, ticket)),
        ];
        let events = prop::collection::vec(event, 0..=if n > 1 { events } else { 0 });
        (Just(n), prop::collection::vec(starts(n), 1..=calls), plans(n, acts), events)
    });
    (sized, any::<u64>(), 1usize..4).prop_map(|((n, calls, plan, mut events), seed, workers)| {
        for event in &mut events {
            if let Event::GiveUp(id, ticket) = event {
                *ticket %= calls.len() as u64;
                *id = root(&calls[*ticket as usize]);
            }
        }
        Case { n, workers, seed, calls, plan, events }
    })
}

fn run(case: &Case) -> World {
    let mut world = World::new(0..case.n, case.seed, case.workers);
    world.plan = case.plan.clone();
    let starts = case.calls.iter().zip(0..).map(|(start, ticket)| Event::Start(ticket, start.clone().into()));
    world.events = starts.chain(case.events.clone()).collect();
    world.run();
    world
}

fn root(start: &Start) -> Id {
    start.ids.first().expect("a call has a root")
}

fn watched(start: &Start) -> u32 {
    u32::from(start.watch)
}

/// All messages of a call travel between a parent and its child, each kind in its direction.
fn check_edges(world: &World, id: CallId, start: &Start) {
    let edges = edges(&start.tree, &start.ids);
    for (_, seen) in world.seen.iter().filter(|(call, _)| *call == id) {
        match *seen {
            Seen::Request(from, to)
            | Seen::Cancel(from, to)
            | Seen::Callback(from, to)
            | Seen::Response(to, from) => {
                assert!(edges.contains(&(from, to)), "{seen:?} is no edge of the tree");
            }
            Seen::Release(..) | Seen::Moved(..) => panic!("{seen:?} in a default call"),
            Seen::Func(at) => assert!(start.ids.contains(at) && !(start.watch && at == root(start))),
            Seen::Finished(at) => assert_eq!(at, root(start)),
        }
    }
    let executed = world.executed(id);
    assert!(executed.windows(2).all(|pair| pair[0] != pair[1]), "executed twice: {executed:?}");
    let requests = world.seen.iter().filter(|(call, seen)| *call == id && matches!(seen, Seen::Request(..)));
    let responses =
        world.seen.iter().filter(|(call, seen)| *call == id && matches!(seen, Seen::Response(..)));
    assert!(responses.count() <= requests.count(), "more responses than requests");
}

/// Every id has executed once and is in the reply once.
fn check_success(world: &World, id: CallId, start: &Start, outcome: &Outcome) {
    let reply = outcome.as_ref().unwrap_or_else(|failure| panic!("{failure}"));
    let mut expected: Vec<Id> = start.ids.iter().skip(watched(start) as usize).collect();
    let in_order = expected.clone();
    expected.sort_unstable();
    assert_eq!(world.executed(id), expected);
    assert!(
        !world.seen.iter().any(|(call, seen)| *call == id && matches!(seen, Seen::Cancel(..))),
        "cancelled"
    );
    let Some(reply) = reply else { return assert!(!start.reply_wanted, "a reply was asked for") };
    assert!(start.reply_wanted, "no reply was asked for");
    if start.callback.is_some() {
        let mut merged: Vec<Id> =
            text(reply.data.to_bytes()).split_whitespace().map(|id| id.parse().expect("an id")).collect();
        if start.callback == Some(COMMUTATIVE) {
            merged.sort_unstable();
            assert_eq!((reply.level, merged), (0, expected));
        } else {
            assert_eq!((reply.level, merged), (0, in_order));
        }
    } else {
        let (level, data) = aggregate(&start.tree, &start.ids, !start.watch, &|id| format!("{id} "));
        assert_eq!((reply.level, text(reply.data.to_bytes())), (level, data));
        let (_, header) = aggregate(&start.tree, &start.ids, !start.watch, &|id| format!("h{id} "));
        assert_eq!(text(reply.header.to_bytes()), header);
        let (headers, data) = leaves(reply);
        assert_eq!(headers, in_order.iter().map(|id| format!("h{id} ")).collect::<Vec<_>>());
        assert_eq!(data, in_order.iter().map(|id| format!("{id} ")).collect::<Vec<_>>());
    }
}

/// Every status of a coverage is true.
fn check_coverage(world: &World, id: CallId, start: &Start, coverage: &Coverage) {
    let asked: Vec<Id> = start.ids.iter().skip(watched(start) as usize).collect();
    assert_eq!(coverage.len(), asked.len() as u64);
    let executed = world.executed(id);
    for (at, status) in asked.iter().zip(coverage.statuses()) {
        match status {
            Status::Done => assert!(executed.contains(at), "id {at} is not done"),
            Status::Unreached => assert!(!executed.contains(at), "id {at} has executed"),
            Status::Failed | Status::Unknown => {}
        }
    }
}

/// Whether the faults of the case explain a cause, for the call of this ticket.
fn is_true(case: &Case, cause: &Cause, ticket: u64) -> bool {
    let Cause { id, stage, kind, .. } = cause;
    let start = &case.calls[ticket as usize];
    let act = |stage| case.plan.get(&(*id, stage)).copied();
    let hangs = [Stage::Func, Stage::Callback].into_iter().any(|stage| act(stage) == Some(Act::Hang));
    let edges = edges(&start.tree, &start.ids);
    let lost = |event: &Event| match *event {
        Event::Lose(a, b) => (b == *id && edges.contains(&(a, b))) || (a == *id && edges.contains(&(b, a))),
        Event::Kill(dead) => dead == *id,
        _ => false,
    };
    match (stage, kind) {
        (Stage::Setup, CauseKind::UnknownFunction) => {
            [Stage::Func, Stage::Callback].into_iter().any(|stage| act(stage) == Some(Act::Unknown))
        }
        (Stage::Func | Stage::Callback, CauseKind::TimeLimit) => hangs,
        (Stage::Func | Stage::Callback, CauseKind::NoAnswer) => act(*stage) == Some(Act::DropToken),
        (Stage::Func | Stage::Callback, CauseKind::Failed) => act(*stage) == Some(Act::Fail),
        (Stage::Link, CauseKind::LinkLost) => case.events.iter().any(lost),
        (Stage::Cancelled, CauseKind::Cancelled) => {
            *id == root(start)
                && case
                    .events
                    .iter()
                    .any(|event| matches!(*event, Event::GiveUp(at, given) if (at, given) == (*id, ticket)))
        }
        // Every id that hangs is alive and reports it itself, before its parent gives up on it.
        _ => false,
    }
}

fn check(case: &Case) {
    let world = run(case);
    for (start, ticket) in case.calls.iter().zip(0..) {
        let dead = case.events.iter().any(|event| matches!(event, Event::Kill(id) if *id == root(start)));
        let Some((id, outcome)) = world.finished.get(&ticket) else {
            assert!(dead, "call {ticket} has never ended");
            continue;
        };
        check_edges(&world, *id, start);
        match outcome {
            Ok(_) => check_success(&world, *id, start, outcome),
            Err(failure) => {
                assert!(is_true(case, &failure.cause, ticket), "an untrue cause: {failure}");
                check_coverage(&world, *id, start, &failure.coverage);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_call_without_misfortune_is_executed_and_answered_once_by_every_id(case in cases(4, 0, 0)) {
        let world = run(&case);
        for (start, ticket) in case.calls.iter().zip(0..) {
            let (id, outcome) = &world.finished[&ticket];
            check_edges(&world, *id, start);
            check_success(&world, *id, start, outcome);
        }
    }

    #[test]
    fn a_call_with_functions_that_fail_ends_with_a_true_cause(case in cases(3, 4, 0)) {
        check(&case);
    }

    #[test]
    fn a_call_with_lost_links_ends_with_a_true_cause(case in cases(3, 0, 3)) {
        check(&case);
    }

    #[test]
    fn whatever_comes_together_every_call_ends(case in cases(4, 3, 3)) {
        check(&case);
    }
}
