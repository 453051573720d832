//! Failures of a call: the ARMCI design of chained GPC (2007), "Exceptions".

use chained_gpc::chain::{Config, Input, JobResult, Start};
use chained_gpc::wire::message::Answer;
use chained_gpc::wire::{CallId, CauseKind, Coverage, Reason, Request, Stage, Status};
use gpc_trees::{Registered, Shape, Tree};

use super::model::{call, ids, letters};
use super::one::{One, failed, leveled, merged, reply, request, start};
use super::world::{Act, Event, Seen, World};

/// Node 1 of a call over 1 to 5, which waits for its children 2 (with 3) and 4 (with 5).
fn waiting(request: Request) -> One {
    let mut one = One::new(1);
    one.request(0, request);
    one.replied("a");
    one
}

#[test]
fn func_fails_before_anything_is_forwarded() {
    let mut one = One::new(1);
    one.request(0, request("1-3"));
    let outputs = one.ran(JobResult::Failed("no luck".into()));
    assert_eq!(outputs, ["consumed 0", "to 0: id 1 failed at stage func: no luck [f--]"]);
    assert!(one.is_quiet());
}

#[test]
fn func_fails_after_forward_first() {
    let mut one = One::new(1);
    one.request(0, Request { forward_first: true, ..request("1-3") });
    one.response(3, leveled(0, "0 ", "0 "));
    let outputs = one.ran(JobResult::Failed("no luck".into()));
    assert_eq!(outputs, ["consumed 0", "to 0: id 1 failed at stage func: no luck [f?d]", "to 2: cancel"]);
}

#[test]
fn an_unknown_function_fails_at_setup() {
    let mut one = One::new(1);
    one.request(0, request("1-2"));
    let outputs =
        one.ran(JobResult::Refused(Box::new(Reason::new(CauseKind::UnknownFunction, "no function 7 here"))));
    assert_eq!(
        outputs,
        ["consumed 0", "to 0: id 1 failed at stage setup (unknown-function): no function 7 here [f-]"]
    );
}

#[test]
fn a_callback_fails_and_so_does_one_that_takes_segments() {
    let taken = JobResult::Taken(chained_gpc::chain::FuncState(Box::new(())));
    for (result, says) in [
        (JobResult::Failed("no luck".into()), ": no luck"),
        (taken, " (wrong-function): a callback takes no data as they come"),
    ] {
        let mut one = waiting(Request { callback: Some(9), ..request("1-5") });
        assert_eq!(one.response(2, merged("b")), ["run callback 2 a+b"]);
        let outputs = one.ran(result);
        assert_eq!(
            outputs,
            [format!("to 0: id 1 failed at stage callback{says} [fdd??]"), "to 4: cancel".into()]
        );
        assert!(one.response(4, merged("d")).is_empty() && one.is_quiet());
    }
}

#[test]
fn a_child_fails_and_its_parent_at_once_with_the_first_cause() {
    let mut one = waiting(request("1-5"));
    let mut below = Coverage::all(Status::Done, 1);
    below.push(Status::Failed, 1);
    let outputs = one.response(2, failed(3, Stage::Func, below));
    assert_eq!(outputs, ["to 0: id 3 failed at stage func: bad luck [ddf??]", "to 4: cancel"]);
    assert!(one.is_quiet());
    assert!(one.response(4, leveled(1, "0 ", "0 ")).is_empty(), "later responses are ignored");
    assert!(one.response(4, failed(5, Stage::Func, Coverage::all(Status::Failed, 2))).is_empty());
}

#[test]
fn a_child_fails_while_func_still_runs() {
    let mut one = One::new(1);
    one.request(0, Request { forward_first: true, ..request("1-3") });
    let outputs = one.response(2, failed(2, Stage::Func, Coverage::all(Status::Failed, 1)));
    assert_eq!(outputs, ["consumed 0", "to 0: id 2 failed at stage func: bad luck [?f?]", "to 3: cancel"]);
    assert_eq!((one.node.calls(), one.node.jobs_running()), (0, 1));
    assert!(one.replied("late").is_empty() && one.is_quiet());
}

