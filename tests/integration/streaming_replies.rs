//! Streaming replies without sockets: two children, a node in the middle that forwards their replies, and a root that
//! gathers all. Bytes move in random order.
//!
//! In any order of reads and writes, the root gets the aggregate of all replies, or the failure that ended it. The
//! middle holds at most a window of each child's reply.

use crate::wire_support::{drain, greeted};
use chained_gpc::link::{Context, Event, Inbox, Outbox};
use chained_gpc::wire::frame::{FRAME_MAX, FrameError, Kind, SEGMENT, WINDOW};
use chained_gpc::wire::level::{Leaves, Limits};
use chained_gpc::wire::message::{Answer, SubtreeReply};
use chained_gpc::wire::streaming_reply::{ChildReply, StreamingPart, StreamingReply, aggregate_streaming};
use chained_gpc::wire::{
    Body, CallId, Cause, CauseKind, Coverage, Failure, Message, Payload, Response, Stage, Status,
};
use gpc_trees::Tree;
use proptest::prelude::*;

const CALL: CallId = CallId { root: 3, sequence: 8 };

/// A receiver that awaits the call, and perhaps forwards long replies.
#[derive(Clone, Copy)]
struct Parent {
    passes_on: bool,
    reply_max: u64,
    /// Whether the call has ended there.
    over: bool,
}

const PASSES_ON: Parent = Parent { passes_on: true, reply_max: u64::MAX, over: false };
const GATHERS: Parent = Parent { passes_on: false, reply_max: u64::MAX, over: false };

impl Context for Parent {
    fn tree(&self, _id: u64) -> Option<Tree> {
        None
    }

    fn awaits(&self, call: CallId) -> bool {
        call == CALL && !self.over
    }

    fn reply_max(&self) -> u64 {
        self.reply_max
    }

    fn passes_on(&self, call: CallId) -> bool {
        self.passes_on && call == CALL
    }
}

fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| ((at + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn reply(answer: Answer) -> Message {
    Message::Response(Response { call: CALL, answer })
}

/// An answer with level-0 data.
fn whole(seed: usize, header: usize, data: usize) -> Answer {
    let leaf = |bytes: Vec<u8>| Payload::from([format!("{} ", bytes.len()).as_bytes(), &bytes].concat());
    Answer::Reply(SubtreeReply {
        level: 0,
        header: leaf(pattern(seed, header)),
        data: leaf(pattern(seed, data)),
        ..SubtreeReply::default()
    })
}

fn failure(message: &str) -> Answer {
    // Alternating statuses make the report as long as requested.
    let mut coverage = Coverage::new();
    for place in 0..if message == "long" { 100_000 } else { 2 } {
        coverage.push(if place % 2 == 0 { Status::Done } else { Status::Unknown }, 1);
    }
    Answer::Failed(Box::new(Failure {
        cause: Cause::new(5, Stage::Link, CauseKind::LinkLost, message),
        coverage,
    }))
}

/// A link from a child to its parent, and the parent's part of the response.
struct Link {
    up: Outbox,
    down: Outbox,
    parent: Inbox,
    child: Inbox,
    context: Parent,
    events: Vec<Event>,
    /// Bytes that were read directly to their destination.
    direct: usize,
}

impl Link {
    fn new(context: Parent) -> Link {
        let (up, down) = (Outbox::new(), Outbox::new());
        Link { up, down, parent: greeted(), child: greeted(), context, events: Vec::new(), direct: 0 }
    }

    /// The parent reads up to `max` bytes, directly to their destination if it is known. Returns whether there were
    /// any.
    fn transfer(&mut self, max: usize) -> bool {
        let bytes = crate::wire_support::drain_once(&mut self.up, max);
        let room = self.parent.read_buffer().map_or(0, |room| {
            let count = room.len().min(bytes.len());
            room[..count].copy_from_slice(&bytes[..count]);
            count
        });
        let filled = self.parent.commit_read(bytes.len(), &mut self.events);
        assert_eq!(filled, room);
        self.direct += filled;
        self.parent
            .feed(&bytes[filled..], &self.context, &mut self.events)
            .expect("a sender keeps to the window");
        !bytes.is_empty()
    }

    /// The parent extends the child's window.
    fn grant(&mut self) -> bool {
        self.parent.take_windows(|window| self.down.push_window(&window));
        self.obey()
    }

    /// The child handles the parent's frames.
    fn obey(&mut self) -> bool {
        let mut events = Vec::new();
        self.child.feed(&drain(&mut self.down, usize::MAX), &GATHERS, &mut events).expect("good windows");
        for event in &events {
            match event {
                Event::Window(window) => self.up.extend_window(window),
                Event::Cancel(call) => self.up.stop_response(*call),
                other => panic!("nobody sent {other:?}"),
            }
        }
        !events.is_empty()
    }
}

#[derive(Clone, Debug)]
enum Op {
    Transfer(usize, usize),
    Grant(usize),
    /// A child fails, if failures are enabled.
    Fail(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0usize..3, prop_oneof![1usize..40, 1usize..FRAME_MAX]).prop_map(|(link, max)| Op::Transfer(link, max)),
        4 => (0usize..3).prop_map(Op::Grant),
        1 => (1usize..3).prop_map(Op::Fail),
    ]
}

/// Link 0 goes from the middle up to the root, the others from the children to the middle.
struct Tree3 {
    links: [Link; 3],
    heads: [Option<ChildReply>; 2],
    /// The middle's part of each child's reply.
    bodies: [Option<Body>; 2],
    own: Vec<u8>,
    given: bool,
    arrived: [bool; 2],
    fails: bool,
    failed: bool,
    told: Option<Answer>,
}

impl Tree3 {
    fn new(own: usize, children: [Answer; 2], fails: bool) -> Tree3 {
        let mut links = [GATHERS, PASSES_ON, PASSES_ON].map(Link::new);
        for (link, answer) in links[1..].iter_mut().zip(children) {
            link.up.push(reply(answer));
        }
        Tree3 {
            links,
            heads: [None, None],
            bodies: [None, None],
            own: pattern(7, own),
            given: false,
            arrived: [false; 2],
            fails,
            failed: false,
            told: None,
        }
    }

    fn apply(&mut self, op: &Op) -> bool {
        let done = match *op {
            Op::Transfer(link, max) => self.links[link].transfer(max),
            Op::Grant(link) => self.links[link].grant(),
            // A child whose reply has left completely does not fail.
            Op::Fail(link) if self.fails && !self.failed && self.links[link].up.response_count() > 0 => {
                self.failed = true;
                self.links[link].up.push(reply(failure(if link == 1 { "short" } else { "long" })));
                true
            }
            Op::Fail(_) => false,
        };
        self.hear();
        done
    }

    /// The middle and the root handle what has arrived.
    fn hear(&mut self) {
        for child in [0, 1] {
            for event in std::mem::take(&mut self.links[child + 1].events) {
                match event {
                    Event::Response(Response { answer: Answer::Arriving(reply), .. }) => {
                        let [StreamingPart::Arriving(body)] = reply.data.parts() else { panic!("{reply:?}") };
                        self.bodies[child] = Some(body.clone());
                        self.heads[child] = Some(ChildReply::Arriving(*reply));
                    }
                    Event::Response(Response { answer: Answer::Reply(reply), .. }) => {
                        self.arrived[child] = true;
                        self.heads[child] = Some(ChildReply::Whole(reply));
                    }
                    Event::Response(Response { answer: failed @ Answer::Failed(_), .. }) => {
                        assert!(self.failed && !self.arrived[child]);
                        self.given = true;
                        self.links[0].up.push(reply(failed));
                        let other = &mut self.links[2 - child];
                        other.context.over = true;
                        other.parent.drop_response(CALL);
                        other.down.push(Message::Cancel(CALL));
                        other.obey();
                    }
                    Event::ReplyArrived(CALL) => self.arrived[child] = true,
                    Event::UnawaitedReply(CALL) => {
                        assert!(self.failed, "somebody waits for it");
                        self.links[child + 1].down.push(Message::Cancel(CALL));
                        self.links[child + 1].obey();
                    }
                    Event::DataGrew | Event::ReplyStarted => {}
                    other => panic!("nobody sent {other:?}"),
                }
            }
        }
        if let ([Some(_), Some(_)], false) = (&self.heads, self.given) {
            self.given = true;
            let heads: Vec<ChildReply> = self.heads.iter_mut().filter_map(Option::take).collect();
            let reply = aggregate_streaming(Some((Default::default(), self.own.clone().into())), &heads)
                .expect("two levels");
            self.links[0].up.push(self::reply(Answer::Arriving(Box::new(reply))));
        }
        for event in std::mem::take(&mut self.links[0].events) {
            match event {
                Event::Response(response) => {
                    assert!(self.told.replace(response.answer).is_none(), "told twice")
                }
                Event::ReplyStarted => {}
                other => panic!("nobody sent {other:?}"),
            }
        }
    }

    /// Applies all operations until none has an effect.
    fn settle(&mut self) {
        let ops = [0, 1, 2].map(|link| [Op::Transfer(link, 100_000), Op::Grant(link)]);
        while ops.iter().flatten().fold(false, |any, op| self.apply(op) | any) {
            self.check_bounds();
        }
    }

    fn check_bounds(&self) {
        for body in self.bodies.iter().flatten() {
            assert!(body.arrived() - body.taken() <= WINDOW, "{body:?}, {} taken", body.taken());
        }
    }
}

/// The leaves of a reply.
fn leaves(reply: &SubtreeReply) -> Vec<Vec<u8>> {
    let data = reply.data.to_bytes();
    Leaves::new(reply.level, &data, Limits::default())
        .map(|leaf| leaf.expect("level-n data").to_vec())
        .collect()
}

fn length() -> impl Strategy<Value = usize> {
    let window = WINDOW as usize;
    prop_oneof![
        0usize..100,
        SEGMENT - 60..SEGMENT + 3,
        300_000usize..900_000,
        window - 9..window + 9,
        window..3 * window
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_root_gets_all_in_order_or_the_failure(
        (own, one, two) in (length(), length(), length()),
        headers in (prop_oneof![Just(0usize), 0usize..600_000], 0usize..40),
        fails: bool,
        ops in prop::collection::vec(op(), 0..200),
    ) {
        let mut tree = Tree3::new(own, [whole(1, headers.0, one), whole(2, headers.1, two)], fails);
        for op in &ops {
            tree.apply(op);
            tree.check_bounds();
        }
        tree.settle();
        match tree.told.take() {
            Some(Answer::Reply(reply)) if !tree.failed => {
                let parts = [pattern(7, own), pattern(1, one), pattern(2, two)];
                prop_assert!(leaves(&reply) == parts, "{:?}", reply);
            }
            Some(Answer::Failed(_)) if tree.failed => {}
            other => prop_assert!(false, "{other:?}, failed: {}", tree.failed),
        }
        for link in &tree.links {
            prop_assert!(link.parent.is_idle() && link.up.is_idle());
        }
    }
}

/// Small messages pass a reply whose window is used up; the reply does not count as backlog, so credit is returned.
#[test]
fn a_reply_that_nobody_takes_is_a_window_and_holds_up_nothing_else() {
    let mut link = Link::new(PASSES_ON);
    link.up.push(reply(whole(1, 0, 3 * WINDOW as usize)));
    while link.transfer(1 << 18) {
        assert!(!link.grant());
    }
    let Event::Response(Response { answer: Answer::Arriving(reply), .. }) = &link.events[1] else {
        panic!("{:?}", link.events)
    };
    assert_eq!(reply.len(), 3 * WINDOW + 11);
    let [StreamingPart::Arriving(body)] = reply.data.parts() else { panic!("{reply:?}") };
    assert_eq!((body.arrived(), body.taken()), (WINDOW, 0));
    assert_eq!((link.up.backlog(), link.up.response_count(), link.up.is_streaming()), (0, 1, true));
    let before = link.events.len();
    link.up.push(Message::Ping);
    assert!(link.transfer(100));
    assert!(matches!(link.events[before..], [Event::Ping]));
}

/// The root is as fast as its link: once the first bytes arrive, it grants all of a reply that it needs whole.
#[test]
fn who_gathers_a_reply_grants_all_of_it_at_once() {
    let mut link = Link::new(GATHERS);
    link.up.push(reply(whole(1, 0, 3 * WINDOW as usize)));
    assert!(
        link.transfer(1 << 19) && link.parent.owes_window() && link.grant() && !link.parent.owes_window()
    );
    while link.transfer(1 << 20) {}
    assert!(matches!(&link.events[..], [Event::ReplyStarted, Event::Response(_)]) && link.up.is_idle());
}

/// While a long header arrived, its sender was said to need a window even if all its data fit the first one. The
/// simulator found it with seed 8812300543, over 24 ids in a chain.
#[test]
fn a_sender_whose_data_fit_the_first_window_needs_no_other() {
    let mut link = Link::new(PASSES_ON);
    link.up.push(reply(whole(1, 3 * SEGMENT, 2 * SEGMENT)));
    while link.transfer(SEGMENT / 4) {
        assert!(!link.parent.owes_window());
    }
    assert!(matches!(link.events[0], Event::Response(_)), "{:?}", link.events[0]);
    assert!(link.parent.is_idle() && link.up.response_count() <= 1);
}

#[test]
fn long_segments_of_a_reply_go_where_they_belong_without_a_copy() {
    let mut link = Link::new(PASSES_ON);
    link.up.push(reply(whole(1, 0, 2 << 20)));
    // The head of a segment, then a read that ends with it.
    loop {
        let most = link.parent.read_buffer().map_or(24, |room| room.len());
        if !link.transfer(most) {
            break;
        }
    }
    assert!(link.direct > (2 << 20) * 8 / 10, "{}", link.direct);
    assert!(link.events.iter().any(|event| matches!(event, Event::ReplyArrived(CALL))));
}

#[test]
fn a_call_that_ends_while_a_reply_comes_drops_the_rest_and_its_sender_stops() {
    for (context, bytes) in [(PASSES_ON, 1), (PASSES_ON, 100_000), (PASSES_ON, 400_000), (GATHERS, 400_000)] {
        let mut link = Link::new(context);
        link.up.push(reply(whole(1, 0, 3 << 20)));
        link.transfer(300_000);
        link.transfer(bytes);
        link.parent.drop_response(CALL);
        assert!(link.parent.read_buffer().is_none());
        link.down.push(Message::Cancel(CALL));
        link.obey();
        let before = link.events.len();
        while link.transfer(50_000) {}
        assert!(link.parent.is_idle() && link.up.is_idle() && link.events.len() == before);
    }
}

/// Feeds frames of a peer that ignores the protocol.
fn lying(frames: &[Vec<u8>], context: Parent) -> (Vec<Event>, Result<(), FrameError>) {
    let (mut inbox, mut events) = (greeted(), Vec::new());
    let result = frames.iter().try_for_each(|frame| inbox.feed(frame, &context, &mut events));
    (events, result)
}

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_le_bytes()[..], &[kind, flags, 0, 0], payload].concat()
}

