//! Small worlds that test what becomes of links.

use gpc_trees::{Id, Tree};

use super::{Linking, Ways};
use crate::queue::Queue;
use crate::world::World;
use crate::{Fault, FaultSet, Scenario, run, swarm};
use chained_gpc::link::peering::State;
use chained_gpc::wire::Message;

/// A world in which nothing happens by itself.
fn world(n: u32, seed: u64) -> World {
    let plain = Scenario::new(n, Tree::Binary);
    let scenario =
        Scenario { crashes: Some(Vec::new()), links: Linking::Peering, trace: true, seed, ..plain };
    let mut world = World::new(&scenario);
    world.queue = Queue::new();
    let settings = &mut world.linked().settings;
    (settings.ways, settings.hides_losses) = (Ways::Network, false);
    world
}

fn ping(world: &mut World, from: Id, to: Id) {
    world.leaves(from, to, Message::Ping);
    world.serve_links();
}

/// Runs all events up to that time.
fn run_until(world: &mut World, until: u64) {
    while let Some((at, next)) = world.queue.pop() {
        if at > until {
            world.queue.push(
                at,
                match next {
                    crate::queue::Next::Event(event) => event,
                    crate::queue::Next::Timer(_) => continue,
                },
            );
            return;
        }
        world.step(at, next);
    }
}

/// The link events of an id, in order: up or lost.
fn link_events(world: &mut World, id: Id) -> Vec<&'static str> {
    let (up, lost) = (format!("us  {id} is linked with"), format!("us  {id} has lost its link"));
    let lines = world.trace.take_lines();
    let word = |line: &String| match (line.contains(&up), line.contains(&lost)) {
        (true, _) => Some("up"),
        (_, true) => Some("lost"),
        _ => None,
    };
    lines.iter().filter_map(word).collect()
}

fn well(world: &mut World) {
    world.links_are_settled();
    assert_eq!(world.checkers.violations(), []);
    assert_eq!(world.linked().wrong, []);
}

#[test]
fn of_two_connections_that_cross_the_lower_ids_stands_and_nothing_is_lost() {
    for first in [0, 1] {
        let mut world = world(2, 1);
        ping(&mut world, first, 1 - first);
        ping(&mut world, 1 - first, first);
        run_until(&mut world, u64::MAX);
        let by_lower = first;
        let ends = [(0, 1), (1, 0)].map(|(id, peer)| world.linked().place_up(id, peer).map(|(pipe, _)| pipe));
        assert_eq!(ends, [Some(by_lower), Some(by_lower)]);
        well(&mut world);
        let lines = world.trace.take_lines();
        let count = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
        assert_eq!((count("is linked with"), count("has lost"), count("pong")), (2, 0, 2));
    }
}

#[test]
fn what_waits_for_a_link_that_nobody_takes_is_lost_and_was_not_sent() {
    for ways in [Ways::Network, Ways::User] {
        let mut world = world(2, 1);
        world.linked().settings.ways = ways;
        world.hosts.end(1);
        ping(&mut world, 0, 1);
        run_until(&mut world, u64::MAX);
        assert_eq!(world.linked().state(0, 1), State::Absent);
        well(&mut world);
        assert_eq!(link_events(&mut world, 0), ["lost"]);
    }
}

/// An id that restarts may connect before the end of its old link arrives; then its connection waits for that end.
#[test]
fn a_new_run_is_linked_with_when_the_old_one_is_told_as_lost() {
    let mut asked = 0;
    for seed in 0..40 {
        let mut world = world(2, seed);
        ping(&mut world, 0, 1);
        let first = world.now + 1_000_000;
        run_until(&mut world, first);
        world.crash(1);
        world.hosts.begin_again(1, world.now);
        ping(&mut world, 1, 0);
        let mut asks = false;
        for _ in 0..100 {
            let later = world.now + 20_000;
            run_until(&mut world, later);
            world.now = later;
            asks |= world.process(0).links.peering.has_waiting_runs();
        }
        asked += u32::from(asks);
        run_until(&mut world, u64::MAX);
        well(&mut world);
        let lines = world.trace.take_lines();
        let ups = lines.iter().filter(|line| line.contains("us  0 is linked with the run of 1")).count();
        let place = |what: &str| lines.iter().rposition(|line| line.contains(what));
        assert_eq!(ups, 2, "{lines:#?}");
        assert!(place("us  0 has lost its link to 1") < place("us  0 is linked with the run of 1"));
    }
    assert!(asked > 5, "{asked}: it mostly comes first");
}

/// One end reconnects before the other has learned of the loss: the new connection replaces the old one there.
#[test]
fn each_end_hears_of_a_loss_before_the_next_link() {
    for seed in 0..40 {
        let mut world = world(2, seed);
        ping(&mut world, 0, 1);
        let first = world.now + 1_000_000;
        run_until(&mut world, first);
        world.break_connection(seed % 2 == 0, None);
        for _ in 0..100 {
            let later = world.now + 20_000;
            run_until(&mut world, later);
            world.now = later;
            ping(&mut world, 0, 1);
        }
        run_until(&mut world, u64::MAX);
        well(&mut world);
        let lines = world.trace.take_lines();
        for id in [0, 1] {
            let (up, lost) = (format!("us  {id} is linked with"), format!("us  {id} has lost its link"));
            let heard: Vec<bool> = lines
                .iter()
                .filter(|line| line.contains(&up) || line.contains(&lost))
                .map(|line| line.contains(&up))
                .collect();
            assert_eq!(heard, [true, false, true], "seed {seed}, id {id}: {lines:#?}");
        }
    }
}

#[test]
fn calls_over_such_links_are_those_over_modelled_ones_but_for_the_hellos() {
    for n in [1, 2, 63] {
        let plain = Scenario { calls: 2, ..Scenario::new(n, Tree::Binomial) };
        let [modelled, made] =
            [Linking::Modelled, Linking::Peering].map(|links| run(&Scenario { links, ..plain.clone() }));
        assert_eq!(made.violations, []);
        assert_eq!((made.messages, made.bytes), (modelled.messages, modelled.bytes));
        let took = |report: &crate::Report| report.calls.iter().map(|call| call.took_ns).collect::<Vec<_>>();
        assert!(took(&made)[0] >= took(&modelled)[0], "the first call opens the links");
        assert_eq!(took(&made)[1], took(&modelled)[1], "the second one finds them");
    }
}

#[test]
fn a_seed_decides_everything_here_too() {
    let most = Scenario {
        calls: 3,
        faults: FaultSet::ALL,
        links: Linking::Peering,
        ..Scenario::new(16, Tree::Binary)
    };
    let [one, two] = [1, 2].map(|_| swarm(&most, 60, false));
    assert_eq!((one.hash, one.events, one.failed), (two.hash, two.events, 0));
    assert!(
        [Fault::Link, Fault::Refused, Fault::Restart]
            .iter()
            .all(|fault| one.injected.iter().any(|(it, ..)| it == fault))
    );
    let (first, again) = (run(&most.swarm(1, false)), run(&most.swarm(1, false)));
    assert_eq!(first.hash, again.hash);
}

/// A function answered twice. A pause delayed the first answer behind the messages that had come meanwhile, so the
/// second overtook it and counted.
#[test]
fn answers_of_a_function_stay_in_order_after_a_pause() {
    let scenario = Scenario {
        calls: 3,
        faults: FaultSet::ALL,
        links: Linking::Peering,
        seed: 197000130945,
        ..Scenario::new(3, Tree::Binary)
    };
    assert_eq!(run(&scenario).violations, []);
}
