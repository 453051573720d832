//! Tests of the checkers of time. Every id must answer by the limit of its own request and its part of the extra time.
//! No hop may withhold time, and no call may be done after its limit. Silence must be detected in its time, also of
//! several ids together.

use chained_gpc::Id;
use chained_gpc::wire::{Cause, CauseKind, Coverage, Failure, Message, Stage, Status};
use gpc_sim::Fault;
use gpc_sim::check::{Held, Outcome};

use super::history::*;

/// The way down, and then more.
fn after(partial: bool, more: &[Entry]) -> Vec<&'static str> {
    judged(&then(down(plan(partial)), more))
}

#[test]
fn an_answer_behind_the_limit_of_its_own_request_is_late() {
    let (answer, late) = (Entry::Sent(2, 1, completed()), Entry::Later(FIRST_NS));
    let rest = [Entry::Sent(1, 0, completed()), Entry::Finished(well(&[0, 1, 2]))];
    assert_eq!(after(false, &[std::slice::from_ref(&answer), &rest[..]].concat()), [""; 0]);
    let told = after(false, &[&[late.clone(), answer.clone()], &rest[..]].concat());
    assert!(told.contains(&"limits"), "the root's own limit is not over yet, and that of id 2 is: {told:?}");
    // A lost parent waits for no answer; the call must be over nevertheless.
    let late = Entry::Later(FIRST_NS + EXTRA_NS);
    let lost = [Entry::Injected(Fault::Link, vec![1, 2]), Entry::LinkEnded(2, 1)];
    let holds = |calls| Entry::Held(2, Held { calls, ..Held::default() });
    assert_eq!(after(true, &[&lost[..], &[late.clone(), holds(0)]].concat()), ["limits"], "but for id 1");
    let gone = [&lost[..], &[Entry::Ended(1), Entry::Ended(0), late.clone()]].concat();
    assert_eq!(after(true, &[&gone[..], &[holds(0)]].concat()), [""; 0]);
    assert_eq!(after(true, &[&gone[..], &[holds(1)]].concat()), ["limits"], "id 2 never ends it");
}

#[test]
fn who_stands_still_is_judged_when_it_goes_on() {
    let gone =
        [Entry::Ended(0), Entry::Ended(1), Entry::Injected(Fault::Pause, vec![2]), Entry::Later(LIMIT_NS)];
    let goes_on = |more: &[Entry]| after(false, &[&gone[..], &[Entry::Resumed(2)], more].concat());
    assert_eq!(after(false, &[&gone[..], &[input(0)]].concat()), [""; 0], "it still stands");
    assert_eq!(
        goes_on(&[Entry::Sent(2, 1, failed(2, Stage::Func)), Entry::Later(LIMIT_NS), input(2)]),
        [""; 0]
    );
    assert_eq!(goes_on(&[Entry::Later(LIMIT_NS), input(2)]), ["limits"], "and it never answers");
}

#[test]
fn a_hop_that_keeps_something_back_is_seen() {
    let kept = |limit_ns| {
        let history = with(down(plan(false)), 2, Entry::Sent(0, 1, request(1..3, limit_ns, 0)));
        judged(&history)
    };
    assert_eq!(kept(LIMIT_NS - 2_000), [""; 0]);
    assert!(kept(LIMIT_NS - 5_000).contains(&"limits"), "it keeps some");
    assert!(kept(LIMIT_NS + 1_000).contains(&"limits"), "it gives more than it has");
}

/// `gpc call sum --time-limit 1ms` ended with status 0 after 5.5 ms.
#[test]
fn a_call_that_is_done_behind_its_limit_is_seen() {
    let done = |partial, later, outcome: &Outcome| {
        after(partial, &[Entry::Later(later), Entry::Finished(outcome.clone())]).contains(&"limits")
    };
    let whole = well(&[0, 1, 2]);
    assert!(!done(false, 100_000, &whole) && done(false, 995_000, &whole));
    let all = [(Status::Done, 3)];
    assert!(done(true, 995_000, &partly(&[0, 1, 2], &[], &all)));
    assert!(!done(true, 985_000, &partly(&[0, 1, 2], &[(2, Stage::Reply)], &all)), "it says so");
}

#[test]
fn a_function_is_told_the_limit_of_its_request() {
    // Ids 1 and 2 were asked 5 and 9 microseconds after the beginning.
    let told = |id, until| after(false, &[Entry::BeganUntil(id, until)]).contains(&"limits");
    assert!(!told(1, 5_000 + FIRST_NS) && !told(2, 9_000 + SECOND_NS));
    assert!(told(1, 8_000 + FIRST_NS) && told(2, 12_000 + SECOND_NS) && told(2, SECOND_NS));
}

#[test]
fn a_call_that_ends_before_its_time_is_seen() {
    let ends = |kind, later| {
        let coverage = Coverage::all(Status::Unknown, 3);
        let result = Err(Failure { cause: Cause::new(2, Stage::Func, kind, "as told"), coverage });
        let ended = Entry::Finished(Outcome { result, report: None });
        after(false, &[Entry::Injected(Fault::Hang, vec![2]), Entry::Later(later), ended])
    };
    assert!(ends(CauseKind::TimeLimit, 500_000).contains(&"limits"));
    assert!(!ends(CauseKind::TimeLimit, 983_000).contains(&"limits"));
    assert!(!ends(CauseKind::Failed, 500_000).contains(&"limits"), "another reason has its own time");
}

