//! Doctored histories of jobs, of functions that still run when their call ends, and of invalid requests.

use chained_gpc::wire::message::{Answer, Response};
use chained_gpc::wire::{Cause, CauseKind, Failure, Message, Stage, Status};
use gpc_sim::check::{Held, Plan};

use super::history::*;

/// Whether the checker of jobs complains of this job at id 1, in a call with a callback whose child has answered.
fn is_wrong(id: u32, me: u32, parent: Option<u32>, merged: Option<u32>) -> bool {
    let plan = Plan { callback: true, ..plan(false) };
    let history = then(down(plan), &[Entry::Received(1, 2, completed()), Entry::Job(id, me, parent, merged)]);
    judged(&history).contains(&"jobs")
}

#[test]
fn a_job_says_who_executes_for_whom_and_whose_reply_it_merges() {
    assert!(!is_wrong(1, 1, Some(0), None) && !is_wrong(0, 0, None, None));
    assert!(is_wrong(1, 2, Some(0), None), "another id");
    assert!(is_wrong(1, 1, None, None), "it is not the root");
    assert!(is_wrong(1, 1, Some(2), None), "its child has not asked");
    assert!(is_wrong(0, 0, Some(1), None), "nobody asks a root");
    // A callback was given the position of a child instead of its id.
    assert!(!is_wrong(1, 1, Some(0), Some(2)) && is_wrong(1, 1, Some(0), Some(1)));
}

/// A function that was running when its call ended was informed only if it kept a token.
#[test]
fn a_function_that_runs_when_its_call_ends_is_told() {
    let failing = |more: &[Entry]| {
        let ends = [Entry::Sent(1, 0, failed(2, Stage::Link)), Entry::Held(1, Held::default())];
        let [sent, held] = ends;
        let begun = then(down(plan(false)), &[Entry::Began(1)]);
        let history = then(then(begun, more), &[sent]);
        move |more: &[Entry]| {
            judged(&then(then(history.clone(), more), std::slice::from_ref(&held))).contains(&"tokens")
        }
    };
    let stopped = [Entry::Stopped(1)];
    assert!(failing(&[])(&[]) && !failing(&[])(&stopped));
    assert!(!failing(&[Entry::Ran(1, false)])(&[]), "it has ended");
    let cancelled = |more: &[Entry]| {
        let comes = [Entry::Began(1), Entry::Received(1, 0, Message::Cancel(CALL))];
        let all = then(then(down(plan(false)), &comes), more);
        judged(&then(all, &[Entry::Held(1, Held::default())])).contains(&"tokens")
    };
    assert!(cancelled(&[]) && !cancelled(&stopped));
}

fn refuses(id: u32, to: u32, stage: Stage, kind: CauseKind) -> Entry {
    let failure =
        Failure { cause: Cause::new(id, stage, kind, "as told"), coverage: runs(&[(Status::Failed, 1)]) };
    Entry::Sent(id, to, Message::Response(Response { call: CALL, answer: Answer::Failed(Box::new(failure)) }))
}

/// A request arrives at id 1 from an id that has no part in the call. Its list begins with another id, or its tree does
/// not fit its ids.
#[test]
fn what_is_no_request_is_refused_at_once() {
    let after = |more: &[Entry]| {
        let comes = [Entry::Requested(1, 7), Entry::Misdirected(1, 7), Entry::Consumed(1, 7)];
        judged(&then(then(down(plan(false)), &comes), more))
    };
    let held = Entry::Held(1, Held::default());
    let refused = refuses(1, 7, Stage::Setup, CauseKind::BadRequest);
    assert_eq!(after(&[refused.clone(), held.clone()]), [""; 0]);
    assert!(after(std::slice::from_ref(&held)).contains(&"requests"), "nothing is said");
    for (id, to, stage, kind) in [
        (1, 7, Stage::Func, CauseKind::Failed),
        (1, 0, Stage::Setup, CauseKind::BadRequest),
        (1, 7, Stage::Setup, CauseKind::TimeLimit),
    ] {
        let wrong = after(&[refuses(id, to, stage, kind), held.clone()]);
        assert!(wrong.contains(&"requests"), "{id} -> {to} at {stage}, {kind}");
    }
    // The second answer is judged as one of the real call.
    let twice = after(&[refused.clone(), refused, held]);
    assert!(twice.contains(&"route"), "{twice:?}");
}

/// An id sent MOVED to its parent in a call that is not partial.
#[test]
fn in_a_whole_call_nobody_moves() {
    let moves = |partial| {
        let asks = |from, skipped| {
            Entry::Received(2, from, meant(&plan(partial), request(2..3, SECOND_NS, skipped)))
        };
        let moved = Entry::Sent(2, 1, Message::Moved(CALL));
        judged(&[Entry::Started(plan(partial)), asks(1, 0), asks(0, 1), moved]).contains(&"parents")
    };
    assert!(moves(false) && !moves(true));
}
