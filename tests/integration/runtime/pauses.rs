//! Announced pauses: an application that computes for long without driving its node is not given up, as long as it
//! keeps to its announcement.

use std::io::ErrorKind;
use std::time::Duration;

use chained_gpc::chain::Heartbeat;
use chained_gpc::link::Event;
use chained_gpc::runtime::{Address, Listener, Peers};
use chained_gpc::wire::Message;
use chained_gpc::wire::head::GoodbyeReason;
use chained_gpc::{
    Call, CallError, CallHandle, FuncHandle, Functions, LinkKind, Node, Outcome, Peer, PolledNode, Stage,
};

use super::common::{LIMIT, LISTENING, assert_cause, cause_of, limited, outcome_of, who};
use super::raw::{EARLY, RawPeer, call, listener, node};

/// Time of silence until death in these tests: far longer than a busy machine delays a thread.
const DEAD_AFTER: Duration = Duration::from_millis(1500);

/// A node with a thread that gives up silent peers soon, and one that its application drives, linked with each other.
fn pair(link: LinkKind, functions: &Functions, who: FuncHandle) -> (Node, PolledNode) {
    let listeners = [0, 1].map(|id| Listener::bind(&link.fresh_address(id)).expect("it is free"));
    let addresses = listeners.iter().map(|listener| listener.address().expect("it is bound"));
    let peers: Peers = (0..).zip(addresses).collect();
    let [first, second] = listeners;
    let builder = |id| Node::builder(id).functions(functions).peers(peers.clone()).link(link);
    let root = builder(0)
        .listener(first)
        .heartbeat(Some(Heartbeat::dead_after(DEAD_AFTER)))
        .start()
        .expect("a node");
    let mut below = builder(1).listener(second).polled().expect("a node");
    let ended = drive(&mut below, root.call(Call::new(who).ids(0..2)).expect("it works"));
    assert!(ended.is_ok(), "{ended:?}");
    (root, below)
}

/// Drives a node until a call of another one has ended.
fn drive(node: &mut PolledNode, mut handle: CallHandle) -> Result<Outcome, CallError> {
    loop {
        if let Some(end) = handle.test() {
            return end;
        }
        node.progress(Duration::from_millis(1)).expect("the poll works");
    }
}

/// Waits until a node has given up a peer that is silent without an announcement. All that was asked before has waited
/// for as long.
fn until_a_silent_peer_is_given_up(root: &Node, who: FuncHandle) {
    let (listener, address) = listener();
    root.learn(Peer::new(9, address)).expect("another id");
    let handle = root.call(Call::new(who).ids(9..10).watch()).expect("it works");
    let mut silent = RawPeer::answer(&listener, EARLY);
    silent.expect_request();
    assert_cause(&cause_of(handle), 9, Stage::Link, "no heartbeat");
}

#[test]
fn who_computes_and_has_said_so_is_not_given_up() {
    limited(|| {
        for link in LISTENING {
            let functions = Functions::new();
            let who = who(&functions);
            let (root, mut below) = pair(link, &functions, who);
            assert_eq!(below.pause(LIMIT).unwrap(), 1, "one peer is told");
            let mut handle = root.call(Call::new(who).ids(0..2)).unwrap();
            until_a_silent_peer_is_given_up(&root, who);
            assert!(handle.test().is_none(), "it is given up, too");
            let ended = drive(&mut below, handle);
            assert!(ended.is_ok(), "{ended:?}");
        }
    });
}

#[test]
fn who_computes_and_has_not_said_so_is_given_up() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let (root, mut below) = pair(LinkKind::Unix, &functions, who);
        below.pause(LIMIT).unwrap();
        // That was the end of the announced pause, which is announced as well.
        below.progress(Duration::ZERO).unwrap();
        let cause = cause_of(root.call(Call::new(who).ids(0..2)).unwrap());
        assert_cause(&cause, 1, Stage::Link, "no heartbeat");
    });
}

