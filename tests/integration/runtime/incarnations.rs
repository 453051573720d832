//! Runs of an id, made by hand: which of two has the link, whatever their clocks.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use chained_gpc::runtime::Listener;
use chained_gpc::wire::Message;
use chained_gpc::wire::head::GoodbyeReason;
use chained_gpc::wire::message::Answer;
use chained_gpc::{Call, CauseKind, FuncHandle, Functions, Node, Reply, Stage};

use super::common::{LIMIT, cause_of, hold, ids, limited, who};
use super::raw::{EARLY, RawPeer, call, node};

/// Time limit for a PONG on a link, from docs/wire.md.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// Another run of id 7 sends a hello while one is linked; its answer is not awaited.
fn newcomer(node: &Node, incarnation: u64, generation: u32) -> RawPeer {
    let mut peer = RawPeer::connect(node);
    peer.hello(7, 1, incarnation, generation);
    peer
}

fn is_served(peer: &mut RawPeer, who: FuncHandle, sequence: u64) {
    peer.request(call(7, sequence), who, &ids("1"));
    let answer = peer.expect_response(call(7, sequence));
    assert!(matches!(answer, Answer::Reply(_)), "{answer:?}");
}

/// A process whose clock was behind that of its last run was refused until it had caught up. One hello with the highest
/// time locked its id out until the node was restarted. A new run must not wait as long as for a silent process: the
/// connections of a dead one are closed.
#[test]
#[allow(clippy::disallowed_methods, reason = "that nobody waits is what is tested")]
fn a_run_of_any_time_takes_the_place_of_one_that_is_gone_at_once() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let node = node(1, &functions, []);
        let begun = Instant::now();
        for _ in 0..20 {
            for incarnation in [u64::MAX, EARLY, EARLY - 1, 1 << 60, 0] {
                let mut peer = RawPeer::greet(&node, 7, incarnation, 1);
                // A root that counts from the same number as some earlier run.
                is_served(&mut peer, who, incarnation);
            }
        }
        assert!(begun.elapsed() < 10 * ANSWER_LIMIT, "one in ten has waited: {:?}", begun.elapsed());
    });
}

/// A hello with another incarnation took the link of a live process, and failed its calls.
#[test]
fn a_run_that_answers_keeps_its_link() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let node = node(1, &functions, []);
        let mut first = RawPeer::greet(&node, 7, EARLY, 1);
        for incarnation in [u64::MAX, 0, EARLY + 1] {
            let mut second = newcomer(&node, incarnation, 9);
            first.answer_pings(1);
            let said = second.expect_goodbye(GoodbyeReason::Refused);
            assert!(said.contains("another process is linked as id 7"), "{said}");
            second.expect_closed();
            is_served(&mut first, who, incarnation);
        }
    });
}

#[test]
fn a_run_that_does_not_answer_loses_its_link_and_its_calls() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let (hold, held) = hold(&functions);
        let node = node(1, &functions, []);
        let mut first = RawPeer::greet(&node, 7, EARLY, 3);
        first.request(call(7, 1), hold, &ids("1"));
        let token = held.recv_timeout(LIMIT).expect("func runs");
        let awaited = node.call(Call::new(who).ids(ids("1,7"))).unwrap();
        assert_eq!(first.expect_request().call.root, 1);
        // The hello is answered after the first run has been asked, and has not answered.
        let mut second = RawPeer::greet(&node, 7, EARLY - 1, 1);
        first.expect_ping();
        first.expect_goodbye(GoodbyeReason::Duplicate);
        first.expect_closed();
        let cause = cause_of(awaited);
        assert_eq!(
            (cause.id, cause.stage, cause.kind),
            (7, Stage::Link, CauseKind::LostIncarnation),
            "{cause}"
        );
        token.reply(Reply::default());
        is_served(&mut second, who, 2);
    });
}

/// The first run shows that it is alive by reconnecting.
#[test]
fn a_run_that_connects_anew_lives() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let node = node(1, &functions, []);
        let mut first = RawPeer::greet(&node, 7, EARLY, 1);
        let mut second = newcomer(&node, EARLY + 1, 1);
        first.expect_ping();
        let mut again = RawPeer::greet(&node, 7, EARLY, 2);
        second.expect_goodbye(GoodbyeReason::Refused);
        first.expect_closed();
        is_served(&mut again, who, 1);
    });
}

#[test]
fn one_waits_for_an_id_and_says_nothing_meanwhile() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let node = node(1, &functions, []);
        let mut first = RawPeer::greet(&node, 7, EARLY, 1);
        let mut second = newcomer(&node, 5, 1);
        first.expect_ping();
        let mut third = newcomer(&node, 6, 1);
        assert!(third.expect_goodbye(GoodbyeReason::Refused).contains("waits already"));
        // Of the same run, which has given up its first attempt.
        let mut second_again = newcomer(&node, 5, 2);
        second.expect_closed();
        second_again.request(call(7, 1), who, &ids("1"));
        second_again.expect_closed();
        // No connection waits any more.
        let mut third = newcomer(&node, 6, 1);
        first.answer_pings(1);
        third.expect_goodbye(GoodbyeReason::Refused);
        is_served(&mut first, who, 1);
    });
}

/// A PONG that a process had sent before it was killed was read after the next run's hello, and the dead run locked the
/// id out.
#[test]
fn the_last_words_of_a_dead_run_are_no_sign_of_life() {
    limited(|| {
        let functions = Functions::new();
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let mut node = Node::builder(1).functions(&functions).listener(listener).polled().unwrap();
        let address = node.address().cloned();
        let (said, heard) = mpsc::channel();
        let (go, gone) = mpsc::channel();
        let runs = std::thread::spawn(move || {
            for incarnation in 0..20 {
                let mut peer = RawPeer::connect_to(address.as_ref());
                peer.hello(7, 1, incarnation, 1);
                peer.expect_hello();
                let mut next = RawPeer::connect_to(address.as_ref());
                next.hello(7, 1, 100 + incarnation, 1);
                peer.expect_ping();
                // From here on the node does not read until everything has arrived.
                said.send(()).unwrap();
                gone.recv().unwrap();
                peer.send(Message::Pong);
                drop(peer);
                said.send(()).unwrap();
                next.expect_hello();
            }
        });
        // This loop ends with the other thread.
        while !runs.is_finished() {
            node.progress(Duration::from_millis(1)).unwrap();
            if heard.try_recv().is_ok() {
                go.send(()).unwrap();
                heard.recv_timeout(LIMIT).unwrap();
            }
        }
        runs.join().unwrap();
    });
}

#[test]
fn so_many_wait_at_a_node_and_no_more() {
    const MOST: u32 = 128;
    limited(|| {
        let functions = Functions::new();
        let node = node(1, &functions, []);
        let _linked: Vec<RawPeer> = (100..101 + MOST).map(|id| RawPeer::greet(&node, id, EARLY, 1)).collect();
        let newcomer = |id| {
            let mut peer = RawPeer::connect(&node);
            peer.hello(id, 1, EARLY + 1, 1);
            peer
        };
        let mut newcomers: Vec<RawPeer> = (100..101 + MOST).map(newcomer).collect();
        // This loop ends: the others are answered in the end.
        let refused = loop {
            if let Some(refused) = newcomers.iter_mut().find(|peer| peer.has_something()) {
                break refused;
            }
        };
        let said = refused.expect_goodbye(GoodbyeReason::Refused);
        assert!(said.contains("128 processes wait"), "{said}");
    });
}
