//! Tests of the checkers: an honest history passes, and for each doctored one the right checker complains.

use std::sync::Arc;
use std::time::Duration;

use chained_gpc::wire::message::SubtreeReply;
use chained_gpc::wire::{Body, CallId, Cause, CauseKind, Failure, Message, Report, Request, Stage, Status};
use chained_gpc::{Id, IdList, Tree};
use gpc_sim::Fault;
use gpc_sim::check::{Held, Outcome, Plan};

use super::history::*;

#[test]
fn honest_histories_pass() {
    assert_eq!(judged(&honest()), [""; 0]);
    assert_eq!(judged(&honest_partial()), [""; 0]);
}

#[test]
fn wrong_executions_are_seen() {
    assert_eq!(judged(&and(honest(), 9, Entry::Executed(2, 0))), ["execution"], "twice");
    assert_eq!(judged(&and(honest(), 9, Entry::Executed(2, 1))), ["execution"], "again after a restart");
    assert_eq!(judged(&and(honest(), 9, Entry::Executed(3, 0))), ["execution"], "an id of no list");
    let mut watched = plan(false);
    watched.watch = true;
    assert!(
        judged(&with(honest(), 0, Entry::Started(watched))).contains(&"execution"),
        "a root that watches"
    );
    let reported =
        partly(&[0, 2], &[(1, Stage::Link)], &[(Status::Done, 1), (Status::Unreached, 1), (Status::Done, 1)]);
    let history = with(honest_partial(), 11, Entry::Finished(reported));
    assert_eq!(judged(&history), [""; 0]);
    assert_eq!(
        judged(&and(history, 12, Entry::Executed(1, 0))),
        ["execution"],
        "unreached, and then it executes"
    );
}

/// A link broke, and a request that had gone over it arrived again, much later. Its receiver was a parent whose child
/// had been adopted, had executed and had restarted since. The copied request does not show the adoption, so the new
/// run executed; it could not have known better.
#[test]
fn a_copy_that_comes_late_excuses_a_new_run() {
    let again = and(honest(), 9, Entry::Executed(2, 1));
    assert_eq!(judged(&again), ["execution"]);
    assert_eq!(judged(&and(again, 1, Entry::Injected(Fault::Duplicate, vec![0, 1]))), [""; 0]);
    let twice = and(honest(), 9, Entry::Executed(2, 0));
    let twice = and(twice, 1, Entry::Injected(Fault::Duplicate, vec![0, 1]));
    assert_eq!(judged(&twice), ["execution"], "one and the same run knows");
    let asks = and(honest(), 10, Entry::Sent(1, 2, request(2..3, SECOND_NS, 0)));
    assert_eq!(judged(&asks), ["route"]);
    let copied = and(asks, 1, Entry::Injected(Fault::Duplicate, vec![0, 1]));
    assert_eq!(judged(&copied), ["route"], "one and the same run has asked already");
    assert_eq!(judged(&and(copied, 9, Entry::Ended(1))), [""; 0], "the new run asks, too");
}

