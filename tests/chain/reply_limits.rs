//! The limits of a call bind what one id writes: its own reply, and with a callback its combined reply.

use chained_gpc::chain::{Config, JobResult, Reply, Start};
use chained_gpc::wire::{ReplyLimits, Request};

use super::answer_checks::partial_of_one;
use super::one::{One, leveled, merged, request, start};

const LIMITS: ReplyLimits = ReplyLimits { header_max: 2, data_max: 3 };

fn limited(list: &str) -> Request {
    Request { reply_limits: LIMITS, ..request(list) }
}

/// A reply with this header, and these data in two parts.
fn reply(header: &str, data: &str) -> Reply {
    let (own, shared) = data.split_at(data.len() / 2);
    Reply { header: header.into(), data: own.into(), shared: shared.as_bytes().to_vec().into() }
}

#[test]
fn func_fails_if_its_reply_is_over_a_limit() {
    let answer = |header, data| {
        let mut one = One::new(1);
        one.request(0, limited("1"));
        one.ran(JobResult::Replied(reply(header, data))).remove(1)
    };
    assert_eq!(answer("ab", "abc"), "to 0: level 0 [2 ab] [3 abc]");
    assert_eq!(answer("", ""), "to 0: level 0 [0 ] [0 ]");
    assert_eq!(
        answer("abc", "abc"),
        "to 0: id 1 failed at stage func (over-limit): the reply header of func has 3 bytes, and the call takes 2 [f]"
    );
    assert_eq!(
        answer("ab", "abcd"),
        "to 0: id 1 failed at stage func (over-limit): the reply data of func has 4 bytes, and the call takes 3 [f]"
    );
}

/// A token may be used before func has returned, and after.
#[test]
fn a_deferred_reply_has_the_same_limits() {
    for is_early in [false, true] {
        let mut one = One::new(1);
        one.request(0, limited("1"));
        let outputs = match is_early {
            true => {
                assert_eq!(one.answered(Ok(reply("", "abcd"))), [""; 0]);
                one.ran(JobResult::Deferred)
            }
            false => {
                one.ran(JobResult::Deferred);
                one.answered(Ok(reply("", "abcd")))
            }
        };
        assert!(outputs.concat().contains("func (over-limit): the reply data of func has 4"), "{outputs:?}");
        assert!(one.is_quiet());
    }
}

#[test]
fn callback_fails_if_the_combined_reply_is_over_a_limit() {
    for is_deferred in [false, true] {
        let mut one = One::new(1);
        one.request(0, Request { callback: Some(9), ..limited("1-3") });
        one.replied("a");
        one.response(2, merged("b"));
        assert_eq!(one.replied("abc"), [""; 0]);
        assert_eq!(one.response(3, merged("c")), ["run callback 3 abc+c"]);
        let outputs = match is_deferred {
            true => {
                one.ran(JobResult::Deferred);
                one.answered(Ok(reply("", "abcd")))
            }
            false => one.replied("abcd"),
        };
        let expected = "to 0: id 1 failed at stage callback (over-limit): the reply data of callback has 4 bytes, and the call takes 3 [fdd]";
        assert_eq!(outputs, [expected]);
    }
}

#[test]
fn an_aggregate_has_no_such_limit_and_neither_has_what_is_dropped() {
    let mut one = One::new(1);
    one.request(0, limited("1-2"));
    one.replied("abc");
    let long = "3 abc".repeat(2);
    assert_eq!(
        one.response(2, leveled(1, "2 0 0 ", &format!("2 {long}"))),
        [format!("to 0: level 2 [2 1 0 2 0 0 ] [2 1 3 abc2 {long}]")]
    );
    let mut one = One::new(1);
    one.request(0, Request { reply_wanted: false, ..limited("1") });
    assert_eq!(one.replied("abcd"), ["consumed 0", "to 0: completed"]);
}

/// A child that sends more than the call allows lets it fail as the child's error.
#[test]
fn a_combined_reply_over_a_limit_is_a_lie() {
    let answers = [(false, merged("abcd"), 4), (true, partial_of_one("abcd"), 6)];
    for (partial, answer, length) in answers {
        let mut one = One::new(1);
        one.request(0, Request { callback: Some(9), partial, ..limited("1-2") });
        one.replied("a");
        let outputs = one.response(2, answer).concat();
        let expected = format!("bad-reply): its reply data has {length} bytes, and the call takes 3");
        assert!(outputs.contains(&expected), "{outputs}");
    }
}

#[test]
fn a_partial_call_goes_on_without_the_id_that_is_over_a_limit() {
    let mut one = One::new(1);
    one.request(0, Request { partial: true, ..limited("1") });
    let outputs = one.replied("abcd").concat();
    assert!(outputs.contains("[f] id 1 failed at stage func (over-limit)"), "{outputs}");
}

#[test]
fn a_root_passes_its_limits_on_and_keeps_them_itself() {
    let mut one = One::with(Config::new(0, 5));
    one.start(Start { reply_limits: LIMITS, ..start("0-1") });
    let outputs = one.replied("abcd");
    assert!(outputs.concat().contains("end 1: id 0 failed at stage func (over-limit)"), "{outputs:?}");
}