#[test]
fn a_child_fails_while_func_is_deferred_or_waits_for_its_turn() {
    let mut one = One::new(1);
    one.request(0, request("1-2"));
    one.ran(JobResult::Deferred);
    let outputs = one.response(2, failed(2, Stage::Func, Coverage::all(Status::Failed, 1)));
    assert_eq!(outputs, ["to 0: id 2 failed at stage func: bad luck [?f]"]);
    assert!(one.answered(Ok(reply("late"))).is_empty());

    let mut one = One::new(1);
    one.request(0, Request { call: CallId { root: 0, sequence: 4 }, ..request("1") });
    one.request(0, Request { forward_first: true, ..request("1-2") });
    let outputs = one.response(2, failed(2, Stage::Func, Coverage::all(Status::Failed, 1)));
    assert_eq!(outputs, ["consumed 0", "to 0: id 2 failed at stage func: bad luck [-f]"]);
}

#[test]
fn a_coverage_of_the_wrong_length_is_not_believed() {
    let mut one = waiting(request("1-5"));
    let outputs = one.response(2, failed(3, Stage::Func, Coverage::all(Status::Done, 7)));
    assert_eq!(outputs[0], "to 0: id 3 failed at stage func: bad luck [d????]");
}

#[test]
fn only_children_that_are_awaited_are_heard() {
    let mut one = waiting(Request { callback: Some(9), ..request("1-5") });
    for stranger in [0, 1, 3, 5, 77] {
        assert!(one.response(stranger, merged("x")).is_empty());
        assert!(one.response(stranger, failed(3, Stage::Func, Coverage::new())).is_empty());
    }
    one.response(2, merged("b"));
    assert!(one.response(2, merged("twice")).is_empty());
    assert!(one.response(2, failed(2, Stage::Func, Coverage::new())).is_empty());
    assert!(one.replied("ab").is_empty(), "the second reply was not queued");
    assert_eq!(one.node.calls(), 1);
}

#[test]
fn a_bare_completion_where_a_reply_was_asked_for_is_a_failure_of_the_child() {
    let mut one = waiting(request("1-5"));
    let outputs = one.response(4, Answer::Completed);
    let says = "it sent a bare completion where a reply was asked for";
    assert_eq!(outputs[0], format!("to 0: id 4 failed at stage reply (bad-reply): {says} [d????]"));
}

#[test]
fn a_token_that_is_dropped_fails_func() {
    let mut one = One::new(1);
    one.request(0, request("1-2"));
    one.ran(JobResult::Deferred);
    let outputs = one.answered(Err("dropped"));
    assert_eq!(outputs, ["to 0: id 1 failed at stage func: dropped [f?]", "to 2: cancel"]);
}

#[test]
fn a_cancel_goes_down_and_nothing_goes_up() {
    let mut one = waiting(request("1-5"));
    one.response(2, leveled(1, "0 ", "0 "));
    for stranger in [2, 4, 9] {
        assert!(one.cancel(stranger).is_empty(), "only the parent cancels");
    }
    assert_eq!(one.cancel(0), ["to 4: cancel"]);
    assert!(one.is_quiet() && one.cancel(0).is_empty());

    let mut root = One::new(0);
    root.start(start("0-2"));
    assert!(root.cancel(1).is_empty(), "a call that was started here has no parent");
    assert_eq!(root.node.calls(), 1);
}

#[test]
fn the_caller_gives_up() {
    let mut one = One::new(0);
    one.start(start("0-2"));
    one.replied("a");
    one.response(1, leveled(0, "0 ", "0 "));
    let outputs = one.feed(Input::GiveUp { ticket: 1 });
    let says = "id 0 failed at stage cancelled: the caller gave the call up";
    assert_eq!(outputs, [format!("end 1: {says} [dd?]"), "to 2: cancel".into()]);
    assert!(one.feed(Input::GiveUp { ticket: 1 }).is_empty() && one.is_quiet());

    let mut one = One::new(0);
    one.start(start("0-2"));
    assert_eq!(one.feed(Input::GiveUp { ticket: 1 }), [format!("end 1: {says} [?--]")], "func runs");
}

#[test]
fn the_loss_of_a_child_fails_the_calls_that_wait_on_it_at_once_and_names_it() {
    let mut one = waiting(request("1-5"));
    assert!(one.lost(3).is_empty(), "a grandchild is no concern of this id");
    let outputs = one.lost(2);
    assert_eq!(outputs, ["to 0: id 2 failed at stage link (link-lost): gone [d????]", "to 4: cancel"]);
    assert!(one.is_quiet());

    let mut one = waiting(request("1-5"));
    one.response(2, leveled(1, "0 ", "0 "));
    assert!(one.lost(2).is_empty(), "it has answered");
    assert_eq!(one.node.calls(), 1);
}