#[test]
fn wrong_answers_are_seen() {
    assert_eq!(judged(&without(honest(), 8)), ["faithful", "answers"], "done without having executed");
    for ids in [&[0, 1][..], &[0, 2, 1], &[0, 1, 2, 2], &[0, 1, 3]] {
        // With other ids the level differs as well.
        assert_eq!(
            judged(&with(honest(), 13, Entry::Finished(well(ids)))).last(),
            Some(&"answers"),
            "{ids:?}"
        );
    }
    let nothing = Outcome { result: Ok(None), report: None };
    assert_eq!(judged(&with(honest(), 13, Entry::Finished(nothing))), ["answers"], "no reply");
    let garbled = SubtreeReply {
        level: 2,
        header: Default::default(),
        data: b"2 4 ab".to_vec().into(),
        ..SubtreeReply::default()
    };
    let garbled = Outcome { result: Ok(Some(garbled)), report: None };
    let no_data = with(honest(), 13, Entry::Finished(garbled));
    assert_eq!(judged(&no_data), ["answers"], "no level-n data");
    assert_eq!(judged(&and(no_data, 10, Entry::Garbled(1))), [""; 0], "which came so from below");
    let fewer = SubtreeReply {
        level: 1,
        header: Default::default(),
        data: b"2 2 ab2 cd".to_vec().into(),
        ..SubtreeReply::default()
    };
    let fewer = with(honest(), 13, Entry::Finished(Outcome { result: Ok(Some(fewer)), report: None }));
    let fewer = judged(&and(fewer, 10, Entry::Garbled(1)));
    assert!(fewer.contains(&"answers"), "of three parts there are two");
    assert!(judged(&and(honest(), 14, Entry::Finished(well(&[0, 1, 2])))).contains(&"answers"), "twice");

    let told = |causes: &[(Id, Stage)], coverage: &[(Status, u32)]| {
        judged(&with(honest_partial(), 11, Entry::Finished(partly(&[0, 2], causes, coverage))))
    };
    let lost = [(1, Stage::Link)];
    assert_eq!(told(&lost, &[(Status::Done, 1), (Status::Unknown, 1)]), ["answers"], "two of three");
    assert_eq!(told(&lost, &[(Status::Done, 3)]), ["answers"], "the dead are done");
    let left_out = partly(&[0, 0], &lost, &[(Status::Done, 1), (Status::Unknown, 2)]);
    assert_eq!(
        judged(&with(honest_partial(), 11, Entry::Finished(left_out))),
        ["answers"],
        "one that no fault touched"
    );
    let unreached = [(Status::Done, 1), (Status::Unknown, 1), (Status::Unreached, 1)];
    assert_eq!(told(&lost, &unreached), ["answers"], "unreached, and it has executed");
}

#[test]
fn wrong_causes_are_seen() {
    let failed = |history, id, stage| {
        let outcome = blamed(id, stage, &[(Status::Done, 2), (Status::Unknown, 1)]);
        judged(&with(history, 13, Entry::Finished(outcome)))
    };
    assert_eq!(failed(honest(), 2, Stage::Func), ["causes"], "no fault was injected");
    let touched = |fault| {
        let mut history = honest();
        // Replaces an observation of a node's state, which no rule needs here.
        history[10] = Entry::Injected(fault, vec![2]);
        history
    };
    assert_eq!(failed(touched(Fault::Fail), 2, Stage::Func), [""; 0]);
    assert_eq!(failed(touched(Fault::Fail), 1, Stage::Func), ["causes"], "another id");
    assert_eq!(failed(touched(Fault::Fail), 2, Stage::Callback), ["causes"], "another stage");
    assert_eq!(failed(touched(Fault::Crash), 2, Stage::Link), ["causes"], "nobody has lost its link to it");
    assert_eq!(failed(touched(Fault::Fail), 2, Stage::Link), ["causes"], "a link that stood");
    let waited = failed(touched(Fault::Hang), 1, Stage::Reply);
    assert_eq!(waited, ["limits", "progress"], "it waited for the one that hung, if not for so long");
    assert!(failed(touched(Fault::Fail), 1, Stage::Reply).contains(&"causes"), "nobody was slow");
    assert_eq!(failed(touched(Fault::GiveUp), 2, Stage::Cancelled), ["causes"], "only a root gives up");
    assert_eq!(failed(touched(Fault::Crash), 9, Stage::Link), ["causes"], "an id of no list");
    let silent = partly(&[0, 2], &[], &[(Status::Done, 1), (Status::Unknown, 1), (Status::Done, 1)]);
    assert_eq!(judged(&with(honest_partial(), 11, Entry::Finished(silent))), ["causes"], "no cause at all");
}