#[test]
fn peers_hear_of_a_pause_and_of_its_end() {
    limited(|| {
        let listener = Listener::bind(&LinkKind::Tcp.fresh_address(1)).unwrap();
        let Some(Address::Tcp(at)) = listener.address().ok() else { panic!("it listens on TCP") };
        let mut node = Node::builder(1).listener(listener).polled().unwrap();
        assert_eq!(node.pause(Duration::from_secs(1)).unwrap(), 0, "nobody is there");
        let long = node.pause(PolledNode::PAUSE_MAX + Duration::from_secs(1));
        assert_eq!(long.unwrap_err().kind(), ErrorKind::InvalidInput);
        let mut peer = RawPeer::accepted(std::net::TcpStream::connect(at).unwrap());
        peer.hello(7, 1, EARLY, 1);
        while !peer.has_something() {
            node.progress(Duration::from_millis(1)).unwrap();
        }
        peer.expect_hello();
        // Each with its length, and one end for both.
        for seconds in [60, 600] {
            assert_eq!(node.pause(Duration::from_secs(seconds)).unwrap(), 1);
            let said = peer.next();
            assert!(matches!(said, Some(Event::Pause(length)) if length.as_secs() == seconds), "{said:?}");
        }
        for _ in 0..3 {
            node.progress(Duration::ZERO).unwrap();
        }
        assert!(matches!(peer.next(), Some(Event::Pause(Duration::ZERO))));
        // Nothing follows but the answer to the next question.
        peer.send(Message::Ping);
        while !peer.has_something() {
            node.progress(Duration::from_millis(1)).unwrap();
        }
        assert!(matches!(peer.next(), Some(Event::Pong)));
    });
}

/// A peer made by hand, linked with a node that gives up silent peers soon, and a call that it has to answer.
fn asked(functions: &Functions) -> (Node, RawPeer, CallHandle) {
    let who = who(functions);
    let (listener, address) = listener();
    let builder = Node::builder(0).functions(functions).peers([(5, address)].into_iter().collect());
    let root = builder.heartbeat(Some(Heartbeat::dead_after(DEAD_AFTER))).start().expect("a node");
    let handle = root.call(Call::new(who).ids(5..6).watch()).expect("it works");
    (root, RawPeer::answer(&listener, EARLY), handle)
}

#[test]
fn a_pause_covers_silence_without_a_word_at_its_end() {
    limited(|| {
        let functions = Functions::new();
        let (root, mut peer, mut handle) = asked(&functions);
        peer.send(Message::Pause(LIMIT));
        let call = peer.expect_request().call;
        until_a_silent_peer_is_given_up(&root, functions.named("who").unwrap());
        assert!(handle.test().is_none(), "it is given up, too");
        peer.reply(call, b"done");
        assert_eq!(outcome_of(handle).replies().unwrap()[0].data, "done");
    });
}

#[test]
fn who_stays_away_for_longer_than_announced_is_given_up() {
    limited(|| {
        let (_root, mut peer, handle) = asked(&Functions::new());
        peer.send(Message::Pause(Duration::from_millis(500)));
        assert_cause(&cause_of(handle), 5, Stage::Link, "no heartbeat");
    });
}

/// Another process sent a hello with the id of one that computed and had announced it: it took over the link, and all
/// calls there failed.
#[test]
fn another_run_of_a_paused_id_waits_for_the_end_of_the_pause() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let node = node(1, &functions, []);
        let mut first = RawPeer::greet(&node, 7, EARLY, 1);
        first.send(Message::Pause(LIMIT));
        // It is read before the hello of the other one, as its answer shows.
        first.request(call(7, 1), who, &"1".parse().unwrap());
        first.expect_response(call(7, 1));
        let mut silent = RawPeer::greet(&node, 8, EARLY, 1);
        let mut second = RawPeer::connect(&node);
        second.hello(7, 1, EARLY + 1, 1);
        // Without an announcement the first run of an id has two seconds to answer.
        let mut other = RawPeer::connect(&node);
        other.hello(8, 1, EARLY + 1, 1);
        silent.expect_ping();
        other.expect_hello();
        assert!(!second.has_something(), "it is neither taken nor refused");
        first.answer_pings(1);
        second.expect_goodbye(GoodbyeReason::Refused);
    });
}
