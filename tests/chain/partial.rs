//! One node of a partial call, driven by hand.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use chained_gpc::chain::{Config, Input, JobResult, Node, Output, Outputs, Start, Time};
use chained_gpc::wire::message::{Answer, Partial, SubtreeReply};
use chained_gpc::wire::{
    Body, CallId, Cause, CauseKind, Coverage, Failure, Message, Report, Request, Stage, Status,
};
use gpc_trees::{Id, Registered, Tree};

use super::one::{CALL, One, failed, leveled, reply, request, start};

/// A node that is older than any call.
fn old(me: Id) -> One {
    let mut one = One::new(me);
    one.now = Duration::from_secs(10);
    one
}

fn partial(list: &str) -> Request {
    Request { partial: true, ..request(list) }
}

fn adopted(list: &str, skipped: u32) -> Request {
    Request { skipped, adopted: true, ..partial(list) }
}

/// Node 1 of a call over 1 to 5, which waits for its children 2 (with 3) and 4 (with 5).
fn waiting(request: Request) -> One {
    let mut one = old(1);
    one.request(0, request);
    one.replied("a");
    one
}

fn covering(statuses: &[(Status, u32)]) -> Coverage {
    let mut coverage = Coverage::new();
    statuses.iter().for_each(|&(status, count)| coverage.push(status, count));
    coverage
}

/// A child's partial answer, with all ids done.
fn done(level: u16, data: &str, ids: u32) -> Answer {
    some(level, data, Coverage::all(Status::Done, ids))
}

fn some(level: u16, data: &str, coverage: Coverage) -> Answer {
    // An empty header for each id that is done.
    let done = coverage.counts().done as usize;
    let header = if level == 0 { "0 ".into() } else { format!("{done} {}", "0 ".repeat(done)) };
    let (header, data) = (header.as_bytes().to_vec().into(), data.as_bytes().to_vec().into());
    let reply = SubtreeReply { level, header, data, ..SubtreeReply::default() };
    Answer::Partial(Box::new(Partial { reply, report: Report { causes: Vec::new(), coverage } }))
}

fn message(one: &mut One, from: Id, message: Message) -> Vec<String> {
    one.feed(Input::Message { from, message })
}

fn unreached(one: &mut One, peer: Id) -> Vec<String> {
    one.feed(Input::LinkLost {
        peer,
        kind: CauseKind::Unreachable,
        why: "nobody there".into(),
        unreached: true,
    })
}

#[test]
fn everybody_is_done() {
    let mut one = waiting(partial("1-5"));
    assert!(one.response(4, done(1, "2 1 d1 e", 2)).is_empty());
    let outputs = one.response(2, done(1, "2 1 b1 c", 2));
    assert_eq!(outputs, ["to 0: level 2 [3 1 0 2 0 0 2 0 0 ] [3 1 1 a2 1 b1 c2 1 d1 e] [ddddd] "]);
}

#[test]
fn a_func_that_fails_counts_for_its_id_alone() {
    let mut one = old(1);
    one.request(0, partial("1-5"));
    let outputs = one.ran(JobResult::Failed("no luck".into()));
    assert_eq!(outputs, ["consumed 0", "to 2: request 2-3", "to 4: request 4-5"]);
    one.response(2, done(1, "2 1 b1 c", 2));
    let outputs = one.response(4, done(1, "2 1 d1 e", 2));
    let says = "id 1 failed at stage func: no luck";
    assert_eq!(outputs, [format!("to 0: level 2 [2 2 0 0 2 0 0 ] [2 2 1 b1 c2 1 d1 e] [fdddd] {says}")]);
}

#[test]
fn a_callback_that_fails_voids_its_own_part_and_passes_the_values_on() {
    let mut one = waiting(Request { callback: Some(9), ..partial("1-5") });
    assert_eq!(one.response(2, done(0, "bc", 2)), ["run callback 2 a+bc"]);
    assert_eq!(one.replied("abc"), [""; 0]);
    // A value that could not be merged below arrives beside it, and both are merged here.
    one.response(4, some(1, "2 1 d1 e", Coverage::all(Status::Done, 2)));
    assert_eq!(one.ran(JobResult::Failed("no luck".into())).len(), 1, "its three values go up");
    let mut one = waiting(Request { callback: Some(9), ..partial("1-5") });
    one.response(2, done(0, "bc", 2));
    one.replied("abc");
    assert_eq!(one.response(4, done(1, "2 1 d1 e", 2)), ["run callback 4 abc+d"]);
    assert_eq!(one.replied("abcd"), ["run callback 4 abcd+e"]);
    let outputs = one.ran(JobResult::Failed("no luck".into()));
    let says = "id 1 failed at stage callback: no luck";
    assert_eq!(outputs, [format!("to 0: level 1 [3 2 0 0 0 ] [3 2 bc1 d1 e] [fdddd] {says}")]);
}

