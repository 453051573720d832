//! Bytes that break the protocol: their connection is closed, and the node continues to serve.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc;

use chained_gpc::Placement;
use chained_gpc::link::{Event, HIWATER};
use chained_gpc::wire::Hello;
use chained_gpc::wire::frame::Kind;
use chained_gpc::wire::head::GoodbyeReason;
use chained_gpc::wire::message::Answer;
use chained_gpc::wire::{Body, Message, Request};
use chained_gpc::{Call, Functions, IdList};
use gpc_trees::{Run, Tree};

use super::common::{LIMIT, assert_who, hold, ids, limited, noise, replies_of, who};
use super::raw::{EARLY, RawPeer, call, frame, node, request};

/// A hello to id 1 with one byte changed.
fn hello_but(place: usize, byte: u8) -> Vec<u8> {
    let mut payload = Hello {
        from: 7,
        to: 1,
        incarnation: EARLY,
        generation: 1,
        hiwater: 4,
        job: Default::default(),
        rings: false,
        extents: false,
    }
    .emit();
    payload[place] = byte;
    frame(Kind::Hello, &payload)
}

/// Bytes that an unknown peer may send instead of a hello.
fn greetings() -> BTreeMap<&'static str, Vec<u8>> {
    let request_first = frame(Kind::Request, &[0; 64]);
    BTreeMap::from([
        ("text", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()),
        ("noise", noise(100_000, 3)),
        ("zeros", vec![0; 4096]),
        ("a frame that announces 4 GiB", vec![0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0]),
        ("a frame of the longest length and no hello", frame(Kind::Hello, &vec![1; 1 << 20])),
        ("another protocol", hello_but(0, b'X')),
        ("another version", hello_but(4, 9)),
        ("what must be zero", hello_but(6, 1)),
        ("no credit", hello_but(28, 0)),
        ("a request before the hello", request_first),
        ("a credit before the hello", frame(Kind::Credit, &1u32.to_le_bytes())),
    ])
}

/// Bytes that a peer may send after a good hello.
fn frames() -> BTreeMap<&'static str, Vec<u8>> {
    BTreeMap::from([
        ("text", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()),
        ("noise", noise(100_000, 4)),
        ("a second hello", hello_but(28, 4)),
        ("half a request", frame(Kind::Request, &[0; 63])),
        ("a request of nobody", frame(Kind::Request, &[0; 64])),
        ("half a response", frame(Kind::Response, &[0; 31])),
        ("a response of unknown status", frame(Kind::Response, &[9; 32])),
        ("a segment without bytes", frame(Kind::Segment, &[0; 16])),
        ("a credit for nothing", frame(Kind::Credit, &0u32.to_le_bytes())),
        ("a goodbye without a reason", frame(Kind::Goodbye, &[])),
        ("a frame of an unknown kind", vec![0, 0, 0, 0, 99, 0, 0, 0]),
        ("a frame that announces 4 GiB", vec![0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0]),
    ])
}

#[test]
fn a_stranger_who_does_not_say_a_hello_is_put_out() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let one = node(1, &functions, []);
        let zero = node(0, &functions, [(1, one.address().unwrap().clone())]);
        for (name, bytes) in greetings() {
            let mut stranger = RawPeer::connect(&one);
            stranger.bytes(&bytes);
            assert!(stranger.next().is_none(), "after {name}");
            let replies = replies_of(zero.call(Call::new(who).ids(0..2)).unwrap());
            assert_who(&replies, &[0, 1], "");
        }
    });
}

#[test]
fn a_stranger_who_goes_in_the_middle_of_a_hello_leaves_nothing_behind() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let node = node(1, &functions, []);
        let hello = hello_but(28, 4);
        for len in 0..hello.len() {
            RawPeer::connect(&node).bytes(&hello[..len]);
        }
        // Sent slowly, byte by byte, it is valid.
        let mut slow = RawPeer::connect(&node);
        hello.iter().for_each(|byte| slow.bytes(&[*byte]));
        slow.expect_hello();
        slow.request(call(7, 1), who, &ids("1"));
        slow.expect_response(call(7, 1));
    });
}

#[test]
fn a_hello_to_somebody_else_is_refused_in_words() {
    limited(|| {
        let functions = Functions::new();
        let node = node(1, &functions, []);
        let mut lost = RawPeer::connect(&node);
        lost.hello(7, 2, EARLY, 1);
        assert_eq!(lost.expect_goodbye(GoodbyeReason::Refused), "this is id 1, not 2");
        lost.expect_closed();
        let mut double = RawPeer::connect(&node);
        double.hello(1, 1, EARLY, 1);
        assert!(double.expect_goodbye(GoodbyeReason::Refused).contains("is this node"));
        double.expect_closed();
    });
}

#[test]
fn a_peer_that_breaks_the_protocol_is_put_out_and_may_come_back() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let node = node(1, &functions, []);
        for (generation, (name, bytes)) in (1..).zip(frames()) {
            let mut peer = RawPeer::greet(&node, 7, EARLY, generation);
            peer.request(call(7, generation.into()), who, &ids("1"));
            peer.expect_response(call(7, generation.into()));
            peer.bytes(&bytes);
            assert!(peer.next().is_none(), "after {name}");
        }
    });
}

