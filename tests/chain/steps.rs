//! The steps of a call, in the order of the source. It is the ARMCI design of chained GPC (2007), "A chained GPC's
//! propagation works in the following steps" and "The action for any response to a chained_gpc".

use std::sync::Arc;

use chained_gpc::chain::{Config, Input, JobResult, Node, Output, Outputs, Start, Time};
use chained_gpc::wire::message::{Answer, Local, Merging};
use chained_gpc::wire::{Body, Message, ReplyLimits, Request, Stage};
use gpc_trees::{Id, Layout, Limits, Tree};

use super::model::{aggregate, call, ids, leaves, text};
use super::one::{One, leveled, merged, reply, request, start};
use super::world::{Act, Seen, World};

fn merging(list: &str) -> Request {
    Request { callback: Some(9), ..request(list) }
}

#[test]
fn func_then_forward_then_callbacks_then_the_response() {
    let mut one = One::new(1);
    assert_eq!(one.request(0, merging("1-5")), ["run func"]);
    assert_eq!(one.replied("a"), ["consumed 0", "to 2: request 2-3", "to 4: request 4-5"]);
    assert_eq!(one.response(2, merged("b")), ["run callback 2 a+b"]);
    assert!(one.response(4, merged("d")).is_empty(), "one job of a call at a time");
    assert_eq!(one.replied("ab"), ["run callback 4 ab+d"]);
    assert_eq!(one.replied("abd"), ["to 0: level 0 [] [abd]"]);
    assert!(one.is_quiet());
}

/// A concatenation over five ids in a flat tree gave 0 4 3 2 1 in one run and another order in the next. callback got
/// the replies as they arrived, which was not documented.
#[test]
fn callback_merges_in_list_order_whoever_answers_first() {
    let flat = || Request { tree: Ok(Tree::Flat), ..merging("1-5") };
    let mut one = One::new(1);
    one.request(0, flat());
    one.replied("a");
    assert!(
        one.response(4, merged("d")).is_empty() && one.response(3, merged("c")).is_empty(),
        "2 comes first"
    );
    assert_eq!(one.response(2, merged("b")), ["run callback 2 a+b"]);
    assert_eq!(one.replied("ab"), ["run callback 3 ab+c"]);
    assert_eq!(one.replied("abc"), ["run callback 4 abc+d"]);
    assert!(one.replied("abcd").is_empty(), "5 is awaited");
    assert_eq!(one.response(5, merged("e")), ["run callback 5 abcd+e"]);
    assert_eq!(one.replied("abcde"), ["to 0: level 0 [] [abcde]"]);
}

#[test]
fn a_commutative_callback_merges_as_replies_come() {
    let mut one = One::new(1);
    one.request(
        0,
        Request { local: Local { merging: Merging::AsTheyCome, ..Local::default() }, ..merging("1-5") },
    );
    one.replied("a");
    assert_eq!(one.response(4, merged("d")), ["run callback 4 a+d"]);
    assert!(one.response(2, merged("b")).is_empty(), "one job of a call at a time");
    assert_eq!(one.replied("ad"), ["run callback 2 ad+b"]);
    assert_eq!(one.replied("adb"), ["to 0: level 0 [] [adb]"]);
}

#[test]
fn at_the_root_too() {
    let mut one = One::new(0);
    assert_eq!(one.start(Start { callback: Some(9), ..start("0-2") }), ["run func"]);
    assert_eq!(one.replied("a"), ["to 1: request 1", "to 2: request 2"]);
    assert_eq!(one.response(1, merged("b")), ["run callback 1 a+b"]);
    assert!(one.replied("ab").is_empty());
    assert_eq!(one.response(2, merged("c")), ["run callback 2 ab+c"]);
    assert_eq!(one.replied("abc"), ["end 1: level 0 [] [abc]"]);
    assert!(one.is_quiet());
}

#[test]
fn the_largest_subtree_is_sent_to_first() {
    let mut one = One::new(1);
    one.request(0, Request { tree: Ok(Tree::Binomial), ..request("1,9,7-8,3-6") });
    assert_eq!(one.replied(""), ["consumed 0", "to 3: request 3-6", "to 7: request 7-8", "to 9: request 9"]);
}

