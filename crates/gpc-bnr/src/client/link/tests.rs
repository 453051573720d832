//! Tests of the time limits of requests, by a clock that the test moves, and of what a link holds.

use std::io::Read as _;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::codec::{body_of, encode_down};
use crate::exit::Death;
use crate::request::Pair;
use crate::roster::{Roster, Span};

const SECONDS_30: Duration = Duration::from_secs(30);
const MARGIN: Duration = Duration::from_secs(60);

/// A clock that shows zero at the first reading, and this number of milliseconds from then on.
fn jumps_to(millis: u64) -> Clock {
    let readings = AtomicU64::new(0);
    Clock::reading(move || match readings.fetch_add(1, Ordering::SeqCst) {
        0 => Duration::ZERO,
        _ => Duration::from_millis(millis),
    })
}

/// A link, and the node's end of its socket.
fn link(clock: Clock) -> (Link, UnixStream) {
    let (node, client) = UnixStream::pair().unwrap();
    (Link::begin(client.into(), MARGIN, clock).unwrap(), node)
}

fn put(number: u32) -> Request {
    let pair = Pair { key: number.to_le_bytes().to_vec(), value: Vec::new() };
    Request::Put { database: "db".into(), pair, advice: None }
}

fn answer(mut node: &UnixStream, serial: Serial, answer: AnswerResult) {
    std::io::Write::write_all(&mut node, &encode_down(&Down::Answer(serial, answer))).unwrap();
}

/// The node enforces the limit of a request; the client waits for the margin longer.
#[test]
fn a_request_has_its_limit_and_the_margin() {
    let now = Arc::new(AtomicU64::new(0));
    let shown = Arc::clone(&now);
    let (link, _node) = link(Clock::reading(move || Duration::from_millis(shown.load(Ordering::SeqCst))));
    let patience = link.waits(SECONDS_30).unwrap();
    now.store(89_999, Ordering::SeqCst);
    assert_eq!(patience.left(), Some(Duration::from_millis(1)));
    now.store(90_000, Ordering::SeqCst);
    assert_eq!((patience.left(), patience.duration()), (None, Duration::from_secs(90)));
    assert_eq!(link.waits(Duration::MAX).unwrap().duration(), FAR);
}

#[test]
fn a_silent_node_is_waited_for_until_the_limit() {
    let (link, _node) = link(jumps_to(90_000));
    let fault = link.ask(&Request::Init, SECONDS_30).unwrap_err();
    let expected = Fault::new(FaultKind::TimedOut, "the node has not answered within 90s");
    assert_eq!(fault, expected);
}

/// One millisecond before its limit a commit waits for the put, and at the limit it fails.
#[test]
fn a_commit_waits_until_its_limit() {
    for (millis, is_late) in [(89_999, false), (90_000, true)] {
        let (mut link, node) = link(Clock::system());
        link.put("db", &put(1), SECONDS_30).unwrap();
        link.clock = jumps_to(millis);
        if !is_late {
            answer(&node, 0, Ok(Answer::Done));
        }
        let committed = link.commit("db", SECONDS_30);
        assert_eq!(
            committed.map_err(|fault| fault.kind),
            if is_late { Err(FaultKind::TimedOut) } else { Ok(()) }
        );
    }
}

/// As many requests as a node takes are unanswered: one more waits until its limit.
#[test]
fn a_request_waits_for_room_until_its_limit() {
    for (millis, is_late) in [(89_999, false), (90_000, true)] {
        let (mut link, node) = link(Clock::system());
        let mut state = link.shared.state();
        for _ in 0..UNANSWERED_MAX {
            let serial = state.take_serial();
            state.open.insert(serial, AnswerTarget::Put("db".into()));
        }
        drop(state);
        link.clock = jumps_to(millis);
        if !is_late {
            answer(&node, 7, Ok(Answer::Done));
        }
        let sent = link.put("db", &put(9999), SECONDS_30);
        let late = format!("{UNANSWERED_MAX} requests of this process are unanswered");
        let expected = if is_late { Err(Fault::new(FaultKind::TimedOut, late)) } else { Ok(()) };
        assert_eq!(sent, expected);
    }
}

/// Each way in which a request ends gives its place back.
#[test]
fn nothing_is_left_of_a_request_that_has_ended() {
    let (mut link, mut node) = link(Clock::system());
    let held = |link: &Link| {
        let state = link.shared.state();
        (state.open.len(), state.puts.last("db"))
    };
    // Too large to be sent: no place is taken, and no commit waits.
    let large = |value| Request::Deposit(Pair { key: Vec::new(), value });
    let fault = link.ask(&large(vec![0; 40 << 20]), SECONDS_30).unwrap_err();
    assert_eq!((fault.kind, held(&link)), (FaultKind::TooLarge, (0, None)));
    let pair = Pair { key: Vec::new(), value: vec![0; 40 << 20] };
    let large_put = Request::Put { database: "db".into(), pair, advice: None };
    let fault = link.put("db", &large_put, SECONDS_30).unwrap_err();
    assert_eq!((fault.kind, held(&link)), (FaultKind::TooLarge, (0, None)));
    // An abort has no answer, and a number of its own.
    link.say(&Request::Abort { code: 1, message: "no".into() }).unwrap();
    assert_eq!(held(&link), (0, None));
    link.put("db", &put(5), SECONDS_30).unwrap();
    assert_eq!(held(&link), (1, Some(3)));
    let mut sent = vec![0; MAGIC.len()];
    node.read_exact(&mut sent).unwrap();
    assert_eq!(sent, MAGIC);
    for (serial, request) in [(2, Request::Abort { code: 1, message: "no".into() }), (3, put(5))] {
        let expected = encode_up(serial, &request).unwrap();
        let mut frame = vec![0; expected.len()];
        node.read_exact(&mut frame).unwrap();
        assert_eq!(frame, expected);
        assert_eq!(body_of(serial, &request).unwrap(), expected[4..]);
    }
    // The end of the link fails what is open, with the first reason.
    link.end("the first reason");
    link.end("the second reason");
    link.clock = jumps_to(90_000);
    assert_eq!(link.commit("db", SECONDS_30).unwrap_err().message, "the first reason");
    assert_eq!(link.ask(&Request::Init, SECONDS_30).unwrap_err().message, "the first reason");
    assert_eq!(held(&link).0, 0);
}

