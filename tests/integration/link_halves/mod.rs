//! Both halves of a link, back to back: everything pushed into one leaves the other once, in order, complete.
//!
//! A model of both nodes records what was pushed, fed, cancelled and consumed. The bytes between the halves are split
//! at random positions. A reader that knows only frame headers counts the requests on the wire.

mod beside;
mod bounds;
mod ends;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::wire_support::{AROUND, Beside, Content, Plain, Seen, drain, drain_beside, drain_once, greeted};
use bytes::Bytes;
use chained_gpc::link::{Context, DescriptorRoom, Event, Inbox, Outbox};
use chained_gpc::wire::body::Extent;
use chained_gpc::wire::frame::{EXTENT, EXTENT_MAX, EXTENT_MIN, WINDOW};
use chained_gpc::wire::head::{Goodbye, GoodbyeReason, WindowRef};
use chained_gpc::wire::message::{Answer, Local, Partial, SubtreeReply};
use chained_gpc::wire::{
    Body, BodyWriter, CallId, Cause, CauseKind, Coverage, Failure, Message, Payload, ReplyLimits, Report,
    Request, Response, Stage, Status,
};
use gpc_trees::{IdList, Tree};
use proptest::prelude::*;

const HIWATER: u32 = 3;

/// Bytes that identify their call and position.
fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|place| (place.wrapping_mul(31) ^ (place >> 8) ^ seed) as u8).collect()
}

#[derive(Clone, Debug)]
enum Op {
    Request {
        ids: u32,
        header: usize,
        data: usize,
        arriving: bool,
    },
    Response {
        parts: Vec<usize>,
        kind: u8,
    },
    Feed {
        which: prop::sample::Index,
        bytes: usize,
    },
    Cancel(prop::sample::Index),
    Answered(prop::sample::Index),
    Drain {
        reads: Vec<usize>,
        writes: usize,
    },
    Consume,
    /// A small frame of a partial call, or a heartbeat.
    Small(u8),
}

/// Lengths near those at which the behaviour changes, and some in between.
fn length() -> impl Strategy<Value = usize> {
    prop_oneof![
        4 => 0usize..40,
        2 => (16usize << 10) - 80..(16 << 10) + 2,
        2 => (256usize << 10) - 2..(256 << 10) + 3,
        1 => (512usize << 10) - 2..(512 << 10) + 3,
        1 => 0usize..900_000,
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let ids = prop_oneof![8 => 1u32..6, 1 => Just(65_536u32), 1 => Just(70_000u32)];
    let header = prop_oneof![3 => Just(0usize), 1 => 0usize..65_537];
    let index = any::<prop::sample::Index>;
    prop_oneof![
        6 => (ids, header, length(), any::<bool>())
            .prop_map(|(ids, header, data, arriving)| Op::Request { ids, header, data, arriving }),
        3 => (prop::collection::vec(length(), 0..4), 0u8..4).prop_map(|(parts, kind)| Op::Response { parts, kind }),
        6 => (index(), 1usize..600_000).prop_map(|(which, bytes)| Op::Feed { which, bytes }),
        2 => index().prop_map(Op::Cancel),
        1 => index().prop_map(Op::Answered),
        6 => (prop::collection::vec(1usize..300_000, 1..4), 0usize..40)
            .prop_map(|(reads, writes)| Op::Drain { reads, writes }),
        2 => (prop::collection::vec(1usize..60, 1..6), 0usize..10)
            .prop_map(|(reads, writes)| Op::Drain { reads, writes }),
        2 => Just(Op::Consume),
        2 => (0u8..5).prop_map(Op::Small),
    ]
}

/// A channel for descriptors that has room now, later or never, and sometimes fails.
fn beside() -> impl Strategy<Value = Beside> {
    let room = prop_oneof![2 => Just(DescriptorRoom::Available), 1 => Just(DescriptorRoom::Full), 1 => Just(DescriptorRoom::Unsupported)];
    (prop::collection::vec(room, 0..30), any::<bool>()).prop_map(|(rooms, fails)| Beside {
        rooms: rooms.into(),
        fails,
        ..Beside::default()
    })
}

/// Counts frames by their headers alone.
#[derive(Default)]
struct Frames {
    held: Vec<u8>,
    skip: usize,
    counts: [u32; 15],
}

impl Frames {
    fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            (self.skip, bytes) = (self.skip - skipped, &bytes[skipped..]);
            let missing = (8 - self.held.len()).min(bytes.len());
            self.held.extend_from_slice(&bytes[..missing]);
            bytes = &bytes[missing..];
            if let Some(header) = self.held.first_chunk::<8>() {
                self.skip = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
                self.counts[usize::from(header[4])] += 1;
                self.held.clear();
            }
        }
    }
}

