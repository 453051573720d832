//! What callers get besides the outcome: the times of all ids, and the replies of children as they arrive.

use chained_gpc::Id;
use chained_gpc::wire::message::{Answer, Response, SubtreeReply};
use chained_gpc::wire::trace::IdTimes;
use chained_gpc::wire::{Message, Span, Stage, Status};
use gpc_sim::check::{Outcome, Plan};
use gpc_trees::Group;

use super::history::*;

/// The plan of a traced call.
fn traced(partial: bool) -> Plan {
    let mut plan = plan(partial);
    plan.carries.trace = true;
    plan
}

fn answer() -> Message {
    Message::Response(Response { call: CALL, answer: Answer::Reply(SubtreeReply::default()) })
}

/// Times of an id in microseconds: begin of func, its duration, the answer, and the answer's arrival above.
fn times(began: u64, func: u64, total: u64, answered: Option<u64>) -> IdTimes {
    let span = |micros: u64| Span::of_nanos(1000 * micros);
    IdTimes {
        began: span(began),
        func: span(func),
        callbacks: Span::of_nanos(0),
        total: span(total),
        answered: answered.map_or(Span::NONE, span),
    }
}

/// Sets the trace of an outcome.
fn with_trace(mut outcome: Outcome, times: &[IdTimes]) -> Outcome {
    if let Ok(Some(reply)) = &mut outcome.result {
        reply.trace = times.iter().flat_map(IdTimes::emit).collect::<Vec<u8>>().into();
    }
    outcome
}

/// The times of the observations below, one of each a microsecond.
fn honest_times() -> [IdTimes; 3] {
    [times(2, 1, 18, None), times(2, 1, 11, Some(17)), times(2, 1, 4, Some(10))]
}

/// Observations of a traced call over a chain of three.
fn history(outcome: Outcome) -> Vec<Entry> {
    let (first, second) = (request(1..3, FIRST_NS, 0), request(2..3, SECOND_NS, 0));
    let func = |id: Id| [Entry::Executed(id, 0), Entry::Job(id, id, None, None), Entry::Ran(id, false)];
    let mut entries = vec![Entry::Started(traced(false))];
    entries.extend(func(0));
    entries.extend([Entry::Sent(0, 1, first.clone()), Entry::Received(1, 0, first)]);
    entries.extend(func(1));
    entries.extend([Entry::Sent(1, 2, second.clone()), Entry::Received(2, 1, second)]);
    entries.extend(func(2));
    entries.extend([Entry::Sent(2, 1, answer()), Entry::Received(1, 2, answer())]);
    entries.extend([Entry::Sent(1, 0, answer()), Entry::Received(0, 1, answer()), Entry::Finished(outcome)]);
    entries
}

fn judged_times(times: &[IdTimes]) -> bool {
    judged(&history(with_trace(well(&[0, 1, 2]), times))).contains(&"traces")
}

#[test]
fn wrong_times_are_seen() {
    let honest = honest_times();
    let found = honest.map(|it| [it.began, it.func, it.total, it.answered].map(|span| span.nanos()));
    assert!(!judged_times(&honest), "{found:?}");
    assert!(judged_times(&[]), "none");
    assert!(judged_times(&honest[..2]), "of two ids");
    for place in 0..3 {
        let mut missing = honest;
        missing[place] = IdTimes::NONE;
        assert!(judged_times(&missing), "none of the id at {place}");
        let late = Span::of_nanos(1);
        let wrong = [
            IdTimes { began: late, ..honest[place] },
            IdTimes { func: late, ..honest[place] },
            IdTimes { func: Span::NONE, ..honest[place] },
            IdTimes { callbacks: late, ..honest[place] },
            IdTimes { total: late, ..honest[place] },
            IdTimes { answered: late, ..honest[place] },
        ];
        for (number, times) in wrong.into_iter().enumerate() {
            let mut all = honest;
            all[place] = times;
            assert!(judged_times(&all), "number {number} at {place}");
        }
    }
    let swapped = [honest[0], honest[2], honest[1]];
    assert!(judged_times(&swapped), "those of another id");
    let mut untraced = history(with_trace(well(&[0, 1, 2]), &honest));
    untraced[0] = Entry::Started(plan(false));
    assert!(judged(&untraced).contains(&"traces"), "no trace was requested");
}

/// The times of a lost id are said to be missing.
#[test]
fn an_unreached_id_has_no_times() {
    let coverage = [(Status::Done, 1), (Status::Unreached, 2)];
    let outcome = |times: &[IdTimes]| with_trace(partly(&[0], &[(1, Stage::Link)], &coverage), times);
    let seen = |times: &[IdTimes]| {
        let root = [Entry::Executed(0, 0), Entry::Job(0, 0, None, None), Entry::Ran(0, false)];
        let history =
            [&[Entry::Started(traced(true))][..], &root, &[Entry::Finished(outcome(times))]].concat();
        judged(&history).contains(&"traces")
    };
    let root = times(2, 1, 4, None);
    assert!(!seen(&[root, IdTimes::NONE, IdTimes::NONE]));
    assert!(seen(&[root, times(1, 1, 1, Some(1)), IdTimes::NONE]));
}

#[test]
fn wrong_replies_of_children_are_seen() {
    let group = |start, len| Group { start, len };
    let below = |place| Entry::ChildReply(place, reply(&[1, 2]));
    let judged = |entries: &[Entry]| {
        let mut history = honest();
        history.splice(13..13, entries.iter().cloned());
        judged(&history)
    };
    let (follow, good) = (Entry::Followed, below(group(1, 2)));
    assert_eq!(judged(&[follow.clone(), good.clone()]), [""; 0]);
    assert_eq!(judged(&[]), [""; 0]);
    assert_eq!(judged(std::slice::from_ref(&good)), ["child-replies"], "the call is not followed");
    assert_eq!(judged(std::slice::from_ref(&follow)), ["child-replies"], "the reply did not come");
    assert_eq!(judged(&[follow.clone(), good.clone(), good.clone()]), ["child-replies"], "twice");
    assert_eq!(judged(&[follow.clone(), below(group(0, 3))]), ["child-replies"], "of the root");
    assert_eq!(
        judged(&[follow.clone(), below(group(2, 2)), good.clone()]),
        ["child-replies"],
        "of an id beyond the list"
    );
    let other = Entry::ChildReply(group(1, 2), reply(&[2, 1]));
    assert_eq!(judged(&[follow.clone(), other]), ["child-replies"], "of others");
    let late = and(and(honest(), 13, follow), 15, good);
    assert_eq!(super::history::judged(&late), ["child-replies"], "after the end");
}
