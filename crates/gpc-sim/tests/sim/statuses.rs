//! Tests of the checker of statuses: it must find a status that is worse than what is known, and blame without reason.

use chained_gpc::wire::message::{Answer, Partial, Response};
use chained_gpc::wire::{Cause, CauseKind, Failure, Message, Report, Stage, Status};
use chained_gpc::{Id, IdList};
use gpc_sim::Fault;

use super::history::*;

const DONE: Status = Status::Done;

fn failed_with(id: Id, stage: Stage, coverage: &[(Status, u32)]) -> Message {
    let failure = Failure { cause: cause(id, stage), coverage: runs(coverage) };
    Message::Response(Response { call: CALL, answer: Answer::Failed(Box::new(failure)) })
}

fn partial(causes: &[(Id, Stage)], coverage: &[(Status, u32)]) -> Message {
    let causes = causes.iter().map(|(id, stage)| cause(*id, *stage)).collect();
    let answer = Partial { reply: Default::default(), report: Report { causes, coverage: runs(coverage) } };
    Message::Response(Response { call: CALL, answer: Answer::Partial(Box::new(answer)) })
}

/// Whether the checker of statuses complains of the way down and these observations.
fn is_contradicted(partial: bool, more: &[Entry]) -> bool {
    judged(&then(down(plan(partial)), more)).contains(&"statuses")
}

/// Id 2 has answered, and then id 1 fails with this coverage, for a fault of its own.
fn fails_behind(coverage: &[(Status, u32)]) -> bool {
    is_contradicted(
        false,
        &[
            Entry::Injected(Fault::Callback, vec![1]),
            Entry::Received(1, 2, completed()),
            Entry::Sent(1, 0, failed_with(1, Stage::Callback, coverage)),
        ],
    )
}

#[test]
fn who_was_heard_to_be_done_is_done() {
    assert!(!fails_behind(&[(Status::Failed, 1), (DONE, 1)]));
    assert!(fails_behind(&[(Status::Failed, 1), (Status::Unknown, 1)]));
    assert!(fails_behind(&[(Status::Failed, 2)]), "who replied has not failed");
}

/// An id without memory for a reply was excused from all its reports on others.
#[test]
fn who_was_heard_to_be_done_is_done_where_there_was_no_memory_for_the_reply() {
    let lacks = |kind, coverage: &[(Status, u32)]| {
        let failure =
            Failure { cause: Cause::new(1, Stage::Reply, kind, "as told"), coverage: runs(coverage) };
        let answer = Answer::Failed(Box::new(failure));
        is_contradicted(
            false,
            &[
                Entry::Injected(Fault::Limits, vec![1]),
                Entry::Received(1, 2, completed()),
                Entry::Sent(1, 0, Message::Response(Response { call: CALL, answer })),
            ],
        )
    };
    assert!(!lacks(CauseKind::NoMemory, &[(Status::Failed, 1), (DONE, 1)]));
    assert!(lacks(CauseKind::NoMemory, &[(Status::Failed, 1), (Status::Unknown, 1)]));
    assert!(!lacks(CauseKind::OverLimit, &[(Status::Failed, 2)]), "what is too long is lost whole");
}

/// No link to a child ever came up, and the ids below it were reported as unknown: the caller could not call again.
#[test]
fn who_was_never_linked_with_is_unreached() {
    let fails = |below| {
        let cause = Cause::new(2, Stage::Link, CauseKind::Unreachable, "as told");
        let failure = Failure { cause, coverage: runs(&[(DONE, 1), (below, 1)]) };
        let answer = Answer::Failed(Box::new(failure));
        is_contradicted(
            false,
            &[
                Entry::Injected(Fault::Crash, vec![2]),
                Entry::Unreached(1, 2),
                Entry::Sent(1, 0, Message::Response(Response { call: CALL, answer })),
            ],
        )
    };
    assert!(!fails(Status::Unreached));
    assert!(fails(Status::Unknown));
}

#[test]
fn what_an_id_was_told_of_those_further_below_counts_too() {
    let heard = |said: &[(Status, u32)]| {
        let causes = [(1, Stage::Func)];
        let told = [(Status::Failed, 1), (DONE, 1)];
        let outcome = partly(&[0, 2], &causes, &[&[(DONE, 1)], said].concat());
        is_contradicted(
            true,
            &[
                Entry::Injected(Fault::Fail, vec![1]),
                Entry::Sent(1, 0, partial(&causes, &told)),
                Entry::Received(0, 1, partial(&causes, &told)),
                Entry::Finished(outcome),
            ],
        )
    };
    assert!(!heard(&[(Status::Failed, 1), (DONE, 1)]));
    assert!(heard(&[(Status::Failed, 1), (Status::Unknown, 1)]), "the root was told that id 2 is done");
}