/// A pushed request, and its state at the other end.
struct Sent {
    seen: Seen,
    seed: u64,
    writer: Option<BodyWriter>,
    fed: usize,
    given_up: bool,
    arrived: Option<Body>,
    whole: u32,
}

struct Model {
    /// Channel for data by descriptor.
    beside: Option<Beside>,
    outbox: Outbox,
    inbox: Inbox,
    frames: Frames,
    on_the_wire: Vec<u8>,
    sent: BTreeMap<CallId, Sent>,
    order: Vec<CallId>,
    responses: BTreeMap<CallId, Content>,
    cancelled: BTreeSet<CallId>,
    small: VecDeque<String>,
    calls: u64,
    granted: u32,
    owed: u32,
    requests: u32,
    abandoned: u32,
}

impl Model {
    fn new(beside: Option<Beside>) -> Model {
        let mut outbox = Outbox::new();
        outbox.add_credit(HIWATER);
        Model {
            beside,
            outbox,
            inbox: greeted(),
            frames: Frames::default(),
            on_the_wire: Vec::new(),
            sent: BTreeMap::new(),
            order: Vec::new(),
            responses: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            small: VecDeque::new(),
            calls: 0,
            granted: HIWATER,
            owed: 0,
            requests: 0,
            abandoned: 0,
        }
    }

    /// Calls that await a response have even numbers; requests have odd ones.
    fn new_call(&mut self, of_request: bool) -> CallId {
        self.calls += 1;
        CallId { root: 3, sequence: 2 * self.calls + u64::from(of_request) }
    }

    fn request(&mut self, ids: u32, header: usize, data: usize, arriving: bool) {
        let call = self.new_call(true);
        let bytes = pattern(call.sequence, data);
        let (data, writer) = match arriving {
            true => {
                let (body, writer) = Body::arriving(bytes.len() as u64);
                (body, Some(writer))
            }
            false => (Body::whole(bytes), None),
        };
        let request = Request {
            call,
            position: ids + 3,
            total: 1 << 20,
            func: 7,
            callback: (ids == 2).then_some(9),
            local: Local { trace: ids == 6, ..Local::default() },
            reply_wanted: ids != 3,
            reply_limits: match header % 3 {
                0 => ReplyLimits { header_max: header as u64, data_max: call.sequence },
                _ => ReplyLimits::UNLIMITED,
            },
            forward_first: arriving,
            partial: ids == 4,
            adopted: ids == 5,
            skipped: data.len() as u32 % 3,
            age: Duration::from_millis(header as u64),
            left: Duration::from_millis(call.sequence),
            limit: Duration::from_micros(call.sequence),
            tree: Ok(Tree::Chain),
            ids: IdList::from_ids((0..ids).map(|id| 2 * id + 4)).expect("distinct ids"),
            header: pattern(!call.sequence, header).into(),
            data,
            parts: None,
        };
        let (seen, seed) = (Seen::of(&request), call.sequence);
        let sent = Sent { seen, seed, writer, fed: 0, given_up: false, arrived: None, whole: 0 };
        self.sent.insert(call, sent);
        self.order.push(call);
        self.outbox.push(Message::Request(Arc::new(request)));
    }

