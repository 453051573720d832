//! Heartbeats in virtual time: silent peers on links that are up.

use std::time::Duration;

use chained_gpc::chain::{Config, Heartbeat, Input, JobResult, Output, PAUSE_MAX, Reply, Sizes, Start, Time};
use chained_gpc::wire::message::{Answer, Partial, SubtreeReply};
use chained_gpc::wire::{CallId, CallState, Coverage, Message, Report, Request, Stage, Status, Straggler};
use gpc_trees::{Id, IdList, Tree};

use super::model::call;
use super::one::{CALL, One, leveled, request, start};
use super::partial_check::{Misfortune, check};
use super::world::{Act, Event, World};

const EVERY: Duration = Duration::from_secs(2);
const DEAD_AFTER: Duration = Duration::from_secs(10);

fn config(me: Id) -> Config {
    let heartbeat = Some(Heartbeat { every: EVERY, dead_after: DEAD_AFTER });
    Config { heartbeat, ..Config::new(me, 5) }
}

/// The root of a call over 0 to 4, which waits for its children 1 (with 2) and 3 (with 4).
fn waiting(partial: bool) -> One {
    let mut one = One::with(config(0));
    one.now = Duration::from_secs(100);
    one.start(Start { partial, limit: Duration::from_secs(600), ..start("0-4") });
    one.replied("r");
    one
}

/// Advances time to the node's next deadline.
fn tick(one: &mut One) -> Vec<String> {
    one.expire()
}

fn pong(one: &mut One, from: Id) {
    assert!(one.feed(Input::Message { from, message: Message::Pong }).is_empty());
}

#[test]
fn a_silent_peer_is_asked_and_then_given_up() {
    let mut one = waiting(true);
    for asked in 1..=4 {
        let below = if asked == 1 { None } else { Some("to 2: ping") };
        let pings = ["to 1: ping"].into_iter().chain(below).chain(["to 3: ping"]);
        assert_eq!(tick(&mut one), pings.collect::<Vec<_>>());
        assert_eq!(one.now, Duration::from_secs(100) + asked * EVERY);
        pong(&mut one, 3);
        // It is alive.
        pong(&mut one, 2);
    }
    // Silent since the request: after ten seconds it is given up, and its child is adopted.
    assert_eq!(
        tick(&mut one),
        ["abandon 1", "to 2: request 2 skipped 1, sent before", "to 2: ping", "to 3: ping"]
    );
    assert_eq!(one.now, Duration::from_secs(110));
    // Its child is asked like the others.
    pong(&mut one, 3);
    assert_eq!(tick(&mut one), ["to 2: ping", "to 3: ping"]);
}

/// Silence was checked every two seconds and counted from the first check: it took twelve seconds to detect a stopped
/// process, instead of the promised ten.
#[test]
fn a_silent_peer_is_given_up_after_ten_seconds_whenever_it_falls_silent() {
    for last_heard_ms in (0..20_000).step_by(370) {
        let mut one = waiting(false);
        let begun = one.now;
        let last_heard = begun + Duration::from_millis(last_heard_ms);
        // Both children send something every quarter of a second; then one of them falls silent.
        let mut next = begun;
        let found = loop {
            let due = one.node.next_deadline().map(|at| Duration::from_nanos(at.as_nanos())).unwrap();
            if next < due {
                one.now = next;
                one.feed(Input::Heartbeat(3));
                if next <= last_heard {
                    one.feed(Input::Heartbeat(1));
                }
                next = if next < last_heard && last_heard < next + EVERY / 8 {
                    last_heard
                } else {
                    next + EVERY / 8
                };
                continue;
            }
            if tick(&mut one)[0] == "abandon 1" {
                break one.now;
            }
        };
        // Messages before the first check are not recorded.
        let unknown = if last_heard_ms < 2000 { EVERY } else { Duration::ZERO };
        let silent = found - last_heard;
        assert!(
            silent <= DEAD_AFTER && silent + unknown >= DEAD_AFTER,
            "{silent:?} after {last_heard_ms} ms"
        );
    }
}

