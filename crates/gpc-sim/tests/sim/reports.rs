//! Doctored histories of the reports of ids on themselves and on others: data, values, func and jobs.

use chained_gpc::wire::message::{Answer, Partial, Response, SubtreeReply};
use chained_gpc::wire::{Cause, CauseKind, Failure, Message, Report, Stage, Status};
use chained_gpc::{Id, Tree};
use gpc_sim::Fault;
use gpc_sim::check::{Held, Plan};

use super::history::*;

fn fails(from: Id, to: Id, of: Id, stage: Stage, coverage: &[(Status, u32)]) -> Entry {
    let failure = Failure { cause: cause(of, stage), coverage: runs(coverage) };
    Entry::Sent(
        from,
        to,
        Message::Response(Response { call: CALL, answer: Answer::Failed(Box::new(failure)) }),
    )
}

/// Whether a checker complains: id 2 fails with a cause of its own or of another id.
fn is_untrue(of: Id, stage: Stage, own: Status) -> bool {
    judged(&then(down(plan(false)), &[fails(2, 1, of, stage, &[(own, 1)])])).contains(&"statuses")
}

/// The failure of a call reported an id as done whose callback had failed.
#[test]
fn who_fails_a_call_has_failed_and_nobody_else_says_so() {
    assert!(!is_untrue(2, Stage::Callback, Status::Failed) && is_untrue(2, Stage::Callback, Status::Done));
    assert!(is_untrue(2, Stage::Reply, Status::Unknown) && is_untrue(7, Stage::Func, Status::Failed));
    assert!(!is_untrue(2, Stage::Cancelled, Status::Done), "its caller gave it up");
}

/// In a subtree whose reply exceeded the limit, all ids counted as unknown, even those that had failed.
#[test]
fn who_has_failed_is_failed_further_up() {
    let says = |own: &[Cause], below| {
        let partial = |causes: Vec<Cause>, coverage: &[(Status, u32)]| {
            let report = Report { causes, coverage: runs(coverage) };
            let answer = Answer::Partial(Box::new(Partial { reply: SubtreeReply::default(), report }));
            Message::Response(Response { call: CALL, answer })
        };
        let heard = Entry::Received(1, 2, partial(vec![cause(2, Stage::Func)], &[(Status::Failed, 1)]));
        let causes = [&[cause(2, Stage::Func)], own].concat();
        let said = Entry::Sent(1, 0, partial(causes, &[(Status::Failed, 1), (below, 1)]));
        judged(&then(down(plan(true)), &[heard, said])).contains(&"statuses")
    };
    let lacks = |kind| [Cause::new(1, Stage::Reply, kind, "as told")];
    assert!(says(&[], Status::Unknown) && !says(&[], Status::Failed));
    assert!(says(&lacks(CauseKind::OverLimit), Status::Unknown));
    assert!(!says(&lacks(CauseKind::NoMemory), Status::Unknown), "it has no room for what was said");
}

/// A child's answer had invalid values, and the child counted as done.
#[test]
fn who_has_sent_no_values_is_not_done() {
    let says = |level, bytes: &[u8], below| {
        let reply = SubtreeReply {
            level,
            header: bytes.to_vec().into(),
            data: b"2 3 a3 b".to_vec().into(),
            ..SubtreeReply::default()
        };
        let report = |coverage: &[(Status, u32)]| Report { causes: Vec::new(), coverage: runs(coverage) };
        let answer = |reply, report| Answer::Partial(Box::new(Partial { reply, report }));
        let answer =
            |reply, report| Message::Response(Response { call: CALL, answer: answer(reply, report) });
        let heard = Entry::Received(1, 2, answer(reply, report(&[(Status::Done, 1)])));
        let own = report(&[(Status::Done, 1), (below, 1)]);
        let said = Entry::Sent(1, 0, answer(SubtreeReply::default(), own));
        let plan = Plan { callback: true, ..plan(true) };
        judged(&then(down(plan), &[Entry::Garbled(2), heard, said])).contains(&"statuses")
    };
    assert!(says(1, b"nothing", Status::Done) && !says(1, b"nothing", Status::Unknown));
    assert!(says(2, b"2 3 a3 b", Status::Done), "values of values are none");
    assert!(!says(0, b"nothing", Status::Done), "callback alone knows what it is given");
}