    fn response(&mut self, parts: &[usize], kind: u8) {
        let call = self.new_call(false);
        let mut payloads = [Payload::new(), Payload::new()];
        for (place, &len) in parts.iter().enumerate() {
            payloads[place % 2].push(pattern(call.sequence + place as u64, len).into());
        }
        let [header, data] = payloads;
        let answer = match kind {
            0 => Answer::Completed,
            1 => Answer::Reply(SubtreeReply { level: 2, header, data, ..SubtreeReply::default() }),
            _ => {
                let mut coverage = Coverage::new();
                for count in 0..data.len() / 50 {
                    coverage
                        .push(if count % 2 == 0 { Status::Done } else { Status::Unknown }, count as u32 + 1);
                }
                let cause = Cause::new(5, Stage::Forward, CauseKind::OverLimit, "é".repeat(header.len()));
                match kind {
                    2 => Answer::Failed(Box::new(Failure { cause, coverage })),
                    _ => {
                        let report = Report { causes: vec![cause; header.len() % 40], coverage };
                        let reply = SubtreeReply { level: 1, header, data, ..SubtreeReply::default() };
                        Answer::Partial(Box::new(Partial { reply, report }))
                    }
                }
            }
        };
        let response = Response { call, answer };
        self.responses.insert(call, Content::of(&response).1);
        self.outbox.push(Message::Response(response));
    }

    fn small(&mut self, which: u8) {
        let call = self.new_call(false);
        let (message, says) = match which {
            0 => (Message::Release(call), format!("release {call}")),
            1 => (Message::Moved(call), format!("moved {call}")),
            2 => (Message::Ping, "ping".into()),
            3 => (Message::Pause(Duration::from_millis(7)), "pause".into()),
            _ => (Message::Pong, "pong".into()),
        };
        let before = self.outbox.backlog();
        self.outbox.push(message);
        // Of several waiting PONGs one is sent.
        if self.outbox.backlog() > before || says != "pong" {
            self.small.push_back(says);
        }
    }

    /// Feeds more of the data to the sending node.
    fn feed(&mut self, call: CallId, bytes: usize) {
        let Some(sent) = self.sent.get_mut(&call) else { return };
        let Some(writer) = &mut sent.writer else { return };
        let all = pattern(sent.seed, sent.seen.data_len as usize);
        let end = sent.fed.saturating_add(bytes).min(all.len());
        // Data that reach the sending node by descriptor leave by descriptor, too.
        if self.beside.is_some() && (EXTENT_MIN..=EXTENT_MAX).contains(&(end - sent.fed)) && end % 3 > 0 {
            let extent: Extent = Arc::new(Plain(Bytes::copy_from_slice(&all[sent.fed..end])));
            assert!(writer.extend(&extent));
        } else {
            assert_eq!(writer.push(&all[sent.fed..end]), end - sent.fed);
        }
        sent.fed = end;
    }

    fn give_up(&mut self, call: CallId, answered: bool) {
        let Some(sent) = self.sent.get_mut(&call) else { return };
        if sent.given_up || (answered && sent.arrived.is_none()) {
            return;
        }
        sent.given_up = true;
        match answered {
            true => self.outbox.stop_request(call),
            false => self.outbox.push(Message::Cancel(call)),
        }
    }