#[test]
fn forward_first_sends_before_func_and_merges_after_it() {
    let mut one = One::new(1);
    let first = Request { forward_first: true, ..merging("1-3") };
    assert_eq!(one.request(0, first), ["to 2: request 2", "to 3: request 3", "run func"]);
    assert!(one.response(2, merged("b")).is_empty());
    assert!(one.response(3, merged("c")).is_empty());
    assert_eq!(one.replied("a"), ["consumed 0", "run callback 2 a+b"]);
    assert_eq!(one.replied("ab"), ["run callback 3 ab+c"]);
    assert_eq!(one.replied("abc"), ["to 0: level 0 [] [abc]"]);
}

#[test]
fn func_waits_for_the_data_and_forward_first_does_not() {
    for forward_first in [false, true] {
        let mut one = One::new(1);
        let (data, mut writer) = Body::arriving(3);
        let sent = one.request(0, Request { forward_first, data, ..request("1-2") });
        assert_eq!(sent.len(), usize::from(forward_first), "{sent:?}");
        writer.push(b"ab");
        assert!(one.feed(Input::DataArrived(super::one::CALL)).is_empty(), "not all is there");
        writer.push(b"c");
        assert_eq!(one.feed(Input::DataArrived(super::one::CALL)), ["run func"]);
        assert!(one.feed(Input::DataArrived(super::one::CALL)).is_empty());
        let forwarded = one.replied("").contains(&"to 2: request 2".to_string());
        assert_eq!(forwarded, !forward_first);
    }
}

#[test]
fn the_default_aggregation_keeps_list_order_and_lifts() {
    let mut one = One::new(1);
    one.request(0, request("1-6"));
    assert_eq!(one.replied("own"), ["consumed 0", "to 2: request 2-4", "to 5: request 5-6"]);
    assert!(one.response(5, leveled(0, "1 h", "1 x")).is_empty());
    let outputs = one.response(2, leveled(1, "2 1 i1 j", "2 1 y1 z"));
    assert_eq!(outputs, ["to 0: level 2 [3 1 0 2 1 i1 j1 1 h] [3 1 3 own2 1 y1 z1 1 x]"]);
}

#[test]
fn no_reply_means_a_bare_completion_all_the_way_up() {
    let mut one = One::new(1);
    one.request(0, Request { reply_wanted: false, ..request("1-3") });
    one.replied("a");
    assert!(one.response(2, Answer::Completed).is_empty());
    assert_eq!(one.response(3, merged("not asked for")), ["to 0: completed"]);

    let mut world = World::new(0..9, 3, 1);
    let outcome = world.call(Start { reply_wanted: false, ..call(Tree::Binary, ids(&[0, 8, 1, 2, 3])) });
    assert_eq!(outcome, Ok(None));
    assert_eq!(world.seen.iter().filter(|(_, seen)| matches!(seen, Seen::Func(_))).count(), 5);
}

/// The source executes callback for any response; without a reply it was once left out.
#[test]
fn a_callback_runs_for_a_bare_completion_too() {
    let mut one = One::new(1);
    one.request(0, Request { reply_wanted: false, ..merging("1-3") });
    one.replied("a");
    for child in [2, 3] {
        let outputs = one.response(child, Answer::Completed);
        assert!(outputs.len() == 1 && outputs[0].starts_with("run callback"), "{outputs:?}");
        let outputs = one.replied("a");
        assert_eq!(outputs, if child == 3 { vec!["to 0: completed"] } else { vec![] });
    }
}

#[test]
fn a_watching_root_neither_executes_nor_contributes() {
    let mut one = One::new(0);
    let watch = Start { watch: true, ..start("0-2") };
    assert_eq!(one.start(watch.clone()), ["to 1: request 1", "to 2: request 2"]);
    one.response(2, leveled(0, "0 ", "1 c"));
    assert_eq!(one.response(1, leveled(0, "0 ", "1 b")), ["end 1: level 1 [2 0 0 ] [2 1 b1 c]"]);

    let mut one = One::new(0);
    one.start(Start { callback: Some(9), ..watch.clone() });
    assert_eq!(one.response(1, merged("b")), ["run callback 1 +b"]);
    assert!(one.replied("b").is_empty());
    one.response(2, merged("c"));
    assert_eq!(one.replied("bc"), ["end 1: level 0 [] [bc]"]);

    let alone = Start { watch: true, ..start("0") };
    assert_eq!(One::new(0).start(alone), ["end 1: level 1 [0 ] [0 ]"]);
}

