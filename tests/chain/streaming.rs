//! Replies whose data are still arriving: when the answer is sent, and how a call ends meanwhile.

use std::time::Duration;

use chained_gpc::chain::{Config, Heartbeat, Input, JobResult, Output, Start};
use chained_gpc::wire::level::MAX_LEVEL;
use chained_gpc::wire::message::{Answer, Partial, SubtreeReply};
use chained_gpc::wire::streaming_reply::{StreamingData, StreamingReply};
use chained_gpc::wire::{Body, BodyWriter, Coverage, Message, Request, Response, Stage};
use gpc_trees::Id;

use super::one::{CALL, One, failed, leveled, request, start};

/// Node 1 of a call over 1 to 5, which waits for its children 2 (with 3) and 4 (with 5).
fn waiting(request: Request) -> One {
    let mut one = One::new(1);
    one.request(0, request);
    one.replied("a");
    one
}

fn arriving(level: u16, len: u64) -> (Answer, BodyWriter) {
    let (body, writer) = Body::arriving(len);
    let header = format!("{}0 ", "1 ".repeat(usize::from(level).min(9))).into_bytes();
    (
        Answer::Arriving(Box::new(StreamingReply {
            level,
            header: header.into(),
            data: StreamingData::from(body),
        })),
        writer,
    )
}

/// The head of a child's reply arrives, without data.
fn head(one: &mut One, from: Id) -> Vec<String> {
    one.response(from, arriving(1, 300_000).0)
}

fn arrived(one: &mut One, from: Id) -> Vec<String> {
    one.feed(Input::ReplyArrived { from, call: CALL })
}

/// Both heads have arrived, and the answer has been sent.
fn given() -> One {
    let mut one = waiting(request("1-5"));
    assert!(head(&mut one, 4).is_empty(), "there is no answer without the other child");
    assert_eq!(head(&mut one, 2), [GIVEN]);
    one
}

/// `3 1 1 a` and two times 300,000 bytes.
const GIVEN: &str = "to 0: level 2 [3 1 0 1 0 1 0 ] and 600007 bytes to come";

#[test]
fn the_answer_goes_up_with_the_last_head_and_the_call_stays_until_the_last_byte() {
    let mut one = given();
    assert!(arrived(&mut one, 2).is_empty());
    assert_eq!(one.node.calls(), 1);
    assert!(!one.node.awaits(2, CALL) && one.node.awaits(4, CALL));
    assert!(arrived(&mut one, 4).is_empty() && one.is_quiet());
    assert!(arrived(&mut one, 4).is_empty(), "late and twice");
}

#[test]
fn own_func_may_be_slower_than_the_heads_and_than_all_data() {
    for data_first in [false, true] {
        let mut one = One::new(1);
        one.request(0, Request { forward_first: true, ..request("1-5") });
        assert!(head(&mut one, 2).is_empty() && head(&mut one, 4).is_empty());
        if data_first {
            assert!(arrived(&mut one, 2).is_empty() && arrived(&mut one, 4).is_empty());
            assert_eq!(one.node.calls(), 1);
        }
        assert_eq!(one.replied("a"), ["consumed 0", GIVEN]);
        assert_eq!(one.is_quiet(), data_first);
    }
}

#[test]
fn data_stand_in_list_order_whoever_comes_first_and_whoever_is_whole() {
    let mut one = waiting(request("1-5"));
    let (answer, mut writer) = arriving(1, 6);
    one.response(4, answer);
    let message = Message::Response(Response { call: CALL, answer: leveled(0, "0 ", "1 b") });
    let outputs = one.outputs(Input::Message { from: 2, message });
    let Some(Output::Send { to: 0, message: Message::Response(response) }) = outputs.into_iter().next()
    else {
        panic!("an answer")
    };
    let Answer::Arriving(reply) = response.answer else { panic!("{:?}", response.answer) };
    assert!(reply.whole().is_none());
    assert_eq!(writer.push(b"1 1 x."), 6);
    assert_eq!(&reply.whole().unwrap().data.as_slice()[..], b"3 1 1 a1 1 b1 1 x.");
    assert!(arrived(&mut one, 4).is_empty() && one.is_quiet());
}

#[test]
fn a_child_that_fails_behind_its_head_is_the_cause() {
    let mut one = given();
    let outputs = one.response(4, failed(5, Stage::Link, "d?".parse_letters()));
    assert_eq!(outputs, ["to 0: id 5 failed at stage link: bad luck [dddd?]", "to 2: cancel"]);
    assert!(one.is_quiet() && arrived(&mut one, 2).is_empty());

    let mut one = waiting(request("1-5"));
    head(&mut one, 4);
    let outputs = one.response(4, failed(5, Stage::Link, "d?".parse_letters()));
    assert_eq!(
        outputs,
        ["to 0: id 5 failed at stage link: bad luck [d??d?]", "to 2: cancel"],
        "before the answer"
    );
}

