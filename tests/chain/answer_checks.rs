//! A child that reports something it cannot know is named as the cause, and its answer does not count.

use chained_gpc::chain::Input;
use chained_gpc::wire::message::{Answer, Partial, SubtreeReply};
use chained_gpc::wire::{
    CallState, Cause, CauseKind, Coverage, Failure, Report, Request, Stage, Status, Straggler,
};
use gpc_trees::Id;

use super::one::{CALL, One, failed, request};

/// Node 1 of a call over 1 to 5, which waits for its children 2 (with 3) and 4 (with 5).
fn waiting(partial: bool) -> One {
    let mut one = One::new(1);
    one.now = std::time::Duration::from_secs(10);
    one.request(0, Request { partial, ..request("1-5") });
    one.replied("a");
    one
}

fn partial(header: &str, data: &str, blamed: &[Id], coverage: &[(Status, u32)]) -> Answer {
    let [header, data] = [header, data].map(|text| text.as_bytes().to_vec().into());
    let blame = |id: &Id| Cause::new(*id, Stage::Func, CauseKind::Failed, "bad luck");
    let mut report = Report { causes: blamed.iter().map(blame).collect(), ..Report::default() };
    coverage.iter().for_each(|&(status, count)| report.coverage.push(status, count));
    Answer::Partial(Box::new(Partial {
        reply: SubtreeReply { level: 1, header, data, ..SubtreeReply::default() },
        report,
    }))
}

/// A child's failure named the root, or any other id, and the caller got that as the cause.
#[test]
fn a_failure_that_blames_an_id_of_another_slice_is_the_childs_own() {
    for blamed in [0, 1, 4, 5, 6, 4_000_000_000] {
        let answer = failed(blamed, Stage::Func, Coverage::all(Status::Failed, 2));
        let lie = format!("its answer blames id {blamed}, which it was not sent to");
        let outputs = waiting(false).response(2, answer.clone());
        let said = format!("to 0: id 2 failed at stage reply (bad-reply): {lie} [d????]");
        assert!(outputs.contains(&said), "{outputs:?}");
        // A partial call continues without the child, and asks the ids below it.
        let mut one = waiting(true);
        assert_eq!(one.response(2, answer), ["to 3: request 3 skipped 1, sent before"]);
        one.response(3, partial_of_one("c"));
        let outputs = one.response(4, partial("2 0 0 ", "2 1 d1 e", &[], &[(Status::Done, 2)]));
        let last = outputs.last().expect("an answer");
        assert!(
            last.contains("[d?ddd]")
                && last.contains(&format!("id 2 failed at stage reply (bad-reply): {lie}")),
            "{last}"
        );
    }
    // Its reports on its own slice are accepted.
    for blamed in [2, 3] {
        let outputs =
            waiting(false).response(2, failed(blamed, Stage::Func, Coverage::all(Status::Failed, 2)));
        assert!(
            outputs.iter().any(|line| line.contains(&format!("id {blamed} failed at stage func"))),
            "{outputs:?}"
        );
    }
}

/// A cause of id 3 that names this id as the one that the call waited for.
fn late(straggler: Id) -> Cause {
    let straggler = Straggler::new(straggler, CallState::Func, std::time::Duration::from_secs(3));
    let mut cause = Cause::new(3, Stage::Reply, CauseKind::TimeLimit, "too late");
    cause.straggler = Some(Box::new(straggler));
    cause
}

/// A straggler is a hint: one that a child cannot know is dropped, and its answer counts.
#[test]
fn a_straggler_of_another_slice_is_dropped_from_a_cause() {
    for (straggler, said) in [(2, true), (3, true), (0, false), (1, false), (4, false), (Id::MAX, false)] {
        let text = format!("(time-limit): too late: id {straggler} has been in func for 3s");
        let check = |last: &str| {
            assert!(last.contains("id 3 failed at stage reply (time-limit): too late"), "{last}");
            assert_eq!(last.contains(&text), said, "{last}");
            assert_eq!(last.contains("has been in func"), said, "{last}");
        };
        let failure = Failure { cause: late(straggler), coverage: Coverage::all(Status::Failed, 2) };
        let failure = Answer::Failed(Box::new(failure));
        check(&waiting(false).response(2, failure.clone()).join(" "));

        let finish =
            |one: &mut One| one.response(4, partial("2 0 0 ", "2 1 d1 e", &[], &[(Status::Done, 2)]));
        let mut one = waiting(true);
        one.response(2, failure);
        one.response(3, partial_of_one("c"));
        check(&finish(&mut one).join(" "));

        let mut answer = partial("1 0 ", "1 1 b", &[3], &[(Status::Done, 1), (Status::Failed, 1)]);
        if let Answer::Partial(partial) = &mut answer {
            partial.report.causes = vec![late(straggler)];
        }
        let mut one = waiting(true);
        assert!(one.response(2, answer).is_empty());
        check(&finish(&mut one).join(" "));
    }
}

pub(crate) fn partial_of_one(data: &str) -> Answer {
    let [header, data] =
        ["0 ".to_string(), format!("{} {data}", data.len())].map(|text| text.into_bytes().into());
    let report = Report { coverage: Coverage::all(Status::Done, 1), ..Report::default() };
    Answer::Partial(Box::new(Partial {
        reply: SubtreeReply { level: 0, header, data, ..SubtreeReply::default() },
        report,
    }))
}

/// One child's reply had more parts than it had ids that were done. The caller of the partial call lost the replies of
/// all ids, and did not learn which id was at fault.
#[test]
fn a_reply_that_does_not_fit_its_coverage_loses_that_child_alone() {
    let both = [(Status::Done, 2)];
    let lies = [
        (partial("2 0 0 ", "3 1 b1 c1 d", &[], &both), "2 reply headers and 3 reply data of 2 ids"),
        (partial("1 0 ", "2 1 b1 c", &[], &both), "1 reply headers and 2 reply data of 2 ids"),
        (
            partial("2 0 0 ", "2 1 b1 c", &[], &[(Status::Done, 1), (Status::Unknown, 1)]),
            "2 reply data of 1 ids",
        ),
        (partial("2 0 0 ", "2 1 b9 c", &[], &both), "no level-n data"),
        (partial("2 0 0 ", "2 1 b1 c and more", &[], &both), "no level-n data"),
        (partial("2 0 0 ", "2 1 b1 c", &[3, 4], &both), "blames id 4"),
    ];
    for (answer, lie) in lies {
        let mut one = waiting(true);
        assert_eq!(one.response(2, answer), ["to 3: request 3 skipped 1, sent before"], "{lie}");
        one.response(3, partial_of_one("c"));
        let outputs = one.response(4, partial("2 0 0 ", "2 1 d1 e", &[], &both));
        let last = outputs.last().expect("an answer");
        assert!(
            last.contains("[d?ddd] id 2 failed at stage reply (bad-reply)") && last.contains(lie),
            "{last}"
        );
    }
}

/// The parent itself has no memory for a reply: no child reports that.
#[test]
fn what_the_parent_has_no_memory_for_is_no_lie_of_the_child() {
    for partial in [false, true] {
        let mut one = waiting(partial);
        let outputs = one.feed(Input::ReplyRefused { from: 2, call: CALL, why: "full".into() });
        match partial {
            false => {
                assert!(outputs[0].contains("id 1 failed at stage reply (no-memory): full"), "{outputs:?}")
            }
            true => assert_eq!(outputs, ["to 3: request 3 skipped 1, sent before"]),
        }
    }
}
