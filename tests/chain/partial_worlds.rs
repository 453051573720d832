//! Partial calls in worlds where processes die, restart and lose each other: drawn at random, and exhaustive in small
//! worlds.

use std::num::NonZeroU32;

use chained_gpc::chain::{Config, Start};
use gpc_trees::{Id, IdList, Tree};
use proptest::prelude::*;

use super::model::{call, edges};
use super::partial_check::{Misfortune, check};
use super::properties::{plans, starts};
use super::world::{COMMUTATIVE, Event, World};

/// The worlds are older than any margin: only restarted ids are young.
const AGE: u64 = 10_000_000_000;

fn world(ids: u32, seed: u64, workers: usize) -> World {
    let mut world = World::with(0..ids, seed, Config { workers, ..Config::new(0, 1000) });
    world.now = AGE;
    world
}

#[derive(Clone, Debug)]
struct Case {
    n: u32,
    workers: usize,
    seed: u64,
    starts: Vec<Start>,
    fate: Misfortune,
    /// The step at which each event happens; others happen when they are drawn.
    at: Vec<Option<usize>>,
}

/// The faults that may happen in a case.
#[derive(Clone, Copy)]
struct Risks {
    acts: usize,
    events: usize,
    losses: bool,
}

fn cases(risks: Risks) -> impl Strategy<Value = Case> {
    let sized = (1u32..24).prop_flat_map(move |n| {
        let two = (0..n, 0..n).prop_filter_map("two ids", |(a, b)| (a != b).then_some(Event::Lose(a, b)));
        let event = match risks.losses && n > 1 {
            true => prop_oneof![
                2 => (0..n).prop_map(Event::Kill),
                1 => (0..n).prop_map(Event::Restart),
                2 => two
            ]
            .boxed(),
            false => {
                prop_oneof![2 => (0..n).prop_map(Event::Kill), 1 => (0..n).prop_map(Event::Restart)].boxed()
            }
        };
        let events =
            prop::collection::vec((event, prop::option::weighted(0.7, 0usize..120)), 0..=risks.events);
        (Just(n), prop::collection::vec(starts(n), 1..=2), plans(n, risks.acts), events)
    });
    (sized, any::<u64>(), 1usize..4).prop_map(|((n, mut starts, plan, events), seed, workers)| {
        starts.iter_mut().for_each(|start| start.partial = true);
        let (events, at) = events.into_iter().unzip();
        let fate = Misfortune { plan, events, ..Misfortune::default() };
        Case { n, workers, seed, starts, fate, at }
    })
}

