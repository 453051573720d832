//! A stream of bytes into the receiving side of a link, and its events out of the sending side again.
//!
//! The events must be the same however the reads cut the stream. The receiving side holds at most a multiple of the
//! bytes that have arrived. An event that is encoded and decoded again must be the same.
//!
//! Input: a byte of options (how many cuts, and the constants below), the cuts, and the stream.

use std::collections::BTreeSet;

use chained_gpc::link::{Context, Event, Inbox, Outbox};
use chained_gpc::wire::frame::SEGMENT;
use chained_gpc::wire::head::Goodbye;
use chained_gpc::wire::message::Answer;
use chained_gpc::wire::short::{ShortRequest, ShortResponse};
use chained_gpc::wire::{Body, CallId, Message, Request, Response};
use gpc_trees::Tree;

use super::input::{Input, pieces};
use super::memory;
use super::wire::{ALL, Around, Zeros, come, drain, feed, greeted, same_event, written};

/// The peer has not sent its HELLO yet.
const FIRST: u8 = 8;
/// Only calls with even numbers are awaited.
const SOME_AWAITED: u8 = 16;
/// Replies are limited to 64 bytes.
const SMALL_REPLIES: u8 = 32;
/// Functions with odd handles stream their data.
const STREAMING: u8 = 128;
/// Calls end between the reads, and with them the data on their way.
const CALLS_END: u8 = 64;

/// Data may come by descriptor, all of them zeros. The combination is free: the peer of `CALLS_END` has always sent its
/// HELLO.
const BY_DESCRIPTOR: u8 = CALLS_END | FIRST;

/// Maximum number of bytes held for each byte that has arrived. Small frames hold the most: they become events of a
/// fixed size in a vector that doubles. For an id of 4 bytes, 8 bytes are kept and 12 are sorted. While a vector grows,
/// its old and its new buffer exist together.
const HELD_PER_BYTE: usize = 60;

/// Reads the bytes as a stream, and writes its events again.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let options = input.byte();
    let (cuts, stream) = (input.cuts(options), input.rest());
    if options & BY_DESCRIPTOR == BY_DESCRIPTOR {
        return by_descriptor(stream, &cuts, options & STREAMING != 0);
    }
    if options & CALLS_END != 0 {
        return calls_end(stream, &cuts);
    }
    on_fast_path(stream);
    let begin = || if options & FIRST == 0 { greeted() } else { Inbox::new() };
    let reply_max = if options & SMALL_REPLIES == 0 { u64::MAX } else { 64 };
    let streaming = options & STREAMING != 0;
    let around = Around { awaits_all: options & SOME_AWAITED == 0, reply_max, streaming };
    // A link has one chunk for the next data of a body that is forwarded as it arrives.
    let chunk = if streaming { SEGMENT / HELD_PER_BYTE } else { 0 };
    let read = |cuts: &[usize]| {
        let mut inbox = begin();
        let said =
            memory::bounded(stream.len() + chunk, HELD_PER_BYTE, || feed(&mut inbox, stream, cuts, &around));
        (said, inbox.is_idle())
    };
    let ((events, result), idle) = read(&[]);
    for cuts in [&cuts[..], &[1]] {
        let ((others, other_result), other_idle) = read(cuts);
        assert_eq!(result, other_result, "cut by {cuts:?}");
        assert!(result.is_err() || idle == other_idle, "cut by {cuts:?}");
        let (mut some, mut others) = (events.iter(), others.iter());
        loop {
            match (some.next(), others.next()) {
                (None, None) => break,
                (Some(one), Some(two)) if same_event(one, two) => {}
                (one, two) => panic!("cut by {cuts:?}: {two:?} and not {one:?}"),
            }
        }
    }
    if let Err(error) = result {
        assert!(!error.to_string().is_empty());
    }
    events.into_iter().for_each(|event| written_and_read(event, &cuts));
}