#[test]
fn the_children_of_a_lost_one_are_adopted_with_their_slices() {
    let mut one = old(1);
    one.request(0, partial("1-9"));
    one.replied("a");
    assert_eq!(
        one.lost(2),
        ["to 3: request 3-4 skipped 1, sent before", "to 5: request 5 skipped 1, sent before"]
    );
    // Its late answer is ignored, and so is another loss of its link.
    assert!(one.response(2, done(1, "2 1 x1 x", 4)).is_empty() && one.lost(2).is_empty());
    assert_eq!(one.lost(3), ["to 4: request 4 skipped 2, sent before"]);
    one.response(5, done(0, "1 e", 1));
    one.response(6, some(0, "1 f", covering(&[(Status::Done, 1), (Status::Failed, 3)])));
    let outputs = one.response(4, done(0, "1 d", 1));
    let says = "id 2 failed at stage link (link-lost): gone; id 3 failed at stage link (link-lost): gone";
    let data = "[4 1 a1 d1 e1 f]";
    assert_eq!(outputs, [format!("to 0: level 1 [4 0 0 0 0 ] {data} [d??dddfff] {says}")]);
}

/// A request of eighty bytes named two billion ids, of which only the receiver existed. It adopted the children of each
/// in turn, in a list that it sorted again every time, until its memory or the call's time limit was exhausted.
#[test]
fn the_children_of_so_many_are_adopted_and_no_more() {
    let mut node = Node::new(Config::new(1, 5));
    let (mut outputs, mut asked, mut answers) = (Outputs::new(), VecDeque::new(), Vec::new());
    let message = Message::Request(Arc::new(partial("1-2000000000")));
    let replied = JobResult::Replied(reply("a"));
    let begin = [Input::Message { from: 0, message }, Input::Ran { call: CALL, result: replied }];
    let mut inputs = VecDeque::from(begin);
    let mut requests = 0;
    while let Some(input) = inputs.pop_front() {
        node.input(Time::from_nanos(0), input, &mut outputs);
        for output in outputs.drain() {
            match output {
                Output::Send { to, message: Message::Request(_) } => asked.push_back(to),
                Output::Send { message: Message::Response(response), .. } => answers.push(response.answer),
                _ => {}
            }
        }
        if inputs.is_empty()
            && let Some(peer) = asked.pop_front()
        {
            requests += 1;
            inputs.push_back(Input::LinkLost {
                peer,
                kind: CauseKind::Unreachable,
                why: "nobody there".into(),
                unreached: true,
            });
        } else if inputs.is_empty() && node.next_deadline() == Some(Time::from_nanos(0)) {
            inputs.push_back(Input::Tick);
        }
    }
    assert!((60_000..=65_538).contains(&requests), "{requests} ids were asked, two of them its own children");
    let [Answer::Partial(partial)] = &answers[..] else { panic!("{answers:?}") };
    let runs = [(Status::Done, 1), (Status::Unreached, 1_999_999_999)];
    assert_eq!((partial.report.coverage.runs(), node.calls()), (&runs[..], 0));
}

/// An id that was surely never asked need not prove its age, and may be unreached itself.
#[test]
fn below_one_that_was_never_reached_nobody_was_asked() {
    let mut one = waiting(partial("1-5"));
    assert_eq!(unreached(&mut one, 2), ["to 3: request 3 skipped 1"]);
    assert!(unreached(&mut one, 3).is_empty());
    assert_eq!(one.lost(4), ["to 5: request 5 skipped 1, sent before"]);
    let outputs = unreached(&mut one, 5);
    assert!(outputs[0].contains("[d--??]"), "{outputs:?}");
}

