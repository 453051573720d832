//! The memory of calls is bounded: what does not fit is refused, or fails its call, and all memory is released.

use std::time::Duration;

use chained_gpc::chain::{Config, Input, JobResult};
use chained_gpc::wire::{Body, Budget, CallId, Message, Request};

use super::one::{CALL, One, leveled, reply, request, show};

/// A node with a memory of `bytes` bytes.
fn node_of(bytes: u64) -> (One, Budget) {
    let memory = Budget::new(bytes, "this node");
    (One::with(Config { memory: memory.clone(), ..Config::new(1, 5) }), memory)
}

const KIB: usize = 1 << 10;

fn text(len: usize) -> String {
    "x".repeat(len)
}

/// 65,536 calls could wait with 16 KiB of data each, a GiB.
#[test]
fn requests_that_wait_are_refused_when_there_is_no_memory_for_more() {
    let (mut one, memory) = node_of(100 << 10);
    let data = || Body::whole(vec![7; 8 * KIB]);
    let mut refused = Vec::new();
    for sequence in 0..20 {
        let call = CallId { root: 0, sequence };
        refused.extend(one.request(0, Request { call, data: data(), ..request("1") }));
    }
    assert_eq!(one.node.calls(), 11, "of 9 KiB each");
    let says =
        "id 1 failed at stage setup (no-memory): refused by a limit: this node may hold 102400 bytes [f]";
    let (ran, others) = refused.split_first().unwrap();
    assert_eq!((ran.as_str(), others.len()), ("run func", 2 * 9));
    assert!(others.chunks(2).all(|pair| pair[0] == "consumed 0" && pair[1] == format!("to 0: {says}")));
    one.lost(0);
    assert_eq!((one.node.calls(), memory.used()), (0, 0));
}

/// A request's header may have 64 KiB: if only data counted, waiting requests would hold many times what a node may.
#[test]
fn headers_of_requests_that_wait_are_counted() {
    let (mut one, memory) = node_of(100 << 10);
    let mut ask = |sequence| {
        let call = CallId { root: 0, sequence };
        one.request(0, Request { call, header: vec![7; 40 * KIB].into(), ..request("1") })
    };
    assert_eq!((ask(0), ask(1)), (vec!["run func".into()], vec![]));
    assert!(memory.used() > 80 << 10);
    assert_eq!(ask(2).len(), 2, "refused, and consumed");
    one.lost(0);
    assert_eq!((one.node.calls(), memory.used()), (0, 0));
}

/// A func's reply was held until the children had answered, however long it was and however many calls waited.
#[test]
fn replies_that_wait_for_others_fail_their_call_when_there_is_no_memory_for_them() {
    let says = |place: &str| {
        format!(
            "id 1 failed at stage reply (no-memory): refused by a limit: this node may hold 102400 bytes [{place}]"
        )
    };
    let (mut one, memory) = node_of(100 << 10);
    one.request(0, request("1-3"));
    one.replied(&text(60 * KIB));
    assert!(memory.used() > 60 << 10);
    let ended = one.response(2, leveled(0, "0 ", &format!("{} {}", 50 * KIB, text(50 * KIB))));
    assert_eq!(ended, [format!("to 0: {}", says("fd?")), "to 3: cancel".into()]);
    assert_eq!(memory.used(), 0);

    let (mut one, memory) = node_of(100 << 10);
    one.request(0, Request { forward_first: true, ..request("1-3") });
    let ended = one.replied(&text(101 * KIB));
    assert_eq!(
        ended,
        ["consumed 0".into(), format!("to 0: {}", says("f??")), "to 2: cancel".into(), "to 3: cancel".into()]
    );
    assert_eq!(memory.used(), 0);
}

