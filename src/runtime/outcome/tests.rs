//! Outcomes of hand-made replies and reports.

use super::*;
use crate::wire::level::{Leveled, aggregate, level0};
use crate::wire::{CauseKind, Payload, Stage};

const DONE: Status = Status::Done;

/// The record of a call of id 7 over these ids, whose caller has asked for them in reverse.
fn plan(ids: &[Id], merged: bool) -> Plan {
    let list = |ids: &mut dyn Iterator<Item = Id>| IdList::from_ids(ids).unwrap();
    let (ids, asked) = (list(&mut ids.iter().copied()), list(&mut ids.iter().rev().copied()));
    Plan { root: 7, ids, asked, merged, func: 1, replies: true, workers: 0, traced: None }
}

/// These values, aggregated as those of an id and its children.
fn level_1(values: &[&'static str]) -> Payload {
    let leaf = |value: &&'static str| Leveled { level: 0, data: level0(value.as_bytes()) };
    aggregate(None, &values.iter().map(leaf).collect::<Vec<_>>()).unwrap().data
}

fn success(level: u16, header: Payload, data: Payload, report: Option<Report>) -> Success {
    let reply = Some(RootReply::Aggregated(SubtreeReply { level, header, data, ..SubtreeReply::default() }));
    Success { reply, report: report.map(Box::new) }
}

/// An outcome with one value for each id that is done.
fn outcome(ids: &[Id], values: &[&'static str], report: Option<Report>) -> Outcome {
    Outcome::new(plan(ids, false), success(1, level_1(values), level_1(values), report))
}

fn cause(id: Id, message: &str) -> Cause {
    Cause {
        id,
        stage: Stage::Func,
        kind: CauseKind::Failed,
        code: 0,
        message: message.into(),
        detail: Vec::new(),
        straggler: None,
    }
}

fn report(statuses: &[Status], causes: Vec<Cause>) -> Report {
    let mut coverage = Coverage::new();
    statuses.iter().for_each(|status| coverage.push(*status, 1));
    Report { causes, coverage }
}

#[test]
fn replies_come_in_the_callers_order_and_by_id() {
    let outcome = outcome(&[7, 3, 9], &["a", "b", "c"], None);
    let replies = outcome.replies().unwrap();
    let expected = [(9, "c"), (3, "b"), (7, "a")];
    assert!(
        replies
            .iter()
            .map(|reply| (reply.id, &reply.data[..]))
            .eq(expected.map(|(id, data)| (id, data.as_bytes())))
    );
    for (id, data) in expected {
        assert_eq!(outcome.reply(id), Some(ReplyRef { id, header: data.as_bytes(), data: data.as_bytes() }));
    }
    assert!(outcome.reply(4).is_none() && outcome.is_complete() && outcome.status(4).is_none());
}

#[test]
fn replies_of_a_partial_call_belong_to_the_ids_that_are_done() {
    let statuses = [Status::Unreached, DONE, Status::Failed, DONE];
    let outcome = outcome(&[7, 3, 9, 5], &["b", "d"], Some(report(&statuses, vec![cause(9, "no")])));
    let ids: Vec<Id> = outcome.replies().unwrap().iter().map(|reply| reply.id).collect();
    assert_eq!(ids, [5, 3]);
    let data = |id| outcome.reply(id).map(|reply| reply.data.to_vec());
    assert_eq!([data(7), data(3), data(9), data(5)], [None, Some(b"b".into()), None, Some(b"d".into())]);
    assert!(outcome.never_reached().iter().eq([7]) && outcome.failed().iter().eq([9]));
    assert!(outcome.unknown().is_empty() && !outcome.is_complete());
}

#[test]
fn the_first_cause_of_an_id_counts_and_any_cause_is_an_end_that_is_not_complete() {
    let causes = vec![cause(3, "first"), cause(9, "other"), cause(3, "second")];
    let outcome = outcome(&[7, 3], &["a", "b"], Some(report(&[DONE; 2], causes)));
    assert_eq!(outcome.cause(3).unwrap().message, "first");
    assert_eq!(outcome.causes().len(), 3);
    assert!(outcome.cause(7).is_none());
    // Its last answer came too late.
    assert!(outcome.done().len() == 2 && !outcome.is_complete());
}

#[test]
fn a_merged_reply_is_the_roots_and_values_that_were_not_merged_are_each_its_own() {
    let bytes = |text: &'static str| Payload::copy_from_slice(text.as_bytes());
    let merged = Outcome::new(plan(&[7, 3], true), success(0, bytes("h"), bytes("all"), None));
    let whole = ReplyRef { id: 7, header: b"h", data: b"all" };
    assert_eq!((merged.reply(7), merged.reply(3)), (Some(whole), None));
    assert_eq!(merged.replies_ref().unwrap(), [whole]);

    let values = || level_1(&["x", "y"]);
    let unmerged = Outcome::new(plan(&[7, 3], true), success(1, values(), values(), None));
    let value = |value: &'static [u8]| ReplyRef { id: 7, header: value, data: value };
    assert_eq!(unmerged.replies_ref().unwrap(), [value(b"x"), value(b"y")]);
    assert_eq!((unmerged.reply(7), unmerged.reply(3)), (None, None), "none of them is the reply of an id");
}

#[test]
fn parts_that_do_not_fit_the_ids_are_an_error_and_no_reply() {
    for values in [&["a"][..], &["a", "b", "c"]] {
        let outcome = outcome(&[7, 3], values, None);
        let count = values.len();
        assert_eq!(outcome.replies(), Err(RepliesError::Count { headers: count, data: count, ids: 2 }));
        assert!(outcome.reply(7).is_none() && outcome.replies_ref().is_err());
    }
    let cut = || Payload::copy_from_slice(b"2 1 a");
    let cut = Outcome::new(plan(&[7, 3], false), success(1, cut(), cut(), None));
    assert!(matches!(cut.replies(), Err(RepliesError::Level(_))));
    let without = Outcome::new(plan(&[7, 3], false), Success { reply: None, report: None });
    assert!(without.replies().unwrap().is_empty() && without.reply(7).is_none() && without.is_complete());
}