fn head(status: u8, header_len: u64, data_len: u64) -> Vec<u8> {
    let mut fixed = vec![3, 0, 0, 0, 0, 0, status, 0];
    [8, header_len, data_len, 0].iter().for_each(|field: &u64| fixed.extend_from_slice(&field.to_le_bytes()));
    frame(3, 0, &fixed)
}

fn segment(len: usize) -> Vec<u8> {
    frame(4, 1, &[&[3, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0], &vec![7; len][..]].concat())
}

#[test]
fn a_peer_that_lies_about_its_reply_loses_the_link() {
    let refused = |frames: &[Vec<u8>]| {
        let [one, two] = [PASSES_ON, GATHERS].map(|context| lying(frames, context).1.unwrap_err());
        assert_eq!(one, two);
        one
    };
    let long = 300_000;
    let most = vec![segment(1 << 19); 8];
    let beyond = [vec![head(1, 0, 2 * WINDOW)], most, vec![segment(1)]].concat();
    let out = |kind, when| FrameError::OutOfPlace { kind, when };
    assert_eq!(refused(&beyond), out(Kind::Segment, "beyond the window of its body"));
    assert_eq!(
        refused(&[head(1, 9, 2 * WINDOW), segment(5), segment(1 << 19), head(1, 9, 2 * WINDOW)]),
        out(Kind::Response, "for a call whose response is still arriving")
    );
    let more = refused(&[head(1, 0, long), segment(299_999), segment(2)]);
    assert_eq!(more, FrameError::TooMuch { kind: Kind::Segment, extra: 1 });
    for second in [head(0, 0, 0), head(1, 0, 0), head(1, 0, long), head(3, 0, long)] {
        let error = refused(&[head(1, 0, long), segment(9), second]);
        assert_eq!(error, out(Kind::Response, "for a call whose response is still arriving"));
    }
}