/// A kind that is not the fault's would make a program do the wrong thing, even with the right id and stage. So would
/// the code of another id.
#[test]
fn wrong_kinds_and_codes_are_seen() {
    let told = |fault, cause: Cause| {
        let coverage = runs(&[(Status::Done, 1), (Status::Unknown, 2)]);
        let mut history = honest();
        history[10] = Entry::Injected(fault, vec![2]);
        let failure = Failure { cause, coverage };
        judged(&with(history, 13, Entry::Finished(Outcome { result: Err(failure), report: None })))
            .contains(&"causes")
    };
    let as_kind = |stage, kind| {
        let mut other = cause(2, stage);
        other.kind = kind;
        other
    };
    assert!(!told(Fault::Fail, cause(2, Stage::Func)));
    assert!(told(Fault::Fail, cause(2, Stage::Func).with_code(-2)), "another code");
    let mut lacking = cause(2, Stage::Func);
    lacking.detail.clear();
    assert!(told(Fault::Fail, lacking), "no detail");
    assert!(told(Fault::Fail, Cause::new(2, Stage::Func, CauseKind::Failed, "as told").with_code(-3)));
    for kind in CauseKind::KNOWN.iter().copied().chain([CauseKind::from_number(60_000)]) {
        let is = |other| kind == other;
        assert_eq!(told(Fault::Fail, as_kind(Stage::Func, kind)), !is(CauseKind::Failed), "{kind}");
        assert_eq!(told(Fault::Callback, as_kind(Stage::Callback, kind)), !is(CauseKind::Failed), "{kind}");
        assert_eq!(told(Fault::Hang, as_kind(Stage::Func, kind)), !is(CauseKind::TimeLimit), "{kind}");
        assert_eq!(told(Fault::Hang, as_kind(Stage::Reply, kind)), !is(CauseKind::TimeLimit), "{kind}");
        assert_eq!(
            told(Fault::Duplicate, as_kind(Stage::Setup, kind)),
            !is(CauseKind::SecondParent),
            "{kind}"
        );
    }
    let lost = |kind| {
        let causes = vec![Cause::new(1, Stage::Link, kind, "as told")];
        let coverage = runs(&[(Status::Done, 1), (Status::Unknown, 1), (Status::Done, 1)]);
        let outcome = Outcome { result: Ok(Some(reply(&[0, 2]))), report: Some(Report { causes, coverage }) };
        judged(&with(honest_partial(), 11, Entry::Finished(outcome)))
    };
    assert_eq!(lost(CauseKind::LinkLost), [""; 0]);
    assert_eq!(lost(CauseKind::Unreachable), ["causes"], "there was a link");
    assert_eq!(lost(CauseKind::LostIncarnation), ["causes"], "no other run has come");
}

/// The parent of an id hung and was lost. An adopter asked the id when less time was left than its function took. The
/// id correctly reported that the time limit had passed. It was accused because no fault had touched it.
#[test]
fn who_is_asked_late_may_be_late() {
    let outcome = |kind| {
        let coverage = runs(&[(Status::Done, 1), (Status::Unknown, 1), (Status::Failed, 1)]);
        let causes = vec![cause(1, Stage::Link), Cause::new(2, Stage::Func, kind, "as told")];
        Outcome { result: Ok(Some(reply(&[0]))), report: Some(Report { causes, coverage }) }
    };
    let told = |kind| {
        let history = judged(&with(honest_partial(), 11, Entry::Finished(outcome(kind))));
        history.contains(&"causes")
    };
    assert!(!told(CauseKind::TimeLimit));
    assert!(told(CauseKind::Failed), "a failure of its own has another reason");
}

#[test]
fn requests_that_say_what_nobody_meant_are_seen() {
    let altered = |alter: fn(&mut Request)| {
        let Message::Request(request) = request(1..3, FIRST_NS, 0) else { unreachable!("a request") };
        let mut request = Request::clone(&request);
        alter(&mut request);
        judged(&with(honest(), 2, Entry::Sent(0, 1, Message::Request(Arc::new(request)))))
    };
    assert_eq!(altered(|_| {}), [""; 0]);
    let alterations: [fn(&mut Request); 9] = [
        |request| request.reply_wanted = false,
        |request| request.callback = Some(9),
        |request| request.partial = true,
        |request| request.forward_first = true,
        |request| request.tree = Ok(Tree::Flat),
        |request| request.tree = Err(77),
        |request| request.data = Body::whole("more"),
        |request| request.left = Duration::from_nanos(LIMIT_NS - 1),
        |request| request.age = Duration::from_nanos(1),
    ];
    for (number, alter) in alterations.into_iter().enumerate() {
        assert_eq!(altered(alter), ["faithful"], "alteration {number}");
    }
}

