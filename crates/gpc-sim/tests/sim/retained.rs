//! Doctored histories of retained answers, of forwarded requests, and of streaming replies.

use std::sync::Arc;

use chained_gpc::wire::message::{Answer, Partial, Response, SubtreeReply};
use chained_gpc::wire::streaming_reply::{StreamingData, StreamingReply};
use chained_gpc::wire::{Body, Cause, CauseKind, Failure, Message, Report, Stage, Status};
use chained_gpc::{Id, Tree};
use gpc_sim::Fault;
use gpc_sim::check::{Held, Limits, Plan};

use super::history::*;

/// Id 2 answers a partial call with a reply of `bytes` bytes, and then retains `retained_answers` answers.
fn answers(bytes: usize, retained_answers: usize) -> [Entry; 2] {
    let report = Report { causes: Vec::new(), coverage: runs(&[(Status::Done, 1)]) };
    let reply = SubtreeReply { data: vec![0; bytes].into(), ..SubtreeReply::default() };
    let answer = Answer::Partial(Box::new(Partial { reply, report }));
    [Entry::Sent(2, 1, Message::Response(Response { call: CALL, answer })), retains(retained_answers)]
}

fn retains(retained_answers: usize) -> Entry {
    Entry::Held(2, Held { retained_answers, ..Held::default() })
}

/// An id that had answered dropped its answer at a cancel that had crossed it, and its adopter got none.
#[test]
fn an_answer_is_retained_until_its_release_or_the_end_of_its_call() {
    let drops = |why: &[Entry]| {
        let history = [&answers(4, 1), why, &[retains(0)]].concat();
        judged(&then(down(plan(true)), &history)).contains(&"kept")
    };
    assert!(drops(&[]) && drops(&[Entry::Received(2, 1, Message::Cancel(CALL))]));
    assert!(drops(&[Entry::LinkEnded(2, 1)]));
    assert!(!drops(&[Entry::Received(2, 1, Message::Release(CALL))]));
    assert!(!drops(&[Entry::Received(2, 1, Message::Moved(CALL))]), "it was given up");
    assert!(!drops(&[Entry::Later(LIMIT_NS)]) && !drops(&[Entry::Ended(2)]));
}

/// An answer longer than the share for retained answers displaced the others, and was not retained either.
#[test]
fn an_answer_too_long_to_retain_displaces_no_other() {
    let costs = |bytes, kept| {
        let limits = Entry::Limits(Limits { memory_max: 8_000, ..Limits::NONE });
        let history = [&answers(4, 1)[..], &answers(bytes, kept)].concat();
        let history = then(down(plan(true)), &history);
        judged(&then(vec![limits], &history)).contains(&"kept")
    };
    assert!(costs(3_000, 0) && !costs(3_000, 1));
    assert!(!costs(30, 0), "it may take the place of another");
}

/// A func that deferred its reply held back the request from the ids below until it gave the reply.
#[test]
fn whose_func_has_ended_has_asked_those_below() {
    let keeps_back = |ends: Entry, asks: bool| {
        let plan = plan(false);
        let [first, second] = [request(1..3, FIRST_NS, 0), request(2..3, SECOND_NS, 0)];
        let mut history =
            vec![Entry::Started(plan), Entry::Sent(0, 1, first.clone()), Entry::Received(1, 0, first)];
        history.extend([Entry::Began(1), ends]);
        history.extend(asks.then_some(Entry::Sent(1, 2, second)));
        judged(&then(history, &[input(1)])).contains(&"progress")
    };
    assert!(keeps_back(Entry::Ran(1, true), false) && keeps_back(Entry::Ran(1, false), false));
    assert!(!keeps_back(Entry::Ran(1, true), true) && !keeps_back(Entry::Took(1), false));
}

/// A node that was shutting down answered an adopter that it had another parent, as it would any other id.
#[test]
fn one_that_stands_above_all_others_is_no_second_parent() {
    let refuses = |adopts: &[u32]| {
        let plan = plan(true);
        let asks = |from, skipped| Entry::Received(2, from, meant(&plan, request(2..3, SECOND_NS, skipped)));
        let why = cause(2, Stage::Setup);
        let failure = Failure { cause: why, coverage: runs(&[(Status::Unknown, 1)]) };
        let answer = Answer::Failed(Box::new(failure));
        let refuses = Entry::Sent(2, 0, Message::Response(Response { call: CALL, answer }));
        let mut history = vec![Entry::Started(plan.clone()), asks(1, 0)];
        history.extend(adopts.iter().map(|skipped| asks(0, *skipped)));
        judged(&then(history, &[refuses])).contains(&"parents")
    };
    assert!(refuses(&[1]) && !refuses(&[0]), "one of two that stand as high");
    assert!(!refuses(&[1, 1]), "the second time it is one too many");
}