    /// Plays the socket: some writes, then reads of the given sizes, repeatedly.
    fn transfer(&mut self, reads: &[usize], writes: usize) {
        for write in 0..writes {
            let max = reads[write % reads.len()];
            let bytes = match &mut self.beside {
                Some(beside) => drain_beside(&mut self.outbox, max, beside),
                None => drain_once(&mut self.outbox, max),
            };
            self.frames.take(&bytes);
            assert!(self.frames.counts[2] <= self.granted, "a request went out without credit");
            self.on_the_wire.extend_from_slice(&bytes);
        }
        let wire = Bytes::from(std::mem::take(&mut self.on_the_wire));
        let (mut at, mut events) = (0, Vec::new());
        for read in 0.. {
            let end = wire.len().min(at + reads[read % reads.len()]);
            if at == end {
                break;
            }
            let context = self.beside.as_ref().map_or(&AROUND as &dyn Context, |beside| beside);
            self.inbox.feed(&wire[at..end], context, &mut events).expect("good bytes");
            at = end;
        }
        events.into_iter().for_each(|event| self.event(event));
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Request(request) => {
                let sent = self.sent.get_mut(&request.call).expect("a request that was sent");
                assert_eq!(Seen::of(&request), sent.seen);
                assert!(sent.arrived.is_none(), "{} came twice", request.call);
                assert!(!self.cancelled.contains(&request.call), "a request came behind its cancel");
                sent.arrived = Some(request.data.clone());
                self.requests += 1;
                self.owed += 1;
            }
            Event::DataArrived(call) => {
                let sent = self.sent.get_mut(&call).expect("a request that was sent");
                assert!(!self.cancelled.contains(&call), "data came behind a cancel");
                assert!(sent.arrived.as_ref().is_some_and(|data| data.bytes().is_some()));
                sent.whole += 1;
            }
            Event::Response(response) => {
                let (call, content) = Content::of(&response);
                assert_eq!(self.responses.remove(&call), Some(content));
            }
            Event::RequestAbandoned => {
                self.abandoned += 1;
                self.owed += 1;
            }
            Event::Cancel(call) => {
                assert!(self.sent[&call].given_up);
                assert!(self.cancelled.insert(call), "{call} was cancelled twice");
            }
            Event::DataGrew | Event::RequestStarted { .. } => {}
            Event::Release(call) => assert_eq!(self.small.pop_front(), Some(format!("release {call}"))),
            Event::Moved(call) => assert_eq!(self.small.pop_front(), Some(format!("moved {call}"))),
            Event::Ping => assert_eq!(self.small.pop_front(), Some("ping".into())),
            Event::Pong => assert_eq!(self.small.pop_front(), Some("pong".into())),
            Event::Pause(length) => {
                assert_eq!((length.as_millis(), self.small.pop_front()), (7, Some("pause".into())));
            }
            other => panic!("nobody sent {other:?}"),
        }
    }

    /// The receiving node has consumed all that it received.
    fn consume(&mut self) {
        let owed = std::mem::take(&mut self.owed);
        self.granted += owed;
        self.outbox.add_credit(owed);
    }

    fn apply(&mut self, op: &Op) {
        let which =
            |index: &prop::sample::Index, order: &[CallId]| (!order.is_empty()).then(|| *index.get(order));
        match op {
            Op::Request { ids, header, data, arriving } => self.request(*ids, *header, *data, *arriving),
            Op::Response { parts, kind } => self.response(parts, *kind),
            Op::Feed { which: index, bytes } => {
                which(index, &self.order).into_iter().for_each(|call| self.feed(call, *bytes));
            }
            Op::Cancel(index) => {
                which(index, &self.order).into_iter().for_each(|call| self.give_up(call, false))
            }
            Op::Answered(index) => {
                which(index, &self.order).into_iter().for_each(|call| self.give_up(call, true))
            }
            Op::Drain { reads, writes } => self.transfer(reads, *writes),
            Op::Consume => self.consume(),
            Op::Small(which) => self.small(*which),
        }
    }

    /// Feeds all missing data, and lets everything leave.
    fn finish(&mut self) {
        for call in self.order.clone() {
            self.feed(call, usize::MAX);
        }
        for _round in 0..=self.order.len() {
            while match &mut self.beside {
                Some(beside) => self.outbox.prepare_with(beside),
                None => self.outbox.prepare(),
            } {
                self.transfer(&[200_000, 7], 20);
            }
            self.transfer(&[usize::MAX >> 1], 1);
            self.consume();
        }
        assert!(self.outbox.is_idle(), "the outbox keeps something");
        assert!(self.inbox.is_idle(), "the inbox keeps something");
    }

    fn check(&mut self) {
        assert_eq!(self.requests + self.abandoned, self.frames.counts[2], "each request is consumed once");
        for (call, sent) in &self.sent {
            let data = sent.arrived.as_ref().map(Body::bytes);
            if !sent.given_up {
                assert_eq!(
                    data,
                    Some(Some(pattern(sent.seed, sent.seen.data_len as usize).into())),
                    "{call}"
                );
                assert!(sent.whole <= 1);
            } else if let Some(Some(data)) = data {
                assert_eq!(data, pattern(sent.seed, sent.seen.data_len as usize));
            }
        }
        assert!(self.responses.is_empty(), "responses are missing");
        assert!(self.small.is_empty(), "small frames are missing");
        // All credit is back: exactly as many requests leave at once as at the beginning.
        let before = self.frames.counts[2];
        for _ in 0..=HIWATER {
            self.request(1, 0, 0, false);
        }
        self.transfer(&[1000], 100);
        assert_eq!(self.frames.counts[2] - before, HIWATER);
        assert!(!self.outbox.is_idle());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn what_is_pushed_comes_out(ops in prop::collection::vec(op(), 1..40), beside in prop::option::of(beside())) {
        let mut model = Model::new(beside);
        ops.iter().for_each(|op| model.apply(op));
        model.finish();
        model.check();
    }
}