#[test]
fn what_comes_before_its_time_is_seen() {
    let mut early = honest();
    early.swap(1, 2);
    assert_eq!(judged(&early), ["faithful"], "forwarded before it was executed");
    let mut first = honest();
    first[0] = Entry::Started(Plan { forward_first: true, ..plan(false) });
    assert!(judged(&first).contains(&"faithful"), "its requests do not say so");
    let mut hasty = honest();
    hasty.swap(11, 12);
    assert_eq!(judged(&hasty), ["faithful"], "answered before its child");
}

#[test]
fn wrong_routes_are_seen() {
    let sent = |place, from, to, message| judged(&with(honest(), place, Entry::Sent(from, to, message)));
    assert!(sent(2, 0, 2, request(2..3, FIRST_NS, 0)).contains(&"route"), "past a parent that lives");
    assert!(sent(2, 0, 1, request(1..2, FIRST_NS, 0)).contains(&"route"), "another slice");
    assert!(sent(2, 0, 1, request(1..3, LIMIT_NS + 1_000, 0)).contains(&"route"), "a limit that grows");
    assert!(sent(6, 2, 1, request(1..3, SECOND_NS, 0)).contains(&"route"), "from child to parent");
    assert!(sent(11, 2, 0, completed()).contains(&"route"), "an answer past the parent");
    assert!(sent(6, 1, 3, request(3..4, SECOND_NS, 0)).contains(&"route"), "to an id of no list");
    let more = |place, seen| judged(&and(honest(), place, seen));
    assert_eq!(more(3, Entry::Sent(0, 1, request(1..3, FIRST_NS, 0))), ["route"], "a second request");
    assert_eq!(more(12, Entry::Sent(2, 1, completed())), ["route"], "a second answer");
    assert_eq!(more(12, Entry::Sent(0, 2, Message::Cancel(CALL))), ["route"], "a cancel to a grandchild");
    assert_eq!(more(14, Entry::Sent(0, 2, Message::Release(CALL))), ["route"], "a release to a grandchild");
    let moved = more(2, Entry::Sent(1, 0, Message::Moved(CALL)));
    assert_eq!(moved, ["route", "parents"], "moved from one who never asked");
    let nameless = CallId { sequence: 8, ..CALL };
    assert_eq!(
        more(2, Entry::Sent(0, 1, Message::Cancel(nameless))),
        ["route"],
        "a call that nobody started"
    );
    let adopts = Entry::Sent(0, 2, request(2..3, SECOND_NS, 0));
    assert!(judged(&with(honest_partial(), 6, adopts)).contains(&"route"), "an adopter that does not say so");
    let adopts = Entry::Sent(0, 2, request(2..3, SECOND_NS, 1));
    assert!(judged(&and(honest(), 9, adopts)).contains(&"route"), "adoption in a call that is not partial");
}