/// Six megabytes were sent on a link of 200 kB/s. The questions stayed behind the data in the socket for twelve seconds
/// and more, and counted as unanswered. The peer was given up while it took the data.
#[test]
fn a_question_counts_from_when_it_has_left() {
    let mut one = waiting(false);
    assert_eq!(tick(&mut one), ["to 1: ping", "to 3: ping"]);
    assert!(one.feed(Input::PingLeft(3)).is_empty());
    one.now += Duration::from_secs(1);
    // The first one leaves seven seconds late; later ones do not matter.
    for _ in 0..3 {
        pong(&mut one, 3);
        assert_eq!(tick(&mut one), ["to 1: ping", "to 3: ping"]);
    }
    one.now = Duration::from_secs(109);
    assert!(one.feed(Input::PingLeft(1)).is_empty());
    while tick(&mut one)[0] != "abandon 1" {
        assert!(one.feed(Input::PingLeft(1)).is_empty());
        pong(&mut one, 3);
    }
    assert_eq!(one.now, Duration::from_secs(117), "eight seconds after it left");
}

/// User settings with an interval as long as the time until death.
#[test]
fn nobody_is_given_up_after_one_question() {
    let dead_after = Duration::from_secs(12);
    let heartbeat = Some(Heartbeat { every: dead_after, dead_after });
    let mut one = One::with(Config { heartbeat, ..Config::new(0, 5) });
    one.now = Duration::from_secs(100);
    one.start(Start { limit: Duration::from_secs(600), ..start("0-4") });
    one.replied("r");
    assert_eq!(tick(&mut one), ["to 1: ping", "to 3: ping"]);
    assert_eq!(tick(&mut one), ["to 1: ping", "to 3: ping"]);
    assert_eq!(tick(&mut one)[0], "abandon 1");
    assert_eq!(one.now, Duration::from_secs(112));
}

#[test]
fn a_call_that_wants_all_fails_with_the_silent_peer() {
    let mut one = waiting(false);
    (0..4).for_each(|_| {
        assert_eq!(tick(&mut one), ["to 1: ping", "to 3: ping"]);
        pong(&mut one, 3);
    });
    let outputs = tick(&mut one);
    let end = "end 1: id 1 failed at stage link (link-lost): it sent no heartbeat for 10s [d????]";
    assert_eq!(outputs, ["abandon 1", end, "to 3: cancel"]);
    assert!(one.is_quiet());
}

/// Of two children one was given up, and the only call ended with it. At that time the other was recorded as having
/// answered. The first call that asked it again, minutes later, gave it up without a question.
#[test]
fn who_was_awaited_long_ago_is_asked_before_it_is_given_up() {
    let mut one = waiting(false);
    (0..4).for_each(|_| {
        tick(&mut one);
        pong(&mut one, 3);
    });
    assert_eq!(tick(&mut one).len(), 3);
    one.now += 20 * DEAD_AFTER;
    let call = CallId { sequence: CALL.sequence + 1, ..CALL };
    one.start(Start { limit: Duration::from_secs(600), ..start("0,3-4") });
    let reply = Reply { data: b"r".to_vec(), ..Default::default() };
    one.feed(Input::Ran { call, result: JobResult::Replied(reply) });
    assert_eq!(tick(&mut one), ["to 3: ping", "to 4: ping"]);
}

#[test]
fn whatever_comes_is_a_sign_of_life() {
    let mut one = waiting(true);
    for round in 0..50 {
        let outputs = tick(&mut one);
        assert_eq!(outputs, ["to 1: ping", "to 3: ping"], "round {round}");
        pong(&mut one, 1);
        // A part of a long reply; or a PING of its own, for a call of its own.
        if round % 2 == 0 {
            assert!(one.feed(Input::Heartbeat(3)).is_empty());
            continue;
        }
        assert_eq!(one.feed(Input::Message { from: 3, message: Message::Ping }), ["to 3: pong"]);
        if one.now > Duration::from_secs(155) {
            break;
        }
    }
    assert_eq!(one.node.calls(), 1);
}

