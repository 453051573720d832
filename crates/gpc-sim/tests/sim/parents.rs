//! Doctored histories of the ids involved in a call, of the choice between two parents, and of reports on ids that were
//! never asked.

use std::collections::BTreeSet;

use chained_gpc::wire::message::{Answer, Response};
use chained_gpc::wire::{CauseKind, Failure, Message, Stage, Status};
use gpc_sim::check::Plan;

use super::history::*;

/// Whether the checker complains: an id with two ids above it is asked by `first` and then by `second`, and sends MOVED
/// to `receiver`.
fn complains(first: u32, second: u32, receiver: u32) -> bool {
    let asks = |from, skipped| {
        let message = meant(&plan(true), request(2..3, SECOND_NS, skipped));
        [Entry::Received(2, from, message), Entry::Requested(2, from)]
    };
    let mut history = vec![Entry::Started(plan(true))];
    // Id 1 is the parent, and id 0 stands above it.
    for from in [first, second] {
        history.extend(asks(from, u32::from(from == 0)));
    }
    history.push(Entry::Sent(2, receiver, Message::Moved(CALL)));
    judged(&history).contains(&"parents")
}

#[test]
fn the_lower_of_two_parents_is_told_whichever_comes_first() {
    assert!(!complains(1, 0, 1) && !complains(0, 1, 1));
    assert!(complains(1, 0, 0) && complains(0, 1, 0));
}

/// Whether the checker complains: an id refuses id 0 (which skips `skipped` ids) for this reason, and executes when its
/// parent asks.
fn executes_after_a_refusal(skipped: u32, kind: CauseKind) -> bool {
    let plan = plan(true);
    let asks = |from, skipped| {
        let message = meant(&plan, request(2..3, SECOND_NS, skipped));
        [Entry::Received(2, from, message), Entry::Requested(2, from)]
    };
    let mut why = cause(2, Stage::Setup);
    why.kind = kind;
    let failure = Failure { cause: why, coverage: runs(&[(Status::Failed, 1)]) };
    let answer = Answer::Failed(Box::new(failure));
    let refuses = Entry::Sent(2, 0, Message::Response(Response { call: CALL, answer }));
    let mut history = vec![Entry::Started(plan.clone())];
    history.extend(asks(0, skipped).into_iter().chain([refuses]).chain(asks(1, 0)));
    history.push(Entry::Executed(2, 0));
    judged(&history).contains(&"parents")
}

#[test]
fn who_has_refused_an_adopter_takes_nothing_from_the_one_that_was_given_up() {
    assert!(executes_after_a_refusal(1, CauseKind::Busy) && executes_after_a_refusal(1, CauseKind::NoMemory));
    assert!(!executes_after_a_refusal(0, CauseKind::Busy), "a parent like any other");
    assert!(!executes_after_a_refusal(1, CauseKind::SecondParent), "it goes on for the first one");
}

#[test]
fn who_has_asked_and_who_is_asked_has_part() {
    let involved = |with: &[u32]| {
        let seen = Entry::Involved(1, BTreeSet::from_iter(with.iter().copied()));
        !judged(&then(down(plan(false)), &[seen])).contains(&"progress")
    };
    assert!(involved(&[0, 2]) && involved(&[0, 2, 5]));
    assert!(!involved(&[0]) && !involved(&[2]) && !involved(&[]));
}

/// Once func had run, a call reported that it needed no workers, although its callback still did. A function that
/// occupied such a worker and waited for the call got no error.
#[test]
fn a_call_needs_workers_until_its_functions_are_through() {
    let needs = |callback: bool, more: &[Entry]| {
        let plan = Plan { callback, ..plan(false) };
        let history = then(vec![Entry::Started(plan)], more);
        !judged(&history).contains(&"progress")
    };
    let class = 1 << (CALL.sequence % 2);
    let (some, none, other) = (Entry::Needs(class), Entry::Needs(0), Entry::Needs(class ^ 3));
    let (began, ran) = (Entry::Began(0), Entry::Ran(0, false));
    assert!(needs(false, std::slice::from_ref(&some)) && !needs(false, std::slice::from_ref(&none)));
    assert!(!needs(false, &[other]), "another class");
    let through = [began.clone(), ran.clone()];
    assert!(needs(false, &then(through.to_vec(), std::slice::from_ref(&none))));
    assert!(!needs(false, &then(through.to_vec(), std::slice::from_ref(&some))), "func is through");
    // The callback of this call runs in another class.
    let (merges, both) = (Entry::Needs(class ^ 3), Entry::Needs(3));
    assert!(needs(true, std::slice::from_ref(&both)) && !needs(true, std::slice::from_ref(&some)));
    assert!(needs(true, &then(through.to_vec(), std::slice::from_ref(&merges))));
    assert!(!needs(true, &then(through.to_vec(), &[both])), "func is through");
    assert!(!needs(true, &then(through.to_vec(), std::slice::from_ref(&none))), "callback is still to come");
    let later = [began, Entry::Ran(0, true)];
    assert!(needs(false, &then(later.to_vec(), &[some])) && needs(false, &then(later.to_vec(), &[none])));
}

/// Id 1 fails on a request, and has asked no other id.
fn fails(plan: Plan, stage: Stage, below: Status) -> Vec<&'static str> {
    let asked = meant(&plan, request(1..3, FIRST_NS, 0));
    let failure = Failure { cause: cause(1, stage), coverage: runs(&[(Status::Failed, 1), (below, 1)]) };
    let answer = Answer::Failed(Box::new(failure));
    judged(&[
        Entry::Started(plan),
        Entry::Sent(0, 1, asked.clone()),
        Entry::Received(1, 0, asked),
        Entry::Sent(1, 0, Message::Response(Response { call: CALL, answer })),
    ])
}

#[test]
fn of_those_whom_nobody_has_asked_it_is_known_that_they_have_done_nothing() {
    let says = |below| fails(plan(false), Stage::Func, below).contains(&"statuses");
    assert!(says(Status::Unknown) && says(Status::Done) && !says(Status::Unreached));
}

#[test]
fn who_forwards_first_has_forwarded_when_func_fails() {
    let says = |forward_first| {
        let plan = Plan { forward_first, ..plan(false) };
        fails(plan, Stage::Func, Status::Unreached).contains(&"execution")
    };
    assert!(says(true) && !says(false));
}
