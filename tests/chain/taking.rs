//! Functions that take their data as they arrive: when they may begin and continue, and how such a call ends.

use std::sync::Arc;

use chained_gpc::chain::{FuncState, Input, JobResult, Output};
use chained_gpc::wire::message::Answer;
use chained_gpc::wire::{Body, BodyUse, BodyWriter, CauseKind, Message, Request};

use super::one::{CALL, One, merged, reply, request};

fn arriving(usage: BodyUse, ids: &str, forward_first: bool) -> (Request, BodyWriter) {
    let (data, writer) = Body::arriving_for(6, usage);
    (Request { data, forward_first, ..request(ids) }, writer)
}

fn taken() -> JobResult {
    JobResult::Taken(FuncState(Box::new("so far")))
}

#[test]
fn func_begins_with_the_first_bytes_and_goes_on_with_each_more() {
    for usage in [BodyUse::Passing, BodyUse::Retained] {
        let (request, mut writer) = arriving(usage, "1", false);
        let data = request.data.clone();
        let mut one = One::new(1);
        assert!(one.request(0, request).is_empty(), "nothing is there to take");
        writer.push(b"ab");
        assert_eq!(one.feed(Input::DataArrived(CALL)), ["run func"]);
        writer.push(b"c");
        assert!(one.feed(Input::DataArrived(CALL)).is_empty(), "it runs already");
        data.passed(3);
        assert!(one.ran(taken()).is_empty(), "it has all there is; and its request is not consumed");
        writer.push(b"d");
        assert_eq!(one.feed(Input::DataArrived(CALL)), ["run more"]);
        writer.push(b"ef");
        assert!(one.feed(Input::DataArrived(CALL)).is_empty());
        data.passed(4);
        assert_eq!(one.ran(taken()), ["run more"], "more came while it ran");
        data.passed(6);
        assert_eq!(one.ran(JobResult::Replied(reply("x"))), ["consumed 0", "to 0: level 0 [0 ] [1 x]"]);
    }
}

#[test]
fn the_last_bytes_bring_func_to_its_end_though_it_has_taken_them() {
    let (request, mut writer) = arriving(BodyUse::Passing, "1", true);
    let data = request.data.clone();
    let mut one = One::new(1);
    one.request(0, request);
    writer.push(b"abcdef");
    assert_eq!(one.feed(Input::DataArrived(CALL)), ["run func"]);
    data.passed(6);
    assert_eq!(one.ran(taken()), ["run more"], "a driver that stops short of the end is asked again");
}

#[test]
fn children_get_the_request_at_once_or_when_func_has_ended() {
    let (request, mut writer) = arriving(BodyUse::Passing, "1-2", true);
    let mut one = One::new(1);
    assert_eq!(one.request(0, request), ["to 2: request 2"]);
    writer.push(b"ab");
    assert_eq!(one.feed(Input::DataArrived(CALL)), ["run func"]);

    let (request, mut writer) = arriving(BodyUse::Retained, "1-2", false);
    let data = request.data.clone();
    let mut one = One::new(1);
    one.request(0, request);
    writer.push(b"ab");
    assert_eq!(one.feed(Input::DataArrived(CALL)), ["run func"]);
    data.passed(2);
    assert!(one.ran(taken()).is_empty(), "func has begun and not ended");
    writer.push(b"cdef");
    assert_eq!(one.feed(Input::DataArrived(CALL)), ["run more"]);
    data.passed(6);
    assert_eq!(one.ran(JobResult::Replied(reply("x"))), ["consumed 0", "to 2: request 2"]);
}

/// The child's link reads from the beginning, wherever func is by then.
#[test]
fn a_child_s_request_reads_the_data_by_itself() {
    let (request, mut writer) = arriving(BodyUse::Passing, "1-2", true);
    let own = request.data.clone();
    let mut one = One::new(1);
    let outputs = one.outputs(Input::Message { from: 0, message: Message::Request(request.into()) });
    let child = outputs.iter().find_map(|output| match output {
        Output::Send { to: 2, message: Message::Request(request) } => Some(request.clone()),
        _ => None,
    });
    let child = child.expect("it is forwarded").data.clone();
    drop(outputs);
    writer.push(b"abcdef");
    own.passed(6);
    assert_eq!(child.read(0, 9), "abcdef");
    child.passed(6);
    assert_eq!(child.read(0, 9), "", "all have it, so it is gone");
}

#[test]
fn a_segment_that_fails_fails_the_call_and_what_func_has_made_is_dropped() {
    for partial in [false, true] {
        let (request, mut writer) = arriving(BodyUse::Retained, "1", true);
        let data = request.data.clone();
        let mut one = One::new(1);
        one.request(0, Request { partial, ..request });
        writer.push(b"ab");
        one.feed(Input::DataArrived(CALL));
        data.passed(2);
        let held = Arc::new(());
        one.ran(JobResult::Taken(FuncState(Box::new(held.clone()))));
        assert_eq!(Arc::strong_count(&held), 2, "it is kept between two jobs");
        writer.push(b"c");
        assert_eq!(one.feed(Input::DataArrived(CALL)), ["run more"]);
        let outputs = one.ran(JobResult::Failed("bad bytes".into()));
        assert_eq!(outputs[0], "consumed 0");
        assert!(outputs[1].contains("bad bytes") && outputs[1].starts_with("to 0: "), "{outputs:?}");
        assert_eq!(Arc::strong_count(&held), 1);
        assert!(one.feed(Input::DataArrived(CALL)).is_empty());
    }
}

#[test]
fn a_call_that_ends_meanwhile_takes_what_func_has_made_along() {
    let (request, mut writer) = arriving(BodyUse::Passing, "1-2", true);
    let data = request.data.clone();
    let mut one = One::new(1);
    one.request(0, request);
    writer.push(b"ab");
    one.feed(Input::DataArrived(CALL));
    data.passed(2);
    let held = Arc::new(());
    one.ran(JobResult::Taken(FuncState(Box::new(held.clone()))));
    assert_eq!(one.cancel(0), ["consumed 0", "to 2: cancel"]);
    assert_eq!(Arc::strong_count(&held), 1);
    // The same for one that was running when the call ended.
    assert!(one.ran(taken()).is_empty());
}

/// func has begun, so this id must not be reported as unreached.
#[test]
fn an_id_whose_func_waits_for_data_may_have_run() {
    let (request, mut writer) = arriving(BodyUse::Passing, "1-2", true);
    let data = request.data.clone();
    let mut one = One::new(1);
    one.request(0, request);
    writer.push(b"ab");
    one.feed(Input::DataArrived(CALL));
    data.passed(2);
    one.ran(taken());
    let answers = one.outputs(Input::LinkLost {
        peer: 2,
        kind: CauseKind::LinkLost,
        why: "gone".into(),
        unreached: false,
    });
    let failure = answers.into_iter().find_map(|output| match output {
        Output::Send { message: Message::Response(response), .. } => match response.answer {
            Answer::Failed(failure) => Some(failure),
            other => panic!("{other:?}"),
        },
        _ => None,
    });
    let counts = failure.expect("it fails").coverage.counts();
    assert_eq!((counts.unreached, counts.unknown), (0, 2));
}

#[test]
fn a_callback_takes_nothing_as_it_comes() {
    let mut one = One::new(1);
    one.request(0, Request { callback: Some(9), ..request("1-2") });
    one.replied("a");
    one.response(2, merged("b"));
    let outputs = one.ran(taken());
    assert!(outputs[0].contains("a callback takes no data as they come"), "{outputs:?}");
}
