//! Tests of the checker of refusals: a node must refuse exactly where it has reached a limit that it was given.

use chained_gpc::Id;
use chained_gpc::wire::message::{Answer, Response};
use chained_gpc::wire::{Cause, CauseKind, Failure, Message, Stage, Status};
use gpc_sim::Fault;
use gpc_sim::check::{Held, Limits, Outcome, Plan};

use super::history::*;

const NONE: Limits = Limits::NONE;

/// Checkers that complain under these limits.
fn under(limits: Limits, history: &[Entry]) -> Vec<&'static str> {
    judged(&then(vec![Entry::Limits(limits), Entry::Injected(Fault::Limits, Vec::new())], history))
}

/// Whether the checker of refusals complains.
fn is_seen(limits: Limits, history: &[Entry]) -> bool {
    under(limits, history).contains(&"refusals")
}

fn cause(id: Id, stage: Stage, kind: CauseKind) -> Cause {
    Cause::new(id, stage, kind, "as told")
}

fn failed(cause: &Cause, coverage: &[(Status, u32)]) -> Message {
    let failure = Failure { cause: cause.clone(), coverage: runs(coverage) };
    Message::Response(Response { call: CALL, answer: Answer::Failed(Box::new(failure)) })
}

/// A call in which id 2 refuses with this cause while it holds `holds` calls: down, and up again to the root.
fn refuses(plan: Plan, holds: usize, cause: &Cause) -> Vec<Entry> {
    let first = meant(&plan, request(1..3, FIRST_NS, 0));
    let second = meant(&plan, request(2..3, SECOND_NS, 0));
    let (one, two) = (failed(cause, &[(Status::Failed, 1)]), [(Status::Done, 1), (Status::Failed, 1)]);
    let three = runs(&[(Status::Done, 2), (Status::Failed, 1)]);
    let up = failed(cause, &two);
    let outcome = Outcome { result: Err(Failure { cause: cause.clone(), coverage: three }), report: None };
    vec![
        Entry::Started(plan),
        Entry::Executed(0, 0),
        Entry::Sent(0, 1, first.clone()),
        Entry::Received(1, 0, first),
        Entry::Executed(1, 0),
        Entry::Sent(1, 2, second.clone()),
        Entry::Held(2, Held { calls: holds, ..Held::default() }),
        Entry::Received(2, 1, second),
        Entry::Sent(2, 1, one.clone()),
        Entry::Received(1, 2, one),
        Entry::Sent(1, 0, up.clone()),
        Entry::Received(0, 1, up),
        Entry::Finished(outcome),
    ]
}

#[test]
fn a_node_takes_so_many_calls_and_no_more() {
    let holds = |calls| with(honest(), 10, Entry::Held(2, Held { calls, ..Held::default() }));
    let two = Limits { calls_max: 2, ..NONE };
    assert!(!is_seen(two, &holds(1)) && !is_seen(two, &holds(2)) && is_seen(two, &holds(3)));
    let busy = cause(2, Stage::Setup, CauseKind::Busy);
    let one = Limits { calls_max: 1, ..NONE };
    assert!(!is_seen(one, &refuses(plan(false), 1, &busy)));
    assert!(is_seen(one, &refuses(plan(false), 0, &busy)), "it has room");
    assert!(is_seen(two, &refuses(plan(false), 1, &busy)), "it has room for another one");
    assert!(is_seen(NONE, &refuses(plan(false), 1, &busy)), "there is no such limit");
    // It held a call before it ended; the next run holds none.
    let history = and(refuses(plan(false), 1, &busy), 7, Entry::Ended(2));
    assert!(is_seen(one, &history), "that was another process");
}