#[test]
fn the_loss_of_the_parent_cancels_the_children_and_forgets() {
    let mut one = waiting(request("1-5"));
    assert_eq!(one.lost(0), ["to 2: cancel", "to 4: cancel"]);
    assert!(one.is_quiet());
}

#[test]
fn one_loss_ends_many_calls_and_no_other() {
    let mut one = One::new(1);
    let named = |sequence| CallId { root: 0, sequence };
    for (sequence, list) in [(1, "1-2"), (2, "1,3"), (3, "1-2")] {
        one.request(0, Request { call: named(sequence), ..request(list) });
        one.feed(Input::Ran { call: named(sequence), result: JobResult::Replied(reply("")) });
    }
    assert_eq!(one.lost(2).len(), 2);
    assert_eq!((one.node.calls(), one.node.awaits(3, named(2))), (1, true));
}

#[test]
fn a_second_parent_is_answered_with_a_failure_and_nothing_is_executed() {
    let mut one = waiting(request("1-3"));
    let refused = |why: &str| {
        [
            "consumed 9".to_string(),
            format!("to 9: id 1 failed at stage setup (second-parent): second parent: {why} [f?]"),
        ]
    };
    assert_eq!(one.request(9, request("1-2")), refused("id 0 already sent call 0#5"));
    assert!(one.cancel(9).is_empty(), "the second parent has no say");
    assert!(one.lost(9).is_empty());
    one.response(2, leveled(0, "0 ", "1 b"));
    assert_eq!(one.response(3, leveled(0, "0 ", "1 c")), ["to 0: level 1 [3 0 0 0 ] [3 1 a1 b1 c]"]);
    assert_eq!(one.request(9, request("1-2")), refused("call 0#5 has already ended here"));
    let again = "to 0: id 1 failed at stage setup (second-parent): second parent: call 0#5 has already ended here [f?]";
    assert_eq!(one.request(0, request("1-2")), ["consumed 0", again]);
    assert!(one.is_quiet());
}

#[test]
fn a_call_that_was_cancelled_or_lost_is_not_executed_again() {
    for end in [|one: &mut One| one.cancel(0), |one: &mut One| one.lost(0)] {
        let mut one = One::new(1);
        one.request(0, request("1"));
        end(&mut one);
        assert!(one.request(9, request("1"))[1].contains("second parent"));
        assert!(one.replied("late").is_empty() && one.is_quiet());
    }
}

/// A peer that named a future call of this root was believed. When the root then started a call with that name, the two
/// shared one state. The peer's deadline stayed forever, and no other time limit of the node passed again.
#[test]
fn no_peer_sends_a_call_that_this_id_starts() {
    let mut one = One::new(0);
    let forged = |sequence| Request { call: CallId { root: 0, sequence }, ..request("0-1") };
    let says = |sequence| {
        format!(
            "to 9: id 0 failed at stage setup (second-parent): second parent: call 0#{sequence} is started here alone [f?]"
        )
    };
    assert_eq!(one.request(9, forged(5)), ["consumed 9".into(), says(5)], "before it is started");
    assert_eq!(one.start(start("0-1")), ["run func"]);
    assert_eq!(one.request(9, forged(5)), ["consumed 9".into(), says(5)], "in flight");
    one.replied("a");
    assert_eq!(one.response(1, leveled(0, "0 ", "1 b")), ["end 1: level 1 [2 0 0 ] [2 1 a1 b]"]);
    assert_eq!(one.request(9, forged(5)), ["consumed 9".into(), says(5)], "after its end");
    assert!(one.is_quiet());
}

