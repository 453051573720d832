//! Memory that peers take at a node with what they send, or request and never read. It is counted; beyond a bound
//! requests are refused, or the link is closed. Other peers are not affected.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use chained_gpc::Placement;
use chained_gpc::link::Event;
use chained_gpc::wire::frame::{FRAME_HEADER, Kind, WINDOW};
use chained_gpc::wire::head::{AnswerKind, CallRef, ResponseHead};
use chained_gpc::wire::message::Answer;
use chained_gpc::wire::{Body, CallId, Message, Request, Response};
use chained_gpc::{Call, CauseKind, FuncHandle, Functions, Id, IdList, Node, Stage};

use super::common::{LIMIT, assert_cause, cause_of, ids, limited, replies_of, who};
use super::raw::{EARLY, RawPeer, SHORT, call, frame, listener, listening, node, request};

/// A node with little memory.
fn small_node(id: Id, functions: &Functions, memory_max: u64) -> Node {
    listening(Node::builder(id).functions(functions).memory_max(memory_max))
}

/// The answers to the next calls of a peer, skipping other frames.
fn answers_of(peer: &mut RawPeer, count: usize) -> Vec<Response> {
    let mut answers = Vec::new();
    while answers.len() < count {
        match peer.next() {
            Some(Event::Response(response)) => answers.push(response),
            Some(Event::ReplyStarted) => peer.grant(),
            Some(Event::Credit(_)) => {}
            other => panic!("{other:?} after {} answers", answers.len()),
        }
    }
    answers
}

/// Checks that an answer is a failure because of a limit of memory.
fn assert_refused(answer: &Answer, id: Id, words: &str) {
    let Answer::Failed(failure) = answer else { panic!("it is to be refused: {answer:?}") };
    let late = words.contains("time limit");
    let kind = if late { CauseKind::TimeLimit } else { CauseKind::NoMemory };
    assert_eq!((failure.cause.id, failure.cause.kind), (id, kind), "{failure}");
    assert!(failure.cause.message.contains(words), "{failure}");
}

/// A func that is given a number of MiB and replies with as many; and the number of its runs.
fn mebibytes(functions: &Functions) -> (FuncHandle, Arc<AtomicU32>) {
    let ran = Arc::new(AtomicU32::new(0));
    let runs = ran.clone();
    let func = functions.at(Placement::Inline).func("mebibytes", move |request, reply| {
        runs.fetch_add(1, Ordering::Relaxed);
        reply.data = vec![b'.'; usize::from(request.header()[0]) << 20];
        Ok(())
    });
    (func.expect("a name of its own"), ran)
}

fn request_of_mebibytes(call: CallId, func: FuncHandle, mebibytes: u8) -> Message {
    let header = Bytes::copy_from_slice(&[mebibytes]);
    Message::Request(Arc::new(Request { header, ..request(LIMIT, call, func, &ids("1")) }))
}

/// 11 KB of requests for 64 MiB each, from a peer that read nothing, took 7.7 GiB.
#[test]
fn replies_that_nobody_reads_are_bounded_and_what_would_be_beyond_is_refused() {
    limited(|| {
        let functions = Functions::new();
        let ((func, ran), who) = (mebibytes(&functions), who(&functions));
        let one = small_node(1, &functions, 64 << 20);
        let mut greedy = RawPeer::greet(&one, 50, EARLY, 1);
        for sequence in 0..120 {
            greedy.send(request_of_mebibytes(call(50, sequence), func, 8));
        }
        // No other peer is delayed or refused.
        let mut modest = RawPeer::greet(&one, 51, EARLY, 1);
        modest.request(call(51, 1), who, &ids("1"));
        assert!(matches!(modest.expect_response(call(51, 1)), Answer::Reply(_)));
        modest.send(request_of_mebibytes(call(51, 2), func, 8));
        let [Response { answer: Answer::Reply(reply), .. }] = &answers_of(&mut modest, 1)[..] else {
            panic!("there is room for it")
        };
        assert!(reply.data.len() > 8 << 20);
        // When it finally reads, it gets as many replies as there was room for; the other requests were not even
        // executed.
        let answers = answers_of(&mut greedy, 120);
        let (replies, refused): (Vec<_>, Vec<_>) =
            answers.iter().partition(|response| matches!(response.answer, Answer::Reply(_)));
        // A link may hold three eighths.
        assert_eq!(replies.len(), 2, "of a little more than 8 MiB each");
        refused.iter().for_each(|response| assert_refused(&response.answer, 1, "one link of id 1 may hold"));
        assert!(ran.load(Ordering::Relaxed) <= 2 + 1 + 1, "{ran:?}");
        // Now there is room again.
        greedy.send(request_of_mebibytes(call(50, 120), func, 8));
        let again = answers_of(&mut greedy, 1);
        assert!(matches!(again[0].answer, Answer::Reply(_)), "{again:?}");
    });
}

