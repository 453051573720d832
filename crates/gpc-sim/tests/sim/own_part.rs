//! Tests of the checkers of an id's duties. These are questions to the ids that it awaits, news for functions with
//! tokens, merged values, retained answers, and a true status of its own func.

use chained_gpc::wire::level::{Leveled, aggregate};
use chained_gpc::wire::message::{Answer, Merging, Partial, Response, SubtreeReply};
use chained_gpc::wire::{Failure, Message, Report, Stage, Status};
use chained_gpc::{IdList, Tree};
use gpc_sim::Fault;
use gpc_sim::check::{Carries, Held, Limits, Outcome, Plan};

use super::history::*;

const EVERY: u64 = 10_000;

/// The way down in a call with heartbeats, and then more.
fn with_heartbeat(more: &[Entry]) -> bool {
    let mut history = vec![Entry::Heartbeat(EVERY, 4 * EVERY)];
    history.extend(down(plan(false)));
    judged(&then(history, more)).contains(&"life")
}

/// An id asked no peer, which passed unnoticed: only peers that had been asked were checked.
#[test]
fn who_is_awaited_is_asked() {
    let silent = [Entry::Received(0, 1, Message::Pong), Entry::Later(4 * EVERY), input(0)];
    assert!(!with_heartbeat(&silent));
    assert!(with_heartbeat(&[&silent[..], &[Entry::Later(2 * EVERY), input(0)]].concat()));
    let heard = [Entry::Heard(0, 1), Entry::Later(2 * EVERY), input(0)];
    assert!(!with_heartbeat(&[&silent[..], &heard].concat()), "its socket has taken bytes");
}

#[test]
fn nobody_is_asked_twice_at_once_nor_given_up_whom_nobody_awaits() {
    let ping = Entry::Sent(0, 1, Message::Ping);
    let later = Entry::Later(EVERY);
    assert!(!with_heartbeat(&[ping.clone(), later.clone(), ping.clone()]));
    assert!(with_heartbeat(&[ping.clone(), ping.clone()]), "a microsecond lies between them");
    let asked = [ping.clone(), Entry::PingLeft(0, 1), later, ping, Entry::Later(2 * EVERY)];
    let lost = Entry::Injected(Fault::Partition, vec![0, 1, 2]);
    let gives_up = |before: &[Entry]| {
        [&asked[..], std::slice::from_ref(&lost), before, &[Entry::Abandoned(0, 1)]].concat()
    };
    assert!(!with_heartbeat(&gives_up(&[])));
    assert!(with_heartbeat(&gives_up(&[Entry::Sent(0, 1, Message::Cancel(CALL))])));
}

#[test]
fn who_keeps_a_token_is_told() {
    let fails = [Entry::Injected(Fault::Hang, vec![2]), Entry::Sent(2, 1, failed(2, Stage::Func))];
    let judged = |more: &[Entry]| {
        let deferred = [Entry::Ran(2, true)];
        judged(&then(down(plan(false)), &[&deferred[..], more, &fails, &[input(2)]].concat()))
            .contains(&"tokens")
    };
    assert!(judged(&[]));
    assert!(!judged(&[Entry::Stopped(2)]) && !judged(&[Entry::TokenUsed(2)]));
}

/// Whether id 1 may report these values for a partial call with a callback.
fn merged_in(values: usize, causes: &[(u32, Stage)], own: Status) -> bool {
    let plan = Plan { callback: true, ..plan(true) };
    let bytes = |value: usize| Leveled {
        level: 0,
        data: aggregate(Some(vec![value as u8; 4].into()), &[]).expect("one level").data,
    };
    let parts: Vec<Leveled> = (0..values).map(bytes).collect();
    let made = aggregate(None, &parts).expect("two levels");
    let reply = SubtreeReply {
        level: made.level,
        header: Default::default(),
        data: made.data,
        ..SubtreeReply::default()
    };
    let causes = causes.iter().map(|(id, stage)| cause(*id, *stage)).collect();
    let report = Report { causes, coverage: runs(&[(own, 1), (Status::Done, 1)]) };
    let answer = Answer::Partial(Box::new(Partial { reply, report }));
    let says = Entry::Sent(1, 0, Message::Response(Response { call: CALL, answer }));
    judged(&then(down(plan), &[says])).contains(&"merging")
}

#[test]
fn what_a_callback_can_merge_it_has() {
    assert!(merged_in(2, &[], Status::Done));
    assert!(!merged_in(1, &[], Status::Done));
    assert!(!merged_in(2, &[(1, Stage::Callback)], Status::Failed), "its callback has failed");
    assert!(!merged_in(2, &[(2, Stage::Reply)], Status::Done), "its time has passed");
}