#[test]
fn what_comes_from_one_that_was_given_up_does_not_count() {
    let lost = [Entry::Injected(Fault::Link, vec![1, 2]), Entry::LinkEnded(1, 2)];
    let late = [
        Entry::Received(1, 2, partial(&[], &[(DONE, 1)])),
        Entry::Sent(1, 0, partial(&[(2, Stage::Link)], &[(DONE, 1), (Status::Unknown, 1)])),
    ];
    assert!(!is_contradicted(true, &[&lost[..], &late[..]].concat()));
    assert!(is_contradicted(true, &late));
}

#[test]
fn failed_is_who_has_said_so() {
    let said = |answers: Option<Entry>| {
        let failed = partly(&[0, 2], &[(1, Stage::Link)], &[(DONE, 1), (Status::Failed, 1), (DONE, 1)]);
        let mut history = with(honest_partial(), 11, Entry::Finished(failed));
        answers.into_iter().for_each(|answers| history.insert(4, answers));
        judged(&history).contains(&"statuses")
    };
    assert!(said(None), "it was lost, and nobody heard it");
    assert!(!said(Some(Entry::Sent(1, 0, failed_with(1, Stage::Func, &[(Status::Failed, 1), (DONE, 1)])))));
}

#[test]
fn whose_func_has_run_has_not_failed() {
    let ran = |own| {
        let history = [
            Entry::Injected(Fault::Hang, vec![2]),
            Entry::Ran(1, false),
            Entry::Sent(1, 0, partial(&[(2, Stage::Reply)], &[(own, 1), (Status::Unknown, 1)])),
        ];
        is_contradicted(true, &history)
    };
    assert!(!ran(DONE));
    assert!(ran(Status::Failed), "it was its child that was late");
}

#[test]
fn nobody_blames_one_whose_answer_it_has() {
    let blames = |id, stage| {
        let own = if id == 1 { Status::Failed } else { DONE };
        is_contradicted(
            false,
            &[
                Entry::Injected(Fault::Hang, vec![1]),
                Entry::Received(1, 2, completed()),
                Entry::Sent(1, 0, failed_with(id, stage, &[(own, 1), (DONE, 1)])),
            ],
        )
    };
    assert!(!blames(1, Stage::Reply));
    assert!(blames(2, Stage::Func));
    // Its answer may have come too late, which the rules of limits judge.
    assert!(!blames(2, Stage::Reply));
    // A child's report on the ids below it is passed on unchanged.
    let passes_on = [
        Entry::Injected(Fault::Hang, vec![2]),
        Entry::Received(1, 2, failed_with(2, Stage::Func, &[(Status::Failed, 1)])),
        Entry::Sent(1, 0, failed_with(2, Stage::Func, &[(DONE, 1), (Status::Failed, 1)])),
    ];
    assert!(!is_contradicted(false, &passes_on));
}

/// A function hung at one id, which excused missing ids elsewhere in the tree.
#[test]
fn a_fault_excuses_those_above_and_below_it_alone() {
    let missing = |touched: Vec<Id>, ids: IdList| {
        let coverage = [(DONE, ids.len() - 1), (Status::Unknown, 1)];
        let done: Vec<Id> = ids.iter().take(ids.len() as usize - 1).collect();
        let mut history = vec![
            Entry::Started(gpc_sim::check::Plan { ids, tree: chained_gpc::Tree::Flat, ..plan(true) }),
            Entry::Injected(Fault::Hang, touched),
        ];
        history.extend((0..).zip(&done).map(|(_, id): (u32, _)| Entry::Executed(*id, 0)));
        let blamed = *done.last().unwrap();
        history.push(Entry::Finished(partly(&done, &[(blamed, Stage::Func)], &coverage)));
        judged(&history).contains(&"answers")
    };
    let ids = || IdList::range(0..4);
    assert!(!missing(vec![3], ids()) && !missing(vec![0], ids()), "itself, and the root");
    assert!(missing(vec![2], ids()), "another child of the root");
}