#[test]
fn one_that_refuses_is_left_out_for_its_own_reason() {
    let mut one = waiting(partial("1-5"));
    let refusal = covering(&[(Status::Failed, 1), (Status::Unreached, 1)]);
    assert_eq!(one.response(2, failed(2, Stage::Setup, refusal)), ["to 3: request 3 skipped 1"]);
    let unknown = Coverage::all(Status::Unknown, 2);
    assert_eq!(one.response(4, failed(4, Stage::Setup, unknown)), ["to 5: request 5 skipped 1, sent before"]);
    one.response(3, done(0, "1 c", 1));
    let outputs = one.response(5, done(0, "1 e", 1));
    assert!(
        outputs[0].contains("[3 1 a1 c1 e] [dfd?d] id 2 failed at stage setup: bad luck; id 4"),
        "{outputs:?}"
    );
}

#[test]
fn answers_that_do_not_fit_make_their_sender_lost() {
    for answer in [done(0, "1 b", 3), leveled(0, "0 ", "1 b"), Answer::Completed] {
        let mut one = waiting(partial("1-5"));
        assert_eq!(one.response(2, answer), ["to 3: request 3 skipped 1, sent before"]);
    }
    for answer in [done(1, "no level", 2), done(2, "0 ", 2), done(1, "3 0 0 0 ", 2)] {
        let mut one = waiting(Request { callback: Some(9), ..partial("1-5") });
        assert_eq!(one.response(2, answer), ["to 3: request 3 skipped 1, sent before"]);
    }
}

/// A child that was sent two ids failed, and reported on itself alone. That was taken as a report that it had asked no
/// child, so the id below was asked as if no other id could have asked it.
#[test]
fn a_failure_that_speaks_of_too_few_says_nothing_of_the_others() {
    let refuses = |statuses: &[(Status, u32)]| {
        let mut one = waiting(partial("1-5"));
        let cause = Cause::new(2, Stage::Setup, CauseKind::Busy, "as told");
        let failure = Failure { cause, coverage: covering(statuses) };
        one.response(2, Answer::Failed(Box::new(failure)))
    };
    assert_eq!(refuses(&[(Status::Failed, 1), (Status::Unreached, 1)]), ["to 3: request 3 skipped 1"]);
    for statuses in [&[(Status::Failed, 1)][..], &[], &[(Status::Failed, 1), (Status::Unreached, 2)]] {
        assert_eq!(refuses(statuses), ["to 3: request 3 skipped 1, sent before"], "{statuses:?}");
    }
}

/// A child that had executed failed, and the first of its two statuses was missing. The second one, of an id that had
/// not been asked, was taken for the child's own.
#[test]
fn a_failure_that_speaks_of_too_few_says_of_nobody_that_it_has_done_nothing() {
    for (statuses, told) in [(2, "[d-"), (1, "[d?")] {
        let mut one = waiting(partial("1-5"));
        let cause = Cause::new(2, Stage::Setup, CauseKind::NoMemory, "as told");
        let coverage = Coverage::all(Status::Unreached, statuses);
        one.response(2, Answer::Failed(Box::new(Failure { cause, coverage })));
        one.response(3, done(0, "1 c", 1));
        let outputs = one.response(4, done(1, "2 1 d1 e", 2));
        assert!(outputs.iter().any(|output| output.contains(told)), "{outputs:?}");
    }
}

/// A parent gave an id up and adopted its child, which executed, ended and restarted. Later the id was adopted itself,
/// and asked the child as if no other id could have asked it before: the new run executed the call again.
#[test]
fn an_adopted_id_tells_its_children_that_they_may_have_been_asked_before() {
    let mut one = old(1);
    one.request(0, adopted("1-3", 1));
    let forwarded = one.replied("a");
    assert_eq!(
        forwarded[1..],
        ["to 2: request 2 skipped 0, sent before", "to 3: request 3 skipped 0, sent before"]
    );
    let mut one = old(1);
    one.request(0, partial("1-3"));
    assert_eq!(one.replied("a")[1..], ["to 2: request 2", "to 3: request 3"]);
}

