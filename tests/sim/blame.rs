//! Do the checkers of whom an id blames bite? For a time limit that has passed neither a function of its own that is through, nor somebody who has answered; and what each hop is to keep back so that the right one is blamed.

use std::sync::Arc;
use std::time::Duration;

use chained_gpc::sim::check::Held;
use chained_gpc::wire::message::{Answer, Response};
use chained_gpc::wire::{Cause, CauseKind, Failure, Message, Request, Stage, Status};

use super::history::*;

/// Id 1 says that the time limit has passed, and names this id and stage; before that come these.
fn blames(id: u32, stage: Stage, before: &[Seen]) -> bool {
    let cause = Cause::new(id, stage, CauseKind::TimeLimit, "as told");
    let failure = Failure { cause, coverage: runs(&[(Status::Failed, 1), (Status::Unknown, 1)]) };
    let answer = Answer::Failed(Box::new(failure));
    let says = Seen::Sent(1, 0, Message::Response(Response { call: CALL, answer }));
    let history = then(then(down(plan(false)), before), &[says]);
    judged(&history).contains(&"progress")
}

/// A callback that waited for its turn was passed over, and the first child was blamed, which had answered.
#[test]
fn who_has_answered_is_not_blamed_for_a_time_limit() {
    let answered = [Seen::Received(1, 2, completed())];
    assert!(!blames(2, Stage::Reply, &[]) && blames(2, Stage::Reply, &answered));
    assert!(!blames(2, Stage::Reply, &[Seen::Received(1, 2, failed(2, Stage::Reply))]), "it says so itself");
    assert!(blames(1, Stage::Reply, &answered), "it has nothing that it holds back");
}

#[test]
fn a_function_that_is_through_is_not_blamed_for_a_time_limit() {
    let runs = |end: &[Seen]| [&[Seen::Began(1)], end].concat();
    assert!(!blames(1, Stage::Func, &runs(&[])) && blames(1, Stage::Func, &runs(&[Seen::Ran(1, false)])));
    assert!(!blames(1, Stage::Func, &runs(&[Seen::Ran(1, true)])), "it answers later");
    assert!(blames(1, Stage::Func, &runs(&[Seen::Ran(1, true), Seen::TokenUsed(1)])));
    assert!(blames(1, Stage::Callback, &runs(&[])), "func is not through");
    assert!(!blames(1, Stage::Callback, &runs(&[Seen::Ran(1, false)])));
}

/// Late in a call the hops reckoned from the time that was left, and kept nothing back.
#[test]
fn a_hop_that_keeps_nothing_back_is_seen() {
    let limit_ns = 1_000_000_000;
    let kept = |kept_ns: u64, age: u64| {
        let mut plan = plan(false);
        plan.limit_ns = limit_ns;
        let Message::Request(asked) = meant(&plan, request(1..3, limit_ns - kept_ns, 0)) else {
            unreachable!("it is one")
        };
        let times = [limit_ns - age, age].map(Duration::from_nanos);
        let asked = Request { left: times[0], age: times[1], ..Request::clone(&asked) };
        let history = [Seen::Started(plan), Seen::AtOnce, Seen::Executed(0, 0), Seen::AtOnce];
        let sent = Seen::Sent(0, 1, Message::Request(Arc::new(asked)));
        judged(&then(history.to_vec(), &[sent])).contains(&"limits")
    };
    assert!(!kept(5_000_000, 0) && kept(4_000_000, 0) && kept(1_000, 0));
    // What the hops above have kept is not kept once more.
    assert!(!kept(5_000_000, 1_000_000));
}

/// An answer whose data were still arriving had no time limit: the call stayed, and the one above gave up first.
#[test]
fn a_call_whose_answer_has_begun_to_go_up_ends_with_its_time() {
    let holds = |calls| Seen::Held(1, Held { calls, ..Held::default() });
    let says = |message: Message| Seen::Sent(1, 0, message);
    let judged = |rest: &[Seen]| {
        let gone = [Seen::Ended(0), Seen::Ended(2), holds(1), says(completed()), holds(1)];
        judged(&then(then(down(plan(false)), &gone), rest)).contains(&"limits")
    };
    let late = [Seen::Later(FIRST_NS + 10_000)];
    assert!(!judged(&[holds(0)]) && !judged(&[&[holds(0)], &late[..], &[input(2)]].concat()));
    assert!(judged(&[&late[..], &[input(2)]].concat()), "nothing has come to it since");
}
