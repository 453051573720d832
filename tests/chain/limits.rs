//! Time limits, and the other limits of a node.

use std::sync::Arc;
use std::time::Duration;

use chained_gpc::chain::{Config, Input, JobResult, Node, Output, Outputs, Start, Time};
use chained_gpc::wire::frame::HEADER_MAX;
use chained_gpc::wire::{Body, CallId, Message, Request, Stage};
use gpc_trees::{Shape, Tree};

use super::model::{call, ids, letters};
use super::one::{CALL, One, leveled, merged, reply, request, start};
use super::world::{Act, World};

fn expired(mut one: One) -> String {
    let mut outputs = one.expire();
    if outputs.is_empty() {
        outputs = one.expire();
    }
    outputs.retain(|output| output.starts_with("to 0:"));
    assert_eq!((outputs.len(), one.node.calls(), one.node.next_deadline()), (1, 0, None));
    outputs.remove(0)
}

#[test]
fn the_message_of_a_time_limit_says_what_the_call_was_waiting_for() {
    let limit = "the time limit (60s here) passed";
    let mut one = One::new(1);
    let (data, mut writer) = Body::arriving(10);
    writer.push(b"abc");
    one.request(0, Request { data, ..request("1-2") });
    let says = format!(
        "to 0: id 1 failed at stage setup (time-limit): {limit} when 3 of 10 bytes of data had arrived: id 1 has waited for its data for 60s [f-]"
    );
    assert_eq!(expired(one), says);

    let mut one = One::new(1);
    one.request(0, request("1-2"));
    assert_eq!(
        expired(one),
        format!(
            "to 0: id 1 failed at stage func (time-limit): {limit} while func was running: id 1 has been in func for 60s [f-]"
        )
    );

    let mut one = One::new(1);
    let outputs = one.request(0, Request { limit: Duration::ZERO, ..request("1-2") });
    let says = "nothing of the time limit was left when the request came";
    assert_eq!(outputs[1], format!("to 0: id 1 failed at stage func (time-limit): {says} [f-]"));

    let mut one = One::new(1);
    let other = CallId { root: 0, sequence: 9 };
    one.request(0, Request { call: other, limit: Duration::from_secs(99), ..request("1") });
    one.request(0, request("1-2"));
    let outputs = one.expire();
    let says = format!(
        "{limit} while func waited for its turn behind other functions of this id: id 1 has waited for its turn to run func for 60s"
    );
    assert_eq!(outputs[1], format!("to 0: id 1 failed at stage func (time-limit): {says} [f-]"));
    assert_eq!(one.node.calls(), 1, "the other one has its own limit");

    let mut one = One::new(1);
    one.request(0, request("1-2"));
    one.ran(JobResult::Deferred);
    let says = format!(
        "to 0: id 1 failed at stage func (time-limit): {limit} before the deferred reply was given: id 1 has deferred the reply of func for 60s [f?]"
    );
    assert_eq!(expired(one), says);
}

#[test]
fn the_message_of_a_time_limit_at_callback() {
    let limit = "the time limit (60s here) passed";
    let merging = |list| Request { callback: Some(9), ..request(list) };
    let mut one = One::new(1);
    one.request(0, merging("1-3"));
    one.replied("a");
    one.response(2, merged("b"));
    let says = format!(
        "to 0: id 1 failed at stage callback (time-limit): {limit} while callback was running: id 1 has been in callback for 60s [fd?]"
    );
    assert_eq!(expired(one), says);

    let mut one = One::new(1);
    one.request(0, merging("1-2"));
    one.replied("a");
    let other = CallId { root: 0, sequence: 9 };
    one.request(0, Request { call: other, limit: Duration::from_secs(99), ..request("1") });
    assert!(one.response(2, merged("b")).is_empty(), "the worker is taken");
    let says = format!(
        "{limit} while callback waited for its turn behind other functions of this id: id 1 has waited for its turn to run callback for 60s"
    );
    assert_eq!(one.expire()[0], format!("to 0: id 1 failed at stage callback (time-limit): {says} [fd]"));
}

#[test]
fn the_message_of_a_time_limit_names_the_children_that_are_awaited() {
    let mut one = One::new(1);
    one.request(0, request("1-3"));
    one.replied("a");
    one.response(2, leveled(0, "0 ", "0 "));
    let says = "no reply came to id 1 within 60s; it still waits for [3]";
    assert_eq!(expired(one), format!("to 0: id 3 failed at stage reply (time-limit): {says} [dd?]"));

    let mut one = One::new(1);
    one.request(0, Request { tree: Ok(Tree::Flat), ..request("1-12") });
    one.replied("a");
    let says = "it still waits for [2, 3, 4, 5, 6, 7, 8, 9] and 3 more [d???????????]";
    assert!(expired(one).ends_with(says));
}

