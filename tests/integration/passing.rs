//! Data that pass through a node, without sockets: two links in a row, whose bytes move in random order.
//!
//! In any order of reads and writes, both nodes get all data, and neither holds more than a window.

use std::sync::Arc;
use std::time::Duration;

use crate::wire_support::{drain, greeted};
use bytes::Bytes;
use chained_gpc::link::{Context, Event, Inbox, Outbox};
use chained_gpc::wire::frame::{FRAME_MAX, FrameError, Kind, SEGMENT, WINDOW};
use chained_gpc::wire::{Body, CallId, Message, Request};
use gpc_trees::{IdList, Tree};
use proptest::prelude::*;

/// Every function takes its data as they arrive.
struct Streaming;

impl Context for Streaming {
    fn tree(&self, _id: u64) -> Option<Tree> {
        None
    }

    fn awaits(&self, _call: CallId) -> bool {
        true
    }

    fn reply_max(&self) -> u64 {
        u64::MAX
    }

    fn streams(&self, _func: u64) -> bool {
        true
    }
}

const CALL: CallId = CallId { root: 3, sequence: 8 };

fn request(data: Body) -> Request {
    Request {
        call: CALL,
        position: 1,
        total: 9,
        func: 1,
        callback: None,
        local: Default::default(),
        reply_limits: Default::default(),
        reply_wanted: true,
        forward_first: true,
        partial: false,
        adopted: false,
        skipped: 0,
        age: Duration::ZERO,
        left: Duration::from_secs(1),
        limit: Duration::from_secs(1),
        tree: Ok(Tree::Chain),
        ids: IdList::range(4..6),
        header: Bytes::from_static(b"header"),
        data,
        parts: None,
    }
}

fn outbox(credit: u32) -> Outbox {
    let mut outbox = Outbox::new();
    outbox.add_credit(credit);
    outbox
}

/// A link from a parent to a child, and the child's part of the request.
struct Link {
    down: Outbox,
    up: Outbox,
    parent: Inbox,
    child: Inbox,
    received: Option<Body>,
    taken: Vec<u8>,
    /// Bytes that were read directly to their destination.
    direct: usize,
}

impl Link {
    fn new(credit: u32) -> Link {
        let (down, up) = (outbox(credit), outbox(0));
        let (parent, child) = (greeted(), greeted());
        Link { down, up, parent, child, received: None, taken: Vec::new(), direct: 0 }
    }

    /// The child reads up to `max` bytes, directly to their destination if it is known. Returns whether there were any.
    fn transfer(&mut self, max: usize) -> bool {
        let bytes = crate::wire_support::drain_once(&mut self.down, max);
        let mut events = Vec::new();
        let room = self.child.read_buffer().map_or(0, |room| {
            let count = room.len().min(bytes.len());
            room[..count].copy_from_slice(&bytes[..count]);
            count
        });
        let filled = self.child.commit_read(bytes.len(), &mut events);
        assert_eq!(filled, room);
        self.direct += filled;
        self.child.feed(&bytes[filled..], &Streaming, &mut events).expect("a sender keeps to the window");
        for event in events {
            match event {
                Event::Request(request) => self.received = Some(request.data.clone()),
                Event::StreamedData(CALL) | Event::DataArrived(CALL) => {}
                other => panic!("nobody sent {other:?}"),
            }
        }
        !bytes.is_empty()
    }

    /// The child's func takes up to `max` bytes.
    fn take(&mut self, max: usize) -> bool {
        let Some(body) = &self.received else { return false };
        let piece = body.read(self.taken.len() as u64, max);
        self.taken.extend_from_slice(&piece);
        body.passed(self.taken.len() as u64);
        !piece.is_empty()
    }

    /// The child extends the parent's window.
    fn grant(&mut self) -> bool {
        self.child.take_windows(|window| self.up.push_window(&window));
        let mut events = Vec::new();
        self.parent.feed(&drain(&mut self.up, usize::MAX), &Streaming, &mut events).expect("good windows");
        for event in &events {
            let Event::Window(window) = event else { panic!("nobody sent {event:?}") };
            self.down.extend_window(window);
        }
        !events.is_empty()
    }

    /// Bytes that the child holds: arrived and not yet taken by all.
    fn held(&self, slowest: usize) -> u64 {
        self.received.as_ref().map_or(0, |body| body.arrived() - slowest as u64)
    }
}

#[derive(Clone, Debug)]
enum Op {
    Transfer(usize, usize),
    Take(usize, usize),
    Grant(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0usize..2, prop_oneof![1usize..40, 1usize..FRAME_MAX]).prop_map(|(link, max)| Op::Transfer(link, max)),
        3 => (0usize..2, 1usize..FRAME_MAX).prop_map(|(link, max)| Op::Take(link, max)),
        2 => (0usize..2).prop_map(Op::Grant),
    ]
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// A parent, a node in the middle, and its child.
struct Row {
    links: [Link; 2],
    forwarded: Option<Body>,
    /// Whether the middle has credit to forward the request.
    leave: bool,
}

impl Row {
    fn new(data: &[u8], leave: bool) -> Row {
        let mut links = [Link::new(1), Link::new(u32::from(leave))];
        links[0].down.push(Message::Request(Arc::new(request(Body::whole(data.to_vec())))));
        Row { links, forwarded: None, leave }
    }