/// Checks that an event is the same after it was encoded and decoded.
fn written_and_read(event: Event, cuts: &[usize]) {
    let message = match &event {
        Event::Request(request) => {
            split(request);
            in_segments(&event, cuts);
            // Writing a streaming body releases it, so it is written through a reader of its own. The comparison below
            // uses the other reader.
            Message::Request(request.fork().into())
        }
        // Writing a streaming reply releases its data, so nothing is left to compare.
        Event::Response(Response { answer: Answer::Arriving(_), .. }) => return,
        Event::Response(response) => Message::Response(response.clone()),
        Event::Cancel(call) => Message::Cancel(*call),
        Event::Release(call) => Message::Release(*call),
        Event::Moved(call) => Message::Moved(*call),
        Event::Ping => Message::Ping,
        Event::Pong => Message::Pong,
        Event::Stragglers(calls) => Message::Stragglers(calls.clone()),
        Event::Pause(length) => Message::Pause(*length),
        Event::Goodbye(goodbye) => return goodbye_again(goodbye, cuts),
        Event::Credit(_) | Event::Window(_) | Event::Hello(_) => return small_again(&event, cuts),
        Event::DataGrew | Event::StreamedData(_) | Event::DataArrived(_) => return,
        Event::ReplyArrived(_) | Event::ReplyStarted | Event::UnawaitedReply(_) => return,
        Event::Oversized { .. } | Event::RequestAbandoned | Event::RequestStarted { .. } => return,
        // The memory of this link has no bound.
        Event::RequestRefused(_) | Event::DataRefused { .. } | Event::ReplyRefused { .. } => {
            panic!("{event:?}")
        }
    };
    comes_back(&event, &written(message, cuts), cuts);
}

/// Checks that the split of any tree and list from a peer covers the rest of the list once, or is refused.
fn split(request: &Request) {
    let (Ok(tree), n) = (&request.tree, request.ids.len()) else { return };
    let Ok(groups) = tree.split(n) else { return };
    assert!(tree.fan_out(n).is_none_or(|fan_out| fan_out as usize == groups.len()), "{tree:?} over {n}");
    let mut next = 1;
    for group in &groups {
        assert!(group.start == next && group.len > 0, "{tree:?} over {n}: {group:?}");
        next += group.len;
    }
    assert_eq!(next, n, "{tree:?} over {n}");
}

/// Checks that a frame read in place is the same as read by the parser of all frames.
fn on_fast_path(stream: &[u8]) {
    if let Some((short, rest)) = ShortRequest::parse(stream) {
        let (events, result) = feed(&mut greeted(), &stream[..stream.len() - rest.len()], &[], &ALL);
        let (ids, tree) = (short.plan.ids(), short.plan.tree());
        match (&events[..], ids, tree) {
            ([Event::Request(request)], Some(ids), Some(_)) => {
                let again = short.particulars.request(&short.plan, ids).expect("a tree that is known");
                assert_eq!(format!("{again:?}"), format!("{request:?}"));
            }
            // A request without a plan takes the slow path.
            (_, None, _) | (_, _, None) => {}
            // Like the parser of all frames, the fast path refuses a slice that ends behind its tree.
            (_, Some(ids), _)
                if u64::from(short.particulars.position) + u64::from(ids.len())
                    > short.particulars.total.into() => {}
            (events, ..) => panic!("{events:?}, {result:?}"),
        }
    }
    if let Some((short, rest)) = ShortResponse::parse(stream) {
        let (events, result) = feed(&mut greeted(), &stream[..stream.len() - rest.len()], &[], &ALL);
        let [Event::Response(response)] = &events[..] else { panic!("{events:?}, {result:?}") };
        assert_eq!(short.call, response.call);
        match (&response.answer, short.reply) {
            (Answer::Completed, None) => {}
            (Answer::Reply(reply), Some((header, data))) => {
                let long = (reply.level, &reply.header.to_bytes()[..], &reply.data.to_bytes()[..]);
                assert_eq!((short.level, header, data), long);
            }
            (answer, reply) => panic!("{reply:?} is {answer:?}"),
        }
    }
}

/// Checks that the bytes yield only the event, and the arrival of its data.
fn comes_back(event: &Event, bytes: &[u8], cuts: &[usize]) {
    let (events, result) = feed(&mut greeted(), bytes, cuts, &ALL);
    assert_eq!(result, Ok(()), "{event:?}");
    let mut said = events.iter().filter(|event| !matches!(event, Event::DataArrived(_)));
    let (first, second) = (said.next(), said.next());
    assert!(
        first.is_some_and(|again| same_event(event, again)) && second.is_none(),
        "{event:?} is {events:?}"
    );
}