/// Checks the coverage of a refusal by id 1.
#[test]
fn a_refusal_covers_what_it_knows() {
    let says = |partial, stage, kind, coverage: &[(Status, u32)]| {
        let answer = Entry::Sent(1, 0, failed(&cause(1, stage, kind), coverage));
        let all = then(down(plan(partial)), &[Entry::Injected(Fault::Close, vec![1]), answer]);
        judged(&all).contains(&"refusals")
    };
    let (own, all) = ([(Status::Failed, 1), (Status::Unknown, 1)], [(Status::Unknown, 2)]);
    let nobody = [(Status::Failed, 1), (Status::Unreached, 1)];
    for kind in [CauseKind::SecondParent, CauseKind::AlreadyEnded, CauseKind::LostIncarnation] {
        assert_eq!(
            [&own[..], &all, &nobody].map(|of| says(false, Stage::Setup, kind, of)),
            [false, true, true]
        );
        assert_eq!(
            [&own[..], &all, &nobody].map(|of| says(true, Stage::Setup, kind, of)),
            [true, false, true]
        );
    }
    assert!(!says(true, Stage::Link, CauseKind::SecondParent, &all));
    assert!(says(true, Stage::Link, CauseKind::SecondParent, &own), "it was given up, and has not failed");
    for partial in [false, true] {
        let said = |of: &[(Status, u32)]| says(partial, Stage::Setup, CauseKind::ShuttingDown, of);
        assert_eq!([&own[..], &all, &nobody].map(said), [true, true, false]);
    }
}

#[test]
fn no_more_answers_are_retained_than_calls_are_accepted() {
    let retains =
        |retained_answers| with(honest(), 10, Entry::Held(2, Held { retained_answers, ..Held::default() }));
    let one = Limits { calls_max: 1, ..NONE };
    assert!(!is_seen(one, &retains(1)) && is_seen(one, &retains(2)) && !is_seen(NONE, &retains(2)));
}

#[test]
fn data_over_the_limit_are_refused_and_no_others() {
    let with_data = Plan { data_bytes: 100, ..plan(false) };
    let history = with(honest(), 0, Entry::Started(with_data.clone()));
    let most = |data_max| Limits { data_max, ..NONE };
    assert!(!is_seen(most(100), &history) && is_seen(most(99), &history), "it is executed");
    let over = cause(2, Stage::Setup, CauseKind::OverLimit);
    // Ids 0 and 1 execute what id 2 refuses; their observations are left out here.
    let refused = |data_max| {
        let history = refuses(with_data.clone(), 0, &over);
        let others = |seen: &Entry| !matches!(seen, Entry::Executed(..));
        is_seen(most(data_max), &history.into_iter().filter(others).collect::<Vec<_>>())
    };
    assert!(!refused(99) && refused(100), "they are within the limit");
    assert!(is_seen(NONE, &refuses(plan(false), 0, &over)), "there is no such limit");
}

#[test]
fn replies_over_the_limit_stay_where_they_are_and_no_others() {
    let whole = reply(&[0, 1, 2]);
    let most = |reply_max| Limits { reply_max, ..NONE };
    assert_eq!(under(most(whole.len()), &honest()), [""; 0]);
    assert!(is_seen(most(whole.len() - 1), &honest()), "the root has more than it may");
    let part = Message::Response(Response { call: CALL, answer: Answer::Reply(whole.clone()) });
    let sent = with(honest(), 12, Entry::Sent(1, 0, part));
    assert!(!is_seen(most(whole.len()), &sent) && is_seen(most(whole.len() - 1), &sent));
    let long = Plan { reply_bytes: 1000, ..plan(false) };
    let over = cause(2, Stage::Reply, CauseKind::OverLimit);
    assert!(!is_seen(most(900), &refuses(long.clone(), 0, &over)));
    assert!(is_seen(most(10_000), &refuses(long.clone(), 0, &over)), "its reply is far from the limit");
    assert!(is_seen(NONE, &refuses(long, 0, &over)), "there is no such limit");
    let elsewhere = cause(2, Stage::Func, CauseKind::OverLimit);
    assert!(is_seen(most(1), &refuses(plan(false), 0, &elsewhere)), "functions have no limit");
}