#[test]
fn a_call_whose_time_is_up_is_cancelled_below() {
    let mut one = One::new(0);
    one.start(start("0-2"));
    one.replied("a");
    one.response(1, leveled(0, "0 ", "0 "));
    let outputs = one.expire_late();
    assert!(outputs[0].starts_with("end 1: id 2 failed at stage reply (time-limit)"), "{outputs:?}");
    assert_eq!(outputs[1..], ["to 2: cancel"]);
}

#[test]
fn no_time_at_all_is_up_at_once() {
    let mut one = One::new(0);
    let outputs = one.start(Start { limit: Duration::ZERO, ..start("0-2") });
    assert_eq!(outputs.len(), 1);
    assert!(outputs[0].ends_with("[f--]") && one.is_quiet(), "{outputs:?}");
    assert_eq!(one.start(Start { limit: Duration::MAX, ..start("0-2") }), ["run func"]);
    assert_eq!(one.node.next_deadline().map(Time::as_nanos), Some(u64::MAX));
}

#[test]
fn a_result_that_comes_with_the_deadline_still_counts() {
    let mut one = One::new(1);
    one.request(0, request("1"));
    one.now = Duration::from_secs(60);
    assert_eq!(one.replied("a"), ["consumed 0", "to 0: level 0 [0 ] [1 a]"]);
}

#[test]
fn time_limits_pass_in_their_order_and_only_when_they_are_due() {
    let mut one = One::with(Config { workers: 9, ..Config::new(1, 5) });
    for (sequence, secs) in [(1, 30), (2, 10), (3, 20), (4, 10)] {
        let call = CallId { root: 0, sequence };
        one.request(0, Request { call, limit: Duration::from_secs(secs), ..request("1") });
    }
    let mut left = Vec::new();
    for _ in 0..3 {
        one.expire();
        left.push((one.now.as_secs(), one.node.calls()));
    }
    assert_eq!(one.node.next_deadline(), None);
    assert_eq!(left, [(10, 2), (20, 1), (30, 0)]);
}

/// Limit of the request that a node forwards, given when its func has ended.
fn forwarded_limit(limit: Duration, ran_after: Duration) -> Duration {
    let (mut node, mut outputs) = (Node::new(Config::new(1, 5)), Outputs::new());
    let message = Message::Request(Arc::new(Request { limit, left: limit, ..request("1-2") }));
    node.input(Time::default(), Input::Message { from: 0, message }, &mut outputs);
    outputs.clear();
    node.input(
        Time::default().plus(ran_after),
        Input::Ran { call: CALL, result: JobResult::Replied(reply("")) },
        &mut outputs,
    );
    outputs
        .into_iter()
        .find_map(|output| match output {
            Output::Send { message: Message::Request(request), .. } => Some(request.limit),
            _ => None,
        })
        .expect("the request goes on")
}

#[test]
fn a_limit_shrinks_by_the_time_spent_and_nothing_else() {
    let secs = Duration::from_secs;
    assert_eq!(forwarded_limit(secs(60), secs(0)), secs(60));
    assert_eq!(forwarded_limit(secs(60), secs(45)), secs(15));
    assert_eq!(forwarded_limit(Duration::from_micros(7), secs(0)), Duration::from_micros(7));
}

#[test]
fn the_deepest_gives_up_first_so_the_cause_names_the_id_that_hangs() {
    for (limit_ms, tree) in
        [(60_000, Tree::Chain), (1_000, Tree::Chain), (40, Tree::Binary), (10_000, Tree::Binomial)]
    {
        for (stage, seed) in [(Stage::Func, 1), (Stage::Callback, 2), (Stage::Func, 3)] {
            // Id 2 has a child in each of these trees.
            let mut world = World::new(0..12, seed, 1).plan(2, stage, Act::Hang);
            let start = call(tree.clone(), ids(&(0..12).collect::<Vec<_>>()));
            let limit = Duration::from_millis(limit_ms);
            let failure = world.call(Start { limit, callback: Some(9), ..start }).expect_err("id 2 hangs");
            let cause = &failure.cause;
            assert_eq!((cause.id, cause.stage), (2, stage), "{tree} {limit_ms} ms: {cause}");
            assert_eq!(letters(&failure.coverage).chars().nth(2), Some('f'));
            let most = limit + limit / 100 + Duration::from_millis(100);
            assert!(world.now <= u64::try_from(most.as_nanos()).expect("a short time"));
        }
    }
}