#[test]
fn a_request_that_is_not_for_this_id_or_not_a_tree_is_refused() {
    let shape = Tree::Explicit(Shape::from_sizes(vec![2, 1]).expect("a pair"));
    let cases = [
        (request("2,1"), " (bad-request): the id list begins with 2, not with this id [--]"),
        (
            Request { tree: Err(0x1abc), ..request("1-2") },
            " (unknown-tree): no tree is registered under 0x1abc here",
        ),
        (Request { tree: Ok(shape), ..request("1-3") }, " (bad-tree): a shape of 2 places for 3 ids [f--]"),
    ];
    for (request, says) in cases {
        let mut one = One::new(1);
        let outputs = one.request(0, request);
        assert_eq!(outputs.len(), 2);
        assert!(
            outputs[1].starts_with("to 0: id 1 failed at stage setup") && outputs[1].contains(says),
            "{outputs:?}"
        );
        assert!(one.is_quiet());
    }
    let empty = Request { ids: ids(&[]), ..request("1") };
    assert!(One::new(1).request(0, empty)[1].contains("the id list is empty"));
}

#[test]
fn a_split_that_is_wrong_fails_at_forward() {
    let greedy = Registered::new("greedy", |n, groups| groups.push(gpc_trees::Group { start: 1, len: n }))
        .expect("a name");
    let mut one = One::new(1);
    one.request(0, Request { tree: Ok(Tree::Registered(greedy)), ..request("1-3") });
    let outputs = one.replied("a");
    assert!(outputs[1].starts_with("to 0: id 1 failed at stage forward (bad-tree): "), "{outputs:?}");
    assert!(outputs[1].ends_with("[f--]") && one.is_quiet());

    let mut config = Config::new(1, 5);
    config.trees.fan_out = 3;
    let mut one = One::with(config);
    one.request(0, Request { tree: Ok(Tree::Flat), ..request("1-5") });
    assert!(one.replied("a")[1].contains("forward (over-limit): 4 children are over the limit of 3 [f----]"));
}

#[test]
fn a_start_that_cannot_be_is_refused_before_anything_is_sent() {
    let mut one = One::new(0);
    let outputs = one.start(start("1-2"));
    assert_eq!(
        outputs,
        ["end 1: id 0 failed at stage setup (bad-request): the id list begins with 1, not with this id [--]"]
    );
    let outputs = one.start(Start { watch: true, ..start("1-2") });
    assert!(outputs[0].ends_with("[-]"), "{outputs:?}");
    let outputs = one.start(Start { watch: true, ids: ids(&[]), ..start("0") });
    assert!(outputs[0].ends_with("the id list is empty []"), "{outputs:?}");
    assert!(one.is_quiet());
}

#[test]
fn the_coverage_of_a_watching_root_leaves_it_out() {
    let mut one = One::new(0);
    one.start(Start { watch: true, ..start("0-2") });
    one.response(1, leveled(0, "0 ", "0 "));
    assert_eq!(one.lost(2), ["end 1: id 2 failed at stage link (link-lost): gone [d?]"]);
}

#[test]
fn in_a_whole_tree_the_first_cause_reaches_the_root_and_every_id_is_left_alone() {
    for (stage, act) in
        [(Stage::Func, Act::Fail), (Stage::Callback, Act::Fail), (Stage::Func, Act::DropToken)]
    {
        for seed in 0..20 {
            let mut world = World::new(0..15, seed, 1).plan(8, stage, act);
            let start = call(Tree::Binary, ids(&(0..15).collect::<Vec<_>>()));
            let failure = world.call(Start { callback: Some(9), ..start }).expect_err("id 8 fails");
            assert_eq!((failure.cause.id, failure.cause.stage), (8, stage));
            assert_eq!(letters(&failure.coverage).chars().nth(8), Some('f'));
            assert_eq!(failure.coverage.counts().failed, 1);
        }
    }
}

#[test]
fn a_node_that_dies_is_named_and_the_rest_of_the_tree_is_cancelled() {
    let everyone: Vec<u32> = (0..31).collect();
    let mut died_late = 0;
    for seed in 0..60 {
        let mut world = World::new(0..31, seed, 1);
        world.events = vec![Event::Start(1, call(Tree::Binomial, ids(&everyone)).into()), Event::Kill(16)];
        world.run();
        match world.finished.remove(&1).expect("the call has ended") {
            (_, Ok(_)) => died_late += 1,
            (_, Err(failure)) => {
                assert_eq!((failure.cause.id, failure.cause.stage), (15, Stage::Link).max((16, Stage::Link)));
                let cancelled = world.log().iter().any(|seen| matches!(seen, Seen::Cancel(..)));
                assert!(cancelled || failure.coverage.counts().unknown > 0);
            }
        }
    }
    assert!(died_late < 60, "it never died in time");
}
