//! Events about the peers of a node: links that come up and are lost.

use std::thread;
use std::time::Duration;

use chained_gpc::runtime::{EVENTS_MAX, Events, Listener, Loss, NoEvent, PeerEvent, PeerEventKind};
use chained_gpc::{Call, CallError, Functions, Heartbeat, Id, LinkKind, Node, Peer, Stage, Tree};

use super::common::{
    LIMIT, LISTENING, assert_cause, assert_who, cause_of, end_of, hold, ids, limited, replies_of, who,
};
use super::membership::{alone, peer};
use super::raw::{EARLY, RawPeer, call, listening, node};

fn next(events: &Events) -> PeerEvent {
    events.recv_within(LIMIT).expect("an event comes")
}

/// Expects the next event to be that this link is up; returns the incarnation of its peer.
fn up(events: &Events, id: Id) -> u64 {
    let event = next(events);
    assert_eq!((event.id, &event.kind), (id, &PeerEventKind::Up), "{event:?}");
    event.incarnation
}

/// Expects the next event to be that the link with this run is lost in this way.
fn lost(events: &Events, id: Id, incarnation: u64, how: Loss) -> String {
    match next(events) {
        PeerEvent { kind: PeerEventKind::Lost { loss, reason }, id: of, incarnation: run, .. } => {
            assert_eq!((of, run, loss), (id, incarnation, how), "{reason}");
            reason
        }
        other => panic!("it is to be lost, but: {other:?}"),
    }
}

#[test]
fn runs_of_an_id_come_and_leave_in_order() {
    limited(|| {
        for link in LISTENING {
            let functions = Functions::new();
            let who = who(&functions);
            let root = alone(0, link, &functions);
            let events = root.events().unwrap();
            let mut runs = Vec::new();
            for _ in 0..3 {
                let one = alone(1, link, &functions);
                root.learn(peer(&one)).unwrap();
                assert_eq!(events.try_recv(), Err(NoEvent::Yet));
                assert_who(&replies_of(root.call(Call::new(who).ids(0..2)).unwrap()), &[0, 1], "");
                let run = up(&events, 1);
                one.shutdown(LIMIT);
                let reason = lost(&events, 1, run, Loss::Left);
                assert!(reason.contains("the node was shut down"), "{reason}");
                runs.push(run);
                // A failed connection is not an event of a link.
                let cause = cause_of(root.call(Call::new(who).ids(0..2)).unwrap());
                assert_cause(&cause, 1, Stage::Link, "cannot connect to");
            }
            runs.dedup();
            assert_eq!(runs.len(), 3, "each run has its own incarnation");
            assert_eq!((events.try_recv(), events.missed()), (Err(NoEvent::Yet), 0));
            root.shutdown(LIMIT);
            assert_eq!(events.recv_within(LIMIT), Err(NoEvent::Ended));
        }
    });
}

#[test]
fn each_way_to_lose_a_link_has_its_name() {
    limited(|| {
        let functions = Functions::new();
        let node = node(1, &functions, []);
        let events = node.events().unwrap();
        let greet = |run: u64, generation| {
            let peer = RawPeer::greet(&node, 7, run, generation);
            assert_eq!(up(&events, 7), run);
            peer
        };
        // It ends without a goodbye, or with one, or breaks the protocol.
        drop(greet(1, 1));
        lost(&events, 7, 1, Loss::Broken);
        greet(2, 1).goodbye();
        lost(&events, 7, 2, Loss::Left);
        greet(3, 1).bytes(&[0xff; 8]);
        lost(&events, 7, 3, Loss::Broken);
        // It reconnects; another run of it connects while it does not answer.
        let old = greet(4, 1);
        let new = greet_after(&node, &events, 4, 2, 4);
        let newer = greet_after(&node, &events, 5, 1, 4);
        drop((old, new));
        // This side ends it.
        node.forget(7).unwrap();
        lost(&events, 7, 5, Loss::Forgotten);
        drop(newer);
        assert_eq!(events.try_recv(), Err(NoEvent::Yet));
    });
}

/// A connection of id 7 that replaces another one.
fn greet_after(node: &Node, events: &Events, run: u64, generation: u32, before: u64) -> RawPeer {
    let mut peer = RawPeer::connect(node);
    peer.hello(7, 1, run, generation);
    lost(events, 7, before, Loss::Replaced);
    peer.expect_hello();
    assert_eq!(up(events, 7), run);
    peer
}

#[test]
fn a_peer_is_told_that_it_was_forgotten_or_that_it_is_silent() {
    limited(|| {
        let functions = Functions::new();
        let (hold, held) = hold(&functions);
        let root = alone(0, LinkKind::Unix, &functions);
        let one = alone(1, LinkKind::Unix, &functions);
        let heard = one.events().unwrap();
        root.learn(peer(&one)).unwrap();
        root.wait_for_peers(1..2, LIMIT).unwrap();
        let run = up(&heard, 0);
        root.forget(1).unwrap();
        let reason = lost(&heard, 0, run, Loss::Closed);
        assert!(reason.contains("id 0 was told to forget id 1"), "{reason}");

        // It listens, sends a hello, and nothing more.
        let (listener, address) = super::raw::listener();
        let heartbeat = Some(Heartbeat::dead_after(Duration::from_millis(200)));
        let asks = listening(Node::builder(3).functions(&functions).heartbeat(heartbeat));
        let events = asks.events().unwrap();
        asks.learn(Peer::new(4, address)).unwrap();
        let handle = asks.call(Call::new(hold).ids(ids("3,4")).tree(Tree::Flat)).unwrap();
        let silent = RawPeer::answer(&listener, EARLY);
        assert_eq!(up(&events, 4), EARLY);
        lost(&events, 4, EARLY, Loss::Silent);
        assert_eq!(cause_of(handle).id, 4);
        drop((silent, held));
    });
}