#[test]
fn calls_over_the_limit_are_refused_and_no_others_suffer() {
    let mut one = One::with(Config { calls_max: 2, ..Config::new(1, 5) });
    let named = |sequence| Request { call: CallId { root: 0, sequence }, ..request("1-3") };
    one.request(0, named(1));
    one.request(0, named(2));
    let says = "2 calls are in flight here already, the most this node takes";
    let refused = format!("to 0: id 1 failed at stage setup (busy): {says} [f--]");
    assert_eq!(one.request(0, named(3)), ["consumed 0".into(), refused]);
    let own = one.start(start("1-2"));
    assert_eq!(own, [format!("end 1: id 1 failed at stage setup (busy): {says} [f-]")]);
    one.feed(Input::Message { from: 0, message: Message::Cancel(CallId { root: 0, sequence: 1 }) });
    assert!(one.request(0, named(4)).is_empty());
    assert_eq!(one.node.calls(), 2);
}

/// The number of children in a shape is known only when it is split.
#[test]
fn children_of_a_shape_over_the_limit_are_not_asked() {
    let mut config = Config::new(1, 5);
    config.trees.fan_out = 2;
    let mut one = One::with(config);
    let shape = Shape::from_sizes(vec![4, 1, 1, 1]).unwrap();
    assert_eq!(one.request(0, Request { tree: Ok(Tree::Explicit(shape)), ..request("1-4") }), ["run func"]);
    let says = "id 1 failed at stage forward (over-limit): 3 children are over the limit of 2";
    assert_eq!(one.replied("a"), ["consumed 0".into(), format!("to 0: {says} [f---]")]);
}

#[test]
fn data_over_the_limit_are_refused_by_their_announcement() {
    let config = || Config { data_max: 10, ..Config::new(1, 5) };
    let (data, _writer) = Body::arriving(11);
    let outputs = One::with(config()).request(0, Request { data, ..request("1-2") });
    assert_eq!(
        outputs[1],
        "to 0: id 1 failed at stage setup (over-limit): data of 11 bytes are over the limit of 10 [f-]"
    );
    let data = Body::whole(vec![0; 10]);
    assert_eq!(One::with(config()).request(0, Request { data, ..request("1") }), ["run func"]);
    let outputs = One::with(config()).start(Start { data: Body::whole(vec![0; 11]), ..start("1") });
    assert!(
        outputs[0].starts_with("end 1: id 1 failed at stage setup (over-limit): data of 11 bytes"),
        "{outputs:?}"
    );
}

#[test]
fn a_header_over_the_limit_of_the_wire_is_refused_before_it_is_sent() {
    let header = |len| Start { header: vec![0; len].into(), ..start("0-1") };
    let mut one = One::new(0);
    let outputs = one.start(header(HEADER_MAX + 1));
    assert!(outputs[0].contains("a header of 65536 bytes is over the limit of 65535"), "{outputs:?}");
    assert_eq!(one.start(header(HEADER_MAX)), ["run func"]);
}

#[test]
fn a_reply_over_the_limit_fails_at_reply() {
    let config = || Config { reply_max: 16, ..Config::new(1, 5) };
    let mut one = One::with(config());
    one.request(0, request("1-2"));
    one.replied("four");
    let outputs = one.response(2, leveled(0, "0 ", "1 b"));
    let says = "the subtree's reply of 17 bytes is over the limit of 16";
    assert_eq!(outputs, [format!("to 0: id 1 failed at stage reply (over-limit): {says} [fd]")]);

    let mut one = One::with(config());
    one.request(0, request("1-2"));
    one.replied("abc");
    assert_eq!(one.response(2, leveled(0, "0 ", "1 b")), ["to 0: level 1 [2 0 0 ] [2 3 abc1 b]"]);
}

#[test]
fn a_level_over_the_highest_fails_at_reply() {
    let mut one = One::new(1);
    one.request(0, request("1-2"));
    one.replied("");
    let outputs = one.response(2, leveled(u16::MAX, "0 ", "0 "));
    assert!(outputs[0].starts_with("to 0: id 1 failed at stage reply (over-limit): "), "{outputs:?}");
}