fn request(sequence: u64, ids: IdList, data: Body) -> Message {
    let call = CallId { root: 3, sequence };
    Message::Request(Arc::new(Request {
        call,
        position: 1,
        total: ids.len() + 1,
        func: 1,
        callback: None,
        local: Default::default(),
        reply_limits: Default::default(),
        reply_wanted: true,
        forward_first: false,
        partial: false,
        adopted: false,
        skipped: 0,
        age: Duration::ZERO,
        left: Duration::from_secs(1),
        limit: Duration::from_secs(1),
        tree: Ok(Tree::Binary),
        ids,
        header: Bytes::new(),
        data,
        parts: None,
    }))
}

fn small(sequence: u64) -> Message {
    request(sequence, IdList::range(4..6), Body::whole("hi"))
}

/// Ids without consecutive pairs.
fn scattered(count: u32) -> IdList {
    IdList::from_ids((0..count).map(|id| 2 * id)).expect("distinct ids")
}

fn call(sequence: u64) -> CallId {
    CallId { root: 3, sequence }
}

fn outbox() -> Outbox {
    let mut outbox = Outbox::new();
    outbox.add_credit(HIWATER);
    outbox
}

fn feed(inbox: &mut Inbox, bytes: Bytes) -> Vec<Event> {
    let mut events = Vec::new();
    inbox.feed(&bytes, &AROUND, &mut events).expect("good bytes");
    events
}

/// Ends of requests, data and responses in a list of events, as (call, kind).
fn ends(events: &[Event]) -> Vec<(u64, &'static str)> {
    let end = |event: &Event| match event {
        Event::Request(request) => Some((request.call.sequence, "request")),
        Event::DataArrived(call) => Some((call.sequence, "data")),
        Event::Response(response) => Some((response.call.sequence, "response")),
        Event::Cancel(call) => Some((call.sequence, "cancel")),
        Event::RequestAbandoned => Some((0, "abandoned")),
        _ => None,
    };
    events.iter().filter_map(end).collect()
}

#[test]
fn a_small_call_overtakes_a_transfer_of_4_mib() {
    let (mut outbox, mut inbox) = (outbox(), greeted());
    outbox.push(request(1, IdList::range(4..6), Body::whole(vec![1; 4 << 20])));
    let begun = drain(&mut outbox, 300_000);
    outbox.push(small(3));
    let ahead = drain(&mut outbox, 600_000);
    let mut events = feed(&mut inbox, begun);
    events.extend(feed(&mut inbox, ahead));
    assert_eq!(ends(&events), [(1, "request"), (3, "request")]);
    let events = feed(&mut inbox, drain(&mut outbox, usize::MAX));
    assert_eq!(ends(&events), [(1, "data")]);
}

#[test]
fn long_transfers_take_turns() {
    let (mut outbox, mut inbox) = (outbox(), greeted());
    outbox.push(request(1, IdList::range(4..6), Body::whole(vec![1; 4 << 20])));
    outbox.push(request(3, IdList::range(4..6), Body::whole(vec![1; 600_000])));
    let data = Payload::from(vec![2; 600_000]);
    let answer =
        Answer::Reply(SubtreeReply { level: 0, header: Payload::new(), data, ..SubtreeReply::default() });
    outbox.push(Message::Response(Response { call: call(2), answer }));
    let events = feed(&mut inbox, drain(&mut outbox, usize::MAX));
    let order = [(1, "request"), (3, "request"), (2, "response"), (3, "data"), (1, "data")];
    assert_eq!(ends(&events), order);
}

