//! Peers made by hand: valid parents, ignored frames, and links that are lost, refused and replaced.

use std::sync::mpsc;
use std::time::Duration;

use chained_gpc::runtime::{Address, Listener, Peers};
use chained_gpc::wire::frame::Kind;
use chained_gpc::wire::head::GoodbyeReason;
use chained_gpc::wire::message::Answer;
use chained_gpc::wire::shown::{SHOWN_MAX, is_obeyed};
use chained_gpc::wire::{Coverage, Failure, Message, Response, Status};
use chained_gpc::{Call, Cause, CauseKind, Functions, LinkKind, Node, Reply, Stage};
use gpc_trees::Tree;

use super::common::{
    LIMIT, assert_cause, assert_who, cause_of, end_of, hold, ids, limited, outcome_of, replies_of, who,
};
use super::raw::{EARLY, RawPeer, SHORT, call, frame, level_0, listener, node};

fn assert_reply(answer: Answer, data: &[u8]) {
    match answer {
        Answer::Reply(reply) => assert_eq!(reply.data.to_bytes(), level_0(data)),
        other => panic!("a reply is to come, but: {other:?}"),
    }
}

fn failure(answer: Answer) -> Cause {
    match answer {
        Answer::Failed(failure) => failure.cause,
        other => panic!("a failure is to come, but: {other:?}"),
    }
}

#[test]
fn a_second_parent_is_refused_and_the_first_gets_the_reply() {
    limited(|| {
        let functions = Functions::new();
        let (hold, held) = hold(&functions);
        let node = node(1, &functions, []);
        let (mut first, mut second) =
            (RawPeer::greet(&node, 7, EARLY, 1), RawPeer::greet(&node, 8, EARLY, 1));
        let id = call(7, 1);
        first.request(id, hold, &ids("1"));
        let token = held.recv_timeout(LIMIT).expect("func runs");
        second.request(id, hold, &ids("1"));
        let cause = failure(second.expect_response(id));
        assert_cause(&cause, 1, Stage::Setup, "second parent: id 7");
        token.reply(Reply { data: b"done".to_vec(), ..Default::default() });
        assert_reply(first.expect_response(id), b"done");
        second.request(id, hold, &ids("1"));
        assert_cause(&failure(second.expect_response(id)), 1, Stage::Setup, "already ended");
        assert!(held.try_recv().is_err(), "func ran once");
    });
}

#[test]
fn responses_that_nobody_awaits_are_ignored() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let (listener, address) = listener();
        let node = node(0, &functions, [(5, address)]);
        let failed = node.call(Call::new(who).ids(ids("0,5")).limit(SHORT)).unwrap();
        let mut peer = RawPeer::answer(&listener, EARLY);
        let late = peer.expect_request().call;
        assert_cause(&cause_of(failed), 5, Stage::Reply, "no reply came");
        peer.expect_cancel(late);
        peer.reply(late, b"late");
        peer.reply(call(0, 12_345), b"of no call");
        let handle = node.call(Call::new(who).ids(ids("0,5"))).unwrap();
        let id = peer.expect_request().call;
        peer.reply(id, b"in time");
        peer.reply(id, b"once more");
        assert_eq!(replies_of(handle)[1].data, "in time");
        peer.request(call(5, 1), who, &ids("0"));
        assert_reply(peer.expect_response(call(5, 1)), b"id 0");
    });
}

#[test]
fn a_peer_that_goes_in_the_middle_of_a_call_fails_it_at_once() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let (listener, address) = listener();
        let node = node(0, &functions, [(5, address)]);
        for goodbye in [false, true] {
            let handle = node.call(Call::new(who).ids(ids("0,5")).limit(2 * LIMIT)).unwrap();
            let mut peer = RawPeer::answer(&listener, EARLY);
            peer.expect_request();
            if goodbye {
                peer.goodbye();
            }
            drop(peer);
            let failure = end_of(handle).unwrap_err().failure().expect("it got under way").clone();
            let words = if goodbye { "said goodbye: enough" } else { "closed the connection" };
            assert_cause(&failure.cause, 5, Stage::Link, words);
            let statuses: Vec<_> = failure.coverage.statuses().collect();
            assert_eq!(statuses, [Status::Done, Status::Unknown]);
        }
        // The link opens again on the next use.
        let handle = node.call(Call::new(who).ids(ids("0,5"))).unwrap();
        let mut peer = RawPeer::answer(&listener, EARLY);
        let id = peer.expect_request().call;
        peer.reply(id, b"back");
        assert_eq!(replies_of(handle)[1].data, "back");
    });
}