fn run(case: &Case) {
    let mut world = world(case.n, case.seed, case.workers);
    world.plan = case.fate.plan.clone();
    for (event, at) in case.fate.events.iter().zip(&case.at) {
        match at {
            Some(step) => world.timed.push((*step, event.clone())),
            None => world.events.push(event.clone()),
        }
    }
    // The roots are alive until their calls have begun, as a call begins nowhere else.
    for (start, ticket) in case.starts.iter().zip(0..) {
        world.happen(Event::Start(ticket, start.clone().into()));
    }
    world.run();
    for (start, ticket) in case.starts.iter().zip(0..) {
        let root = start.ids.first().expect("a call has a root");
        let dead = case.fate.events.iter().any(|event| matches!(event, Event::Kill(id) if *id == root));
        match world.finished.contains_key(&ticket) {
            true => check(&world, ticket, start, &case.fate),
            false => assert!(dead, "call {ticket} has never ended"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn without_misfortune_everybody_is_done(case in cases(Risks { acts: 0, events: 0, losses: false })) {
        run(&case);
    }

    #[test]
    fn functions_that_fail_count_for_their_id_alone(case in cases(Risks { acts: 5, events: 0, losses: false })) {
        run(&case);
    }

    #[test]
    fn processes_that_die_are_left_out(case in cases(Risks { acts: 0, events: 6, losses: false })) {
        run(&case);
    }

    #[test]
    fn whatever_comes_together_the_coverage_is_exact(case in cases(Risks { acts: 4, events: 8, losses: true })) {
        run(&case);
    }
}

fn exhaustive_trees() -> [Tree; 5] {
    let three = Tree::Kary(NonZeroU32::new(3).expect("three"));
    [Tree::Binary, Tree::Binomial, three, Tree::Chain, Tree::Flat]
}

/// A call whose options depend on a number, so that all combinations occur.
fn varied(tree: &Tree, n: u32, variant: usize) -> Start {
    let start = call(tree.clone(), IdList::range(0..n));
    Start {
        partial: true,
        callback: [None, Some(9), None, Some(COMMUTATIVE)][variant % 4],
        forward_first: variant % 4 >= 2,
        reply_wanted: variant % 7 != 3,
        ..start
    }
}

/// Runs a call in which these ids die at these steps; returns the number of steps.
fn with_crashes(start: &Start, seed: u64, crashes: &[(usize, Id)]) -> usize {
    let mut world = world(start.ids.len(), seed, 1);
    world.timed = crashes.iter().map(|&(step, id)| (step, Event::Kill(id))).collect();
    world.happen(Event::Start(0, start.clone().into()));
    world.run();
    let events = crashes.iter().map(|&(_, id)| Event::Kill(id)).collect();
    check(&world, 0, start, &Misfortune { events, ..Misfortune::default() });
    world.steps
}

/// Without faults no answer waits for its time: the root's release reaches all ids.
#[test]
fn a_call_that_has_ended_leaves_no_answers() {
    for tree in exhaustive_trees() {
        for (n, variant) in (1..30).map(|n| (n, n as usize)) {
            let mut world = world(n, 1, 1);
            world.happen(Event::Start(0, varied(&tree, n, variant).into()));
            while world.step() {}
            assert!(world.finished.contains_key(&0));
            let kept: usize = world.nodes.values().map(|node| node.retained_answers()).sum();
            assert_eq!(kept, 0, "{tree:?} over {n} ids");
            assert!(world.nodes.values().all(|node| node.next_deadline().is_none()));
        }
    }
}

/// Every process but the root, at every event of the call.
#[test]
fn any_one_process_may_die_at_any_moment() {
    for tree in exhaustive_trees() {
        for n in 1..=16 {
            let steps = (0..4).map(|variant| with_crashes(&varied(&tree, n, variant), 7, &[])).max();
            for step in 1..=steps.expect("four variants") {
                for id in 1..n {
                    let variant = step + id as usize;
                    with_crashes(&varied(&tree, n, variant), 7, &[(step, id)]);
                }
            }
        }
    }
}

/// Every two processes, each at every event.
#[test]
fn any_two_processes_may_die_at_any_moments() {
    for tree in exhaustive_trees() {
        for n in 3..=5 {
            let steps = with_crashes(&varied(&tree, n, 1), 3, &[]);
            for (first, second) in
                (1..=steps).flat_map(|first| (first..=steps).map(move |second| (first, second)))
            {
                for (a, b) in (1..n).flat_map(|a| (1..n).map(move |b| (a, b))).filter(|(a, b)| a != b) {
                    with_crashes(&varied(&tree, n, first + second), 3, &[(first, a), (second, b)]);
                }
            }
        }
    }
}

/// A parent and its child die, the child restarts and is adopted: the second run does not execute what the first has.
#[test]
fn nobody_executes_again_after_a_restart() {
    for tree in [Tree::Binary, Tree::Chain] {
        for (parent, child, n) in [(1, 2, 3), (1, 2, 5), (2, 3, 6)] {
            let start = varied(&tree, n, 0);
            let steps = with_crashes(&start, 5, &[]);
            for (first, second) in (1..=steps).flat_map(|a| (1..=steps).map(move |b| (a, b))) {
                let mut world = world(n, 5, 1);
                let mut events = vec![(first, Event::Kill(parent)), (second, Event::Kill(child))];
                events.push((second + 2, Event::Restart(child)));
                world.timed = events.clone();
                world.happen(Event::Start(0, start.clone().into()));
                world.run();
                let events = events.into_iter().map(|(_, event)| event).collect();
                check(&world, 0, &start, &Misfortune { events, ..Misfortune::default() });
            }
        }
    }
}

/// A link between two live ids breaks, and then a process dies or another link breaks. An id that was given up may be
/// adopted again by an id that does not know that. The adopted id must not wait for children that have another parent.
#[test]
fn a_link_and_then_anything_may_be_lost_at_any_moments() {
    for (tree, n) in [(Tree::Chain, 4), (Tree::Binary, 5)] {
        let start = varied(&tree, n, 0);
        let steps = with_crashes(&start, 3, &[]);
        let edges: Vec<(Id, Id)> = edges(&start.tree, &start.ids).into_iter().collect();
        let links = || edges.iter().map(|&(a, b)| Event::Lose(a, b));
        for (first, second) in links().flat_map(|first| {
            links().chain((1..n).map(Event::Kill)).map(move |second| (first.clone(), second))
        }) {
            for (at, then) in (1..=steps).flat_map(|at| (0..10).map(move |later| (at, at + later))) {
                let mut world = world(n, at as u64, 1);
                world.timed = vec![(at, first.clone()), (then, second.clone())];
                world.happen(Event::Start(0, start.clone().into()));
                world.run();
                let events = vec![first.clone(), second.clone()];
                check(&world, 0, &start, &Misfortune { events, ..Misfortune::default() });
            }
        }
    }
}