#[test]
fn one_function_with_phases_is_a_func_that_is_its_own_callback() {
    let mut world = World::new(0..7, 1, 1);
    let reply = world.call(Start { callback: Some(7), ..call(Tree::Binary, ids(&[0, 1, 2, 3, 4, 5, 6])) });
    let data = text(reply.expect("it succeeds").expect("a reply").data.to_bytes());
    let mut merged: Vec<&str> = data.split_whitespace().collect();
    merged.sort_unstable();
    assert_eq!(merged, ["0", "1", "2", "3", "4", "5", "6"]);
    assert_eq!(data.split_whitespace().next(), Some("0"), "own data first");
    assert_eq!(world.seen.iter().filter(|(_, seen)| matches!(seen, Seen::Callback(..))).count(), 6);
}

#[test]
fn a_deferred_reply_is_awaited_while_the_call_goes_on() {
    let mut one = One::new(1);
    one.request(0, merging("1-3"));
    assert_eq!(one.ran(JobResult::Deferred), ["consumed 0", "to 2: request 2", "to 3: request 3"]);
    assert_eq!(one.node.jobs_running(), 0);
    assert!(one.response(2, merged("b")).is_empty(), "no own reply to merge it into");
    assert_eq!(one.answered(Ok(reply("a"))), ["run callback 2 a+b"]);
    assert!(one.answered(Ok(reply("again"))).is_empty());
    assert!(one.replied("ab").is_empty());
    assert!(one.answered(Err("too late")).is_empty());
    one.response(3, merged("c"));
    assert_eq!(one.replied("abc"), ["to 0: level 0 [] [abc]"]);
    assert!(one.answered(Ok(reply("after the end"))).is_empty());
}

/// A func that answers through its token and then returns gives the answer before its own end. The answer was once
/// taken for a second one and dropped, and the call hung until its time limit.
#[test]
fn a_deferred_reply_may_come_before_func_has_ended() {
    let mut one = One::new(1);
    one.request(0, request("1"));
    assert!(one.answered(Ok(reply("a"))).is_empty(), "func still runs");
    assert!(one.answered(Ok(reply("again"))).is_empty());
    assert_eq!(one.ran(JobResult::Deferred), ["consumed 0", "to 0: level 0 [0 ] [1 a]"]);

    let mut one = One::new(1);
    one.request(0, request("1-2"));
    assert!(one.answered(Err("dropped")).is_empty());
    let outputs = one.ran(JobResult::Deferred);
    assert_eq!(outputs[2], "to 0: id 1 failed at stage func: dropped [f?]");
    assert!(one.is_quiet());
}

/// An answer names its call and no token, so a driver gives one for each token. The world of these tests gave a second
/// one for func's token. In one of some thousand cases it did so while a callback had deferred: the call ended well,
/// with that empty answer instead of the merged reply.
#[test]
fn func_and_callback_of_one_id_may_both_answer_later() {
    for func in [Act::Defer, Act::DeferEarly] {
        for merging in [Act::Defer, Act::DeferEarly] {
            for seed in 0..200 {
                let world = World::new(0..3, seed, 1).plan(0, Stage::Func, func);
                let mut world = world.plan(0, Stage::Callback, merging);
                let start = Start { callback: Some(9), ..call(Tree::Flat, ids(&[0, 1, 2])) };
                let reply = world.call(start).expect("it succeeds").expect("a reply");
                assert_eq!(text(reply.data.to_bytes()), "0 1 2 ", "{func:?}, then {merging:?}, seed {seed}");
            }
        }
    }
}

#[test]
fn what_func_returns_counts_when_it_has_not_deferred() {
    let mut one = One::new(1);
    one.request(0, request("1"));
    assert!(one.answered(Ok(reply("token"))).is_empty());
    assert_eq!(one.replied("return"), ["consumed 0", "to 0: level 0 [0 ] [6 return]"]);
}