#[test]
fn a_lost_parent_cancels_what_it_asked_for_down_the_tree() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let (hold, held) = hold(&functions);
        let (listener, address) = listener();
        let node = node(1, &functions, [(5, address)]);
        let mut parent = RawPeer::greet(&node, 7, EARLY, 1);
        parent.request(call(7, 1), who, &ids("1,5"));
        let mut child = RawPeer::answer(&listener, EARLY);
        assert_eq!(child.expect_request().call, call(7, 1));
        parent.request(call(7, 2), hold, &ids("1"));
        let token = held.recv_timeout(LIMIT).expect("func runs");
        drop(parent);
        child.expect_cancel(call(7, 1));
        token.reply(Reply::default());
        let mut parent = RawPeer::greet(&node, 7, EARLY, 2);
        // The lost call is not executed again, and its name is remembered.
        parent.request(call(7, 1), who, &ids("1,5"));
        assert_cause(&failure(parent.expect_response(call(7, 1))), 1, Stage::Setup, "already ended");
        parent.request(call(7, 3), who, &ids("1"));
        assert_reply(parent.expect_response(call(7, 3)), b"id 1");
    });
}

#[test]
fn when_the_time_limit_passes_the_id_that_hangs_is_named_to_its_parent() {
    limited(|| {
        let functions = Functions::new();
        let (release, released) = mpsc::channel::<()>();
        let released = std::sync::Mutex::new(released);
        let hang = functions.func("hang", move |_, _| {
            // Ends when the test drops the sender.
            let _ = released.lock().expect("one at a time").recv_timeout(LIMIT);
            Ok(())
        });
        let (hang, who) = (hang.unwrap(), who(&functions));
        let (listener, address) = listener();
        let node = node(1, &functions, [(5, address)]);
        let mut parent = RawPeer::greet(&node, 7, EARLY, 1);
        parent.request_within(SHORT, call(7, 1), who, &ids("1,5"));
        let mut child = RawPeer::answer(&listener, EARLY);
        assert!(child.expect_request().limit < SHORT, "it shrinks with every hop");
        let cause = failure(parent.expect_response(call(7, 1)));
        assert_cause(&cause, 5, Stage::Reply, "no reply came to id 1");
        child.expect_cancel(call(7, 1));
        parent.request_within(SHORT, call(7, 2), hang, &ids("1"));
        assert_cause(&failure(parent.expect_response(call(7, 2))), 1, Stage::Func, "while func was running");
        parent.request_within(SHORT, call(7, 3), who, &ids("1"));
        let cause = failure(parent.expect_response(call(7, 3)));
        assert_cause(&cause, 1, Stage::Func, "waited for its turn behind other functions");
        drop(release);
        parent.request(call(7, 4), who, &ids("1"));
        assert_reply(parent.expect_response(call(7, 4)), b"id 1");
    });
}

#[test]
fn a_cancel_goes_down_and_brings_no_response() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let (listener, address) = listener();
        let node = node(1, &functions, [(5, address)]);
        let mut parent = RawPeer::greet(&node, 7, EARLY, 1);
        parent.request(call(7, 1), who, &ids("1,5"));
        let mut child = RawPeer::answer(&listener, EARLY);
        child.expect_request();
        // From another peer, and of an unknown call.
        RawPeer::greet(&node, 8, EARLY, 1).send(Message::Cancel(call(7, 1)));
        parent.send(Message::Cancel(call(7, 9)));
        parent.send(Message::Cancel(call(7, 1)));
        child.expect_cancel(call(7, 1));
        parent.request(call(7, 2), who, &ids("1"));
        assert_reply(parent.expect_response(call(7, 2)), b"id 1");
    });
}

#[test]
fn a_second_link_of_a_pair_is_refused_unless_it_is_a_later_one() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let node = node(1, &functions, []);
        let mut first = RawPeer::greet(&node, 7, EARLY, 1);
        let mut same = RawPeer::connect(&node);
        same.hello(7, 1, EARLY, 1);
        same.expect_goodbye(GoodbyeReason::Duplicate);
        same.expect_closed();
        first.request(call(7, 1), who, &ids("1"));
        assert_reply(first.expect_response(call(7, 1)), b"id 1");
        let mut later = RawPeer::greet(&node, 7, EARLY, 2);
        first.expect_closed();
        later.request(call(7, 2), who, &ids("1"));
        assert_reply(later.expect_response(call(7, 2)), b"id 1");
    });
}