    fn apply(&mut self, op: &Op) -> bool {
        let done = match *op {
            Op::Transfer(link, max) => self.links[link].transfer(max),
            Op::Take(link, max) => self.links[link].take(max),
            Op::Grant(link) => self.links[link].grant(),
        };
        if let (None, Some(body)) = (&self.forwarded, &self.links[0].received) {
            let child = body.fork();
            self.forwarded = Some(child.clone());
            self.links[1].down.push(Message::Request(Arc::new(request(child))));
        }
        done
    }

    /// Applies all operations until none has an effect.
    fn settle(&mut self) {
        let ops =
            [0, 1].map(|link| [Op::Transfer(link, 100_000), Op::Take(link, usize::MAX), Op::Grant(link)]);
        while ops.iter().flatten().fold(false, |any, op| self.apply(op) | any) {
            self.check_bounds();
        }
    }

    fn check_bounds(&self) {
        let [first, second] = &self.links;
        if self.leave {
            let slowest =
                first.taken.len().min(second.received.as_ref().map_or(0, |body| body.arrived() as usize));
            // The middle cuts another segment for its child while fewer than two wait to be written; the first ones
            // include the request.
            assert!(
                first.held(slowest) <= WINDOW + 3 * SEGMENT as u64 + (1 << 16),
                "{}",
                first.held(slowest)
            );
        }
        assert!(second.held(second.taken.len()) <= WINDOW);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn what_passes_through_is_what_was_sent(
        len in prop_oneof![1usize..100_000, (WINDOW as usize) / 2..3 * (WINDOW as usize)],
        ops in prop::collection::vec(op(), 0..300),
    ) {
        let data = pattern(len);
        let mut row = Row::new(&data, true);
        for op in &ops {
            row.apply(op);
            row.check_bounds();
        }
        row.settle();
        for link in &row.links {
            prop_assert!(link.taken == data, "{} bytes of {}", link.taken.len(), data.len());
            prop_assert!(link.child.is_idle() && link.down.is_idle());
        }
    }
}

/// Otherwise calls with credit could wait in a cycle for calls without.
#[test]
fn a_child_that_has_no_leave_to_begin_is_not_waited_for() {
    let data = pattern(3 * WINDOW as usize);
    let mut row = Row::new(&data, false);
    row.settle();
    assert!(row.links[0].taken == data && row.links[0].child.is_idle() && row.links[1].received.is_none());
    row.links[1].down.add_credit(1);
    row.settle();
    assert!(row.links[1].taken == data && row.links[1].down.is_idle());
}

#[test]
fn who_takes_nothing_gets_a_window_and_holds_up_nothing_else() {
    let data = pattern(3 * WINDOW as usize);
    let mut link = Link::new(1);
    link.down.push(Message::Request(Arc::new(request(Body::whole(data)))));
    while link.transfer(1 << 18) {
        assert!(!link.grant());
    }
    assert_eq!(link.held(0), WINDOW);
    assert!(
        link.down.is_streaming() && link.down.backlog() == 0,
        "what may not be sent is no backlog of the peer's"
    );
    link.down.push(Message::Ping);
    let mut events = Vec::new();
    link.child.feed(&drain(&mut link.down, usize::MAX), &Streaming, &mut events).unwrap();
    assert!(matches!(events[..], [Event::Ping]));
}

#[test]
fn long_segments_go_where_they_belong_without_a_copy() {
    let data = pattern(2 << 20);
    let mut link = Link::new(1);
    link.down.push(Message::Request(Arc::new(request(Body::whole(data.clone())))));
    // The head of a segment, then a read that ends with it.
    loop {
        let most = link.child.read_buffer().map_or(24, |room| room.len());
        if !link.transfer(most) {
            break;
        }
        link.take(usize::MAX);
    }
    link.take(usize::MAX);
    assert!(link.taken == data && link.direct > data.len() * 9 / 10, "{} of {}", link.direct, data.len());
}

#[test]
fn a_call_that_ends_while_a_segment_passes_drops_the_rest() {
    let data = pattern(2 << 20);
    for bytes in [100, 10_000, 200_000] {
        let mut link = Link::new(1);
        link.down.push(Message::Request(Arc::new(request(Body::whole(data.clone())))));
        link.transfer(200);
        link.transfer(bytes);
        link.child.drop_request(CALL);
        assert!(link.child.read_buffer().is_none());
        while link.transfer(50_000) {}
        assert!(link.child.is_idle() && link.received.as_ref().unwrap().arrived() < 1 << 18);
    }
}

/// A sender beyond its window would fill the memory of a slow node.
#[test]
fn bytes_beyond_the_window_are_refused() {
    let mut link = Link::new(1);
    link.down.push(Message::Request(Arc::new(request(Body::whole(pattern(2 * WINDOW as usize))))));
    while link.transfer(1 << 18) {}
    let segment =
        [&17u32.to_le_bytes()[..], &[4, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0], &8u64.to_le_bytes(), &[7]];
    let error = link.child.feed(&segment.concat(), &Streaming, &mut Vec::new()).unwrap_err();
    assert_eq!(error, FrameError::OutOfPlace { kind: Kind::Segment, when: "beyond the window of its body" });
}