#[test]
fn what_is_out_of_bounds_is_seen() {
    let holds = |held| judged(&with(honest(), 10, Entry::Held(2, held)));
    assert_eq!(
        holds(Held { calls: 2, ..Held::default() }),
        ["bounds", "limits"],
        "more calls than there are"
    );
    assert_eq!(
        holds(Held { retained_answers: 2, ..Held::default() }),
        ["bounds", "farewell"],
        "more answers than calls"
    );
    assert_eq!(holds(Held { jobs: 3, ..Held::default() }), ["bounds", "jobs"], "more jobs than workers");
    assert_eq!(holds(Held { links: 1, ..Held::default() }), ["bounds"], "there is no link");
    assert_eq!(holds(Held { strays: 1, ..Held::default() }), ["bounds"], "what belongs to nothing");
    for left in [
        Held { calls: 1, ..Held::default() },
        Held { retained_answers: 1, ..Held::default() },
        Held { jobs: 1, ..Held::default() },
        Held { deadline: true, ..Held::default() },
    ] {
        assert_eq!(judged(&with(honest(), 14, Entry::Quiet(vec![(1, left)]))), ["bounds"], "{left:?}");
    }
    assert_eq!(judged(&without(honest(), 9)), ["credit"], "a request never consumed");
    assert_eq!(judged(&and(honest(), 9, Entry::Consumed(2, 1))), ["credit"], "a request consumed twice");
    let lost = with(honest(), 9, Entry::LinkEnded(2, 1));
    assert_eq!(judged(&lost), [""; 0], "nothing is owed on a link that is lost");
    assert_eq!(judged(&without(honest(), 13)), ["bounds"], "a call that never ends");
    assert_eq!(judged(&with(honest(), 13, Entry::Ended(0))), [""; 0], "its root did not live to see the end");
    let mut hurried = plan(false);
    hurried.limit_ns = 5_000;
    let mut late = with(honest(), 0, Entry::Started(hurried));
    late.insert(13, Entry::Later(110_000_000));
    assert!(judged(&late).contains(&"bounds"), "past its limit and the time for reports");
}

#[test]
fn a_failure_that_is_not_passed_on_is_seen() {
    let failure = || failed(2, Stage::Func);
    let up = |passed: Message| {
        let told = [
            Entry::Injected(Fault::Fail, vec![2]),
            Entry::Sent(2, 1, failure()),
            input(2),
            Entry::Received(1, 2, failure()),
            Entry::Sent(1, 0, passed),
            input(1),
        ];
        then(down(plan(false)), &told)
    };
    assert_eq!(judged(&up(failure())), [""; 0]);
    let history = up(failure());
    assert_eq!(judged(&without(history.clone(), history.len() - 2)), ["farewell"], "it waits");
    assert_eq!(judged(&up(failed(1, Stage::Func))), ["farewell"], "another id is blamed");
    assert_eq!(judged(&up(failed(2, Stage::Reply))), ["farewell"], "another stage is blamed");
    assert_eq!(judged(&up(completed())), ["faithful", "farewell"], "all is said to be well");
}

#[test]
fn a_call_that_goes_on_without_being_wanted_is_seen() {
    let given_up = blamed(0, Stage::Cancelled, &[(Status::Done, 1), (Status::Unknown, 2)]);
    let cancel = || Message::Cancel(CALL);
    let told = [
        Entry::Injected(Fault::GiveUp, vec![0]),
        Entry::GivenUp,
        Entry::Finished(given_up),
        Entry::Sent(0, 1, cancel()),
        input(0),
        Entry::Received(1, 0, cancel()),
        Entry::Sent(1, 2, cancel()),
        input(1),
    ];
    let history = then(down(plan(false)), &told);
    assert_eq!(judged(&history), [""; 0]);
    let place = |back: usize| history.len() - back;
    assert_eq!(judged(&without(history.clone(), place(6))), ["farewell"], "the caller has given up");
    assert_eq!(judged(&without(history.clone(), place(5))), ["farewell"], "the root tells nobody");
    assert_eq!(judged(&without(history.clone(), place(2))), ["farewell"], "a cancel stays where it is");
    assert_eq!(
        judged(&then(history.clone(), &[Entry::Sent(1, 0, failed(1, Stage::Func))])),
        ["farewell", "progress"],
        "it answers"
    );
    let late = without(then(down(Plan { forward_first: true, ..plan(false) }), &told), 5);
    assert_eq!(judged(&late), [""; 0]);
    assert_eq!(judged(&then(late, &[Entry::Executed(1, 0)])), ["farewell"], "it executes");
    let orphaned = [Entry::LinkEnded(1, 0), Entry::Sent(1, 2, cancel()), input(1)];
    let orphaned = then(down(plan(false)), &orphaned);
    assert_eq!(judged(&orphaned), [""; 0]);
    assert_eq!(judged(&without(orphaned.clone(), orphaned.len() - 2)), ["farewell"], "its parent is lost");
}

