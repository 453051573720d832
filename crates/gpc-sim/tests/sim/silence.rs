//! Tests of the checker of heartbeats: it must demand exactly what is promised. Each history here is one of an honest
//! chain that was judged wrongly, with a variant that is indeed late.

use std::sync::Arc;

use chained_gpc::wire::{CallId, Message, Request, Stage};
use gpc_sim::check::Held;
use gpc_sim::{Fault, FaultSet, Scenario, run};
use gpc_trees::TreeName;

use super::history::*;

/// The way down of a call with heartbeats every microsecond, of which four may be missed; and then more.
fn with_heartbeat(partial: bool, more: &[&[Entry]]) -> Vec<&'static str> {
    let mut history = vec![Entry::Heartbeat(1_000, 4_000)];
    history.extend(down(plan(partial)));
    judged(&then(history, &more.concat()))
}

/// Id 0 asks id 1 for a heartbeat, and the question leaves at once.
fn question() -> [Entry; 3] {
    [Entry::Sent(0, 1, Message::Ping), Entry::AtOnce, Entry::PingLeft(0, 1)]
}

/// The same request in another call.
fn of_the_next_call(message: Message) -> Message {
    let Message::Request(request) = message else { panic!("it is a request") };
    let call = CallId { sequence: CALL.sequence + 1, ..CALL };
    Message::Request(Arc::new(Request { call, ..Request::clone(&request) }))
}

/// A link broke, and the end that had not learned of it gave up the peer, so no end of the link was observed there.
/// When the peer was asked again, below a silent one of another call, its silence still counted from the call in which
/// it had been given up.
#[test]
fn who_was_given_up_is_awaited_no_more() {
    let gives_up = [Entry::Received(0, 1, Message::Pong)];
    let asked = [question(), question()].concat();
    let lost = [Entry::Injected(Fault::Partition, vec![0, 1, 2]), Entry::Abandoned(0, 1)];
    let next = [Entry::Later(2_000), Entry::Sent(0, 1, of_the_next_call(request(1..3, FIRST_NS, 0)))];
    let found = |later| {
        let again = [&question()[..], &[Entry::Later(later)], &question()].concat();
        with_heartbeat(false, &[&gives_up, &asked, &lost, &next, &again]).contains(&"life")
    };
    assert!(!found(2_000), "it is awaited for three microseconds");
    assert!(found(5_000), "and now for six");
}

/// The silence of a peer that a second call awaited counted from when the peers of the first call had been asked. The
/// peer was given up one question too early.
#[test]
fn silence_counts_from_the_call_that_awaits_the_peer() {
    let found = |later| {
        // The call began at id 1 with the fifth observation, and each takes a microsecond.
        let asked = [Entry::Sent(1, 2, Message::Ping), Entry::AtOnce, Entry::PingLeft(1, 2)];
        let again =
            [Entry::Later(8_000), Entry::Sent(1, 2, Message::Ping), Entry::Injected(Fault::Pause, vec![2])];
        let lost = [
            Entry::Later(later),
            Entry::Abandoned(1, 2),
            Entry::Sent(1, 0, failed(2, Stage::Link)),
            input(1),
        ];
        let mut history = vec![Entry::Heartbeat(8_000, 24_000)];
        history.extend(down(plan(false)));
        judged(&then(history, &[&asked[..], &again, &lost].concat()))
    };
    assert_eq!(found(5_000), ["life"], "patience is over, and the time that it may be silent is not");
    assert_eq!(found(8_000), [""; 0]);
}

/// A node that had been paused asked its peers anew, and the questions took long to leave. The checker expected it to
/// give them up by the time of the earlier questions.
#[test]
fn who_stood_still_asks_anew() {
    let stands = [Entry::Injected(Fault::Pause, vec![0]), Entry::Later(9_000)];
    let slow = [Entry::Sent(0, 1, Message::Ping), Entry::Later(4_000), Entry::PingLeft(0, 1)];
    let found = |before: &[Entry], after: &[Entry], later| {
        let goes_on = [Entry::AtOnce, Entry::Resumed(0)];
        let asks = [&slow[..], &[Entry::Later(later)], &question()].concat();
        let heard = [Entry::Received(0, 1, Message::Pong)];
        with_heartbeat(false, &[&heard, before, &stands, &goes_on, after, &asks]).contains(&"life")
    };
    assert!(!found(&question(), &[], 1_000), "its question left two microseconds ago");
    assert!(found(&question(), &[], 4_000));
    let late = [Entry::AtOnce, Entry::PingLeft(0, 1)];
    assert!(!found(&[Entry::Sent(0, 1, Message::Ping)], &late, 1_000), "a question of before left after it");
}