/// The reader thread runs the callbacks of deaths: a request from there would wait for an answer that nobody reads.
#[test]
fn a_callback_cannot_wait_for_an_answer() {
    let (link, node) = link(Clock::system());
    let link = Arc::new(link);
    let (asks, group) = (Arc::clone(&link), GroupId(4));
    let (sender, waited) = channel();
    let sink = Sink::Call(Box::new(move |_| sender.send(asks.waits(SECONDS_30).map(drop)).unwrap()));
    let subscribing = Arc::clone(&link);
    let subscribed = thread::spawn(move || subscribing.subscribe(group, sink, SECONDS_30));
    // Ends: the request is sent.
    while link.shared.state().open.is_empty() {
        thread::yield_now();
    }
    answer(&node, 0, Ok(processes_of(group)));
    assert_eq!(subscribed.join().unwrap(), Ok(()));
    let member = crate::names::Member { group, rank: 0 };
    let death = Death { member, exit: crate::exit::Exit::Signal(9), finalized: false };
    std::io::Write::write_all(&mut &node, &encode_down(&Down::Notice(death))).unwrap();
    assert_eq!(waited.recv().unwrap().map_err(|fault| fault.kind), Err(FaultKind::BadRequest));
    link.end("the test is over");
}

fn processes_of(group: GroupId) -> Answer {
    Answer::Rosters(vec![Roster { group, database: "db".into(), spans: vec![Span::whole(group)] }])
}

/// An answer to a request that was never made ends the link; a late one, whose request has given up, does not.
#[test]
fn an_answer_belongs_to_a_request_that_was_made() {
    let (link, _node) = link(jumps_to(90_000));
    let take = |serial| super::answer(&link.shared, &mut Subscriptions::default(), serial, Ok(Answer::Done));
    assert_eq!(take(0), Err("the node answers the request 0, which was not made".into()));
    link.ask(&Request::Init, SECONDS_30).unwrap_err();
    assert_eq!((take(0), take(0)), (Ok(()), Ok(())));
    assert!(take(1).is_err());
    assert!(link.shared.state().open.is_empty());
}

/// A subscription that the node refuses ends with its answer: the subscriber is told nothing more.
#[test]
fn a_refused_subscription_is_dropped() {
    let (link, _node) = link(Clock::system());
    let refused = Fault::new(FaultKind::NoGroup, "no such group");
    for accepted in [false, true] {
        let ((sender, answered), (queue, deaths)) = (channel(), channel());
        let target = AnswerTarget::Subscription(sender, Sink::Queue(queue));
        let serial = link.shared.state().take_serial();
        link.shared.state().open.insert(serial, target);
        let mut subscriptions = Subscriptions::default();
        let said = if accepted { Ok(processes_of(GroupId(4))) } else { Err(refused.clone()) };
        super::answer(&link.shared, &mut subscriptions, serial, said.clone()).unwrap();
        assert_eq!(answered.recv().unwrap(), said);
        let ended = deaths.try_recv().unwrap_err() == std::sync::mpsc::TryRecvError::Disconnected;
        assert_eq!(ended, !accepted);
    }
}

/// A node that reads nothing must not keep a process for ever. A node that reads slowly gets every byte.
#[test]
fn a_node_that_reads_nothing_is_given_up() {
    let (link, mut node) = link(Clock::system());
    let socket = UnixStream::from(link.shared.socket.try_clone().unwrap());
    assert_eq!(socket.write_timeout().unwrap(), Some(STUCK));
    let large = Request::Deposit(Pair { key: Vec::new(), value: vec![7; 8 << 20] });
    let frame = encode_up(0, &large).unwrap();
    let expected = [&MAGIC[..], &frame].concat();
    thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut got = vec![0; expected.len()];
            got.chunks_mut(10_000).for_each(|piece| node.read_exact(piece).unwrap());
            got == expected
        });
        link.shared.write(&frame);
        assert!(reading.join().unwrap());
    });
    // The same socket, with a time that a test can wait for.
    socket.set_write_timeout(Some(Duration::from_millis(1))).unwrap();
    link.shared.write(&frame);
    let fault = link.ask(&Request::Init, SECONDS_30).unwrap_err();
    assert_eq!((fault.kind, fault.message.as_str()), (FaultKind::Link, "the node has read nothing for 60s"));
}