#[test]
fn nobody_is_asked_without_a_call() {
    let mut one = One::with(config(0));
    assert_eq!(one.node.next_deadline(), None);
    one.start(start("0"));
    assert!(one.node.next_deadline().is_some());
    one.replied("alone");
    assert!(one.is_quiet());
    // A node that executes and has no children sends no questions, however long it takes.
    let mut one = One::with(config(3));
    one.now = Duration::from_secs(100);
    one.request(7, Request { limit: Duration::from_secs(600), ..request("3") });
    for _ in 0..20 {
        assert!(tick(&mut one).is_empty());
    }
}

/// A node that was stopped itself finds every peer silent, because their answers wait in its sockets.
#[test]
fn a_node_that_was_stopped_itself_suspects_nobody() {
    let mut one = waiting(true);
    assert_eq!(tick(&mut one), ["to 1: ping", "to 3: ping"]);
    one.now += Duration::from_secs(30);
    assert_eq!(one.feed(Input::Tick), ["to 1: ping", "to 3: ping"]);
    // Its first input may also be one of the answers.
    one.now += Duration::from_secs(20);
    assert_eq!(one.feed(Input::Message { from: 3, message: Message::Pong }), ["to 1: ping", "to 3: ping"]);
    for _ in 0..5 {
        pong(&mut one, 3);
        tick(&mut one);
    }
    assert!(
        tick(&mut one).is_empty() || one.holds("Lost(Unknown)"),
        "it is still given up when it stays silent"
    );
}

#[test]
fn a_peer_that_comes_back_is_ignored() {
    let mut one = waiting(true);
    while tick(&mut one)[0] != "abandon 1" {
        pong(&mut one, 3);
    }
    let reply = SubtreeReply {
        level: 0,
        header: b"0 ".to_vec().into(),
        data: b"1 x".to_vec().into(),
        ..SubtreeReply::default()
    };
    let report = Report { causes: Vec::new(), coverage: Coverage::all(Status::Done, 2) };
    assert!(one.response(1, Answer::Partial(Box::new(Partial { reply, report }))).is_empty());
    assert!(one.response(1, leveled(0, "0 ", "1 x")).is_empty());
    assert!(one.lost(1).is_empty());
    assert_eq!(one.node.calls(), 1);
}

/// An interior process is stopped in the middle of a call, and continues after it was given up. By then its children
/// have another parent, and no id counts twice.
#[test]
fn a_process_that_is_stopped_is_left_out_and_comes_back_to_nothing() {
    let tree = Tree::Binary;
    for step in 1..60 {
        for (paused, resumes) in (1..7).flat_map(|id| [(id, false), (id, true)]) {
            let mut world = World::with(0..7, step as u64, Config { incarnation: 1000, ..config(0) });
            world.now = 100_000_000_000;
            let start = Start { partial: true, ..call(tree.clone(), IdList::range(0..7)) };
            world.timed = vec![(step, Event::Pause(paused))];
            world.happen(Event::Start(0, start.clone().into()));
            world.settle();
            if resumes {
                world.happen(Event::Resume(paused));
            } else {
                world.happen(Event::Kill(paused));
            }
            world.run();
            assert!(world.abandoned.iter().all(|&(_, peer)| peer == paused), "{:?}", world.abandoned);
            let events = vec![Event::Pause(paused)];
            let patience = DEAD_AFTER;
            check(&world, 0, &start, &Misfortune { events, patience, ..Misfortune::default() });
        }
    }
}

/// A network partition cut a chain in the middle of a call. Each id that was cut off was detected only after it had
/// been adopted: six of them took 52 seconds. All are asked as soon as the first one is silent.
#[test]
fn a_chain_that_is_cut_off_is_found_lost_after_one_detection() {
    for (tree, n, cut) in [
        (Tree::Chain, 8, 1..7),
        (Tree::Chain, 70, 6..70),
        (Tree::Binomial, 64, 32..64),
        (Tree::Binary, 64, 1..33),
    ] {
        for step in [3, 10, 40] {
            let mut world = World::with(0..n, step as u64, Config { incarnation: 1000, ..config(0) });
            world.now = 100_000_000_000;
            let start = Start { partial: true, ..call(tree.clone(), IdList::range(0..n)) };
            let events: Vec<Event> = cut.clone().map(Event::Pause).collect();
            world.timed = events.iter().map(|event| (step, event.clone())).collect();
            world.happen(Event::Start(0, start.clone().into()));
            world.settle();
            cut.clone().for_each(|id| world.happen(Event::Kill(id)));
            world.run();
            // The first question, the one without an answer to which the ids below are asked, and their silence.
            let patience = EVERY + DEAD_AFTER;
            check(&world, 0, &start, &Misfortune { events, patience, ..Misfortune::default() });
        }
    }
}