/// After a peer had claimed the highest generation, the next link to it overflowed the count, and ended the event loop.
#[test]
fn a_peer_of_the_highest_generation_can_be_connected_to_again() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let (listener, address) = listener();
        let node = node(0, &functions, [(5, address)]);
        drop(RawPeer::greet(&node, 5, EARLY, u32::MAX));
        // Until the node has seen the link's end, calls fail by it.
        let (handle, mut peer) = loop {
            let handle = node.call(Call::new(who).ids(ids("0,5"))).unwrap();
            listener.set_nonblocking(true).unwrap();
            let mut handle = handle;
            let accepted = loop {
                if let Ok((stream, _)) = listener.accept() {
                    break Some(stream);
                }
                match handle.wait_for(Duration::from_millis(10)) {
                    None => {}
                    Some(end) => {
                        assert_eq!(
                            end.unwrap_err().failure().map(|failure| failure.cause.stage),
                            Some(Stage::Link)
                        );
                        break None;
                    }
                }
            };
            if let Some(stream) = accepted {
                stream.set_nonblocking(false).unwrap();
                break (handle, RawPeer::accepted(stream));
            }
        };
        peer.greet_back(EARLY);
        let id = peer.expect_request().call;
        peer.reply(id, b"here");
        assert_eq!(replies_of(handle)[1].data, "here");
    });
}

#[test]
fn of_two_connections_at_once_that_of_the_lower_id_stands() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        // The node has the lower id: it refuses our connection, and its own becomes the link.
        let (listener_high, address) = listener();
        let low = node(1, &functions, [(5, address)]);
        let handle = low.call(Call::new(who).ids(ids("1,5"))).unwrap();
        let mut theirs = RawPeer::accept(&listener_high);
        let mut ours = RawPeer::connect(&low);
        ours.hello(5, 1, EARLY, 1);
        ours.expect_goodbye(GoodbyeReason::Duplicate);
        ours.expect_closed();
        theirs.greet_back(EARLY);
        let id = theirs.expect_request().call;
        theirs.reply(id, b"high");
        assert_eq!(replies_of(handle)[1].data, "high");

        // The node has the higher id: it gives up its own connection, and pending messages go over ours.
        let (listener_low, address) = listener();
        let high = node(9, &functions, [(2, address)]);
        let handle = high.call(Call::new(who).ids(ids("9,2"))).unwrap();
        let mut theirs = RawPeer::accept(&listener_low);
        assert_eq!(theirs.expect_hello().generation, 1);
        let mut ours = RawPeer::greet(&high, 2, EARLY, 1);
        theirs.expect_closed();
        let id = ours.expect_request().call;
        ours.reply(id, b"low");
        assert_eq!(replies_of(handle)[1].data, "low");
    });
}

#[test]
fn a_node_that_is_told_to_wait_for_the_other_connection_sends_over_it() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let (listener, address) = listener();
        let high = node(9, &functions, [(2, address)]);
        let handle = high.call(Call::new(who).ids(ids("9,2"))).unwrap();
        let mut theirs = RawPeer::accept(&listener);
        theirs.expect_hello();
        theirs.refuse(GoodbyeReason::Duplicate);
        theirs.expect_closed();
        let mut ours = RawPeer::greet(&high, 2, EARLY, 1);
        let id = ours.expect_request().call;
        ours.reply(id, b"here it stands");
        assert_eq!(replies_of(handle)[1].data, "here it stands");
    });
}