#[test]
fn a_link_that_is_lost_for_nothing_is_seen() {
    let told = [
        Entry::Injected(Fault::Link, vec![1, 2]),
        Entry::LinkEnded(1, 2),
        Entry::Sent(1, 0, failed(2, Stage::Link)),
        input(1),
    ];
    let history = then(down(plan(false)), &told);
    assert_eq!(judged(&history), [""; 0]);
    assert_eq!(judged(&without(history.clone(), history.len() - 2)), ["farewell"], "it waits on");
    let adopts = request(2..3, SECOND_NS - 9_000, 1);
    let told = [
        Entry::Injected(Fault::Link, vec![0, 1]),
        Entry::LinkEnded(0, 1),
        Entry::Sent(0, 2, adopts),
        input(0),
    ];
    let history = then(down(plan(true)), &told);
    assert_eq!(judged(&history), [""; 0]);
    assert_eq!(judged(&without(history.clone(), history.len() - 2)), ["farewell"], "nobody adopts");
    let moved =
        [Entry::Received(1, 2, Message::Moved(CALL)), Entry::Sent(1, 0, failed(1, Stage::Link)), input(1)];
    let moved = then(history, &moved);
    assert_eq!(judged(&moved), [""; 0]);
    assert_eq!(
        judged(&without(moved.clone(), moved.len() - 2)),
        ["farewell"],
        "it waits for those that have moved"
    );
}

#[test]
fn a_release_that_does_not_come_or_comes_too_early_is_seen() {
    let up = |from: Id, to: Id| {
        [Entry::Sent(from, to, completed()), input(from), Entry::Received(to, from, completed())]
    };
    let release = |from: Id, to: Id| {
        [
            Entry::Sent(from, to, Message::Release(CALL)),
            input(from),
            Entry::Received(to, from, Message::Release(CALL)),
        ]
    };
    let all = partly(&[0, 2, 1], &[], &[(Status::Done, 3)]);
    let mut whole = plan(true);
    whole.callback = true;
    let mut history = down(whole);
    history.extend(up(2, 1).into_iter().chain(up(1, 0)));
    let early = then(history.clone(), &release(1, 2));
    history.push(Entry::Finished(all));
    history.extend(release(0, 1).into_iter().chain(release(1, 2)));
    history.push(input(2));
    let reply = SubtreeReply {
        level: 0,
        header: Default::default(),
        data: [0u32, 1, 2].map(u32::to_le_bytes).concat().into(),
        ..SubtreeReply::default()
    };
    let place = history.iter().position(|seen| matches!(seen, Entry::Finished(_))).unwrap();
    let report = Report { causes: Vec::new(), coverage: runs(&[(Status::Done, 3)]) };
    history[place] = Entry::Finished(Outcome { result: Ok(Some(reply)), report: Some(report) });
    assert_eq!(judged(&history), [""; 0]);
    assert_eq!(judged(&without(history.clone(), place + 1)), ["farewell"], "the root does not release");
    assert_eq!(judged(&without(history, place + 4)), ["farewell"], "a release stays where it is");
    assert_eq!(judged(&early), ["farewell"], "before the root has what it needs");
}

#[test]
fn who_waits_for_nothing_is_seen() {
    let after = |more: &[Entry]| judged(&then(down(plan(false)), more));
    let answer = Entry::Sent(2, 1, completed());
    assert_eq!(after(&[Entry::Began(2), Entry::Ran(2, false), answer.clone(), input(2)]), [""; 0]);
    assert_eq!(
        after(&[Entry::Began(2), Entry::Ran(2, false), input(2)]),
        ["progress"],
        "a leaf that is through"
    );
    assert_eq!(
        after(&[Entry::Began(1), Entry::Ran(1, false), input(1)]),
        [""; 0],
        "its child has not answered"
    );
    let deferred = [Entry::Began(2), Entry::Ran(2, true), input(2)];
    assert_eq!(after(&deferred), [""; 0]);
    assert_eq!(
        after(&then(deferred.to_vec(), &[Entry::TokenUsed(2), input(2)])),
        ["progress"],
        "its token is used"
    );
    let lost = [
        Entry::Began(1),
        Entry::Ran(1, false),
        input(1),
        Entry::Injected(Fault::Link, vec![1, 2]),
        Entry::LinkEnded(1, 2),
        input(1),
    ];
    assert!(after(&lost).contains(&"progress"), "its child is lost");
}

