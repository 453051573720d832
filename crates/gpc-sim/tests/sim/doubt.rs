//! Doctored histories of four things: the flag for requests that may have been sent before, credit, the order in which
//! functions begin, and the levels of replies.

use std::slice;
use std::sync::Arc;

use chained_gpc::Id;
use chained_gpc::wire::message::{Answer, Partial, Response, SubtreeReply};
use chained_gpc::wire::streaming_reply::StreamingReply;
use chained_gpc::wire::{CallId, Cause, CauseKind, Failure, Message, Report, Request, Stage, Status};
use gpc_sim::Fault;
use gpc_sim::check::{Checkers, Held, Limits, Observation};

use super::history::*;

/// Sets the flag of a request that another id may have sent it before.
fn saying(adopted: bool, message: Message) -> Message {
    match message {
        Message::Request(request) => {
            Message::Request(Arc::new(Request { adopted, ..Request::clone(&request) }))
        }
        other => other,
    }
}

/// Id 0 loses id 1 in this way, and asks id 2.
fn adopts(lost: &[Entry], adopted: bool) -> Vec<&'static str> {
    let first = meant(&plan(true), request(1..3, FIRST_NS, 0));
    let mut history = vec![
        Entry::Started(plan(true)),
        Entry::Executed(0, 0),
        Entry::Sent(0, 1, first),
        Entry::Injected(Fault::Crash, vec![1]),
    ];
    history.extend_from_slice(lost);
    history.push(Entry::Sent(0, 2, saying(adopted, request(2..3, SECOND_NS, 1))));
    judged(&history)
}

#[test]
fn an_adopter_says_whether_somebody_else_may_have_asked() {
    assert_eq!(adopts(&[Entry::LinkEnded(0, 1)], true), [""; 0]);
    assert_eq!(adopts(&[Entry::LinkEnded(0, 1)], false), ["doubt"]);
    assert_eq!(adopts(&[Entry::Unreached(0, 1)], false), [""; 0], "nobody was there");
    assert_eq!(adopts(&[Entry::Unreached(0, 1)], true), ["doubt"]);
    let refused = |below| {
        let cause = Cause::new(1, Stage::Setup, CauseKind::ShuttingDown, "as told");
        let coverage = runs(&[(Status::Failed, 1), (below, 1)]);
        let answer = Answer::Failed(Box::new(Failure { cause, coverage }));
        Entry::Received(0, 1, Message::Response(Response { call: CALL, answer }))
    };
    assert_eq!(adopts(&[refused(Status::Unreached)], false), [""; 0], "it has asked nobody");
    assert_eq!(adopts(&[refused(Status::Unknown)], false), ["doubt"]);
    assert_eq!(adopts(&[refused(Status::Unknown)], true), [""; 0]);
}

/// In a partial call, id 1 answers its parent and then an adopter, with this status for id 2.
fn answers_twice(first: u32, second: u32, below: Status, more: &[Entry]) -> bool {
    let report = Report { causes: Vec::new(), coverage: runs(&[(Status::Done, 1), (below, 1)]) };
    let answer = Answer::Partial(Box::new(Partial { reply: reply(&[1]), report }));
    let answer = Message::Response(Response { call: CALL, answer });
    let mut history =
        vec![Entry::Started(plan(true)), Entry::Began(1), Entry::Sent(1, first, answer.clone())];
    history.extend_from_slice(more);
    history.push(Entry::Sent(1, second, answer));
    judged(&history).contains(&"doubt")
}

#[test]
fn who_answers_a_second_parent_does_not_know_whom_the_first_has_asked() {
    assert!(answers_twice(0, 2, Status::Unreached, &[]));
    assert!(!answers_twice(0, 0, Status::Unreached, &[]), "that one has adopted nobody");
    assert!(!answers_twice(0, 2, Status::Unknown, &[]));
    assert!(
        !answers_twice(0, 2, Status::Unreached, &[Entry::Ended(1)]),
        "another run gives its first answer"
    );
}