/// Each PING queued a PONG, however many waited for a peer that did not read: 678 MB in 14 s.
#[test]
fn a_peer_that_asks_and_does_not_read_has_one_answer_waiting() {
    limited(|| {
        let functions = Functions::new();
        let one = node(1, &functions, []);
        let mut peer = RawPeer::greet(&one, 50, EARLY, 1);
        let (each, times) = (10_000, 200);
        let pings = frame(Kind::Ping, &[]).repeat(each);
        assert!((0..times).all(|_| peer.can_send_bytes(&pings)), "it is no fault to ask");
        let who = who(&functions);
        peer.request(call(50, 1), who, &ids("1"));
        let mut pongs = 0;
        loop {
            match peer.next() {
                Some(Event::Pong) => pongs += 1,
                Some(Event::Response(_)) => break,
                other => panic!("{other:?}"),
            }
        }
        // As many as the system buffered for the peer, a few MB.
        assert!(pongs > 0 && pongs < each * times / 2, "{pongs} pongs");
    });
}

/// Every long response to an unknown call queued a CANCEL: 2 GiB in 10 s.
#[test]
fn a_peer_that_is_told_to_stop_and_does_not_read_loses_its_link() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let one = small_node(1, &functions, 4 << 20);
        let mut peer = RawPeer::greet(&one, 50, EARLY, 1);
        let mut modest = RawPeer::greet(&one, 51, EARLY, 1);
        let long = |sequence| {
            let (call, kind) = (call(1, sequence), AnswerKind::Reply);
            let data_len = WINDOW + 1;
            let head =
                ResponseHead { call, level: 0, kind, header_len: 0, data_len, report_len: 0, trace_len: 0 };
            let mut payload = Vec::new();
            head.emit(&mut payload);
            frame(Kind::Response, &payload)
        };
        // The system buffers a few MB for the peer, and a CANCEL is half as long as the response.
        let many: Vec<u8> = (0..1000).flat_map(long).collect();
        let sent = (0..2000).position(|_| !peer.can_send_bytes(&many));
        assert!(sent.is_some(), "the link is to be closed");
        modest.request(call(51, 1), who, &ids("1"));
        assert!(matches!(modest.expect_response(call(51, 1)), Answer::Reply(_)));
    });
}

/// The first frame of a request of this peer, with ids of this length, of which none is sent.
fn begun(call: CallId, func: FuncHandle, limit: Duration, ids_len: usize) -> Vec<u8> {
    let scattered = IdList::from_ids((0..ids_len as u32 / 4).map(|id| 2 * id + 1)).expect("distinct");
    let whole = Request { ids: scattered, ..request(limit, call, func, &ids("1")) };
    let head = chained_gpc::wire::prefix::request_head(&whole);
    let mut payload = Vec::new();
    head.emit(&mut payload);
    frame(Kind::Request, &payload)
}

/// More bytes of such a request.
fn more(call: CallId, len: usize) -> Vec<u8> {
    let mut payload = Vec::with_capacity(CallRef::LENGTH + len);
    CallRef(call).emit(&mut payload);
    payload.resize(CallRef::LENGTH + len, 1);
    frame(Kind::Segment, &payload)
}