/// A func takes its data as they arrive, first from id 1 and then from an adopter.
#[test]
fn who_has_all_data_goes_on() {
    let takes = Entry::Took(2);
    let after = |more: &[Entry]| judged(&then(down(plan(true)), more)).contains(&"progress");
    let begun = [Entry::Began(2), takes, input(2)];
    assert!(!after(&begun), "more is to come");
    let came = |from| then(begun.to_vec(), &[Entry::DataCame(2, from)]);
    assert!(after(&then(came(1), &[input(2)])));
    assert!(!after(&then(came(1), &[Entry::Began(2), input(2)])));
    assert!(!after(&then(came(0), &[input(2)])), "nobody answers that one");
    let adopts = meant(&plan(true), request(2..3, SECOND_NS, 1));
    let adopted = [Entry::LinkEnded(2, 1), Entry::Received(2, 0, adopts.clone()), input(2)];
    let adopted = then(begun.to_vec(), &adopted);
    assert!(!after(&adopted));
    assert!(after(&then(adopted, &[Entry::DataCame(2, 0), input(2)])));
    let again = [Entry::LinkEnded(2, 1), Entry::Received(2, 1, adopts), Entry::DataCame(2, 1), input(2)];
    assert!(!after(&then(begun.to_vec(), &again)), "a request that comes again brings nothing");
}

#[test]
fn too_many_functions_and_too_few_answers_are_seen() {
    let after = |more: &[Entry]| judged(&then(down(plan(false)), more));
    assert_eq!(after(&[Entry::Began(2), Entry::Began(2)]), ["progress"], "two of one call");
    assert_eq!(
        after(&[Entry::Began(1), Entry::Began(1), input(1)]),
        ["progress"],
        "more than there are workers"
    );
    let quiet = Entry::Quiet(vec![(0, Held::default())]);
    assert!(after(std::slice::from_ref(&quiet)).contains(&"progress"), "nobody answers");
    let gone = [Entry::LinkEnded(1, 0), Entry::LinkEnded(2, 1), quiet];
    assert!(!after(&gone).contains(&"progress"), "nobody waits for an answer");
}

#[test]
fn signs_of_life_are_judged() {
    let (ping, pong) = (|| Message::Ping, || Message::Pong);
    let asked =
        |seen: &[Entry]| judged(&then(then(vec![Entry::Heartbeat(6_000, 9_000)], &down(plan(false))), seen));
    assert_eq!(asked(&[Entry::Sent(1, 2, ping())]), [""; 0]);
    assert_eq!(
        judged(&then(down(plan(false)), &[Entry::Sent(1, 2, ping())])),
        ["life"],
        "none are asked for"
    );
    assert_eq!(asked(&[Entry::Sent(2, 1, ping())]), ["life"], "it asked it nothing");
    let answered = [
        Entry::Sent(2, 1, completed()),
        input(2),
        Entry::Received(1, 2, completed()),
        Entry::Sent(1, 0, completed()),
        input(1),
    ];
    assert_eq!(asked(&answered), [""; 0]);
    assert_eq!(asked(&then(answered.to_vec(), &[Entry::Sent(1, 2, ping())])), ["life"], "it has answered");

    let silence = [Entry::Sent(1, 2, ping()), Entry::PingLeft(1, 2), Entry::Sent(1, 2, ping()), input(2)];
    let lost = [
        Entry::Injected(Fault::Pause, vec![2]),
        Entry::Abandoned(1, 2),
        Entry::Sent(1, 0, failed(2, Stage::Link)),
        input(1),
    ];
    assert_eq!(asked(&then(silence.to_vec(), &lost)), [""; 0]);
    let heard = then(silence.to_vec(), &[Entry::Received(1, 2, pong())]);
    assert_eq!(asked(&then(heard, &lost)), ["life"], "it was heard a moment ago");
    let long = then(silence.to_vec(), &silence);
    assert_eq!(asked(&then(long, &[Entry::Sent(1, 2, ping())])), ["life"], "it should have been given up");
    assert_eq!(asked(&[Entry::Abandoned(0, 2)]), ["life"], "a stranger is given up");
    let hasty = with(silence.to_vec(), 2, input(2));
    assert_eq!(asked(&then(hasty, &lost)), ["life"], "asked once alone");
    let questioned = [Entry::Received(2, 1, ping()), Entry::Sent(2, 1, pong()), input(2)];
    assert_eq!(asked(&questioned), [""; 0]);
    assert_eq!(asked(&without(questioned.to_vec(), 1)), ["life"], "no heartbeat");
}