/// Requests of adopters are bounded in work, so one of them waited for the next tick. Just then the heartbeats were
/// sent: no answer was awaited, so the silence of all below was forgotten, and each took the full time again. Later the
/// heartbeats waited for such a request, but once only: in a longer chain, where the next id was given up at the end of
/// that wait, its silence was forgotten all the same.
#[test]
fn a_chain_that_is_cut_off_is_found_lost_although_its_adoption_is_delayed() {
    for ids in ["1-6", "1-12", "1-40"] {
        let sizes = Sizes { work: 1, batch: 1, ..Sizes::default() };
        let mut one = One::with(Config { sizes, ..config(1) });
        one.now = Duration::from_secs(100);
        let limit = Duration::from_secs(600);
        let tree = Ok(Tree::Chain);
        one.request(0, Request { partial: true, limit, left: limit, tree, ..request(ids) });
        one.replied("r");
        // Ends: each given-up id takes a few ticks.
        while one.node.calls() > 0 && one.now < Duration::from_secs(300) {
            tick(&mut one);
        }
        let given_up = ids.split_once('-').and_then(|(_, last)| last.parse().ok()).unwrap_or(u32::MAX);
        let most = Duration::from_secs(100) + DEAD_AFTER + 4 * EVERY + given_up * EVERY / 4;
        assert!(one.node.calls() == 0 && one.now <= most, "{ids}: {:?}, not {most:?}", one.now);
    }
}

/// An id that was asked because of a silent id above was forgotten when it was given up, but the record of the question
/// stayed. If the call ended with that, its name stayed as well. The simulator found this in the tables.
#[test]
fn nobody_is_kept_in_mind_when_the_last_call_has_ended() {
    for (tree, partial) in [(Tree::Chain, true), (Tree::Binary, true), (Tree::Binary, false)] {
        let mut one = One::with(config(0));
        one.now = Duration::from_secs(100);
        one.start(Start { partial, tree, limit: Duration::from_secs(600), ..start("0-4") });
        one.replied("r");
        // This loop ends: no id answers, and the call has a limit.
        while one.node.calls() > 0 {
            tick(&mut one);
            assert_eq!(one.node.leaks(), 0);
        }
    }
}

/// The node limits its questions: with a million ids below a silent one it must not open a link to each.
#[test]
fn no_more_than_64_descendants_are_asked() {
    let mut one = One::with(config(0));
    one.now = Duration::from_secs(100);
    let pings = |outputs: Vec<String>| outputs.iter().filter(|output| output.ends_with(": ping")).count();
    one.start(Start { partial: true, limit: Duration::from_secs(600), ..start("0-1000000") });
    one.replied("r");
    assert_eq!(pings(tick(&mut one)), 2);
    for _ in 0..2 {
        let outputs = tick(&mut one);
        assert!(outputs.iter().all(|output| !output.contains("request")), "{outputs:?}");
        assert_eq!(pings(outputs), 2 + 64);
    }
    // One of the two is alive, and watches the ids below it.
    pong(&mut one, 1);
    let outputs = tick(&mut one);
    assert!(!outputs.contains(&"to 2: ping".to_string()), "{outputs:?}");
    assert_eq!(pings(outputs), 2 + 64);
}