/// A bad frame after good ones in the same bytes: the frames before it count.
#[test]
fn a_call_that_is_broken_off_by_bad_bytes_is_forgotten() {
    limited(|| {
        let functions = Functions::new();
        let (hold, held) = hold(&functions);
        let who = who(&functions);
        let node = node(1, &functions, []);
        let mut peer = RawPeer::greet(&node, 7, EARLY, 1);
        peer.request(call(7, 1), hold, &ids("1"));
        let token = held.recv_timeout(LIMIT).expect("func runs");
        peer.bytes(&noise(300, 9));
        peer.expect_closed();
        token.reply(Default::default());
        let mut peer = RawPeer::greet(&node, 7, EARLY, 2);
        peer.request(call(7, 2), who, &ids("1"));
        peer.expect_response(call(7, 2));
    });
}

#[test]
fn a_peer_that_sends_more_requests_than_it_has_credit_for_is_put_out() {
    limited(|| {
        let functions = Functions::new();
        let (release, released) = mpsc::channel::<()>();
        let released = std::sync::Mutex::new(released);
        let block = functions.func("block", move |_, _| {
            // Ends when the test drops the sender.
            let _ = released.lock().expect("one at a time").recv_timeout(LIMIT);
            Ok(())
        });
        let (block, who) = (block.unwrap(), who(&functions));
        let node = node(1, &functions, []);
        let mut greedy = RawPeer::greet(&node, 7, EARLY, 1);
        let mut modest = RawPeer::greet(&node, 8, EARLY, 1);
        for sequence in 0..u64::from(HIWATER) {
            modest.request(call(8, sequence), block, &ids("1"));
            greedy.request(call(7, sequence), who, &ids("1"));
        }
        greedy.request(call(7, 1000), who, &ids("1"));
        greedy.expect_closed();
        drop(release);
        let mut answered = 0;
        while answered < HIWATER {
            match modest.next() {
                Some(Event::Response(_)) => answered += 1,
                Some(Event::Credit(_)) => {}
                other => panic!("{other:?} after {answered} responses"),
            }
        }
    });
}

/// Everything that a peer can send in requests for others, with invalid lists, shapes and trees.
#[test]
fn requests_that_make_no_sense_are_answered_with_failures_and_not_executed() {
    limited(|| {
        let functions = Functions::new();
        let (runs, ran) = mpsc::channel();
        let note = functions.func("note", move |_, _| Ok(runs.send(())?)).unwrap();
        let node = node(1, &functions, []);
        let mut peer = RawPeer::greet(&node, 7, EARLY, 1);
        for (sequence, list) in (1..).zip(["2,3", "2,1", "4000000000-4000000100"]) {
            peer.request(call(7, sequence), note, &ids(list));
            let answer = peer.expect_response(call(7, sequence));
            assert!(matches!(answer, chained_gpc::wire::message::Answer::Failed(_)), "{list}: {answer:?}");
        }
        assert!(ran.try_recv().is_err(), "nothing was executed");
    });
}

/// Some ninety bytes with a run of a million ids made a node take a gigabyte, and remember a million ids that do not
/// exist. Then it accepted no new id any more.
#[test]
fn a_list_of_ids_that_do_not_exist_is_forgotten() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let one = node(1, &functions, []);
        let mut peer = RawPeer::greet(&one, 50, EARLY, 1);
        for (sequence, count) in [(1, 1_000_000), (2, 60_000), (3, 60_000)] {
            let ids = IdList::from_runs([Run { first: 1, count: 1 }, Run { first: 1000, count }]).unwrap();
            let call = call(50, sequence);
            let flat =
                Request { tree: Ok(Tree::Flat), forward_first: true, ..request(LIMIT, call, who, &ids) };
            peer.send(Message::Request(Arc::new(flat)));
            let Answer::Failed(failure) = peer.expect_response(call) else { panic!("nobody has these ids") };
            let words =
                if count == 1_000_000 { "children are over the limit" } else { "no address is known" };
            assert!(failure.cause.message.contains(words), "{failure}");
        }
        RawPeer::greet(&one, 51, EARLY, 1);
    });
}

/// A peer that only sent, and read nothing, made the node keep all its replies.
#[test]
fn a_peer_that_does_not_read_gets_no_more_credit() {
    limited(|| {
        let functions = Functions::new();
        let echo = functions.at(Placement::Inline).func("echo", |request, reply| {
            reply.data = request.data().to_vec();
            Ok(())
        });
        let echo = echo.unwrap();
        let one = node(1, &functions, []);
        let mut peer = RawPeer::greet(&one, 50, EARLY, 1);
        let data = Body::whole(vec![7; 16_000]);
        let cut_off = (0..20_000).position(|sequence| {
            let request =
                Request { data: data.clone(), ..request(LIMIT, call(50, sequence), echo, &ids("1")) };
            !peer.can_send(Message::Request(Arc::new(request)))
        });
        // The system's socket buffers, the backlog, and the requests within the credit.
        assert!(cut_off.is_some_and(|sent| sent < 5000), "{cut_off:?}");
    });
}