/// An id whose data had not all arrived reported a failure in func, which had not begun.
#[test]
fn who_waits_for_data_has_not_come_to_func() {
    let says = |seen: &[Entry], stage| {
        let (data, _writer) = chained_gpc::wire::Body::arriving(8);
        let plan = Plan { data_bytes: 8, tree: Tree::Chain, ..plan(false) };
        let Message::Request(whole) = meant(&plan, request(2..3, SECOND_NS, 0)) else { unreachable!() };
        let part = chained_gpc::wire::Request { data, ..chained_gpc::wire::Request::clone(&whole) };
        let late = Cause::new(2, stage, CauseKind::TimeLimit, "as told");
        let failure = Failure { cause: late, coverage: runs(&[(Status::Failed, 1)]) };
        let answer = Answer::Failed(Box::new(failure));
        let said = Entry::Sent(2, 1, Message::Response(Response { call: CALL, answer }));
        let mut history = vec![Entry::Started(plan), Entry::Received(2, 1, Message::Request(part.into()))];
        history.extend_from_slice(seen);
        judged(&then(history, &[said])).contains(&"statuses")
    };
    assert!(says(&[], Stage::Func) && !says(&[], Stage::Setup));
    assert!(!says(&[Entry::DataCame(2, 1)], Stage::Func), "it waits for its turn");
    assert!(!says(&[Entry::Executed(2, 0)], Stage::Func));
}

/// Data of a request were dropped when they had been sent to the first of several children.
#[test]
fn data_stay_until_they_have_been_passed_on() {
    assert!(judged(&then(down(plan(false)), &[Entry::DataGone(2, 1)])).contains(&"faithful"));
}

/// A func that took its data as they arrived had received the first of them, and the request was forwarded.
#[test]
fn a_request_goes_on_when_func_has_ended() {
    let asks = |forward_first, before: &[Entry]| {
        let plan = Plan { forward_first, ..plan(false) };
        let asks = Entry::Sent(0, 1, meant(&plan, request(1..3, FIRST_NS, 0)));
        let begins = [Entry::Started(plan), Entry::Began(0), Entry::Executed(0, 0)];
        judged(&[&begins[..], before, &[asks]].concat()).contains(&"faithful")
    };
    assert!(asks(false, &[]) && asks(false, &[Entry::Took(0)]));
    assert!(!asks(false, &[Entry::Took(0), Entry::Ran(0, false)]) && !asks(false, &[Entry::Ran(0, true)]));
    assert!(!asks(true, &[]) && !asks(true, &[Entry::Took(0)]));
}

/// An id that was given up cancelled its children, which had another parent by then.
#[test]
fn who_was_given_up_cancels_nobody() {
    let cancels = |heard: &[Entry]| {
        let down = then(down(plan(true)), &[Entry::Injected(Fault::Link, vec![0, 1])]);
        judged(&then(then(down, heard), &[Entry::Sent(1, 2, Message::Cancel(CALL))])).contains(&"farewell")
    };
    assert!(cancels(&[Entry::Received(1, 2, Message::Moved(CALL))]));
    assert!(!cancels(&[Entry::Received(1, 0, Message::Cancel(CALL))]));
}

/// The function of an ended process occupied a worker of its successor.
#[test]
fn an_id_counts_the_jobs_that_it_has() {
    let holds = |jobs, before: &[Entry]| {
        let holds = Entry::Held(2, Held { jobs, ..Held::default() });
        judged(&then(down(plan(false)), &[before, &[holds]].concat())).contains(&"jobs")
    };
    let job = Entry::Job(2, 2, Some(1), None);
    assert!(holds(1, &[]) && !holds(0, &[]));
    assert!(holds(0, std::slice::from_ref(&job)) && !holds(1, std::slice::from_ref(&job)));
    assert!(holds(1, &[job.clone(), Entry::Ran(2, false)]) && holds(1, &[job.clone(), Entry::Ended(2)]));
    // A cancelled call starts again while its function still runs.
    let two = [job.clone(), job];
    assert!(holds(1, &two) && !holds(2, &two) && !holds(1, &[&two[..], &[Entry::Ran(2, false)]].concat()));
}