#[test]
fn a_lost_link_ends_it_before_the_last_byte_and_not_after_it() {
    let mut one = given();
    arrived(&mut one, 2);
    assert!(one.lost(2).is_empty(), "all of its reply is here");
    assert_eq!(one.lost(4), ["to 0: id 4 failed at stage link (link-lost): gone [ddddd]"]);
    assert!(one.is_quiet() && arrived(&mut one, 4).is_empty());
}

#[test]
fn a_cancel_and_a_lost_parent_go_down_to_those_whose_data_are_under_way() {
    for end in [|one: &mut One| one.cancel(0), |one: &mut One| one.lost(0)] {
        let mut one = given();
        arrived(&mut one, 2);
        assert!(one.cancel(2).is_empty(), "only the parent cancels");
        assert_eq!(end(&mut one), ["to 4: cancel"]);
        assert!(one.is_quiet() && arrived(&mut one, 4).is_empty());
    }
}

#[test]
fn the_time_limit_names_who_holds_the_data_up() {
    let limit = "the time limit (60s at id 1) passed when of the 300000 bytes of the reply of id";
    // No data of the first child have arrived.
    let mut one = given();
    let says = format!(
        "to 0: id 2 failed at stage reply (time-limit): {limit} 2 0 had come and 0 had gone up [ddddd]"
    );
    assert_eq!(one.expire_late(), [says, "to 2: cancel".into(), "to 4: cancel".into()]);
    assert!(one.is_quiet());

    // All data of the first child have arrived, and the link to the parent takes none of them.
    let mut one = waiting(request("1-5"));
    let (answer, mut writer) = arriving(1, 300_000);
    one.response(2, answer);
    head(&mut one, 4);
    writer.push(&vec![0; 300_000]);
    arrived(&mut one, 2);
    let says = format!(
        "to 0: id 1 failed at stage reply (time-limit): {limit} 2 300000 had come and 0 had gone up [fdddd]"
    );
    assert_eq!(one.expire_late(), [says, "to 4: cancel".into()]);

    // A silent child is named before one whose data are arriving.
    let mut one = waiting(request("1-5"));
    head(&mut one, 2);
    let says = "to 0: id 4 failed at stage reply (time-limit): no reply came to id 1 within 60s; it still waits for [4] [ddd??]";
    assert_eq!(one.expire_late(), [says, "to 2: cancel", "to 4: cancel"]);
}

#[test]
fn own_failure_cancels_children_whose_data_are_under_way() {
    let mut one = One::new(1);
    one.request(0, Request { forward_first: true, ..request("1-5") });
    head(&mut one, 2);
    arrived(&mut one, 2);
    head(&mut one, 4);
    let outputs = one.ran(JobResult::Failed("no luck".into()));
    assert_eq!(outputs, ["consumed 0", "to 0: id 1 failed at stage func: no luck [fdddd]", "to 4: cancel"]);
    assert!(one.is_quiet());
}

#[test]
fn nothing_but_a_failure_counts_behind_a_head() {
    let mut one = given();
    for answer in [Answer::Completed, leveled(0, "0 ", "0 "), arriving(3, 5).0] {
        assert!(one.response(4, answer).is_empty());
    }
    for stranger in [0, 1, 3, 5, 77] {
        assert!(arrived(&mut one, stranger).is_empty());
    }
    arrived(&mut one, 4);
    assert!(one.response(4, failed(5, Stage::Func, Coverage::new())).is_empty(), "it has all of it");
    assert_eq!(one.node.calls(), 1);
    let mut one = waiting(request("1-5"));
    assert!(arrived(&mut one, 2).is_empty(), "nothing of it has begun");
    assert!(one.node.awaits(2, CALL));
}

#[test]
fn what_is_too_long_or_too_high_fails_before_any_of_it_goes_up() {
    let mut one = One::with(Config { reply_max: 600_000, ..Config::new(1, 5) });
    one.request(0, request("1-5"));
    one.replied("a");
    head(&mut one, 2);
    let says = "id 1 failed at stage reply (over-limit): the subtree's reply of 600021 bytes is over the limit of 600000";
    assert_eq!(
        head(&mut one, 4),
        [format!("to 0: {says} [fdddd]"), "to 2: cancel".into(), "to 4: cancel".into()]
    );

    let mut one = waiting(request("1-2"));
    let outputs = one.response(2, arriving(MAX_LEVEL, 300_000).0);
    assert!(
        outputs[0].starts_with("to 0: id 1 failed at stage reply (over-limit): ")
            && outputs[0].contains("65535"),
        "{outputs:?}"
    );
    assert_eq!((&outputs[1][..], one.is_quiet()), ("to 2: cancel", true));

    // Lengths beyond any number.
    let mut one = waiting(request("1-5"));
    one.response(2, arriving(0, u64::MAX).0);
    assert!(one.response(4, arriving(0, u64::MAX).0)[0].contains("over the limit"));
}