#[test]
fn bodies_that_do_not_come_hold_up_nobody() {
    let (mut outbox, mut inbox) = (outbox(), greeted());
    let (bodies, mut writers): (Vec<Body>, Vec<BodyWriter>) = (0..2).map(|_| Body::arriving(1 << 20)).unzip();
    for (sequence, body) in [1, 3].into_iter().zip(bodies) {
        outbox.push(request(sequence, IdList::range(4..6), body));
    }
    outbox.push(request(5, IdList::range(4..6), Body::whole(vec![1; 600_000])));
    let events = feed(&mut inbox, drain(&mut outbox, usize::MAX));
    assert_eq!(ends(&events), [(1, "request"), (3, "request"), (5, "request"), (5, "data")]);
    assert!(!outbox.prepare() && outbox.is_streaming() && !outbox.is_idle());
    writers.iter_mut().for_each(|writer| assert_eq!(writer.push(&vec![0; 1 << 20]), 1 << 20));
    assert_eq!(ends(&feed(&mut inbox, drain(&mut outbox, usize::MAX))), [(1, "data"), (3, "data")]);
    assert!(outbox.is_idle() && inbox.is_idle());
}

/// 65,536 scattered ids are 256 KiB. The prefix filled its segment to the last byte, an empty part of data was left,
/// and the outbox was never idle again.
#[test]
fn a_prefix_that_fills_its_segment_ends() {
    for ids in [65_535, 65_536, 131_072] {
        let (mut outbox, mut inbox) = (outbox(), greeted());
        outbox.push(request(1, scattered(ids), Body::default()));
        let events = feed(&mut inbox, drain(&mut outbox, usize::MAX));
        let asked = |event: &Event| matches!(event, Event::Request(request) if request.ids == scattered(ids));
        assert!(events.iter().any(asked), "{ids} ids");
        assert!(outbox.is_idle() && !outbox.is_streaming() && inbox.is_idle(), "{ids} ids");
    }
}

/// The length that a peer announced was added to that of the prefix, and the sum wrapped.
#[test]
fn data_of_any_announced_length_are_sent_on() {
    let (mut outbox, mut inbox) = (outbox(), greeted());
    let (data, mut writer) = Body::arriving(u64::MAX);
    outbox.push(request(1, IdList::range(4..6), data));
    writer.push(b"abc");
    let events = feed(&mut inbox, drain(&mut outbox, usize::MAX));
    assert!(matches!(&events[..], [Event::Request(request), Event::DataGrew] if request.data.arrived() == 3));
    outbox.push(Message::Cancel(call(1)));
    assert_eq!(ends(&feed(&mut inbox, drain(&mut outbox, usize::MAX))), [(1, "cancel")]);
    assert!(outbox.is_idle() && inbox.is_idle());
}

#[test]
fn a_reply_of_many_parts_is_sent_in_order() {
    let mut data = Payload::new();
    (0..50_000u32).for_each(|part| data.push(Bytes::copy_from_slice(&part.to_le_bytes())));
    let answer = Answer::Reply(SubtreeReply {
        level: 0,
        header: Payload::new(),
        data: data.clone(),
        ..SubtreeReply::default()
    });
    let mut outbox = Outbox::new();
    outbox.push(Message::Response(Response { call: call(2), answer }));
    let events = feed(&mut greeted(), drain(&mut outbox, usize::MAX));
    let [Event::Response(Response { answer: Answer::Reply(reply), .. })] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(reply.data, data);
}

/// A gather write takes a limited number of parts; small frames queued meanwhile stay behind all parts.
#[test]
fn small_frames_between_the_writes_of_many_parts_stay_in_order() {
    for (parts, len) in (1..60).flat_map(|parts| [(parts, 2000), (parts, 20_000)]) {
        let (mut outbox, mut inbox) = (Outbox::new(), greeted());
        let mut data = Payload::new();
        (0..parts).for_each(|part| data.push(pattern(part, len).into()));
        let answer = Answer::Reply(SubtreeReply {
            level: 0,
            header: Payload::new(),
            data: data.clone(),
            ..SubtreeReply::default()
        });
        outbox.push(Message::Response(Response { call: call(2), answer }));
        let (mut events, mut small) = (Vec::new(), 0);
        while outbox.prepare() {
            if small < parts {
                outbox.push_credit(7);
                small += 1;
            }
            events.extend(feed(&mut inbox, drain_once(&mut outbox, usize::MAX)));
        }
        let credits = events.iter().filter(|event| matches!(event, Event::Credit(7))).count();
        let replied = |event: &Event| matches!(event, Event::Response(Response { answer: Answer::Reply(reply), .. }) if reply.data == data);
        assert_eq!((credits as u64, events.iter().filter(|event| replied(event)).count()), (small, 1));
    }
}