#[test]
fn who_is_in_doubt_says_so_below() {
    let below = |before: &[Entry], of_parent: bool, said: bool| {
        let first = saying(of_parent, meant(&plan(true), request(1..3, FIRST_NS, 0)));
        let second = saying(said, meant(&plan(true), request(2..3, SECOND_NS, 0)));
        let mut history = vec![Entry::Started(plan(true)), Entry::Executed(0, 0)];
        history.extend([Entry::Sent(0, 1, first.clone()), Entry::Received(1, 0, first)]);
        history.extend_from_slice(before);
        history.extend([Entry::Executed(1, 0), Entry::Sent(1, 2, second)]);
        judged(&history).into_iter().filter(|name| *name == "doubt").count()
    };
    assert_eq!(below(&[], false, false), 0);
    assert_eq!(below(&[], false, true), 1, "nobody has");
    let lost = [Entry::LinkEnded(1, 0)];
    assert_eq!((below(&lost, false, true), below(&lost, false, false)), (0, 1), "given up, perhaps");
    assert_eq!(below(&[Entry::LinkEnded(1, 2)], false, false), 0, "that is no parent");
    // That the root sends the flag of an adopter is the second error here.
    assert_eq!((below(&[], true, true), below(&[], true, false)), (1, 1));
}

#[test]
fn credit_is_given_when_func_has_run() {
    let first = request(1..3, FIRST_NS, 0);
    let asked = [
        Entry::Started(plan(false)),
        Entry::Executed(0, 0),
        Entry::Sent(0, 1, first.clone()),
        Entry::Requested(1, 0),
        Entry::Received(1, 0, first),
    ];
    let after = |more: &[Entry]| {
        let mut history = asked.to_vec();
        history.extend_from_slice(more);
        judged(&history)
    };
    let (consumed, began) = (Entry::Consumed(1, 0), [Entry::Began(1), Entry::Executed(1, 0)]);
    let [began, executed] = began;
    let ran = Entry::Ran(1, false);
    let well = [began.clone(), executed.clone(), input(1), ran, consumed.clone(), input(1)];
    // The id does not forward the request: another checker reports that.
    assert!(!after(&well).contains(&"credit"));
    assert_eq!(after(&[began.clone(), executed.clone(), consumed.clone(), input(1)]), ["credit"], "early");
    let took = [began.clone(), executed.clone(), Entry::Took(1), consumed.clone(), input(1)];
    assert_eq!(after(&took), ["credit"], "it goes on when more data come");
    let later = [began.clone(), executed.clone(), Entry::Ran(1, true), consumed.clone(), input(1)];
    assert!(!after(&later).contains(&"credit"), "its answer is not waited for");
    for deferred in [false, true] {
        // The sender of the request waits for the credit as long as the call lasts.
        let late =
            [began.clone(), executed.clone(), Entry::Ran(1, deferred), input(1), consumed.clone(), input(1)];
        assert!(after(&late).contains(&"credit"), "an input too late");
    }
    let lost = [Entry::LinkEnded(1, 0), input(1)];
    assert!(!after(&lost).contains(&"credit"), "credit belongs to a link");
    let refused = [Entry::Sent(1, 0, failed(1, Stage::Setup)), consumed, input(1)];
    assert!(!after(&refused).contains(&"credit"));
}

/// Two calls reach an id, one after the other.
#[test]
fn functions_begin_in_the_order_in_which_their_calls_came() {
    let second = CallId { sequence: CALL.sequence + 2, ..CALL };
    let begins = |executes: [CallId; 2], meanwhile: Option<Observation<'static>>| {
        let mut checkers = Checkers::new();
        let mut plan = plan(false);
        let mut all = |observation: &Observation<'_>| checkers.observe(1, observation);
        for call in [CALL, second] {
            all(&Observation::Started { call, plan: Arc::new(plan.clone()) });
            let Message::Request(request) = request(1..3, FIRST_NS, 0) else { panic!("it is a request") };
            let message = Message::Request(Arc::new(Request { call, ..Request::clone(&request) }));
            all(&Observation::Received { at: 1, from: 0, message: &message });
            plan.reply_bytes += 1;
        }
        meanwhile.iter().for_each(&mut all);
        executes.into_iter().for_each(|call| all(&Observation::Executed { id: 1, run: 0, call }));
        checkers.violations().iter().filter(|violation| violation.checker == "turns").count()
    };
    assert_eq!((begins([CALL, second], None), begins([second, CALL], None)), (0, 1));
    static CANCEL: Message = Message::Cancel(CALL);
    let cancelled = Observation::Received { at: 1, from: 0, message: &CANCEL };
    assert_eq!(begins([second, CALL], Some(cancelled)), 0, "nobody waits for it any more");
}

