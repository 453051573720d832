//! Worlds with long replies, whose heads and data arrive separately, and the faults in between.

use chained_gpc::wire::message::{Answer, Response};
use chained_gpc::wire::streaming_reply::{StreamingData, StreamingReply};
use chained_gpc::wire::{Body, Message, Payload, Stage};
use chained_gpc::{Id, Tree};
use gpc_sim::{Costs, Fault, FaultSet, LinkCost, Scenario, exhaustive, run, swarm};

use super::history::{CALL, Entry, completed, down, failed, input, judged, plan, reply, then, without};

/// The reply of four ids together exceeds a frame, that of a single id does not.
const SOME: u32 = 100_000;
/// Every reply exceeds a frame.
const ALL: u32 = 300_000;

fn clean(most: &Scenario, runs: u64) -> gpc_sim::Swarm {
    let swarm = swarm(most, runs, false);
    let shown =
        |(scenario, violations): &(Scenario, Vec<_>)| format!("{}\n  {violations:?}", scenario.replay());
    assert_eq!(swarm.failed, 0, "{}", swarm.failures.iter().map(shown).collect::<Vec<_>>().join("\n"));
    swarm
}

#[test]
fn long_replies_hold_under_all_faults() {
    for (tree, reply_bytes) in [(Tree::Chain, SOME), (Tree::Binary, SOME), (Tree::Binomial, ALL)] {
        for partial in [false, true] {
            let most = Scenario {
                calls: 3,
                faults: FaultSet::ALL,
                partial,
                reply_bytes: Some(reply_bytes),
                ..Scenario::new(12, tree.clone())
            };
            let swarm = clean(&most, 40);
            assert!(
                swarm.complete > 5 && swarm.incomplete > 5 && swarm.injected.len() > Fault::ALL.len() - 3
            );
        }
    }
}

#[test]
fn anyone_may_end_between_a_head_and_its_data() {
    for (tree, reply_bytes) in [(Tree::Chain, ALL), (Tree::Binary, SOME)] {
        for partial in [false, true] {
            let all = exhaustive(
                &Scenario { partial, reply_bytes: Some(reply_bytes), ..Scenario::new(4, tree.clone()) },
                1,
            );
            assert!(all.failed == 0 && all.worlds > 40, "{} of {} worlds", all.failed, all.worlds);
        }
    }
}

/// Heads go up one after the other and the data follow, so no id waits for data before it answers.
#[test]
fn a_head_goes_up_at_once_and_data_cost_what_they_take() {
    let link = LinkCost { latency_ns: 1000, overhead_ns: 100, gap_ns: 0, byte_ps: 1000 };
    let costs = Costs { host: link, rack: link, elsewhere: link };
    let took = |reply_bytes| {
        let report = run(&Scenario {
            costs,
            trace: true,
            reply_bytes: Some(reply_bytes),
            ..Scenario::new(4, Tree::Chain)
        });
        assert_eq!((&report.violations[..], report.calls[0].coverage.done), (&[][..], 4));
        (report.calls[0].took_ns.expect("it ends"), report.trace)
    };
    let (long, trace) = took(ALL);
    let place = |text: &str| trace.iter().position(|line| line.contains(text)).expect("it happens");
    assert!(
        place("1 -> 0: response") < place("2 -> 1: the "),
        "the answer of 1 goes up before it has the data of 2"
    );
    assert!(place("2 -> 1: the ") < place("1 -> 0: the "));
    // Three hops with one, two and three replies at 1 ns a byte.
    let bytes = 6 * u64::from(ALL);
    assert!((bytes..bytes + bytes / 20).contains(&long), "{long} ns");
}

fn head() -> Message {
    let data = Body::arriving(reply(&[1, 2]).data.len() as u64).0;
    let reply = StreamingReply { level: 1, header: Payload::new(), data: StreamingData::from(data) };
    Message::Response(Response { call: CALL, answer: Answer::Arriving(Box::new(reply)) })
}

fn data() -> Message {
    Message::Response(Response { call: CALL, answer: Answer::Reply(reply(&[2])) })
}

/// The head of id 2's reply has reached id 1, whose own head was sent; then more.
fn behind_heads(more: &[Entry]) -> Vec<Entry> {
    let functions = |id: Id| [Entry::Began(id), Entry::Ran(id, false)];
    let heads = [
        &functions(1)[..],
        &functions(2)[..],
        &[
            Entry::Sent(2, 1, data()),
            input(2),
            Entry::Received(1, 2, head()),
            Entry::Sent(1, 0, head()),
            input(1),
        ],
        more,
    ];
    then(down(plan(false)), &heads.concat())
}