/// The event loop answers a PING while func runs.
#[test]
fn a_long_func_is_not_death() {
    let mut world = World::with(0..7, 3, Config { incarnation: 1000, ..config(0) });
    world.now = 100_000_000_000;
    world = world.plan(5, Stage::Func, Act::Hang);
    let start = Start { partial: true, ..call(Tree::Binary, IdList::range(0..7)) };
    world.happen(Event::Start(0, start.clone().into()));
    // The job ends after half a minute.
    while world.now < 130_000_000_000 {
        assert!(world.step() || world.pass_time());
    }
    assert!(world.pings.len() > 20 && world.abandoned.is_empty());
    assert!(world.end_a_hanging_job());
    world.run();
    let patience = Duration::from_secs(40);
    check(&world, 0, &start, &Misfortune { patience, ..Misfortune::default() });
}

fn pause(one: &mut One, from: Id, seconds: u64) {
    let message = Message::Pause(Duration::from_secs(seconds));
    assert!(one.feed(Input::Message { from, message }).is_empty());
}

/// Ticks until a peer is given up while the other one answers; returns that time.
fn given_up(one: &mut One) -> Duration {
    // Many more ticks than any announced pause takes.
    for _ in 0..1000 {
        if tick(one).iter().any(|output| output == "abandon 1") {
            return one.now;
        }
        pong(one, 3);
    }
    panic!("id 1 is never given up")
}

/// An application computed for a minute between two calls of `progress`, and announced it; it was given up after ten
/// seconds nevertheless.
#[test]
fn the_silence_of_an_announced_pause_does_not_count() {
    let mut one = waiting(true);
    assert_eq!(tick(&mut one), ["to 1: ping", "to 3: ping"]);
    pong(&mut one, 3);
    pause(&mut one, 1, 60);
    let back = one.now + Duration::from_secs(60);
    while one.now + EVERY < back {
        assert_eq!(tick(&mut one), ["to 3: ping"], "it has answered until then, as those below it know");
        pong(&mut one, 3);
        // Messages in flight at the announcement do not end the pause.
        assert!(one.feed(Input::Heartbeat(1)).is_empty());
    }
    // It continues, a little late, and is silent from then on.
    assert_eq!(tick(&mut one), ["to 1: ping", "to 3: ping"]);
    pong(&mut one, 3);
    pause(&mut one, 1, 0);
    let heard = one.now;
    assert_eq!(given_up(&mut one), heard + DEAD_AFTER);
}

#[test]
fn who_stays_away_for_longer_than_announced_is_given_up_counted_from_there() {
    let mut one = waiting(true);
    assert_eq!(tick(&mut one), ["to 1: ping", "to 3: ping"]);
    let announced = one.now;
    pause(&mut one, 1, 30);
    assert_eq!(given_up(&mut one), announced + Duration::from_secs(30) + DEAD_AFTER);
}

#[test]
fn a_pause_ends_with_its_word_and_counts_before_the_call_and_for_ten_minutes_at_most() {
    // It has ended: silence counts from its end.
    let mut one = waiting(true);
    pause(&mut one, 1, 300);
    pause(&mut one, 1, 0);
    assert_eq!(given_up(&mut one), Duration::from_secs(110));

    // It was announced before any call waited.
    let mut one = One::with(config(0));
    one.now = Duration::from_secs(90);
    pause(&mut one, 1, 60);
    one.now = Duration::from_secs(100);
    one.start(Start { partial: true, limit: Duration::from_secs(6000), ..start("0-4") });
    one.replied("r");
    assert_eq!(given_up(&mut one), Duration::from_secs(150) + DEAD_AFTER);

    // A peer cannot make others wait for as long as it likes.
    let mut one = One::with(config(0));
    one.now = Duration::from_secs(100);
    one.start(Start { partial: true, limit: Duration::from_secs(6000), ..start("0-4") });
    one.replied("r");
    pause(&mut one, 1, 5000);
    assert_eq!(given_up(&mut one), Duration::from_secs(100) + PAUSE_MAX + DEAD_AFTER);
}

/// Another run of an id has announced no pause.
#[test]
fn a_pause_ends_with_its_link() {
    let mut one = One::with(config(0));
    one.now = Duration::from_secs(90);
    pause(&mut one, 1, 500);
    one.feed(Input::LinkLost {
        peer: 1,
        why: "gone".into(),
        unreached: false,
        kind: chained_gpc::CauseKind::LinkLost,
    });
    one.now = Duration::from_secs(100);
    one.start(Start { partial: true, limit: Duration::from_secs(600), ..start("0-4") });
    one.replied("r");
    assert_eq!(given_up(&mut one), Duration::from_secs(110));
}