/// Checks that a request whose data arrive while it is written is the same as one whose data are there.
fn in_segments(event: &Event, cuts: &[usize]) {
    let Event::Request(request) = event else { return };
    let (body, mut writer) = Body::arriving(request.body().len());
    let again = Request::clone(request).with_body(body);
    let mut outbox = Outbox::new();
    outbox.add_credit(1);
    outbox.push(Message::Request(again.into()));
    let mut bytes = drain(&mut outbox, cuts);
    for piece in pieces(&come(request.body()), cuts) {
        assert_eq!(writer.push(piece), piece.len());
        bytes.extend(drain(&mut outbox, cuts));
    }
    assert_eq!(outbox.is_idle(), writer.missing() == 0);
    comes_back(event, &bytes, cuts);
}

fn small_again(event: &Event, cuts: &[usize]) {
    let mut outbox = Outbox::new();
    match event {
        Event::Credit(count) => outbox.push_credit(*count),
        Event::Window(window) => outbox.push_window(window),
        Event::Hello(hello) => return assert_eq!(hello.emit().len(), 48),
        _ => return,
    }
    comes_back(event, &drain(&mut outbox, cuts), cuts);
}

/// Checks a goodbye. Replacement characters are longer than the bad UTF-8 they stand for, so its text may be cut when
/// it is encoded again.
fn goodbye_again(goodbye: &Goodbye, cuts: &[usize]) {
    let mut outbox = Outbox::new();
    outbox.push_goodbye(goodbye);
    let kept = goodbye.text.floor_char_boundary(Goodbye::TEXT_MAX);
    let text = goodbye.text[..kept].to_string();
    let event = Event::Goodbye(Goodbye { text, ..goodbye.clone() });
    comes_back(&event, &drain(&mut outbox, cuts), cuts);
}

/// Checks that a stream whose data come by descriptor yields the same events however it is cut. The memory behind the
/// descriptors is not counted.
fn by_descriptor(stream: &[u8], cuts: &[usize], streaming: bool) {
    let zeros = Zeros(Around { streaming, ..ALL });
    let read = |cuts: &[usize]| {
        let mut inbox = greeted();
        let said = feed(&mut inbox, stream, cuts, &zeros);
        (said, inbox.is_idle())
    };
    let ((events, result), idle) = read(&[]);
    for cuts in [cuts, &[1]] {
        let ((others, other_result), other_idle) = read(cuts);
        assert_eq!((&result, events.len()), (&other_result, others.len()), "cut by {cuts:?}");
        assert!(result.is_err() || idle == other_idle, "cut by {cuts:?}");
        let same = events.iter().zip(&others).all(|(one, two)| same_event(one, two));
        assert!(same, "cut by {cuts:?}: {events:?} or {others:?}");
    }
}

/// Surroundings that await the calls which have not been answered yet.
struct Unanswered(BTreeSet<CallId>);

impl Context for Unanswered {
    fn tree(&self, _id: u64) -> Option<Tree> {
        None
    }

    fn awaits(&self, call: CallId) -> bool {
        !self.0.contains(&call)
    }

    fn reply_max(&self) -> u64 {
        1 << 16
    }
}

/// Reads a stream while some of the calls it names end after each read.
fn calls_end(stream: &[u8], cuts: &[usize]) {
    let (mut inbox, mut answered) = (greeted(), Unanswered(BTreeSet::new()));
    memory::bounded(stream.len(), HELD_PER_BYTE, || {
        for piece in pieces(stream, cuts) {
            let mut events = Vec::new();
            let result = inbox.feed(piece, &answered, &mut events);
            for event in events {
                match event {
                    Event::Request(request) if request.call.sequence % 3 > 0 => {
                        inbox.drop_request(request.call)
                    }
                    Event::Response(response) => drop(answered.0.insert(response.call)),
                    Event::Cancel(call) => drop(answered.0.insert(call)),
                    _ => {}
                }
            }
            if result.is_err() {
                return;
            }
        }
    });
}