#[test]
fn who_begins_to_listen_hears_of_the_links_that_stand() {
    limited(|| {
        let functions = Functions::new();
        let node = node(1, &functions, []);
        let early = node.events().unwrap();
        let _linked: Vec<RawPeer> = (10..20).map(|id| RawPeer::greet(&node, id, EARLY, 1)).collect();
        (10..20).for_each(|id| assert_eq!(up(&early, id), EARLY));
        let late = node.events().unwrap();
        (10..20).for_each(|id| assert_eq!(up(&late, id), EARLY));
        let both = [&early, &late];
        let _next = RawPeer::greet(&node, 30, 5, 1);
        both.iter().for_each(|events| assert_eq!(up(events, 30), 5));
        assert!(both.iter().all(|events| events.try_recv() == Err(NoEvent::Yet)));
    });
}

#[test]
fn events_have_a_bound_and_those_beyond_it_are_counted() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let node = node(1, &functions, []);
        let (never, taken) = (node.events().unwrap(), node.events().unwrap());
        let all = EVENTS_MAX as u64 / 2 + 50;
        for run in 1..=all {
            drop(RawPeer::greet(&node, 7, run, 1));
            assert_eq!(up(&taken, 7), run);
            lost(&taken, 7, run, Loss::Broken);
        }
        assert_eq!((never.missed(), taken.missed()), (100, 0));
        // The node continues nevertheless.
        let mut peer = RawPeer::greet(&node, 9, EARLY, 1);
        peer.request(call(9, 1), who, &ids("1"));
        peer.expect_response(call(9, 1));
        for run in 1..=EVENTS_MAX as u64 / 2 {
            assert_eq!(up(&never, 7), run);
            lost(&never, 7, run, Loss::Broken);
        }
        assert_eq!(never.try_recv(), Err(NoEvent::Yet));
    });
}

#[test]
fn a_polled_node_tells_in_its_turns() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let mut root = Node::builder(0).functions(&functions).polled().unwrap();
        let events = root.events().unwrap();
        let one = alone(1, LinkKind::default(), &functions);
        root.learn(peer(&one)).unwrap();
        root.wait_for_peers(1..2, LIMIT).unwrap();
        let run = up(&events, 1);
        let handle = root.call(Call::new(who).ids(0..2)).unwrap();
        assert!(root.wait(handle).unwrap().is_complete());
        // Another thread may receive the events.
        let listens = thread::spawn(move || {
            lost(&events, 1, run, Loss::Left);
            assert_eq!(events.recv_within(LIMIT), Err(NoEvent::Ended));
        });
        one.shutdown(LIMIT);
        // This loop ends: the goodbye has arrived, and the link cannot come back, because there is no listener.
        while root.wait_for_peers(1..2, Duration::ZERO).is_ok() {
            root.progress(Duration::from_millis(10)).unwrap();
        }
        drop(root);
        listens.join().unwrap();
    });
}

/// No call hangs, and no outcome is wrong: a node leaves while it is called without a pause.
#[test]
fn calls_to_a_node_that_leaves_end_clearly() {
    limited(|| {
        for link in LISTENING {
            let functions = Functions::new();
            let who = who(&functions);
            let root = alone(0, link, &functions);
            let one = alone(1, link, &functions);
            let events = root.events().unwrap();
            root.learn(peer(&one)).unwrap();
            root.wait_for_peers(1..2, LIMIT).unwrap();
            let run = up(&events, 1);
            let leaves = thread::spawn(move || one.shutdown(LIMIT));
            let mut left = None;
            // This loop ends: the node leaves.
            let error = loop {
                let handles: Vec<_> = (0..50).map(|_| root.call(Call::new(who).ids(0..2)).unwrap()).collect();
                let ends = handles.into_iter().map(end_of);
                left = left.or(ends.filter_map(Result::err).last());
                if leaves.is_finished() {
                    break end_of(root.call(Call::new(who).ids(0..2)).unwrap()).unwrap_err();
                }
            };
            leaves.join().unwrap();
            lost(&events, 1, run, Loss::Left);
            for error in left.into_iter().chain([error]) {
                let CallError::Failed(failure) = error else { panic!("{error}") };
                let cause = &failure.cause();
                let words = ["shutting down", "it said goodbye: the node was shut down", "cannot connect to"];
                assert!(cause.id == 1 && words.iter().any(|word| cause.message.contains(word)), "{cause}");
            }
            // The address may be used again.
            let again = Listener::bind(&link.fresh_address(1)).unwrap();
            root.learn(Peer::new(1, again.address().unwrap())).unwrap();
            let one = Node::builder(1).functions(&functions).link(link).listener(again).start().unwrap();
            assert_who(&replies_of(root.call(Call::new(who).ids(0..2)).unwrap()), &[0, 1], "");
            drop(one);
        }
    });
}