#[test]
fn there_is_no_memory_where_there_is_little_and_nowhere_else() {
    let most = |memory_max| Limits { memory_max, ..NONE };
    for stage in [Stage::Setup, Stage::Forward, Stage::Reply] {
        let full = cause(2, stage, CauseKind::NoMemory);
        assert_eq!(under(most(6_000), &refuses(plan(false), 0, &full)), [""; 0], "{stage}");
        assert!(is_seen(most(1 << 20), &refuses(plan(false), 0, &full)), "it has a hundred times as much");
        assert!(is_seen(NONE, &refuses(plan(false), 0, &full)), "there is no such limit");
    }
    let elsewhere = cause(2, Stage::Func, CauseKind::NoMemory);
    assert!(is_seen(most(6_000), &refuses(plan(false), 0, &elsewhere)), "functions have their own");
}

#[test]
fn so_many_are_adopted_and_no_more() {
    let most = |adopted_max| Limits { adopted_max, ..NONE };
    assert_eq!(under(most(1), &honest_partial()), [""; 0]);
    assert_eq!(under(most(0), &honest_partial()), ["refusals"]);
    let adopts = Entry::Sent(0, 2, meant(&plan(true), request(2..3, SECOND_NS - 9_000, 1)));
    let lost = [Entry::Injected(Fault::Link, vec![0, 1]), Entry::LinkEnded(0, 1), adopts, input(0)];
    let history = then(down(plan(true)), &lost);
    assert_eq!(under(most(1), &history), [""; 0]);
    let nobody = without(history, 13);
    assert_eq!(under(most(1), &nobody), ["farewell"], "it might adopt one, and does not");
    assert_eq!(under(most(0), &nobody), [""; 0]);
}

#[test]
fn who_has_closed_takes_no_new_calls_and_ends_those_it_has() {
    let closed = Entry::Injected(Fault::Close, vec![2]);
    // Id 2 is asked at index 8, and executes at index 9.
    let history = down(plan(false));
    assert!(!is_seen(NONE, &and(history.clone(), 9, closed.clone())), "it was asked before");
    let late = and(history.clone(), 8, closed);
    assert!(is_seen(NONE, &late));
    assert!(!is_seen(NONE, &and(late, 9, Entry::Ended(2))), "another process executes");
    let root = Entry::Injected(Fault::Close, vec![0]);
    assert!(is_seen(NONE, &then(vec![root.clone()], &history)), "nor does it begin any");
    assert!(!is_seen(NONE, &and(history, 1, root)));
}

/// An id refused a request because it already held two calls, so the root reported the ids below as unreached. A copy
/// of the request arrived when the link was up again, and there was room by then.
#[test]
fn who_has_refused_may_take_a_copy_later() {
    let busy = cause(1, Stage::Setup, CauseKind::Busy);
    let answer = failed(&busy, &[(Status::Failed, 1), (Status::Unreached, 1)]);
    let coverage = runs(&[(Status::Done, 1), (Status::Failed, 1), (Status::Unreached, 1)]);
    let outcome = Outcome { result: Err(Failure { cause: busy, coverage }), report: None };
    let history = [
        Entry::Started(plan(false)),
        Entry::Executed(0, 0),
        Entry::Sent(0, 1, request(1..3, FIRST_NS, 0)),
        Entry::Held(1, Held { calls: 1, ..Held::default() }),
        Entry::Received(1, 0, request(1..3, FIRST_NS, 0)),
        Entry::Sent(1, 0, answer.clone()),
        Entry::Received(0, 1, answer),
        Entry::Finished(outcome),
        Entry::Injected(Fault::Duplicate, vec![0, 1]),
        Entry::Executed(1, 0),
        Entry::Executed(2, 0),
    ];
    let one = Limits { calls_max: 1, ..NONE };
    let seen = |history: &[Entry]| under(one, history).contains(&"execution");
    assert!(!seen(&history));
    assert!(seen(&without(history.to_vec(), 8)), "nothing came again");
}