/// Id 1 has received the answer of id 2, and has run so many functions, when it answers.
fn answers_after(functions: usize, plan: Plan, more: &[Entry]) -> bool {
    let mut history = down(plan);
    history.extend_from_slice(more);
    history.extend(std::iter::repeat_n(Entry::Began(1), functions));
    history.extend([Entry::Sent(2, 1, completed()), Entry::Received(1, 2, completed())]);
    history.push(Entry::Sent(1, 0, completed()));
    judged(&history).contains(&"merging")
}

#[test]
fn a_callback_is_called_for_each_child() {
    let calls_back = Plan { callback: true, reply_wanted: false, ..plan(false) };
    assert!(answers_after(1, calls_back.clone(), &[]), "func alone");
    assert!(!answers_after(2, calls_back.clone(), &[]));
    assert!(!answers_after(1, plan(false), &[]), "there is none");
    assert!(!answers_after(2, calls_back, &[Entry::Received(1, 2, completed())]), "said twice");
    let carries = Carries { as_they_come: true, ..Carries::default() };
    let as_they_come = Plan { callback: true, carries, ..plan(false) };
    assert!(!answers_after(1, as_they_come, &[]), "func begins more than once");
}

/// A callback that merges replies as they arrive may get them in any order, each of them once.
#[test]
fn what_is_merged_as_it_comes_is_whole() {
    let ends = |parts: &[u32], merging| {
        let carries = Carries { merging, ..Carries::default() };
        let plan = Plan { callback: true, carries, ..plan(false) };
        let data: Vec<u8> = parts.iter().flat_map(|id| id.to_le_bytes()).collect();
        let reply = SubtreeReply {
            level: 0,
            header: Default::default(),
            data: data.into(),
            ..SubtreeReply::default()
        };
        let well = Outcome { result: Ok(Some(reply)), report: None };
        let up = [Entry::Sent(2, 1, completed()), Entry::Sent(1, 0, completed()), Entry::Finished(well)];
        judged(&then(down(plan), &up)).contains(&"answers")
    };
    let (any, listed) = (Merging::AsTheyCome, Merging::InListOrder);
    assert!(!ends(&[0, 1, 2], listed) && ends(&[0, 2, 1], listed));
    assert!(!ends(&[0, 2, 1], any));
    assert!(ends(&[0, 1, 1], any) && ends(&[0, 1], any) && ends(&[0, 1, 2, 3], any));
}

#[test]
fn an_answer_to_a_partial_call_is_retained() {
    let report = Report { causes: Vec::new(), coverage: runs(&[(Status::Done, 1)]) };
    let answer = Answer::Partial(Box::new(Partial { reply: Default::default(), report }));
    let says = Entry::Sent(2, 1, Message::Response(Response { call: CALL, answer }));
    let retains = |retained_answers| {
        let held = Entry::Held(2, Held { retained_answers, ..Held::default() });
        judged(&then(down(plan(true)), &[says.clone(), held])).contains(&"bounds")
    };
    assert!(retains(0) && !retains(1));
}

#[test]
fn what_an_id_says_of_its_own_func_is_true() {
    let says = |history: Vec<Entry>, own| {
        let failure =
            Failure { cause: cause(2, Stage::Func), coverage: runs(&[(own, 1), (Status::Unknown, 1)]) };
        let answer = Answer::Failed(Box::new(failure));
        let fails = Entry::Sent(1, 0, Message::Response(Response { call: CALL, answer }));
        judged(&then(history, &[fails])).contains(&"statuses")
    };
    let begun = || then(down(plan(false)), &[Entry::Began(1)]);
    let queued = || {
        down(Plan { forward_first: true, ..plan(false) })
            .into_iter()
            .filter(|seen| !matches!(seen, Entry::Executed(1, _)))
            .collect()
    };
    assert!(says(queued(), Status::Unknown) && !says(queued(), Status::Unreached));
    assert!(!says(begun(), Status::Unknown));
    assert!(says(begun(), Status::Done), "it has not ended");
    assert!(!says(then(begun(), &[Entry::Ran(1, false)]), Status::Done));
    assert!(says(then(begun(), &[Entry::Ran(1, true)]), Status::Done), "it answers later");
    assert!(!says(then(begun(), &[Entry::Ran(1, true), Entry::TokenUsed(1)]), Status::Done));
}

#[test]
fn a_request_says_where_its_receiver_stands() {
    let elsewhere = |message: Message| match message {
        Message::Request(mut request) => {
            std::sync::Arc::make_mut(&mut request).position += 1;
            Message::Request(request)
        }
        other => other,
    };
    let history = with(down(plan(false)), 2, Entry::Sent(0, 1, elsewhere(request(1..3, FIRST_NS, 0))));
    assert!(judged(&history).contains(&"faithful"));
}