/// Requests whose ids did not all arrive were kept as long as the link, whatever their time limit: 512 of 64 MiB.
#[test]
fn requests_that_never_come_whole_end_with_their_time_and_are_bounded_before() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let one = small_node(1, &functions, 64 << 20);
        let mut peer = RawPeer::greet(&one, 50, EARLY, 1);
        // Of 40 MiB of incomplete requests, a link of this node may hold 24.
        for sequence in 0..20 {
            peer.bytes(&begun(call(50, sequence), who, LIMIT, 4 << 20));
            (0..4).for_each(|_| peer.bytes(&more(call(50, sequence), 512 << 10)));
        }
        let refused = answers_of(&mut peer, 5);
        refused.iter().for_each(|response| assert_refused(&response.answer, 1, "one link of id 1 may hold"));
        let mut late = RawPeer::greet(&one, 51, EARLY, 1);
        for sequence in 0..10 {
            late.bytes(&begun(call(51, sequence), who, SHORT, 1 << 20));
            late.bytes(&more(call(51, sequence), 100 << 10));
        }
        let refused = answers_of(&mut late, 10);
        refused.iter().for_each(|response| assert_refused(&response.answer, 1, "within its time limit"));
        // Their bytes may still arrive, and the link stays usable.
        late.bytes(&more(call(51, 0), 100));
        late.request(call(51, 100), who, &ids("1"));
        assert!(matches!(late.expect_response(call(51, 100)), Answer::Reply(_)));
    });
}

/// Only 8 GiB bounded the data of a request, and of all requests of a link together.
#[test]
fn data_beyond_what_a_link_may_hold_are_refused_and_the_link_stays() {
    limited(|| {
        let functions = Functions::new();
        let (func, ran) = mebibytes(&functions);
        let one = small_node(1, &functions, 32 << 20);
        let mut peer = RawPeer::greet(&one, 50, EARLY, 1);
        let long = Request {
            header: Bytes::from_static(&[1]),
            data: Body::whole(vec![7; 16 << 20]),
            ..request(LIMIT, call(50, 1), func, &ids("1"))
        };
        // Data beyond the first window are sent when it is extended, which the node does at once.
        peer.send(Message::Request(Arc::new(long)));
        let answer = loop {
            match peer.next() {
                Some(Event::Window(window)) => peer.widen(&window),
                Some(Event::Response(response)) => break response.answer,
                other => panic!("{other:?}"),
            }
        };
        assert_refused(&answer, 1, "one link of id 1 may hold 12582912 bytes");
        assert_eq!(ran.load(Ordering::Relaxed), 0);
        peer.answered(call(50, 1));
        peer.send(request_of_mebibytes(call(50, 2), func, 0));
        let answers = answers_of(&mut peer, 1);
        assert!(matches!(&answers[0], Response { answer: Answer::Reply(_), .. }), "{answers:?}");
    });
}

/// A child's reply grew to 8 GiB.
#[test]
fn a_reply_beyond_what_a_link_may_hold_fails_its_call_alone() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let (listener, address) = listener();
        let peers = [(1, address)].into_iter().collect();
        let zero = listening(Node::builder(0).functions(&functions).peers(peers).memory_max(16 << 20));
        let one = std::thread::spawn(move || {
            let mut peer = RawPeer::answer(&listener, EARLY);
            let long = peer.expect_request().call;
            peer.reply(long, &vec![7; 16 << 20]);
            loop {
                match peer.next() {
                    Some(Event::Window(window)) => peer.widen(&window),
                    Some(Event::Cancel(cancelled)) => break assert_eq!(cancelled, long),
                    other => panic!("{other:?}"),
                }
            }
            let short = peer.expect_request().call;
            peer.reply(short, b"short");
            // The root ends first.
            assert!(peer.next().is_some_and(|event| matches!(event, Event::Goodbye(_))));
        });
        let cause = cause_of(zero.call(Call::new(who).ids(0..2)).unwrap());
        assert_cause(&cause, 0, Stage::Reply, "one link of id 0 may hold");
        assert_eq!(replies_of(zero.call(Call::new(who).ids(0..2)).unwrap()).len(), 2);
        drop(zero);
        one.join().expect("the peer finds what it looks for");
    });
}

/// A connection that had not sent its hello could make a node hold a mebibyte for it, sixteen thousand times.
#[test]
fn a_first_frame_is_short() {
    limited(|| {
        let functions = Functions::new();
        let one = node(1, &functions, []);
        let mut stranger = RawPeer::connect(&one);
        let header = frame(Kind::Hello, &[0; 513]);
        stranger.bytes(&header[..FRAME_HEADER]);
        stranger.expect_closed();
    });
}