/// A call ended while its question still waited to leave. In the next call the same peer was asked anew. The checker
/// expected it to be given up by the time of the first question.
#[test]
fn a_question_of_a_call_that_is_over_counts_for_nothing() {
    let asked = [Entry::Received(0, 1, Message::Pong), Entry::Sent(0, 1, Message::Ping)];
    let ends = [Entry::Sent(0, 1, Message::Cancel(CALL))];
    let begins = [Entry::Sent(0, 1, of_the_next_call(request(1..3, FIRST_NS, 0))), Entry::PingLeft(0, 1)];
    let slow = [Entry::Sent(0, 1, Message::Ping), Entry::Later(4_000), Entry::PingLeft(0, 1)];
    let found = |later| {
        let again = [&slow[..], &[Entry::Later(later)], &question()].concat();
        with_heartbeat(false, &[&asked, &ends, &begins, &again]).contains(&"life")
    };
    assert!(!found(1_000), "its question left two microseconds ago");
    assert!(found(4_000));
}

/// A peer that was given up had been awaited for long in one call, and had just been asked in another. The ids below it
/// in the second call could not have been asked before, but were expected to be found silent with it.
#[test]
fn those_below_in_a_call_that_has_just_come_are_asked_from_then_on() {
    let first = Entry::Sent(0, 1, of_the_next_call(request(1..2, FIRST_NS, 0)));
    let silent = [&question()[..], &[Entry::Later(1_000)], &question()].concat();
    let second = Entry::Sent(0, 1, meant(&plan(true), request(1..3, FIRST_NS, 0)));
    let found = |comes_late: bool, later| {
        let (early, late) = if comes_late { (input(0), second.clone()) } else { (second.clone(), input(0)) };
        let mut history = vec![Entry::Heartbeat(1_000, 4_000)];
        history.extend(without(down(plan(true)), 2));
        history.extend([first.clone(), Entry::AtOnce, early]);
        history.extend(then(silent.clone(), &[late]));
        let gives_up = [Entry::AtOnce, Entry::Abandoned(0, 1), Entry::AtOnce];
        let adopts = [Entry::Sent(0, 2, request(2..3, SECOND_NS - 10_000, 1))];
        let below =
            [Entry::Sent(0, 2, Message::Ping), Entry::AtOnce, Entry::PingLeft(0, 2), Entry::Later(later)];
        let asked = [Entry::Sent(0, 2, Message::Ping)];
        let more = [&gives_up[..], &adopts, &below, &asked].concat();
        judged(&then(history, &more)).contains(&"life")
    };
    assert!(!found(true, 3_000));
    assert!(found(true, 5_000));
    assert!(found(false, 3_000), "it was below a silent one all the time");
}

/// An id that had accepted a call lost the parent for which it had done so, and refused a copied request. The checker
/// then took the call as never begun, and blamed the id for holding it.
#[test]
fn who_refuses_a_copy_still_has_the_call() {
    let copy = Entry::Received(2, 1, request(2..3, SECOND_NS, 0));
    let refuses = Entry::Sent(2, 1, failed(2, Stage::Setup));
    let holds = Entry::Held(2, Held { calls: 1, ..Held::default() });
    let lost = [Entry::Injected(Fault::Link, vec![1, 2]), Entry::LinkEnded(2, 1)];
    let taken_on = [&down(plan(true))[..], &lost, &[copy.clone(), refuses.clone(), holds.clone()]].concat();
    assert!(!judged(&taken_on).contains(&"limits"));
    let refused = [&down(plan(true))[..8], &[copy, refuses, holds]].concat();
    assert!(judged(&refused).contains(&"limits"), "it has never begun it");
}

/// Runs that failed. Some have the histories above. In one, a copied request reached a run of its receiver that it was
/// not sent to, and an unreached id executed. In one, a question left with a link after the loss of the link was
/// reported. In one, the refusal of an invalid request counted as a heartbeat, as every message does.
#[test]
fn worlds_that_were_judged_wrongly_hold() {
    let worlds = [
        (9, "binomial", 4, true, 1_795_355_894_354),
        (5, "kary:3", 2, true, 881_000_350_305),
        (6, "knomial:3", 4, false, 66_100_204_616),
        (8, "kary:1", 4, true, 9_200_000_480_030),
        (17, "chain", 4, true, 9_100_000_083_599),
        (6, "chain", 4, true, 9_420_000_065_190),
        (3, "kary:8", 3, true, 9_410_000_184_558),
        (6, "kary:1", 3, true, 881_000_267_579),
        (4, "chain", 4, false, 66_100_375_066),
        (5, "chain", 4, true, 8_810_000_137_151),
        (8, "binary", 8, true, 1_795_904_635),
    ];
    for (n, tree, calls, partial, seed) in worlds {
        let tree = tree.parse::<TreeName>().unwrap().built_in().unwrap();
        let faults = FaultSet::ALL;
        let scenario = Scenario { calls, faults, partial, seed, ..Scenario::new(n, tree) };
        assert_eq!(run(&scenario).violations, [], "{}", scenario.replay());
    }
}