/// A child sent values that could not be read, with a good report. It was given up and its children were adopted. Then
/// both its report and theirs were counted, and the coverage had more ids than the call.
#[test]
fn what_one_that_is_given_up_reports_does_not_count() {
    let mut one = waiting(Request { callback: Some(9), ..partial("1-5") });
    one.response(2, done(1, "no level", 2));
    one.response(3, done(0, "c", 1));
    one.ran(JobResult::Replied(reply("ac")));
    one.response(4, done(0, "d", 2));
    let outputs = one.ran(JobResult::Replied(reply("acd")));
    assert!(outputs.iter().any(|output| output.contains("[d?ddd]")), "{outputs:?}");
}

#[test]
fn an_adopter_gets_the_answer_when_it_is_there() {
    let mut one = waiting(partial("1-3"));
    assert!(one.lost(0).is_empty(), "an orphan goes on");
    assert_eq!(one.request(9, adopted("1-3", 1)), ["consumed 9", "to 0: moved"]);
    one.response(2, done(0, "1 b", 1));
    let outputs = one.response(3, done(0, "1 c", 1));
    assert_eq!(outputs, ["to 9: level 1 [3 0 0 0 ] [3 1 a1 b1 c] [ddd] "]);
}

#[test]
fn an_adopter_gets_the_answer_that_was_given_and_nothing_is_executed_again() {
    let mut one = old(3);
    one.request(2, partial("3"));
    let given = one.replied("c");
    assert_eq!((one.node.calls(), one.node.retained_answers()), (0, 1));
    let again = one.request(1, adopted("3", 1));
    assert_eq!(again, ["consumed 1".into(), "to 2: moved".into(), given[1].replace("to 2", "to 1")]);
    // The parent that was given up asks late, or releases: it no longer counts.
    assert_eq!(one.request(2, partial("3")), ["consumed 2", "to 2: moved"]);
    assert!(message(&mut one, 2, Message::Release(CALL)).is_empty() && one.node.retained_answers() == 1);
    // It is not executed either for an id that stands as high, or for another slice.
    for (from, other) in [(8, adopted("3", 1)), (0, adopted("3-4", 2))] {
        let outputs = one.request(from, other);
        assert!(outputs[1].contains("second parent") && outputs[1].contains("[?"), "{outputs:?}");
    }
    assert!(message(&mut one, 1, Message::Release(CALL)).is_empty() && one.is_quiet());
    let outputs = one.request(0, adopted("3", 2));
    assert!(
        outputs[1].contains("setup (already-ended): call 0#5 has already ended here")
            && outputs[1].ends_with("[?]"),
        "{outputs:?}"
    );
}

/// A parent that was cut off forwarded late, after its parent had adopted its children. They returned to it, and their
/// answers were sent to an id without a waiting call.
#[test]
fn the_higher_parent_counts_whichever_asks_first() {
    let mut one = old(3);
    assert_eq!(one.request(1, adopted("3", 1)), ["run func"]);
    assert_eq!(one.request(2, partial("3")), ["consumed 2", "to 2: moved"]);
    assert_eq!(one.request(0, adopted("3", 2)), ["consumed 0", "to 1: moved", "consumed 1"]);
    let outputs = one.replied("c");
    assert!(outputs[0].starts_with("to 0: level 0"), "{outputs:?}");
}

#[test]
fn release_goes_down_and_drops_retained_answers() {
    let mut one = waiting(partial("1-5"));
    one.lost(4);
    one.response(2, done(1, "2 1 b1 c", 2));
    one.response(5, done(0, "1 e", 1));
    assert_eq!(one.node.retained_answers(), 1);
    assert_eq!(message(&mut one, 0, Message::Release(CALL)), ["to 2: release", "to 5: release"]);
    assert!(one.is_quiet() && one.node.retained_answers() == 0);
}

#[test]
fn the_root_releases_when_it_has_ended() {
    let mut one = old(0);
    one.start(Start { partial: true, ..start("0-2") });
    one.replied("r");
    one.response(1, done(0, "1 a", 1));
    let outputs = one.response(2, done(0, "1 b", 1));
    let end = "end 1: level 1 [3 0 0 0 ] [3 1 r1 a1 b] [ddd] ";
    assert_eq!(outputs, ["to 1: release", "to 2: release", end]);
    assert!(one.is_quiet());
}