/// A peer refused a hello, sent a goodbye and failed with escape sequences of terminals, and with line breaks. A
/// program that printed the error sent them to its terminal.
#[test]
fn what_a_peer_says_is_printed_on_one_line_of_harmless_characters() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let (listener, address) = listener();
        let node = node(0, &functions, [(5, address)]);
        let said = "\u{1b}[2J\r\nid 0 is well\n\u{9b}31m\u{202e}";
        let goodbye = |reason: GoodbyeReason| {
            frame(Kind::Goodbye, &[&[reason as u8], said.as_bytes(), &[b'x'; 100]].concat())
        };
        for way in ["refusal", "goodbye", "cause"] {
            let handle = node.call(Call::new(who).ids(ids("0,5"))).expect("a call over ids that are known");
            let mut peer = match way {
                "refusal" => RawPeer::accept(&listener),
                _ => RawPeer::answer(&listener, EARLY),
            };
            match way {
                "refusal" => {
                    peer.expect_hello();
                    peer.bytes(&goodbye(GoodbyeReason::Refused));
                }
                "goodbye" => peer.bytes(&goodbye(GoodbyeReason::Shutdown)),
                _ => {
                    let call = peer.expect_request().call;
                    let cause =
                        Cause::new(5, Stage::Func, CauseKind::Failed, said.to_owned() + &"x".repeat(65_536));
                    let coverage = Coverage::all(Status::Failed, 1);
                    let failure = Box::new(Failure { cause, coverage });
                    peer.send(Message::Response(Response { call, answer: Answer::Failed(failure) }));
                }
            }
            let error = end_of(handle).expect_err("it has failed");
            assert!(error.failure().is_some_and(|failure| failure.cause.message.contains(said)), "{way}");
            let shown = error.to_string();
            assert!(shown.contains(r"\u{1b}[2J\r\nid 0 is well\n\u{9b}31m\u{202e}"), "{way}: {shown}");
            assert!(!shown.contains(is_obeyed) && shown.chars().count() < 2 * SHOWN_MAX, "{way}: {shown}");
        }
    });
}

#[test]
fn a_refused_hello_fails_the_call_with_the_peers_words() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let (listener, address) = listener();
        let node = node(0, &functions, [(5, address.clone())]);
        let call = || node.call(Call::new(who).ids(ids("0,5"))).unwrap();
        let handle = call();
        let mut peer = RawPeer::accept(&listener);
        peer.expect_hello();
        peer.refuse(GoodbyeReason::Refused);
        let cause = cause_of(handle);
        assert_cause(&cause, 5, Stage::Link, "refused the connection: not you");
        assert!(cause.message.contains(&address.to_string()), "{cause}");
        // Another id answers there.
        let handle = call();
        let mut peer = RawPeer::accept(&listener);
        peer.expect_hello();
        peer.hello(6, 0, EARLY, 1);
        assert_cause(&cause_of(handle), 5, Stage::Link, "it is id 6");
        // A server of another protocol.
        let handle = call();
        let mut peer = RawPeer::accept(&listener);
        peer.bytes(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        assert_cause(&cause_of(handle), 5, Stage::Link, "broke the protocol");
        // A server that sends nothing.
        let handle = call();
        drop(RawPeer::accept(&listener));
        assert_cause(&cause_of(handle), 5, Stage::Link, &address.to_string());
    });
}

#[test]
fn where_nobody_listens_the_error_names_the_id_and_the_address() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        for link in [LinkKind::Tcp, LinkKind::Unix, LinkKind::Shm] {
            let gone = Listener::bind(&link.fresh_address(3)).unwrap();
            let address = gone.address().unwrap();
            drop(gone);
            let here = Listener::bind(&link.fresh_address(1)).unwrap();
            let peers: Peers = [(1, here.address().unwrap()), (3, address.clone())].into_iter().collect();
            let one =
                Node::builder(1).functions(&functions).peers(peers.clone()).listener(here).start().unwrap();
            let root = Node::builder(0).functions(&functions).peers(peers).start().unwrap();
            let cause = cause_of(root.call(Call::new(who).ids(ids("0,1,3")).tree(Tree::Chain)).unwrap());
            assert_cause(&cause, 3, Stage::Link, &format!("cannot connect to {address}"));
            assert_who(&replies_of(root.call(Call::new(who).ids(0..2)).unwrap()), &[0, 1], "");
            one.shutdown(LIMIT);
        }
    });
}

#[test]
fn a_node_without_a_listener_can_call() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let one = node(1, &functions, []);
        let address: Address = one.address().unwrap().clone();
        let root = Node::builder(0).functions(&functions).peers([(1, address)].into_iter().collect());
        let root = root.start().unwrap();
        assert!(root.address().is_none());
        assert_who(&outcome_of(root.call(Call::new(who).ids(0..2)).unwrap()).replies().unwrap(), &[0, 1], "");
        // The link exists now, and serves the other direction, too.
        assert_who(&replies_of(one.call(Call::new(who).ids(ids("1,0"))).unwrap()), &[1, 0], "");
    });
}