/// An id that an adopter had asked was restarted, and then asked by the parent that did not know yet that it was given
/// up. That gap remains open, and it is the only one.
#[test]
fn a_later_run_executes_for_nobody_but_a_parent_that_is_behind() {
    let twice = |second: u32, skipped: u32| {
        let plan = plan(true);
        let asks = |from, skipped| Entry::Received(2, from, meant(&plan, request(2..3, SECOND_NS, skipped)));
        let history = [
            Entry::Started(plan.clone()),
            asks(0, 1),
            Entry::Executed(2, 0),
            Entry::Ended(2),
            asks(second, skipped),
            Entry::Executed(2, 1),
        ];
        judged(&history).contains(&"execution")
    };
    assert!(twice(0, 1) && !twice(1, 0));
}

#[test]
fn who_has_begun_does_not_say_that_it_was_not_reached() {
    let says = |own, begun: bool| {
        let failure =
            Failure { cause: cause(1, Stage::Cancelled), coverage: runs(&[(own, 1), (Status::Unknown, 1)]) };
        let answer = Answer::Failed(Box::new(failure));
        let mut history = down(plan(false));
        if !begun {
            history.retain(|seen| !matches!(seen, Entry::Executed(1, _)));
        }
        let fails = Entry::Sent(1, 0, Message::Response(Response { call: CALL, answer }));
        judged(&then(history, &[fails])).contains(&"statuses")
    };
    assert!(says(Status::Unreached, true) && !says(Status::Unreached, false) && !says(Status::Unknown, true));
}

/// Head of a child's long reply.
fn arriving() -> Message {
    let (data, _) = Body::arriving(300_000);
    let head = StreamingReply { level: 0, header: Default::default(), data: StreamingData::from(data) };
    Message::Response(Response { call: CALL, answer: Answer::Arriving(Box::new(head)) })
}

/// The ids below a child with a streaming reply counted as unknown when the call failed.
#[test]
fn whose_reply_has_begun_to_come_is_done() {
    let says = |heard: &[Entry], below| {
        let failure =
            Failure { cause: cause(1, Stage::Callback), coverage: runs(&[(Status::Failed, 1), (below, 1)]) };
        let answer = Answer::Failed(Box::new(failure));
        let fails = Entry::Sent(1, 0, Message::Response(Response { call: CALL, answer }));
        judged(&then(then(down(plan(false)), heard), &[fails])).contains(&"statuses")
    };
    let head = [Entry::Received(1, 2, arriving())];
    let breaks_off = [&head[..], &[Entry::Received(1, 2, failed(2, Stage::Reply))]].concat();
    assert!(says(&head, Status::Unknown) && !says(&head, Status::Done));
    assert!(!says(&[], Status::Unknown) && !says(&breaks_off, Status::Unknown));
}

/// Of two children, one was sending its long reply and the other was silent; the first was blamed for the time limit.
#[test]
fn who_is_sending_is_not_blamed_for_who_is_silent() {
    let blames = |id: Id, message: Message| {
        let plan = Plan { tree: Tree::Flat, ..plan(false) };
        let asks = |to| {
            let Message::Request(one) = request(to..to + 1, FIRST_NS, 0) else { unreachable!("it is one") };
            Entry::Sent(0, to, Message::Request(Arc::clone(&one)))
        };
        let why = Cause::new(id, Stage::Reply, CauseKind::TimeLimit, "as told");
        let coverage = runs(&[(Status::Done, 2), (Status::Unknown, 1)]);
        let outcome = gpc_sim::check::Outcome { result: Err(Failure { cause: why, coverage }), report: None };
        let history = [
            Entry::Started(plan),
            Entry::Executed(0, 0),
            asks(1),
            asks(2),
            Entry::Received(0, 1, message),
            // Until the time for reports has passed, too.
            Entry::Later(102_000_000),
            Entry::Finished(outcome),
        ];
        judged(&history).contains(&"progress")
    };
    assert!(blames(1, arriving()) && !blames(2, arriving()));
}

/// A peer whose link broke, and that was called again, was given up for its silence on the old link.
#[test]
fn what_was_asked_on_a_lost_link_counts_for_nothing() {
    let gives_up = |lost: &[Entry]| {
        let question = [Entry::Sent(0, 1, Message::Ping), Entry::AtOnce, Entry::PingLeft(0, 1)];
        let heard = [Entry::Received(0, 1, Message::Pong)];
        let again = [Entry::Sent(0, 1, request(1..3, FIRST_NS, 0))];
        let mut history = vec![Entry::Heartbeat(1_000, 4_000)];
        history.extend(down(plan(false)));
        let (paused, ends) = ([Entry::Injected(Fault::Pause, vec![1])], [Entry::Abandoned(0, 1)]);
        let more = [&paused, &heard[..], &question, &question, lost, &again, &ends].concat();
        judged(&then(history, &more)).contains(&"life")
    };
    assert_eq!((gives_up(&[Entry::LinkEnded(0, 1)]), gives_up(&[])), (true, false));
}
