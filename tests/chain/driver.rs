//! What a driver may rely on: the order of use, credit, workers, deadlines.

use chained_gpc::chain::{Config, Input, JobResult, Node, Outputs, Start, Time};
use chained_gpc::wire::{CallId, Message, Request, Stage};
use gpc_trees::Tree;

use super::model::{call, ids};
use super::one::{CALL, One, leveled, reply, request, start};
use super::world::{Act, Event, World};

#[test]
#[should_panic(expected = "drain every output of a node before its next input")]
fn an_input_before_the_outputs_are_drained_panics() {
    let (mut node, mut outputs) = (Node::new(Config::new(0, 5)), Outputs::new());
    node.input(Time::default(), Input::Start { ticket: 1, start: start("0-2").into() }, &mut outputs);
    node.input(Time::default(), Input::Tick, &mut outputs);
}

#[test]
#[should_panic(expected = "drain every output of a node before its next input")]
fn draining_all_but_one_output_is_not_enough() {
    let (mut node, mut outputs) = (Node::new(Config::new(0, 5)), Outputs::new());
    node.input(
        Time::default(),
        Input::Start { ticket: 1, start: Start { watch: true, ..start("0-2") }.into() },
        &mut outputs,
    );
    assert!(outputs.pop_front().is_some());
    node.input(Time::default(), Input::Tick, &mut outputs);
}

#[test]
fn inputs_that_mean_nothing_do_nothing() {
    let mut one = One::new(1);
    let nothing: [String; 0] = [];
    assert_eq!(one.feed(Input::Tick), nothing);
    assert_eq!(one.feed(Input::GiveUp { ticket: 9 }), nothing);
    assert_eq!(one.feed(Input::DataArrived(CALL)), nothing);
    assert_eq!(one.replied("x"), nothing);
    assert_eq!(one.answered(Ok(reply("x"))), nothing);
    assert_eq!(one.response(2, leveled(0, "0 ", "0 ")), nothing);
    assert_eq!(one.cancel(0), nothing);
    assert_eq!(one.lost(0), nothing);
    assert!(one.is_quiet());
}

#[test]
fn time_that_runs_backwards_counts_as_standing_still() {
    let mut one = One::new(1);
    one.now = std::time::Duration::from_secs(100);
    one.request(0, request("1"));
    one.now = std::time::Duration::from_secs(1);
    one.request(0, Request { call: CallId { root: 0, sequence: 6 }, ..request("1") });
    assert_eq!(one.node.next_deadline().map(Time::as_nanos), Some(160_000_000_000));
}

#[test]
fn the_root_counts_its_calls_up_from_its_incarnation() {
    let mut world = World::new(0..1, 0, 1);
    world.events = (0..3).map(|ticket| Event::Start(ticket, call(Tree::Binary, ids(&[0])).into())).collect();
    world.run();
    let mut sequences: Vec<u64> = world.finished.values().map(|(call, _)| call.sequence).collect();
    sequences.sort_unstable();
    assert_eq!(sequences, [1000, 1001, 1002]);
}

#[test]
fn a_request_is_consumed_once_when_func_has_run() {
    let mut one = One::new(1);
    assert_eq!(one.request(0, request("1")), ["run func"]);
    assert_eq!(one.replied("x"), ["consumed 0", "to 0: level 0 [0 ] [1 x]"]);

    let mut one = One::new(1);
    one.request(0, request("1-2"));
    assert_eq!(one.ran(JobResult::Deferred), ["consumed 0", "to 2: request 2"]);
    assert!(one.answered(Ok(reply("x"))).is_empty());
    assert_eq!(one.response(2, leveled(0, "0 ", "0 ")), ["to 0: level 1 [2 0 0 ] [2 1 x0 ]"]);
}

#[test]
fn a_request_is_consumed_once_whatever_ends_its_call() {
    let cases: [fn(&mut One) -> Vec<String>; 4] = [
        |one| one.ran(JobResult::Failed("no".into())),
        |one| one.ran(JobResult::Refused("no".into())),
        |one| one.cancel(0),
        One::expire,
    ];
    for end in cases {
        let mut one = One::new(1);
        one.request(0, request("1-3"));
        let outputs = end(&mut one);
        let consumed = outputs.iter().filter(|output| *output == "consumed 0").count();
        assert_eq!(consumed, 1, "{outputs:?}");
        assert!(one.replied("late").is_empty() && one.is_quiet());
    }
}

#[test]
fn credit_is_not_paid_into_a_link_that_is_gone() {
    let mut one = One::new(1);
    assert_eq!(one.request(0, request("1")), ["run func"]);
    assert!(one.lost(0).is_empty());
    assert!(one.replied("late").is_empty());

    let mut one = One::new(1);
    one.request(0, Request { forward_first: true, ..request("1-3") });
    assert_eq!(one.lost(0), ["to 2: cancel", "to 3: cancel"]);
    assert!(one.replied("late").is_empty() && one.is_quiet());
}

#[test]
fn a_request_that_its_parent_repeats_is_consumed_and_changes_nothing() {
    let mut one = One::new(1);
    one.request(0, request("1"));
    assert_eq!(one.request(0, request("1")), ["consumed 0"]);
    assert_eq!(one.replied("x"), ["consumed 0", "to 0: level 0 [0 ] [1 x]"]);
    assert!(one.is_quiet());
}