#[test]
fn a_heartbeat_does_not_outlive_its_call() {
    let mut one = waiting(true);
    tick(&mut one);
    one.feed(Input::GiveUp { ticket: 1 });
    assert!(one.is_quiet());
}

#[test]
fn a_ping_is_answered_by_a_node_without_heartbeat() {
    let mut one = One::new(4);
    assert_eq!(one.feed(Input::Message { from: 3, message: Message::Ping }), ["to 3: pong"]);
    assert!(one.is_quiet());
}

/// A peer reports that a call waits for this id.
fn report(one: &mut One, from: Id, call: CallId, id: Id) -> Vec<String> {
    let straggler = Straggler::new(id, CallState::Func, Duration::from_secs(3));
    one.feed(Input::Message { from, message: Message::Stragglers(vec![(call, straggler)]) })
}

/// With its heartbeats an id reports what the calls of the peer that asks wait for, here and below.
#[test]
fn a_heartbeat_says_what_the_calls_of_the_peer_wait_for() {
    let mut one = One::with(config(1));
    one.now = Duration::from_secs(100);
    one.request(0, Request { limit: Duration::from_secs(600), ..request("1-5") });
    one.now += Duration::from_secs(3);
    let ping = |one: &mut One, from| one.feed(Input::Message { from, message: Message::Ping });
    assert_eq!(ping(&mut one, 0), ["to 0: id 1 has been in func for 3s", "to 0: pong"]);
    assert_eq!(ping(&mut one, 7), ["to 7: pong"], "it has sent none");
    one.replied("r");
    one.now += Duration::from_secs(1);
    assert_eq!(ping(&mut one, 0), ["to 0: id 1 has waited for its children for 1s", "to 0: pong"]);
    assert!(report(&mut one, 2, CALL, 3).is_empty(), "a peer that is not asked yet");
    // In a later turn.
    one.now += Duration::from_nanos(1);
    assert_eq!(ping(&mut one, 0)[0], "to 0: id 1 has waited for its children for 1s");
    assert_eq!(tick(&mut one), ["to 2: ping", "to 4: ping"]);
    assert!(report(&mut one, 2, CALL, 3).is_empty() && report(&mut one, 4, other(CALL), 5).is_empty());
    one.now += Duration::from_secs(1);
    assert_eq!(ping(&mut one, 0)[0], "to 0: id 3 has been in func for 4s");
    // A child that does not answer counts for more than what it said before.
    assert_eq!(tick(&mut one), ["to 2: ping", "to 4: ping"]);
    one.now += Duration::from_secs(1);
    assert_eq!(ping(&mut one, 0)[0], "to 0: id 4 has sent no heartbeat for 3s");
}

fn other(call: CallId) -> CallId {
    CallId { sequence: call.sequence + 1, ..call }
}

#[test]
fn the_error_at_a_time_limit_names_what_heartbeats_have_told() {
    let mut one = waiting(false);
    assert_eq!(tick(&mut one), ["to 1: ping", "to 3: ping"]);
    let late = loop {
        assert!(report(&mut one, 1, CALL, 2).is_empty());
        for from in [1, 3] {
            pong(&mut one, from);
        }
        let outputs = tick(&mut one);
        if let Some(end) = outputs.into_iter().find(|output| output.contains("it still waits for [1, 3]")) {
            break end;
        }
    };
    // Three seconds in the last report, at the limit; part of the time for reports passes after it.
    assert!(late.contains(": id 2 has been in func for 3.1s"), "{late}");
}

/// The id that the call waits for, as its caller learns it this much later, and for how long.
fn straggler(one: &One, later: Duration) -> (Id, Duration) {
    let progress = one.node.progress(1, Time::default().plus(one.now + later)).expect("it is in flight");
    (progress.straggler.id, progress.straggler.since)
}