#[test]
fn a_retained_answer_expires_with_the_time_limit_of_its_root() {
    let mut one = old(3);
    let (limit, left) = (Duration::from_secs(5), Duration::from_secs(20));
    one.request(2, Request { limit, left, ..partial("3") });
    one.replied("c");
    // Its own limit has long passed; the root's, with a small margin, has not.
    one.now += Duration::from_secs(21);
    one.feed(Input::Tick);
    assert_eq!(one.node.retained_answers(), 1);
    one.now += Duration::from_secs(1);
    one.feed(Input::Tick);
    assert!(one.node.retained_answers() == 0 && one.is_quiet());
}

/// A callback waited for a worker while its id was paused, and ran long after its call was over.
#[test]
fn what_has_waited_for_a_worker_until_its_call_was_over_does_not_run() {
    let mut one = waiting(Request { callback: Some(9), ..partial("1-5") });
    let other = CallId { sequence: 6, ..CALL };
    assert_eq!(one.request(0, Request { call: other, ..request("1") }), ["run func"]);
    assert_eq!(one.response(2, done(0, "bc", 2)), [""; 0], "the worker is taken");
    one.now += Duration::from_secs(100);
    let ran = one.feed(Input::Ran { call: other, result: JobResult::Replied(reply("x")) });
    assert_eq!(ran, ["consumed 0", "to 0: level 0 [0 ] [1 x]"]);
    let mut outputs = one.feed(Input::Tick);
    outputs.extend(one.feed(Input::Tick));
    let says =
        "id 4 failed at stage reply (time-limit): no reply came to id 1 within 60s; it still waits for [4]";
    assert_eq!(
        outputs,
        ["to 4: cancel".into(), format!("to 0: level 1 [2 0 2 0 ] [2 1 a2 bc] [ddd??] {says}")]
    );
}

/// The last reports come in time, and the callback waits for a worker until its call is over: the message names the
/// remaining work.
#[test]
fn a_callback_that_waits_until_its_call_is_over_is_blamed() {
    let mut one = waiting(Request { callback: Some(9), ..partial("1-5") });
    let other = CallId { sequence: 6, ..CALL };
    assert_eq!(one.request(0, Request { call: other, ..request("1") }), ["run func"]);
    one.expire();
    assert_eq!((one.response(2, done(0, "bc", 2)), one.response(4, done(0, "de", 2))), (vec![], vec![]));
    one.now += Duration::from_secs(100);
    one.feed(Input::Ran { call: other, result: JobResult::Replied(reply("x")) });
    let outputs = one.feed(Input::Tick);
    let blamed = "id 1 failed at stage callback (time-limit): the time limit (60s here) passed before callback merged what came last";
    assert!(outputs.last().is_some_and(|last| last.ends_with(blamed)), "{outputs:?}");
}

/// An answer arrives after the time for reports, before the node has received the new time.
#[test]
fn what_comes_when_its_call_is_over_is_not_merged() {
    let mut one = waiting(Request { callback: Some(9), ..partial("1-5") });
    one.expire();
    one.now += Duration::from_secs(100);
    assert_eq!(one.response(2, done(0, "bc", 2)), [""; 0]);
    let outputs = one.feed(Input::Tick);
    assert!(outputs.last().is_some_and(|last| last.ends_with("it still waits for [4]")), "{outputs:?}");
}

/// A node that received the time late answered a call and retained the answer, although no adopter would ask for it any
/// more. Its next deadline was in the past, and a driver that sleeps until then did not sleep.
#[test]
fn an_answer_that_is_no_longer_wanted_is_not_retained() {
    let mut one = old(3);
    one.request(2, partial("3"));
    one.now += Duration::from_secs(3600);
    assert_eq!(one.feed(Input::Tick).len(), 2, "the answer, and the credit");
    assert_eq!((one.node.calls(), one.node.retained_answers(), one.node.next_deadline()), (0, 0, None));
}

/// A process was stopped while its func ran. When it continued, all time had passed: it answered and forgot the call.
/// Then it read an old request of an adopter, and executed the call again.
#[test]
fn one_that_was_stopped_executes_nothing_again() {
    let mut one = old(3);
    one.request(2, partial("3"));
    one.now += Duration::from_secs(3600);
    one.feed(Input::Tick);
    let refused = |outputs: Vec<String>| {
        let says = "to 1: id 3 failed at stage setup (already-ended): call 0#5 has already ended here";
        outputs.len() == 2 && outputs[0] == "consumed 1" && outputs[1].starts_with(says)
    };
    assert!(refused(one.request(1, adopted("3", 1))));
    assert!(one.replied("c").is_empty() && one.is_quiet());
    // Another call ends after it, and it is remembered nevertheless.
    let other = CallId { root: 0, sequence: 9 };
    one.request(2, Request { call: other, ..partial("3") });
    one.now += Duration::from_secs(3600);
    one.feed(Input::Tick);
    assert!(refused(one.request(1, adopted("3", 1))));
}