#[test]
fn jobs_run_up_to_the_number_of_workers_in_the_order_they_came() {
    for workers in 1..4 {
        let mut one = One::with(Config { workers, ..Config::new(1, 5) });
        for sequence in 0..6 {
            let call = CallId { root: 0, sequence };
            let outputs = one.request(0, Request { call, ..request("1") });
            assert_eq!(outputs.len(), usize::from(sequence < workers as u64));
        }
        for sequence in 0..6 {
            assert_eq!(one.node.jobs_running(), workers.min(6 - sequence));
            let call = CallId { root: 0, sequence: sequence as u64 };
            let outputs = one.feed(Input::Ran { call, result: JobResult::Replied(reply("")) });
            let next = sequence + workers < 6;
            assert_eq!(outputs.len(), 2 + usize::from(next), "{outputs:?}");
            assert_eq!(outputs.last().is_some_and(|output| output == "run func"), next);
        }
        assert!(one.is_quiet());
    }
}

#[test]
fn no_workers_stands_for_one() {
    let mut one = One::with(Config { workers: 0, ..Config::new(1, 5) });
    assert_eq!(one.request(0, request("1")), ["run func"]);
}

#[test]
fn the_job_of_a_call_that_is_gone_keeps_its_worker_until_it_ends() {
    let mut one = One::new(1);
    let next = CallId { root: 0, sequence: 6 };
    one.request(0, request("1"));
    assert!(one.request(0, Request { call: next, ..request("1") }).is_empty());
    assert_eq!(one.cancel(0), ["consumed 0"]);
    assert_eq!((one.node.calls(), one.node.jobs_running()), (1, 1));
    assert_eq!(one.replied("late"), ["run func"]);
    assert_eq!(one.node.jobs_running(), 1);
}

#[test]
fn a_call_that_ends_in_the_queue_gives_up_its_turn() {
    let mut one = One::new(1);
    let first = CallId { root: 0, sequence: 4 };
    one.request(0, Request { call: first, ..request("1") });
    assert!(one.request(0, request("1")).is_empty());
    assert!(!one.holds("Queue { first: None, rest: []"));
    assert_eq!(one.cancel(0), ["consumed 0"]);
    assert!(one.holds("Queue { first: None, rest: []"));
    let outputs = one.feed(Input::Ran { call: first, result: JobResult::Replied(reply("")) });
    assert_eq!(outputs, ["consumed 0", "to 0: level 0 [0 ] [0 ]"]);
    assert!(one.is_quiet());
}

#[test]
fn a_ticket_is_forgotten_with_its_call() {
    let mut one = One::new(0);
    one.start(start("0"));
    assert!(!one.holds("tickets: {}"));
    one.replied("a");
    assert!(one.holds("tickets: {}"));
}

#[test]
fn many_calls_from_many_roots_are_in_flight_at_once() {
    let order = |root: u32| (0..20).map(|place| (root + place) % 20).collect::<Vec<_>>();
    for workers in [1, 3] {
        let mut world = World::new(0..20, workers as u64, workers).plan(7, Stage::Func, Act::Defer);
        let starts = (0..60).map(|ticket| {
            let tree = if ticket % 2 == 0 { Tree::Binomial } else { Tree::Chain };
            Event::Start(ticket, call(tree, ids(&order(ticket as u32 % 20))).into())
        });
        world.events = starts.collect();
        let mut most = 0;
        while world.step() {
            most = most.max(world.nodes[&0].calls());
        }
        world.run();
        assert!(most > 10, "only {most} calls at once");
        assert_eq!(world.finished.values().filter(|(_, outcome)| outcome.is_ok()).count(), 60);
    }
}

#[test]
fn whether_an_answer_is_awaited_can_be_asked() {
    let mut one = One::new(1);
    one.request(0, request("1-3"));
    assert!(!one.node.awaits(2, CALL));
    one.replied("x");
    assert!(one.node.awaits(2, CALL) && one.node.awaits(3, CALL));
    assert!(!one.node.awaits(0, CALL) && !one.node.awaits(2, CallId { root: 0, sequence: 6 }));
    one.response(2, leveled(0, "0 ", "0 "));
    assert!(!one.node.awaits(2, CALL) && one.node.awaits(3, CALL));
    let cancel = Message::Cancel(CallId { root: 0, sequence: 6 });
    assert!(one.feed(Input::Message { from: 0, message: cancel }).is_empty());
    assert_eq!(one.cancel(0), ["to 3: cancel"]);
    assert!(!one.node.awaits(3, CALL));
}

/// Each answer was once searched for among all children, one after the other: the root of a wide tree spent its time
/// there, quadratic in the width.
#[test]
fn the_root_of_a_wide_tree_hears_every_child() {
    let mut one = One::new(0);
    let width = 40_000;
    let sent = one.start(Start { tree: Tree::Flat, watch: true, ..start(&format!("0-{width}")) });
    assert_eq!(sent.len(), width as usize);
    for child in (2..=width).rev() {
        assert!(one.response(child, leveled(0, "0 ", "0 ")).is_empty());
    }
    let outputs = one.response(1, leveled(0, "0 ", "0 "));
    assert!(outputs[0].starts_with("end 1: level 1 [40000 0 0 "), "{}", &outputs[0][..40]);
    assert!(one.is_quiet());
}