/// A report was kept and aged for as long as the child sent no other one, although it no longer waited for anything.
#[test]
fn a_report_counts_until_a_heartbeat_without_one() {
    let mut one = waiting(false);
    tick(&mut one);
    report(&mut one, 1, CALL, 2);
    assert_eq!(straggler(&one, Duration::ZERO), (2, Duration::from_secs(3)));
    pong(&mut one, 1);
    pong(&mut one, 3);
    // No input comes meanwhile.
    assert_eq!(straggler(&one, Duration::from_secs(5)), (2, Duration::from_secs(8)));
    tick(&mut one);
    report(&mut one, 1, CALL, 1);
    pong(&mut one, 1);
    pong(&mut one, 3);
    assert_eq!(straggler(&one, Duration::ZERO).0, 1);
    tick(&mut one);
    pong(&mut one, 1);
    pong(&mut one, 3);
    assert_eq!(straggler(&one, Duration::ZERO), (0, Duration::from_secs(6)), "it waits for its children");
}

/// A child knows only the ids of its own slice.
#[test]
fn a_report_of_an_id_that_the_child_was_not_sent_to_is_ignored() {
    let mut one = waiting(false);
    tick(&mut one);
    for (id, named) in [(0, 0), (1, 1), (2, 2), (3, 0), (4, 0), (5, 0), (Id::MAX, 0)] {
        report(&mut one, 1, CALL, id);
        assert_eq!(straggler(&one, Duration::ZERO).0, named, "a report of {id}");
    }
    // What another child reports counts, although this one has claimed to wait for longer.
    let straggler_of_4 = Straggler::new(4, CallState::Func, Duration::from_secs(1));
    let message = Message::Stragglers(vec![(CALL, straggler_of_4)]);
    one.feed(Input::Message { from: 3, message });
    assert_eq!(straggler(&one, Duration::ZERO).0, 4);
}

fn ping(one: &mut One, from: Id) -> Vec<u64> {
    let outputs: Vec<Output> =
        one.outputs(Input::Message { from, message: Message::Ping }).into_iter().collect();
    match &outputs[..] {
        [Output::Send { message: Message::Pong, .. }] => Vec::new(),
        [
            Output::Send { message: Message::Stragglers(calls), .. },
            Output::Send { message: Message::Pong, .. },
        ] => calls.iter().map(|(call, _)| call.sequence).collect(),
        _ => panic!("stragglers and a pong: {outputs:?}"),
    }
}

/// A call of this number and limit, whose function does not end.
fn running(one: &mut One, from: Id, sequence: u64, limit_s: u64) {
    let (call, limit) = (CallId { root: 0, sequence }, Duration::from_secs(limit_s));
    one.request(from, Request { call, limit, left: limit, ..request("1") });
}

/// Calls whose limits are in order hid a later one with a short limit, and the many calls of one parent hid those of
/// another.
#[test]
fn a_heartbeat_tells_of_the_calls_of_the_peer_whose_limits_pass_first() {
    let mut one = One::with(Config { calls_max: 1000, workers: 1000, ..config(1) });
    (0..300).for_each(|sequence| running(&mut one, 0, sequence, 10));
    (300..400).for_each(|sequence| running(&mut one, 9, sequence, sequence));
    running(&mut one, 9, 400, 50);
    assert_eq!(ping(&mut one, 9), [400, 300, 301, 302, 303, 304, 305, 306]);
    assert_eq!(ping(&mut one, 0), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(ping(&mut one, 7), [0; 0], "it has sent none");
}

/// Each heartbeat request cost a look at 128 calls, however many came.
#[test]
fn many_heartbeat_requests_examine_the_calls_once() {
    let mut one = One::with(Config { workers: 10, ..config(1) });
    running(&mut one, 0, 0, 600);
    assert_eq!(ping(&mut one, 0), [0]);
    assert_eq!(ping(&mut one, 0), [0; 0], "the pong behind the report answers both");
    running(&mut one, 0, 1, 600);
    one.now += EVERY / 2 - Duration::from_nanos(1);
    assert_eq!(ping(&mut one, 0), [0], "the calls are not examined again so soon");
    one.now += Duration::from_nanos(1);
    assert_eq!(ping(&mut one, 0), [0, 1]);
}