/// Silence during an announced pause does not count; silence after it does.
#[test]
fn announced_pauses_are_judged() {
    let of = |seen: &[Entry]| {
        let begins = [Entry::Received(1, 2, Message::Pause(Duration::from_nanos(PAUSE_NS)))];
        let begins = then(then(vec![Entry::Heartbeat(6_000, 9_000)], &down(plan(false))), &begins);
        judged(&then(then(begins, &[Entry::Injected(Fault::Announced, vec![2])]), seen))
    };
    const PAUSE_NS: u64 = 50_000;
    let (ping, over) = (|| Entry::Sent(1, 2, Message::Ping), Entry::Later(PAUSE_NS));
    let asked = |first: Entry| [first, ping(), Entry::PingLeft(1, 2), ping(), input(2)];
    let lost = [Entry::Abandoned(1, 2), Entry::Sent(1, 0, failed(2, Stage::Link)), input(1)];
    assert_eq!(of(&[ping()]), ["life"], "it has said that it does not answer");
    assert_eq!(of(&lost), ["life"], "it has said so");
    assert_eq!(of(&then(asked(over.clone()).to_vec(), &lost)), [""; 0], "it stays away for longer");
    let back = Entry::Received(1, 2, Message::Pause(Duration::ZERO));
    assert_eq!(of(&then(asked(back.clone()).to_vec(), &lost)), [""; 0], "it is back, and silent again");
    let heard = then(asked(over).to_vec(), &[back]);
    assert_eq!(of(&then(heard, &lost)), ["life"], "it has come back a moment ago");
    let gone = [Entry::LinkEnded(1, 2), Entry::Sent(1, 0, failed(2, Stage::Link)), input(1)];
    assert_eq!(of(&gone), [""; 0], "its link is lost, whatever it has said");
}

#[test]
fn names_of_calls_are_used_once_and_their_lists_are_trees() {
    let again = and(honest(), 1, Entry::Started(plan(false)));
    assert!(judged(&again).contains(&"book"), "two calls have one name");
    let uneven = Tree::Explicit(gpc_trees::Shape::from_sizes(vec![2, 1]).unwrap());
    let tree = Entry::Started(Plan { tree: uneven, ..plan(false) });
    assert_eq!(judged(&[tree]), ["book"], "a shape of two ids for three");
}

#[test]
fn trees_are_what_their_names_promise() {
    for name in [
        "binary",
        "binomial",
        "kary:1",
        "kary:3",
        "kary:8",
        "knomial:3",
        "chain",
        "flat",
        "loggp:1",
        "loggp:2.5",
        "loggp:7",
    ] {
        let tree = name.parse::<gpc_trees::TreeName>().unwrap().built_in().unwrap();
        for n in 1..200 {
            let started = Plan { ids: IdList::range(0..n), tree: tree.clone(), ..plan(false) };
            assert_eq!(judged(&[Entry::Started(started)]), [""; 0], "{name} over {n}");
        }
    }
}