/// In a partial call, id 1 has given its answer to id 0.
#[test]
fn a_released_answer_is_not_retained() {
    let first = meant(&plan(true), request(1..3, FIRST_NS, 0));
    let retains_with = |causes: &[Cause], more: &[Entry], memory: u64| {
        let report = Report { causes: causes.to_vec(), coverage: runs(&[(Status::Done, 2)]) };
        let answer = Answer::Partial(Box::new(Partial { reply: reply(&[1, 2]), report }));
        let answer = Message::Response(Response { call: CALL, answer });
        let mut history = vec![
            Entry::Started(plan(true)),
            Entry::Executed(0, 0),
            Entry::Sent(0, 1, first.clone()),
            Entry::Received(1, 0, first.clone()),
            Entry::Executed(1, 0),
            Entry::Sent(1, 0, answer),
        ];
        let at = if matches!(more, [Entry::Limits(_)]) { 0 } else { history.len() };
        history.splice(at..at, more.iter().cloned());
        history.push(Entry::Held(1, Held { retained_answers: 1, memory, ..Held::default() }));
        judged(&history)
    };
    let retains = |more: &[Entry], memory: u64| retains_with(&[], more, memory);
    assert!(!retains(&[], 600).contains(&"farewell"));
    let release = Entry::Received(1, 0, Message::Release(CALL));
    assert!(retains(&[release], 600).contains(&"farewell"));
    let stranger = Entry::Received(1, 2, Message::Release(CALL));
    assert!(!retains(&[stranger], 600).contains(&"farewell"), "it was not given to that one");
    let little = Limits { calls_max: 9, adopted_max: 9, memory_max: 9_000, ..Limits::NONE };
    assert!(!retains(&[Entry::Limits(little)], 600).contains(&"memory"));
    assert!(retains(&[Entry::Limits(little)], 0).contains(&"memory"), "it weighs nothing");
    let long = Cause::new(2, Stage::Func, CauseKind::Failed, "x".repeat(300));
    assert!(!retains_with(slice::from_ref(&long), &[Entry::Limits(little)], 900).contains(&"memory"));
    assert!(
        retains_with(&[long], &[Entry::Limits(little)], 600).contains(&"memory"),
        "its report weighs nothing"
    );
}

#[test]
fn replies_are_of_the_level_of_their_subtrees() {
    let leveled = |level, ids: &[Id]| Answer::Reply(SubtreeReply { level, ..reply(ids) });
    let says = |id, to, answer| {
        let message = Message::Response(Response { call: CALL, answer });
        let history = then(down(plan(false)), &[Entry::Sent(id, to, message)]);
        judged(&history).contains(&"levels")
    };
    let answers = |id: Id, to, level| says(id, to, leveled(level, &[1, 2][id as usize - 1..]));
    assert_eq!([answers(2, 1, 0), answers(1, 0, 1)], [false; 2]);
    assert_eq!([answers(2, 1, 1), answers(1, 0, 0), answers(1, 0, 2)], [true; 3]);
    assert!(says(1, 0, leveled(1, &[1])), "a part is missing");
    let mut arriving = StreamingReply { level: 1, ..Default::default() };
    arriving.data.push_arrived(&reply(&[1, 2]).data);
    assert!(!says(1, 0, Answer::Arriving(Box::new(arriving.clone()))));
    arriving.data.push_arrived(&reply(&[2]).data);
    assert!(says(1, 0, Answer::Arriving(Box::new(arriving))), "it is longer than it is to be");
    let mut merged = plan(false);
    merged.callback = true;
    let message = |level| Message::Response(Response { call: CALL, answer: leveled(level, &[1, 2]) });
    let of_callback = |level| judged(&then(down(merged.clone()), &[Entry::Sent(1, 0, message(level))]));
    assert!(!of_callback(0).contains(&"levels") && of_callback(1).contains(&"levels"));
}
