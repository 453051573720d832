//! Tests of the checkers of blame. When its time limit has passed, an id must not blame its own function if that has
//! ended. Nor may it blame an id below that has answered or still has time to report.

use chained_gpc::Tree;
use chained_gpc::wire::message::{Answer, Response};
use chained_gpc::wire::{Cause, CauseKind, Failure, Message, Stage, Status};
use gpc_sim::check::{Held, Plan};

use super::history::*;

/// Whether the blame is wrong: after the events `before`, id 1 fails at the end of its time with a cause of this id and
/// stage.
fn blames(id: u32, stage: Stage, before: &[Entry]) -> bool {
    blames_at_once(id, stage, &[before, &[Entry::Later(EXTRA_NS)]].concat())
}

/// The same, right after these events.
fn blames_at_once(id: u32, stage: Stage, before: &[Entry]) -> bool {
    let cause = Cause::new(id, stage, CauseKind::TimeLimit, "as told");
    let failure = Failure { cause, coverage: runs(&[(Status::Failed, 1), (Status::Unknown, 1)]) };
    let answer = Answer::Failed(Box::new(failure));
    let says = Entry::Sent(1, 0, Message::Response(Response { call: CALL, answer }));
    let history = then(then(down(plan(false)), before), &[says]);
    judged(&history).contains(&"progress")
}

/// A callback that waited for a worker was passed over, and the first child was blamed, which had answered.
#[test]
fn who_has_answered_is_not_blamed_for_a_time_limit() {
    let answered = [Entry::Received(1, 2, completed())];
    assert!(!blames(2, Stage::Reply, &[]) && blames(2, Stage::Reply, &answered));
    assert!(!blames(2, Stage::Reply, &[Entry::Received(1, 2, failed(2, Stage::Reply))]), "it says so itself");
    assert!(blames(1, Stage::Reply, &answered), "it has nothing that it holds back");
    let late = [Entry::Later(LIMIT_NS), Entry::Received(1, 2, completed())];
    assert!(!blames_at_once(2, Stage::Reply, &late), "all have answered, and it came too late");
}

/// Of two children, the one that had answered too late was blamed, while the other was silent.
#[test]
fn who_has_answered_late_is_not_blamed_while_others_are_silent() {
    let asks = |id| Entry::Sent(0, id, request(id..id + 1, FIRST_NS, 0));
    let blames = |id| {
        let asked = [Entry::Executed(0, 0), asks(1), asks(2), input(0)];
        let late = [Entry::Later(LIMIT_NS), Entry::Received(0, 1, completed()), Entry::Later(EXTRA_NS)];
        let ends = Entry::Finished(blamed(id, Stage::Reply, &[(Status::Done, 2), (Status::Unknown, 1)]));
        let begins = Entry::Started(Plan { tree: Tree::Flat, ..plan(false) });
        judged(&[&[begins], &asked[..], &late, &[ends]].concat()).contains(&"progress")
    };
    assert!(blames(1) && !blames(2));
}

/// Three ids that only waited were blamed for one whose function exceeded the limit: none of them waited for the
/// reports of the ids below.
#[test]
fn whoever_has_time_left_to_report_is_not_blamed() {
    let later = |ns| [Entry::Later(ns)];
    assert!(blames_at_once(2, Stage::Reply, &later(LIMIT_NS)));
    assert!(blames_at_once(2, Stage::Reply, &later(90_000_000)), "it waits for most of 100 ms");
    assert!(!blames_at_once(2, Stage::Reply, &later(97_000_000)));
    assert!(
        !blames_at_once(1, Stage::Func, &[Entry::Began(1), Entry::Later(LIMIT_NS)]),
        "a function has no more"
    );
}

#[test]
fn a_function_that_is_through_is_not_blamed_for_a_time_limit() {
    let runs = |end: &[Entry]| [&[Entry::Began(1)], end].concat();
    assert!(!blames(1, Stage::Func, &runs(&[])) && blames(1, Stage::Func, &runs(&[Entry::Ran(1, false)])));
    assert!(!blames(1, Stage::Func, &runs(&[Entry::Ran(1, true)])), "it answers later");
    assert!(blames(1, Stage::Func, &runs(&[Entry::Ran(1, true), Entry::TokenUsed(1)])));
    assert!(blames(1, Stage::Callback, &runs(&[])), "func is not through");
    assert!(!blames(1, Stage::Callback, &runs(&[Entry::Ran(1, false)])));
}

/// A reply whose data were still arriving had no time limit: the call stayed, and the id above gave up first.
#[test]
fn a_call_whose_answer_has_begun_to_go_up_ends_with_its_time() {
    let holds = |calls| Entry::Held(1, Held { calls, ..Held::default() });
    let says = |message: Message| Entry::Sent(1, 0, message);
    let judged = |rest: &[Entry]| {
        let gone = [Entry::Ended(0), Entry::Ended(2), holds(1), says(completed()), holds(1)];
        judged(&then(then(down(plan(false)), &gone), rest)).contains(&"limits")
    };
    let late = [Entry::Later(EXTRA_NS)];
    assert!(!judged(&[holds(0)]) && !judged(&[&[holds(0)], &late[..], &[input(2)]].concat()));
    assert!(judged(&[&late[..], &[input(2)]].concat()), "nothing has come to it since");
}