/// The way down of a call with heartbeats every microsecond, of which four may be missed.
fn with_heartbeat(partial: bool, more: &[Entry]) -> Vec<&'static str> {
    let mut history = vec![Entry::Heartbeat(1_000, 4_000)];
    history.extend(down(plan(partial)));
    judged(&then(history, more))
}

#[test]
fn silence_that_is_found_late_is_seen() {
    let asked = |left: &[Entry]| {
        let mut asked = vec![Entry::Received(1, 2, Message::Pong), Entry::Sent(1, 2, Message::Ping)];
        asked.extend(then(left.to_vec(), &[Entry::AtOnce, Entry::Sent(1, 2, Message::Ping)]));
        asked
    };
    let found = |left: &[Entry], later| {
        let lost = [
            Entry::Injected(Fault::Pause, vec![2]),
            Entry::Later(later),
            Entry::Abandoned(1, 2),
            Entry::Sent(1, 0, failed(2, Stage::Link)),
            input(1),
        ];
        with_heartbeat(false, &then(asked(left), &lost))
    };
    let leaves = [Entry::AtOnce, Entry::PingLeft(1, 2)];
    assert_eq!(found(&leaves, 0), ["life"], "three microseconds after it was heard");
    assert_eq!(found(&leaves, 1_000), [""; 0]);
    assert_eq!(found(&leaves, 2_000), ["life"], "four are enough");
    assert_eq!(found(&[], 2_000), [""; 0], "its question lies behind other bytes");
}

#[test]
fn those_below_a_silent_one_are_asked_too_and_nobody_else() {
    let (ask, below) = (Entry::Sent(0, 1, Message::Ping), Entry::Sent(0, 2, Message::Ping));
    let heard = Entry::Received(0, 1, Message::Pong);
    let of =
        |partial, more: &[Entry]| with_heartbeat(partial, &[std::slice::from_ref(&heard), more].concat());
    assert_eq!(of(true, &[ask.clone(), below.clone()]), [""; 0]);
    assert_eq!(of(true, std::slice::from_ref(&below)), ["life"], "the one above has not been asked");
    assert_eq!(of(true, &[ask.clone(), heard.clone(), below.clone()]), ["life"], "it has answered");
    assert_eq!(of(false, &[ask, below]), ["life"], "nobody adopts in this call");
}

/// When an id that is not awaited is asked and stays silent, the ids below it must be asked with it.
#[test]
fn those_below_a_descendant_that_is_silent_are_asked_with_it() {
    let mut plan = plan(true);
    plan.ids = chained_gpc::IdList::range(0..4);
    let ask = |ids: &[Id]| {
        let asked = ids.iter().flat_map(|id| [Entry::Sent(0, *id, Message::Ping), Entry::AtOnce]);
        asked.chain([input(0)]).collect::<Vec<Entry>>()
    };
    let of = |rounds: &[&[Id]], heard: &[Entry]| {
        let mut history = vec![
            Entry::Heartbeat(1_000, 4_000),
            Entry::Started(plan.clone()),
            Entry::Executed(0, 0),
            Entry::Sent(0, 1, meant(&plan, request(1..4, FIRST_NS, 0))),
        ];
        for (number, ids) in rounds.iter().enumerate() {
            history.extend(ask(ids));
            history.extend(heard.iter().filter(|_| number + 2 == rounds.len()).cloned());
        }
        judged(&history).contains(&"life")
    };
    assert!(!of(&[&[1], &[1, 2, 3], &[1, 2, 3]], &[]));
    assert!(of(&[&[1], &[1, 2], &[1, 2]], &[]), "and not id 3");
    assert!(!of(&[&[1], &[1, 2]], &[]), "it has just been asked");
    assert!(!of(&[&[1], &[1, 2], &[1, 2]], &[Entry::Received(0, 2, Message::Pong)]), "it lives");
}

/// Six ids of a chain were cut off. After each one that was given up, its child got the full time of silence again.
#[test]
fn generations_that_are_silent_together_are_found_together() {
    let begins = [
        Entry::Injected(Fault::Partition, vec![0, 1, 2]),
        Entry::Received(0, 1, Message::Pong),
        Entry::Sent(0, 1, Message::Ping),
        Entry::AtOnce,
        Entry::PingLeft(0, 1),
        Entry::Sent(0, 1, Message::Ping),
        Entry::Sent(0, 2, Message::Ping),
        Entry::AtOnce,
        Entry::PingLeft(0, 2),
        Entry::Abandoned(0, 1),
        Entry::AtOnce,
        Entry::Sent(0, 2, request(2..3, SECOND_NS - 10_000, 1)),
        Entry::AtOnce,
        input(0),
        Entry::Sent(0, 2, Message::Ping),
    ];
    let gives_up = [Entry::Abandoned(0, 2), input(0)];
    let found = |later| with_heartbeat(true, &[&begins[..], &[Entry::Later(later)], &gives_up[..]].concat());
    assert!(!found(1_000).contains(&"life"));
    assert!(found(4_000).contains(&"life"), "it was known to be silent when the one above it was");
}
