//! Tests of the wait for the root's announcement, by a clock that the test moves.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;

use chained_gpc::{LinkKind, LocalNodes};

use super::*;

/// A clock that shows this number of milliseconds.
fn clock() -> (Clock, Arc<AtomicU64>) {
    let now = Arc::new(AtomicU64::new(0));
    let shown = Arc::clone(&now);
    (Clock::reading(move || Duration::from_millis(shown.load(Ordering::SeqCst))), now)
}

/// The other processes wait five seconds longer than the root: it announces its own time limit after that limit.
#[test]
fn a_process_waits_for_its_root_until_five_seconds_after_the_limit() {
    let (clock, now) = clock();
    let patience = patience(&clock, Duration::from_secs(120));
    let shared = Shared::default();
    let mut asked = 0;
    now.store(124_999, Ordering::SeqCst);
    let ended = shared.follow(&patience, || {
        asked += 1;
        now.store(125_000, Ordering::SeqCst);
        Ok::<(), ()>(())
    });
    assert!(matches!(ended, Following::Late));
    assert_eq!(asked, 1, "it has asked before the limit, and not after it");
    // An announcement that is there at the limit counts.
    shared.state().announced = Some(Ok("text".into()));
    let ended = shared.follow(&patience, || Err::<(), ()>(()));
    assert!(matches!(ended, Following::Announced(Ok(text)) if text == "text"));
}

/// A root that announces its failure and leaves at once must not look like one that was lost.
#[test]
fn an_announcement_that_arrives_before_the_root_leaves_counts() {
    let (clock, now) = clock();
    let patience = patience(&clock, Duration::ZERO);
    now.store(4_999, Ordering::SeqCst);
    let shared = Shared::default();
    let ended = shared.follow(&patience, || Err("gone"));
    assert!(matches!(ended, Following::Lost("gone")));
    let ended = shared.follow(&patience, || {
        shared.state().announced = Some(Err("given up".into()));
        Err("gone")
    });
    assert!(matches!(ended, Following::Announced(Err(why)) if why == "given up"));
}

/// The end of the root's call is the first sign that the root has gone: the process asks at once, and again and again
/// until another call waits.
#[test]
fn the_end_of_the_roots_call_is_asked_about_at_once() {
    let shared = Shared::default();
    let call = CallId { root: 0, sequence: 7 };
    assert!(shared.state().pending.begin(call));
    // While the call waits here, there is nothing to ask.
    assert!(matches!(shared.wait(Duration::ZERO), RootStatus::Nothing { asks: false }));
    assert!(shared.state().pending.end(call));
    // A wait for hours ends at once.
    let hours = Duration::from_secs(1 << 20);
    assert!(matches!(shared.wait(hours), RootStatus::Nothing { asks: true }));
    assert!(matches!(shared.wait(Duration::ZERO), RootStatus::Nothing { asks: true }));
    assert!(shared.state().pending.begin(call));
    assert!(matches!(shared.wait(Duration::ZERO), RootStatus::Nothing { asks: false }));
}

/// A root that announces a second time has not changed its mind, and its calls are not kept waiting any more.
#[test]
fn the_first_announcement_counts_and_no_call_waits_after_it() {
    let shared = Shared::default();
    let call = |sequence| CallId { root: 0, sequence };
    assert!(shared.admits(call(1)));
    assert!(!shared.admits(call(2)), "one call waits at a time");
    assert!(shared.state().pending.end(call(1)));
    assert!(shared.admits(call(2)));
    assert!(shared.state().pending.end(call(2)));
    shared.announce(Err("given up".into()));
    shared.announce(Ok("met".into()));
    let announced = shared.wait(Duration::ZERO);
    assert!(matches!(announced, RootStatus::Announced(Err(why)) if why == "given up"));
    assert!(!shared.admits(call(3)));
}

/// A call that was admitted just before the announcement waited until the root gave up.
#[test]
fn a_call_that_the_announcement_overtakes_is_answered_at_once() {
    let functions = Functions::new();
    let (hold, tokens) = channel();
    let hold = functions.deferring("hold", move |_, token| hold.send(token).unwrap()).unwrap();
    let nodes = LocalNodes::start(1, LinkKind::Unix, &functions).unwrap();
    let _calls = [0, 1].map(|_| nodes.root().call(Call::new(hold).ids([0])).unwrap());
    let next = || tokens.recv().unwrap();
    let (shared, first) = (Shared::default(), next());
    assert!(shared.admits(first.call()));
    assert!(shared.store(first.call(), first).is_none(), "it waits");
    let waiting = shared.state().pending.take();
    drop(waiting);
    let (shared, second) = (Shared::default(), next());
    assert!(shared.admits(second.call()));
    shared.announce(Ok("met".into()));
    assert!(shared.store(second.call(), second).is_some());
}