#[test]
fn whose_func_has_failed_asks_nobody_any_more() {
    let goes_on = |plan: Plan, place: usize, more: &[Entry]| {
        let mut history = down(plan);
        history.splice(place..place, [&[Entry::Failed(1)], more].concat());
        judged(&history).contains(&"faithful")
    };
    // Id 1 asks id 2 at index 6.
    assert!(goes_on(plan(false), 6, &[]));
    assert!(!goes_on(plan(false), 7, &[]), "it had asked before");
    assert!(!goes_on(plan(true), 6, &[]), "in a partial call those below may do their part");
    assert!(!goes_on(Plan { forward_first: true, ..plan(false) }, 6, &[]), "it was to ask first");
    assert!(!goes_on(plan(false), 6, &[Entry::Ended(1)]), "that was another run");
}

/// The order in which a run had asked was held against the next run of the same id.
#[test]
fn the_largest_subtree_is_asked_first_by_each_run_for_itself() {
    let plan = Plan { ids: IdList::range(0..4), tree: Tree::Binary, ..plan(false) };
    let asks = |ids: std::ops::Range<u32>| {
        let to = ids.start;
        let Message::Request(mut request) = request(ids, FIRST_NS, 0) else { unreachable!("it is one") };
        let meant = std::sync::Arc::make_mut(&mut request);
        (meant.tree, meant.total) = (Ok(Tree::Binary), 4);
        Entry::Sent(0, to, Message::Request(request))
    };
    let wrong = |more: &[Entry]| {
        let begun = vec![Entry::Started(plan.clone()), Entry::Executed(0, 0)];
        judged(&then(begun, more)).contains(&"faithful")
    };
    let (large, small) = (asks(1..3), asks(3..4));
    assert!(!wrong(&[large.clone(), small.clone()]));
    assert!(wrong(&[small.clone(), large.clone()]));
    assert!(!wrong(&[large.clone(), small, Entry::Ended(0), large]), "that was another run");
}

/// Each new reply was counted together with all earlier ones, and calls failed for want of memory although memory was
/// free.
#[test]
fn what_an_id_counts_of_its_memory_is_bounded_from_above() {
    let little = Limits { calls_max: 9, adopted_max: 9, memory_max: 99_000, ..Limits::NONE };
    let counts = |calls, memory| {
        let held = Entry::Held(1, Held { calls, memory, ..Held::default() });
        judged(&then(down(plan(false)), &[Entry::Limits(little), held])).contains(&"bounds")
    };
    // It holds one call with two ids.
    assert!(!counts(1, 4_000) && counts(1, 5_000));
    assert!(counts(0, 1), "a call that is gone has left it");
}

/// Whether the memory that id 1 counts is accepted. Id 1 has little memory, a partial call in flight with `header`
/// bytes of header, and perhaps func's reply.
fn counts(header: usize, func_has_ended: bool, memory: u64, calls: usize) -> bool {
    let little = Limits { calls_max: 9, adopted_max: 9, memory_max: 99_000, ..Limits::NONE };
    let plan = Plan { reply_bytes: 5_000, ..plan(true) };
    let Message::Request(mut request) = meant(&plan, request(1..3, FIRST_NS, 0)) else {
        unreachable!("it is one")
    };
    std::sync::Arc::make_mut(&mut request).header = vec![0; header].into();
    let asked = Entry::Received(1, 0, Message::Request(request));
    let mut history = vec![Entry::Limits(little), Entry::Started(plan), asked];
    if func_has_ended {
        let before = Held { calls, memory: memory.min(90_000), ..Held::default() };
        history.extend([Entry::Ran(1, false), Entry::Held(1, before)]);
    }
    history.push(Entry::Held(1, Held { calls, memory, ..Held::default() }));
    !judged(&history).contains(&"memory")
}

#[test]
fn what_an_id_holds_is_counted() {
    assert!(counts(3_000, false, 4_100, 1) && !counts(3_000, false, 4_000, 1), "a request");
    assert!(counts(3_000, false, 0, 0), "a call that is gone");
    assert!(counts(0, true, 6_100, 1) && !counts(0, true, 6_000, 1), "its own reply");
    assert!(counts(0, true, 98_000, 1), "there may have been no room for it");
}

/// Whole calls that had left the fast path were held beyond all limits.
#[test]
fn a_long_reply_of_a_whole_call_is_counted() {
    let little = Limits { calls_max: 9, adopted_max: 9, memory_max: 99_000, ..Limits::NONE };
    let counts = |reply_bytes, more: &[Entry], memory, calls| {
        let plan = Plan { reply_bytes, ..plan(false) };
        let asked = Entry::Received(1, 0, meant(&plan, request(1..3, FIRST_NS, 0)));
        let held = Entry::Held(1, Held { calls, memory, ..Held::default() });
        let history =
            vec![Entry::Limits(little), Entry::Started(plan), asked, Entry::Ran(1, false), held.clone()];
        !judged(&then(history, &[more, &[held]].concat())).contains(&"memory")
    };
    assert!(counts(20_000, &[], 20_000, 1) && !counts(20_000, &[], 19_000, 1));
    assert!(counts(16_000, &[], 0, 1), "the fast path counts nothing short");
    assert!(counts(20_000, &[Entry::Sent(1, 0, completed())], 0, 0), "it has answered");
}