/// Announced lengths take no memory, and lengths beyond any memory cause no panic.
#[test]
fn any_lengths_may_be_announced() {
    for (header_len, data_len) in
        [(0, u64::MAX), (1, u64::MAX - 1), (u64::MAX - 300_000, 300_000), (300_000, 0)]
    {
        for context in [PASSES_ON, GATHERS, Parent { reply_max: 299_999, ..PASSES_ON }] {
            let (events, result) = lying(&[head(1, header_len, data_len), segment(1 << 19)], context);
            assert!(result.is_ok() || header_len == 300_000, "{events:?}");
        }
    }
}

/// A second failure does not end the first: its report is still arriving.
#[test]
fn a_failure_under_way_is_not_replaced() {
    let mut outbox = Outbox::new();
    outbox.push(reply(failure("long")));
    let bytes = drain(&mut outbox, 48 + SEGMENT);
    let (_, result) = lying(&[bytes.to_vec(), head(2, 0, 0)], PASSES_ON);
    let when = "for a call whose response is still arriving";
    assert_eq!(result, Err(FrameError::OutOfPlace { kind: Kind::Response, when }));
}

/// A reply that fails before its first byte leaves is dropped.
#[test]
fn a_failure_before_the_first_byte_is_all_there_is() {
    let mut link = Link::new(PASSES_ON);
    let (body, _writer) = Body::arriving(300_000);
    let arriving = StreamingReply { level: 0, header: Payload::new(), data: body.into() };
    link.up.push(reply(Answer::Arriving(Box::new(arriving))));
    link.up.push(reply(failure("short")));
    while link.transfer(1 << 18) {}
    let [Event::Response(Response { answer: Answer::Failed(_), .. })] = &link.events[..] else {
        panic!("{:?}", link.events)
    };
    assert!(link.up.is_idle());
}
