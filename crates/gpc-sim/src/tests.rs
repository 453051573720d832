//! Tests of the checkers against faults that the world does not announce.

use gpc_trees::Tree;

use super::event::Event;
use super::faults::FaultSet;
use super::large::LARGE;
use super::queue::Next;
use super::scenario::Scenario;
use super::world::World;
use chained_gpc::chain::{JobResult, Reply};
use chained_gpc::wire::Message;
use chained_gpc::wire::message::{Answer, Response};

/// What to do with an event.
enum Verdict {
    Happens(Event),
    Never,
}

/// Runs a call over seven ids and passes every event to `meddle`; returns the names of the checkers that complain, each
/// once.
fn meddled(partial: bool, mut meddle: impl FnMut(Event) -> Verdict) -> Vec<&'static str> {
    let mut world = World::new(&Scenario { partial, ..Scenario::new(7, Tree::Binary) });
    while let Some((at, next)) = world.queue.pop() {
        let next = match next {
            Next::Event(event) => match meddle(event) {
                Verdict::Happens(event) => Next::Event(event),
                Verdict::Never => continue,
            },
            timer => timer,
        };
        world.step(at, next);
    }
    world.quiet();
    let mut names: Vec<&str> =
        world.checkers.violations().iter().map(|violation| violation.checker).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn to(event: &Event) -> Option<(u32, u32, &Message)> {
    match event {
        Event::Arrive(parcel) => Some((parcel.from, parcel.to, &parcel.message)),
        _ => None,
    }
}

#[test]
fn an_honest_world_has_nothing_to_hide() {
    for partial in [false, true] {
        assert_eq!(meddled(partial, Verdict::Happens), [""; 0]);
    }
}

#[test]
fn a_reply_that_is_dropped_is_missed() {
    for (partial, checkers) in [(false, &["causes"][..]), (true, &["answers", "causes"])] {
        let found = meddled(partial, |event| match to(&event) {
            Some((6, 4, Message::Response(_))) => Verdict::Never,
            _ => Verdict::Happens(event),
        });
        assert_eq!(found, checkers);
    }
}

#[test]
fn a_request_that_is_dropped_is_missed() {
    let found = meddled(false, |event| match to(&event) {
        Some((4, 5, Message::Request(_))) => Verdict::Never,
        _ => Verdict::Happens(event),
    });
    assert_eq!(found, ["causes"]);
}

#[test]
fn a_release_that_is_dropped_is_made_up_for() {
    let found = meddled(true, |event| match to(&event) {
        Some((_, _, Message::Release(_))) => Verdict::Never,
        _ => Verdict::Happens(event),
    });
    assert_eq!(found, [""; 0], "kept answers go with their time");
}

#[test]
fn a_function_whose_end_is_never_told_is_missed() {
    let found = meddled(false, |event| match event {
        Event::Ran { id: 5, .. } => Verdict::Never,
        event => Verdict::Happens(event),
    });
    assert_eq!(found, ["bounds", "causes"], "the job is left, and the call is late");
}

#[test]
fn a_reply_of_another_id_is_noticed() {
    let found = meddled(false, |event| match event {
        Event::Ran { id: 5, run, call, .. } => {
            let reply = Reply { data: super::check::part(call.call(), 6, 8), ..Default::default() };
            Verdict::Happens(Event::Ran { id: 5, run, call, result: JobResult::Replied(reply).into() })
        }
        event => Verdict::Happens(event),
    });
    assert_eq!(found, ["answers"]);
}

#[test]
fn a_function_that_fails_for_no_reason_is_noticed() {
    let found = meddled(false, |event| match event {
        Event::Ran { id: 2, run, call, .. } => Verdict::Happens(Event::Ran {
            id: 2,
            run,
            call,
            result: JobResult::Failed("no reason".into()).into(),
        }),
        event => Verdict::Happens(event),
    });
    assert_eq!(found, ["causes", "statuses"]);
}

#[test]
fn a_request_that_goes_astray_is_noticed() {
    let found = meddled(false, |event| match event {
        Event::Arrive(mut parcel) if parcel.to == 6 => {
            parcel.to = 3;
            Verdict::Happens(Event::Arrive(parcel))
        }
        event => Verdict::Happens(event),
    });
    assert!(found.contains(&"route") && found.contains(&"causes"), "{found:?}");
}

#[test]
fn an_answer_that_claims_too_little_is_noticed() {
    let found = meddled(false, |event| match event {
        Event::Arrive(mut parcel) if parcel.from == 6 => {
            if let Message::Response(Response { answer, .. }) = &mut parcel.message {
                *answer = Answer::Completed;
            }
            Verdict::Happens(Event::Arrive(parcel))
        }
        event => Verdict::Happens(event),
    });
    assert_eq!(found, ["causes", "statuses"]);
}

/// In a large world the two calls of the liveness phase took two thirds of its time, most of it in the partial call.
#[test]
fn a_large_world_is_probed_once_by_a_whole_call() {
    for seed in [1, 2] {
        let plain = Scenario::new(LARGE + 1, Tree::Binary);
        let mut world = World::new(&Scenario { seed, faults: FaultSet::ALL, ..plain });
        world.run();
        let probes: Vec<_> = world.calls.all.iter().filter(|call| call.probe).collect();
        let [probe] = &probes[..] else { panic!("there are {} probes", probes.len()) };
        assert!(probe.ended.as_ref().unwrap().1.result.is_ok());
        assert_eq!(world.checkers.violations(), []);
        assert!(!probe.plan.partial);
    }
}