#[test]
fn one_that_was_given_up_forgets_and_says_so() {
    let mut one = waiting(partial("1-5"));
    let outputs = message(&mut one, 2, Message::Moved(CALL));
    let says = "id 1 failed at stage link (second-parent): it was given up: id 2 has another parent";
    assert_eq!(outputs, [format!("to 0: {says} [?????]")]);
    assert!(one.is_quiet(), "and cancels nothing: its children go on for another");
    assert!(one.request(0, adopted("1-5", 1))[1].contains("already ended"));

    let mut one = waiting(partial("1-5"));
    assert!(message(&mut one, 7, Message::Moved(CALL)).is_empty() && one.node.calls() == 1, "no child of it");
    one.response(2, done(1, "2 1 b1 c", 2));
    one.response(4, done(1, "2 1 d1 e", 2));
    assert!(message(&mut one, 2, Message::Moved(CALL)).is_empty() && one.node.retained_answers() == 0);
}

#[test]
fn a_time_limit_answers_with_what_there_is() {
    let mut one = waiting(partial("1-5"));
    one.response(4, some(0, "1 d", covering(&[(Status::Done, 1), (Status::Failed, 1)])));
    let outputs = one.expire_late();
    assert!(outputs[1].starts_with(
        "to 0: level 1 [2 0 0 ] [2 1 a1 d] [d??df] id 2 failed at stage reply (time-limit): no reply came"
    ));
    assert_eq!((outputs[0].as_str(), outputs.len()), ("to 2: cancel", 2));

    let mut one = old(1);
    one.request(0, Request { forward_first: true, ..partial("1-2") });
    one.response(2, done(0, "1 b", 1));
    let outputs = one.expire();
    assert!(outputs[1].contains("[1 1 b] [fd] id 1 failed at stage func"), "{outputs:?}");
    assert!(one.replied("late").is_empty() && one.node.retained_answers() == 1);
}

/// A process was stopped for longer than a call's limit. When it continued, it handled the loss of a child first, and
/// asked the child's children with no time left to answer. When its own func ended first, it asked all of its children
/// in the same way.
#[test]
fn nobody_is_asked_when_no_time_is_left() {
    let past = |one: &mut One| one.now += Duration::from_secs(60);
    let mut one = waiting(partial("1-5"));
    past(&mut one);
    assert!(one.lost(2).is_empty(), "it waits for the report of id 4, and asks nobody");
    let outputs = one.expire();
    assert_eq!((outputs[0].as_str(), outputs.len()), ("to 4: cancel", 2), "{outputs:?}");
    assert!(outputs[1].contains("[d????] id 2 failed at stage link (link-lost)"), "{outputs:?}");
    for request in [partial("1-5"), request("1-5")] {
        let mut one = old(1);
        one.request(0, request);
        past(&mut one);
        let outputs = one.replied("a");
        assert_eq!(outputs.len(), 2, "{outputs:?}");
        assert_eq!(outputs[0], "consumed 0");
        assert!(outputs[1].starts_with("to 0: ") && outputs[1].contains("time-limit"), "{outputs:?}");
        assert_eq!(one.node.calls(), 0);
    }
}

#[test]
fn a_merged_value_whose_callback_never_ends_stays_out() {
    let mut one = waiting(Request { callback: Some(9), ..partial("1-3") });
    one.response(2, done(0, "b", 1));
    one.response(3, done(0, "c", 1));
    let outputs = one.expire();
    assert!(
        outputs[0].contains("level 1 [2 2 0 2 0 ] [2 1 b1 c] [fdd] id 1 failed at stage callback"),
        "{outputs:?}"
    );
}

