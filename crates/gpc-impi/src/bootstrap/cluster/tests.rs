//! Tests of the wait for the root's announcement, by a clock that the test moves.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use chained_gpc::runtime::Peers;
use chained_gpc::{LinkKind, LocalNodes, Secret};

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

/// A cluster of two processes, without a launcher: for each its node, its state and its functions.
struct Pair {
    setup: Setup,
    nodes: [(Node, Arc<Shared>, Handles); 2],
}

impl Pair {
    /// A pair whose server is at this port.
    fn new(port: u16) -> Pair {
        let methods = crate::wire::Methods { none: true, key: None };
        let secret = Secret::new(&[7; 32]).unwrap();
        let setup = Setup { server: format!("127.0.0.1:{port}"), rank: 1, methods, secret };
        let (listeners, addresses) = LinkKind::Unix.listen(0..2).unwrap();
        let peers = Peers::from(addresses);
        let mut nodes = (0..2).zip(listeners).map(|(id, listener)| {
            let (functions, shared) = (Functions::new(), Arc::<Shared>::default());
            let entry = format!("1,host,0123456789abcdef,{},127.0.0.1:{}", "7".repeat(64), 4000 + id);
            let handles = register(&functions, &entry, &shared).unwrap();
            let node = Node::builder(id).functions(&functions).peers(peers.clone()).listener(listener);
            (node.start().unwrap(), shared, handles)
        });
        Pair { setup, nodes: [nodes.next().unwrap(), nodes.next().unwrap()] }
    }

    fn part(&self, id: usize, clock: &Clock) -> Part<'_> {
        let ((node, shared, handles), limit) = (&self.nodes[id], Duration::from_secs(60));
        let (left, patience) = (clock.limit(limit), patience(clock, limit));
        Part { setup: &self.setup, shared, handles: *handles, node, count: 2, left, patience, limit }
    }
}

/// A port without a listener.
fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// The others would wait for two minutes for a root that knows already that it cannot take part.
#[test]
fn a_root_that_cannot_join_announces_why() {
    let (pair, clock) = (Pair::new(free_port()), Clock::system());
    let error = pair.part(0, &clock).lead().map(drop).unwrap_err();
    assert!(matches!(error, JoinError::Session { rank: 1, .. }), "{error}");
    let announced = pair.nodes[1].1.state().announced.clone();
    assert_eq!(announced, Some(Err(error.to_string())), "the announcement has arrived");
    let followed = pair.part(1, &clock).follow().map(drop).unwrap_err();
    assert!(matches!(followed, JoinError::GivenUp { rank: 1, why } if why == error.to_string()));
}

/// While the session goes on, a process is lost that waits for its end.
#[test]
fn a_process_that_is_lost_during_the_session_ends_it_and_is_named() {
    // It accepts connections, and does not answer.
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let Pair { setup, nodes: [root, other] } = Pair::new(server.local_addr().unwrap().port());
    let clock = Clock::system();
    let shared = other.1.clone();
    let error = thread::scope(|scope| {
        scope.spawn(move || {
            let waits = |state: &mut State| !matches!(state.pending, PendingCall::Waiting(..));
            let limit = Duration::from_secs(60);
            let waited = shared.changed.wait_timeout_while(shared.state(), limit, waits).unwrap();
            assert!(!waited.1.timed_out(), "the call of the root waits here");
            drop(waited);
            drop(other);
        });
        let (node, shared, handles) = &root;
        // The loss is noticed within milliseconds, and must not wait for this.
        let limit = Duration::from_secs(15);
        let (left, patience) = (clock.limit(limit), patience(&clock, limit));
        let part = Part { setup: &setup, shared, handles: *handles, node, count: 2, left, patience, limit };
        let error = part.lead().map(drop).unwrap_err();
        assert!(!part.left.is_over(), "the session goes on without the process: {error}");
        error
    });
    let JoinError::Lost { rank: 1, who, .. } = error else { panic!("{error}") };
    assert_eq!((who.id, who.known), (1, Some(("host".into(), std::process::id()))));
}