#[test]
fn an_answer_without_a_func_that_runs_is_dropped() {
    let mut one = One::new(1);
    let (data, mut writer) = Body::arriving(3);
    one.request(0, Request { data, ..request("1") });
    assert!(one.answered(Ok(reply("nobody asked"))).is_empty());
    writer.push(b"abc");
    assert_eq!(one.feed(Input::DataArrived(super::one::CALL)), ["run func"]);
    assert_eq!(one.ran(JobResult::Deferred), ["consumed 0"]);
    assert_eq!(one.answered(Ok(reply("a"))), ["to 0: level 0 [0 ] [1 a]"]);
}

#[test]
fn every_order_of_events_gives_the_same_aggregate() {
    let list: Vec<Id> = (0..23).map(|place| place * 7 % 23).collect();
    for tree in [Tree::Binary, Tree::Binomial, Tree::Chain, Tree::Flat] {
        let (level, data) = aggregate(&tree, &ids(&list), true, &|id| format!("{id} "));
        for seed in 0..20 {
            let mut world = World::new(0..23, seed, 2).plan(14, Stage::Func, Act::Defer);
            let reply = world.call(call(tree.clone(), ids(&list))).expect("it succeeds").expect("a reply");
            assert_eq!((reply.level, text(reply.data.to_bytes())), (level, data.clone()));
        }
    }
}

#[test]
fn an_explicit_shape_is_followed_window_by_window() {
    let layout =
        Layout::from_parents(&[None, Some(0), Some(1), Some(1), Some(0), Some(4)], &Limits::default());
    let layout = layout.expect("a tree");
    let list = layout.apply(&ids(&[0, 5, 4, 3, 2, 1])).expect("as long as its list");
    let mut world = World::new(0..6, 1, 1);
    let reply = world.call(call(layout.tree(), list)).expect("it succeeds").expect("a reply");
    assert_eq!(leaves(&reply).1, ["0 ", "5 ", "4 ", "3 ", "2 ", "1 "]);
    let log = world.log();
    for edge in [(0, 5), (5, 4), (5, 3), (0, 2), (2, 1)] {
        assert!(log.contains(&Seen::Request(edge.0, edge.1)), "{edge:?}");
    }
}

/// An id forwards all that it received, except the list, the tree's window and the limit.
#[test]
fn a_job_and_a_forwarded_request_hold_all_that_came() {
    let (mut node, mut outputs) = (Node::new(Config::new(1, 5)), Outputs::new());
    let came = Request {
        reply_wanted: false,
        forward_first: true,
        reply_limits: ReplyLimits { header_max: 5, data_max: 6 },
        header: "extra".into(),
        data: Body::whole("bulk"),
        tree: Ok(Tree::Chain),
        ..merging("1,7,3")
    };
    let message = Message::Request(Arc::new(came.clone()));
    node.input(Time::default(), Input::Message { from: 4, message }, &mut outputs);
    let outputs: Vec<Output> = outputs.into_iter().collect();
    let [Output::Send { to: 7, message: Message::Request(sent) }, Output::Run(job)] = &outputs[..] else {
        panic!("{outputs:?}");
    };
    assert_eq!((job.call, job.me, job.parent), (came.call, 1, Some(4)));
    assert_eq!((sent.ids.to_string(), job.request.ids.to_string()), ("7,3".into(), "1,7,3".into()));
    for request in [&**sent, &*job.request] {
        assert_eq!((request.call, request.func, request.callback), (came.call, 7, Some(9)));
        assert_eq!(request.reply_limits, came.reply_limits);
        assert_eq!(
            (request.reply_wanted, request.forward_first, &request.tree),
            (false, true, &Ok(Tree::Chain))
        );
        assert_eq!(
            (&request.header[..], request.data.bytes().as_deref()),
            (&b"extra"[..], Some(&b"bulk"[..]))
        );
    }

    let (mut node, mut outputs) = (Node::new(Config::new(0, 5)), Outputs::new());
    node.input(Time::default(), Input::Start { ticket: 1, start: start("0-1").into() }, &mut outputs);
    let Some(Output::Run(job)) = outputs.pop_front() else { panic!("the root executes") };
    assert_eq!((job.me, job.parent, job.request.call), (0, None, super::one::CALL));
}