/// A func had deferred its reply, and then there was no memory for the list of children. The id's part of a partial
/// call failed and went up, and the function with the token did not learn that its answer was no longer wanted.
#[test]
fn who_keeps_a_token_is_told_when_there_is_no_memory_to_pass_the_call_on() {
    for partial in [false, true] {
        let (mut one, memory) = node_of(100 << 10);
        let data = Body::whole(vec![7; 8 * KIB]);
        one.request(0, Request { partial, data, ..request("1-400") });
        let filled = memory.most() - memory.used() - 1;
        let mut other = memory.share();
        assert!(other.grow(filled), "somebody else has all that is left");
        let ended = one.outputs(Input::Ran { call: CALL, result: JobResult::Deferred });
        let ended: Vec<String> = ended.into_iter().map(show).collect();
        let up = ended.iter().filter(|output| output.starts_with("to 0: "));
        assert!(up.clone().count() == 1 && up.clone().all(|up| up.contains("no-memory")), "{ended:?}");
        let told = ended.iter().filter(|output| *output == "stopped").count();
        assert_eq!((told, one.node.calls()), (1, 0), "partial: {partial}: {ended:?}");
    }
}

/// Merged replies are released: a long list of children needs no more memory than a short one.
#[test]
fn replies_that_are_merged_are_given_back() {
    let (mut one, memory) = node_of(100 << 10);
    one.request(0, Request { callback: Some(9), ..request("1-3") });
    one.replied("a");
    for child in [2, 3] {
        one.response(child, super::one::merged(&text(60 * KIB)));
        one.ran(JobResult::Replied(reply("a")));
    }
    assert_eq!((one.node.calls(), memory.used()), (0, 0));
}

/// Answers of partial calls were counted but not measured: as many as the node takes calls, of any length.
#[test]
fn retained_answers_have_a_quarter_of_the_memory() {
    let (mut one, memory) = node_of(100 << 10);
    for sequence in 0..9 {
        let call = CallId { root: 0, sequence };
        one.request(0, Request { call, partial: true, ..request("1") });
        let ran = Input::Ran { call, result: JobResult::Replied(reply(&text(8 * KIB))) };
        one.feed(ran);
    }
    assert_eq!(one.node.retained_answers(), 2);
    assert!(memory.used() <= 25 << 10);
    one.now += Duration::from_secs(63);
    one.feed(Input::Tick);
    assert_eq!((one.node.retained_answers(), memory.used()), (0, 0));
}

#[test]
fn a_request_without_memory_for_its_data_ends_unless_another_parent_sends_them() {
    let (mut one, _) = node_of(100 << 10);
    let spare = chained_gpc::wire::body::Spare::default().within(&Budget::new(9, "a link"));
    let (data, mut writer) = Body::arriving_in(20, chained_gpc::wire::BodyUse::Whole, &spare);
    one.request(0, Request { data: data.clone(), ..request("1") });
    writer.push(&[7; 5]);
    let refused = |one: &mut One| one.feed(Input::DataRefused { call: CALL, why: "no memory".into() });
    assert!(refused(&mut one).is_empty(), "there is memory");
    writer.push(&[7; 5]);
    assert!(writer.is_refused() && data.is_refused() && writer.refusal().contains("a link may hold 9"));
    assert_eq!(
        refused(&mut one),
        ["consumed 0", "to 0: id 1 failed at stage setup (no-memory): no memory [f]"]
    );
    let (other, mut whole) = Body::arriving(20);
    data.follow(&other);
    whole.push(&[8; 20]);
    assert!(!data.is_refused() && data.bytes().is_some_and(|bytes| bytes == [8; 20][..]));
}

/// A body counts the data that it holds; counted with the request again, they would take twice the memory.
#[test]
fn long_data_are_counted_where_they_lie() {
    let (mut one, memory) = node_of(100 << 10);
    assert_eq!(
        one.request(0, Request { data: Body::whole(vec![7; 90 * KIB]), ..request("1") }),
        ["run func"]
    );
    assert!(memory.used() < 10 << 10, "{}", memory.used());
}

/// Some thousand partial calls with gaps between their numbers are remembered until their time has passed, and then
/// wake the node no more.
#[test]
fn what_is_known_of_ended_partial_calls_goes_with_its_time() {
    let mut one = One::new(1);
    for sequence in (0..10_000).step_by(2) {
        let call = CallId { root: 0, sequence };
        one.request(0, Request { call, partial: true, ..request("1") });
        one.feed(Input::Ran { call, result: JobResult::Replied(reply("x")) });
        one.feed(Input::Message { from: 0, message: Message::Release(call) });
    }
    assert_eq!(one.node.retained_answers(), 0);
    assert!(one.node.next_deadline().is_some());
    one.now += Duration::from_secs(100);
    one.feed(Input::Tick);
    assert_eq!(one.node.next_deadline(), None);
}