#[test]
fn replies_are_passed_on_where_nobody_needs_them_whole() {
    let passes_on = |request: Request| {
        let one = waiting(request);
        let (all, none) = ([2, 4], [0, 1, 3, 5, 77]);
        assert!(none.iter().all(|&id| !one.node.passes_on(id, CALL)));
        let passes_on = all.map(|id| one.node.passes_on(id, CALL));
        assert_eq!(passes_on[0], passes_on[1]);
        passes_on[0]
    };
    assert!(passes_on(request("1-5")));
    assert!(!passes_on(Request { callback: Some(9), ..request("1-5") }));
    assert!(!passes_on(Request { partial: true, ..request("1-5") }));
    assert!(!passes_on(Request { reply_wanted: false, ..request("1-5") }));
    let mut root = One::new(0);
    root.start(start("0-2"));
    root.replied("a");
    assert!(!root.node.passes_on(1, CALL) && root.node.awaits(1, CALL));
}

#[test]
fn a_driver_that_brings_one_where_it_is_needed_whole_fails_the_call() {
    let says = "its reply is still arriving where it is needed whole";
    let mut root = One::new(0);
    root.start(Start { forward_first: true, ..start("0-2") });
    let outputs = root.response(1, arriving(1, 9).0);
    assert_eq!(outputs[0], format!("end 1: id 1 failed at stage reply (bad-reply): {says} [???]"));
    let mut one = waiting(Request { callback: Some(9), ..request("1-5") });
    assert_eq!(head(&mut one, 2)[0], format!("to 0: id 2 failed at stage reply (bad-reply): {says} [d????]"));
    let mut one = waiting(Request { partial: true, ..request("1-5") });
    assert_eq!(
        head(&mut one, 2),
        ["to 3: request 3 skipped 1, sent before"],
        "it is lost, and its child adopted"
    );
}

#[test]
fn a_child_whose_data_are_under_way_is_asked_for_signs_of_life() {
    let heartbeat = Some(Heartbeat { every: Duration::from_secs(2), dead_after: Duration::from_secs(10) });
    let mut one = One::with(Config { heartbeat, ..Config::new(1, 5) });
    one.request(0, request("1-5"));
    one.replied("a");
    head(&mut one, 2);
    head(&mut one, 4);
    arrived(&mut one, 2);
    for round in 0.. {
        match &one.expire()[..] {
            [ping] if round < 5 => assert_eq!(ping, "to 4: ping"),
            [abandon, failed] => {
                assert_eq!((&abandon[..], round), ("abandon 4", 4));
                assert!(
                    failed.starts_with("to 0: id 4 failed at stage link (link-lost): it sent no heartbeat"),
                    "{failed}"
                );
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    // Arriving data count as a heartbeat.
    let mut one = One::with(Config { heartbeat, ..Config::new(1, 5) });
    one.request(0, request("1-3"));
    one.replied("a");
    head(&mut one, 2);
    (0..3).for_each(|_| drop(one.expire()));
    arrived(&mut one, 2);
    assert_eq!(one.expire(), ["to 3: ping"]);
}

#[test]
fn a_partial_answer_is_not_believed_where_all_is_asked_for() {
    let mut one = waiting(request("1-5"));
    head(&mut one, 2);
    let partial = Partial { reply: SubtreeReply::default(), report: chained_gpc::wire::Report::default() };
    let outputs = one.response(4, Answer::Partial(Box::new(partial)));
    assert!(
        outputs[0].contains("it sent a partial reply where a whole one was asked for [ddd??]"),
        "{outputs:?}"
    );
    assert_eq!(outputs[1..], ["to 2: cancel", "to 4: cancel"]);
}

/// Parses a coverage from its letters.
trait ParseLetters {
    fn parse_letters(&self) -> Coverage;
}

impl ParseLetters for str {
    fn parse_letters(&self) -> Coverage {
        use chained_gpc::wire::Status;
        let mut coverage = Coverage::new();
        for letter in self.chars() {
            let status = match letter {
                'd' => Status::Done,
                'f' => Status::Failed,
                '-' => Status::Unreached,
                _ => Status::Unknown,
            };
            coverage.push(status, 1);
        }
        coverage
    }
}