fn seen(more: &[Entry]) -> Vec<&'static str> {
    judged(&behind_heads(more))
}

#[test]
fn an_answer_that_waits_for_data_is_seen() {
    assert_eq!(seen(&[]), [""; 0]);
    let history = behind_heads(&[]);
    let waits = without(history.clone(), history.len() - 2);
    assert_eq!(judged(&waits), ["progress"], "id 1 knows what its answer is");
}

#[test]
fn what_follows_a_head_is_judged() {
    let lost = [Entry::Injected(gpc_sim::Fault::Link, vec![1, 2]), Entry::LinkEnded(1, 2)];
    let up = |message| [&lost[..], &[Entry::Sent(1, 0, message), input(1)]].concat();
    assert_eq!(seen(&up(failed(2, Stage::Link))), [""; 0]);
    assert_eq!(seen(&[&lost[..], &[input(1)]].concat()), ["farewell"], "data that never come");
    assert!(seen(&up(head())).contains(&"farewell"), "a second head is no failure");

    let fails =
        [Entry::Injected(gpc_sim::Fault::Fail, vec![2]), Entry::Received(1, 2, failed(2, Stage::Func))];
    assert_eq!(seen(&[&fails[..], &[Entry::Sent(1, 0, failed(2, Stage::Func)), input(1)]].concat()), [""; 0]);
    assert_eq!(seen(&[&fails[..], &[input(1)]].concat()), ["farewell"], "a failure instead of the data");

    let cancelled = [Entry::Received(1, 0, Message::Cancel(CALL))];
    let down = [Entry::Sent(1, 2, Message::Cancel(CALL)), input(1)];
    assert_eq!(seen(&[&cancelled[..], &down].concat()), [""; 0]);
    assert_eq!(seen(&[&cancelled[..], &[input(1)]].concat()), ["farewell"], "its child goes on");
}

/// A second parent that had been refused cancelled the call without effect. The failure of a child, which goes to the
/// first parent, was taken for one too many.
#[test]
fn a_cancel_of_another_than_the_parent_ends_nothing() {
    let another = [Entry::Received(1, 2, Message::Cancel(CALL)), input(1)];
    let lost = [Entry::Injected(gpc_sim::Fault::Link, vec![1, 2]), Entry::LinkEnded(1, 2)];
    let fails = [Entry::Sent(1, 0, failed(2, Stage::Link)), input(1)];
    assert_eq!(seen(&[&another[..], &lost, &fails].concat()), [""; 0]);
}

/// A second parent had been refused, and its cancel arrived late: the reply of one child was arriving, and the other
/// child had not answered. The checker took the arriving reply for cancelled, and the failure that followed for one too
/// many.
#[test]
fn a_late_cancel_of_a_refused_parent_ends_nothing() {
    let cancelled = |by| {
        let after = [Entry::Received(1, by, Message::Cancel(CALL)), Entry::Sent(1, 0, head()), input(1)];
        let lost = [Entry::Injected(Fault::Link, vec![1, 2]), Entry::LinkEnded(1, 2)];
        let fails = [Entry::Sent(1, 0, failed(2, Stage::Link)), input(1)];
        let mut history = behind_heads(&[]);
        // Id 1 answers after the cancel.
        history.truncate(history.len() - 2);
        judged(&then(history, &[&after[..], &lost, &fails].concat()))
    };
    assert_eq!(cancelled(2), [""; 0]);
    assert!(cancelled(0).contains(&"progress"), "the parent itself wants no answer");

    let seed = 777_001_012_948;
    let scenario = Scenario { calls: 3, faults: FaultSet::ALL, seed, ..Scenario::new(8, Tree::Binary) };
    assert_eq!(run(&scenario).violations, [], "{}", scenario.replay());
}

#[test]
fn who_has_said_all_has_nothing_to_add() {
    let whole = [Entry::Received(1, 2, data()), input(1)];
    assert_eq!(seen(&whole), [""; 0]);
    let late = [Entry::Sent(1, 0, failed(2, Stage::Reply)), input(1)];
    assert_eq!(seen(&[&whole[..], &late].concat()), ["progress"], "a failure behind the last byte");
    assert!(seen(&[&whole[..], &[Entry::Sent(1, 0, completed())]].concat()).contains(&"route"), "twice");
}

#[test]
fn an_answer_before_a_child_s_head_is_seen() {
    let functions = [Entry::Began(1), Entry::Ran(1, false)];
    let early = [&functions[..], &[Entry::Sent(1, 0, head()), input(1)]].concat();
    assert!(judged(&then(down(plan(false)), &early)).contains(&"faithful"));
}