/// A run of an id that may be younger than the call does not execute it; an earlier run may have.
#[test]
fn a_restarted_id_runs_no_old_call() {
    let config =
        Config { started: chained_gpc::chain::Time::from_nanos(20_000_000_000), ..Config::new(3, 5) };
    let mut one = One::with(config);
    let asked = |age| Request { age: Duration::from_millis(age), ..adopted("3-4", 1) };
    one.now = Duration::from_millis(25_000);
    let outputs = one.request(1, asked(4001));
    assert!(
        outputs[1].contains("this run of the id may have begun after the call")
            && outputs[1].ends_with("[??]")
    );
    let anew = |one: &One| {
        let mut anew = One::with(one.node.config().clone());
        anew.now = one.now;
        anew
    };
    let mut one = anew(&one);
    assert_eq!(
        one.request(1, Request { adopted: false, ..asked(4001) }),
        ["run func"],
        "nobody asked before"
    );
    let mut one = anew(&one);
    assert_eq!(one.request(1, asked(4000)), ["run func"], "it was there when the call began");
}

/// In `gpc call sleep -n 64 --partial` down a chain, id 5 was killed. Live processes below it were reported as unknown:
/// they had been started just before the call, and every hop rounds the age of the call up.
#[test]
fn the_first_run_of_an_id_takes_a_call_from_an_adopter_however_young_it_is() {
    let young = |first_run| {
        let started = chained_gpc::chain::Time::from_nanos(20_000_000_000);
        let mut one = One::with(Config { first_run, started, ..Config::new(3, 5) });
        one.now = Duration::from_millis(20_001);
        one.request(1, Request { age: Duration::from_millis(60), ..adopted("3-4", 1) })
    };
    assert_eq!(young(true), ["run func"], "nobody had the id before");
    assert!(young(false)[1].contains("this run of the id may have begun after the call"));
}

/// The data stop in the middle with the parent that sent them; with the adopter's data, func gets them whole.
#[test]
fn data_that_a_lost_parent_began_to_send_are_completed_by_its_adopter() {
    let (data, mut writer) = Body::arriving(6);
    let mut one = old(1);
    assert_eq!(one.request(0, Request { data, forward_first: true, ..partial("1-2") }), ["to 2: request 2"]);
    writer.push(b"abc");
    one.lost(0);
    let (rest, mut again) = Body::arriving(6);
    assert_eq!(one.request(9, Request { data: rest, ..adopted("1-2", 1) }), ["consumed 9", "to 0: moved"]);
    again.push(b"abcdef");
    assert_eq!(one.feed(Input::DataArrived(CALL)), ["run func"]);

    let (data, _writer) = Body::arriving(6);
    let mut one = old(1);
    one.request(0, Request { data, ..partial("1-2") });
    let outputs = one.request(9, Request { data: Body::whole("abcdef"), ..adopted("1-2", 1) });
    assert_eq!(outputs, ["consumed 9", "to 0: moved", "consumed 0", "run func"]);
}

#[test]
fn a_reply_over_the_limit_is_left_out_with_its_ids() {
    let mut one = One::with(Config { reply_max: 12, ..Config::new(1, 5) });
    one.request(0, partial("1-3"));
    one.replied("aaaa");
    one.response(2, done(0, "4 bbbb", 1));
    let outputs = one.response(3, some(1, "0 ", Coverage::all(Status::Failed, 1)));
    assert!(
        outputs[0].starts_with("to 0: level 1 [0 ] [0 ] [f?f] id 1 failed at stage reply (over-limit)"),
        "{outputs:?}"
    );
}

#[test]
fn a_split_that_is_wrong_leaves_out_those_below() {
    let split = |_: u32, groups: &mut gpc_trees::Groups| groups.push(gpc_trees::Group { start: 7, len: 1 });
    let tree = Tree::Registered(Registered::new("wrong", split).expect("a name"));
    let mut one = old(1);
    one.request(0, Request { tree: Ok(tree), ..partial("1-3") });
    let outputs = one.replied("a");
    assert!(outputs[1].contains("[0 ] [0 ] [f--] id 1 failed at stage forward"), "{outputs:?}");
}

#[test]
fn giving_up_tells_what_is_known() {
    let mut one = old(0);
    one.start(Start { partial: true, ..start("0-6") });
    one.replied("r");
    one.response(
        1,
        some(1, "1 1 a", covering(&[(Status::Done, 1), (Status::Failed, 1), (Status::Unknown, 1)])),
    );
    one.lost(4);
    let outputs = one.feed(Input::GiveUp { ticket: 1 });
    assert!(outputs[0].ends_with("[ddf????]"), "{outputs:?}");
    assert_eq!(outputs[1..], ["to 5: cancel", "to 6: cancel", "to 1: release"]);
    assert!(one.is_quiet());
}

#[test]
fn a_watching_root_is_none_of_the_ids() {
    let mut one = old(0);
    one.start(Start { partial: true, watch: true, ..start("0-2") });
    one.lost(1);
    let outputs = one.response(2, done(0, "1 b", 1));
    assert_eq!(outputs[1], "end 1: level 1 [1 0 ] [1 1 b] [?d] id 1 failed at stage link (link-lost): gone");
}

#[test]
fn no_more_answers_are_retained_than_calls_are_accepted() {
    let mut one = One::with(Config { calls_max: 2, ..Config::new(3, 5) });
    one.now = Duration::from_secs(10);
    for sequence in 5..9 {
        let call = chained_gpc::wire::CallId { sequence, ..CALL };
        one.request(2, Request { call, ..partial("3") });
        one.feed(Input::Ran { call, result: JobResult::Replied(reply("c")) });
    }
    assert_eq!(one.node.retained_answers(), 2);
    let first = one.request(1, adopted("3", 1));
    assert!(first[1].contains("already ended here"), "{first:?}");
}

#[test]
fn a_report_carries_so_many_causes_and_no_more() {
    let mut report = Report::default();
    (0..2000).for_each(|id| report.add(Cause::new(id, Stage::Func, CauseKind::Failed, "no")));
    assert_eq!((report.causes.len(), report.causes[1023].id), (1024, 1023));
    let mut all = Report::default();
    all.add(Cause::new(9, Stage::Link, CauseKind::LinkLost, "first"));
    all.append(report);
    assert_eq!((all.causes.len(), all.causes[0].id, all.causes[1023].id), (1024, 9, 1022));
}

/// A process hung and was given up. Its children were adopted, and one of them executed, died and restarted. When the
/// hanging func ended at last, its id asked them as if no other id had, and the new run executed the call again. An id
/// that has lost its parent knows that others may have asked, and its requests say so.
#[test]
fn who_has_lost_its_parent_asks_as_an_adopter_would() {
    let mut one = old(1);
    one.request(0, partial("1-3"));
    one.lost(0);
    assert_eq!(
        one.replied("a"),
        ["to 2: request 2 skipped 0, sent before", "to 3: request 3 skipped 0, sent before"]
    );
    let mut one = old(1);
    one.request(0, partial("1-3"));
    one.lost(9);
    assert_eq!(
        one.replied("a"),
        ["consumed 0", "to 2: request 2", "to 3: request 3"],
        "a stranger is nobody's parent"
    );
}

/// A run of an id refused an adopter, which then asked the ids below it. Then the request of the parent that had been
/// given up arrived, and was accepted. It was forwarded as if no other id had asked the ids below. One of them had
/// executed for the adopter and had restarted since, and executed again. Found by `gpc sim -n 24 --tree binary --calls
/// 3 --faults all --partial`.
#[test]
fn who_has_refused_an_adopter_takes_nothing_from_the_parent_that_was_given_up() {
    let started = chained_gpc::chain::Time::from_nanos(20_000_000_000);
    let young = || {
        let mut one = One::with(Config { started, ..Config::new(3, 5) });
        one.now = Duration::from_millis(20_001);
        one
    };
    let asked = |skipped| Request { age: Duration::from_millis(60), ..adopted("3-4", skipped) };
    let late = || Request { adopted: false, ..asked(0) };
    let mut one = young();
    assert!(one.request(0, asked(2))[1].contains("this run of the id may have begun after the call"));
    let outputs = one.request(2, late());
    assert!(
        outputs[1].contains("call 0#5 has already ended here") && outputs[1].ends_with("[??]"),
        "{outputs:?}"
    );
    assert_eq!(young().request(2, late()), ["run func"]);
    // The same after a refusal for another reason.
    let mut one = young();
    one.node.close();
    assert!(one.request(0, Request { adopted: false, ..asked(2) })[1].contains("shutting down"));
    let outputs = one.request(2, late());
    assert!(outputs[1].contains("has already ended here"), "{outputs:?}");
}
