//! Shared parts of the targets that read and write the wire format: the surroundings of a link, both halves of a link,
//! and comparisons of messages.

use std::sync::Arc;

use bytes::Bytes;
use chained_gpc::link::{Context, Event, Inbox, Outbox, PARTS_MAX};
use chained_gpc::wire::body::{Extent, Room, Sealed};
use chained_gpc::wire::frame::{EXTENT_MAX, FrameError};
use chained_gpc::wire::message::{Answer, Request, Response};
use chained_gpc::wire::streaming_reply::{StreamingData, StreamingReply};
use chained_gpc::wire::{Body, CallId, Hello, Job, Message};
use gpc_trees::Tree;
use smallvec::SmallVec;

use super::input::pieces;

/// A HELLO that every inbox accepts.
pub const HELLO: Hello = Hello {
    from: 3,
    to: 4,
    incarnation: 7,
    generation: 1,
    hiwater: 64,
    job: Job([0; 16]),
    rings: false,
    extents: false,
};

/// A node without registered trees that awaits every call, or only those with even numbers.
#[derive(Clone, Copy, Debug)]
pub struct Around {
    /// Whether the node awaits every call.
    pub awaits_all: bool,
    /// Maximum length of a reply, in bytes.
    pub reply_max: u64,
    /// Whether functions with odd handles stream their data, and long replies are forwarded as they arrive.
    pub streaming: bool,
}

/// A node that awaits and accepts everything.
pub const ALL: Around = Around { awaits_all: true, reply_max: u64::MAX, streaming: false };

impl Context for Around {
    fn tree(&self, _id: u64) -> Option<Tree> {
        None
    }

    fn awaits(&self, call: CallId) -> bool {
        self.awaits_all || call.sequence.is_multiple_of(2)
    }

    fn reply_max(&self) -> u64 {
        self.reply_max
    }

    fn streams(&self, func: u64) -> bool {
        self.streaming && func % 2 == 1
    }

    fn passes_on(&self, _call: CallId) -> bool {
        self.streaming
    }
}

/// The surroundings of a link whose peer passes descriptors of memory full of zeros.
pub struct Zeros(pub Around);

impl Context for Zeros {
    fn tree(&self, id: u64) -> Option<Tree> {
        self.0.tree(id)
    }

    fn awaits(&self, call: CallId) -> bool {
        self.0.awaits(call)
    }

    fn reply_max(&self) -> u64 {
        self.0.reply_max()
    }

    fn streams(&self, func: u64) -> bool {
        self.0.streams(func)
    }

    fn extent(&self, length: usize) -> Result<Extent, FrameError> {
        Ok(Arc::new(Memory(length)))
    }
}

/// A number of zeros that take no memory.
#[derive(Debug)]
struct Memory(usize);

impl Sealed for Memory {
    fn length(&self) -> usize {
        self.0
    }

    fn bytes(&self) -> Bytes {
        static ZEROS: [u8; EXTENT_MAX] = [0; EXTENT_MAX];
        Bytes::from_static(&ZEROS[..self.0])
    }

    fn room(&self, _: u64) -> Option<Box<dyn Room>> {
        None
    }

    fn may_be_kept(&self) -> bool {
        true
    }
}

/// Returns the bytes of a body that have arrived. No reader may have passed any of them.
pub fn come(body: &Body) -> Vec<u8> {
    let mut all = Vec::new();
    while (all.len() as u64) < body.arrived() {
        let piece = body.read(all.len() as u64, usize::MAX);
        assert!(!piece.is_empty(), "{body:?} has no byte {}", all.len());
        all.extend_from_slice(&piece);
    }
    all
}

/// Returns the bytes of a reply's data that have arrived. No reader may have passed any of them.
pub fn come_of(data: &StreamingData) -> Vec<u8> {
    let mut all = Vec::new();
    // Ends: each piece is a part of the data that have arrived.
    loop {
        match data.read(all.len() as u64, usize::MAX) {
            piece if piece.is_empty() => return all,
            piece => all.extend_from_slice(&piece),
        }
    }
}

/// Returns an inbox whose peer has sent its HELLO.
pub fn greeted() -> Inbox {
    let mut outbox = Outbox::new();
    outbox.push_hello(&HELLO);
    let (mut inbox, mut events) = (Inbox::new(), Vec::new());
    inbox.feed(&drain(&mut outbox, &[]), &ALL, &mut events).expect("a good hello");
    assert!(matches!(events[..], [Event::Hello(HELLO)]) && inbox.is_idle());
    inbox
}

/// Returns the events of a stream with these cuts, up to its end or the first fault. The event that more data have
/// arrived is left out, because it comes once for each read.
pub fn feed(
    inbox: &mut Inbox,
    stream: &[u8],
    cuts: &[usize],
    context: &dyn Context,
) -> (Vec<Event>, Result<(), FrameError>) {
    let (mut all, mut events) = (Vec::new(), Vec::new());
    let result = pieces(stream, cuts).try_for_each(|piece| {
        let result = inbox.feed(piece, context, &mut events);
        all.extend(
            events.drain(..).filter(|event| !matches!(event, Event::DataGrew | Event::StreamedData(_))),
        );
        result
    });
    (all, result)
}

/// Takes all bytes from an outbox, by writes of these lengths in turn.
pub fn drain(outbox: &mut Outbox, cuts: &[usize]) -> Vec<u8> {
    let (mut all, mut lengths) = (Vec::new(), cuts.iter().cycle());
    while outbox.prepare() {
        let (before, most) = (all.len(), lengths.next().copied().unwrap_or(usize::MAX));
        {
            let mut slices = SmallVec::new();
            outbox.parts(&mut slices);
            assert!(!slices.is_empty() && slices.len() <= PARTS_MAX, "{} parts of a write", slices.len());
            for slice in &slices {
                let room = most - (all.len() - before);
                all.extend_from_slice(&slice[..slice.len().min(room)]);
            }
        }
        outbox.mark_written(all.len() - before);
    }
    all
}

/// Returns the bytes of a message, written with these cuts.
pub fn written(message: Message, cuts: &[usize]) -> Vec<u8> {
    let mut outbox = Outbox::new();
    outbox.add_credit(1);
    outbox.push(message);
    drain(&mut outbox, cuts)
}

/// Whether two requests are the same and as much of their data has arrived. An unknown tree is forwarded without its
/// parameter, so it is not compared.
pub fn same_request(one: &Request, two: &Request) -> bool {
    let flags = |request: &Request| {
        (request.reply_wanted, request.forward_first, request.partial, request.adopted, request.skipped)
    };
    let times = |request: &Request| (request.limit, request.age, request.left);
    let functions = |request: &Request| (request.call, request.func, request.callback, request.reply_limits);
    let data = |request: &Request| (request.data.len(), request.body().len(), come(request.body()));
    functions(one) == functions(two)
        && flags(one) == flags(two)
        && times(one) == times(two)
        && (one.tree.is_err() || one.tree == two.tree)
        && one.ids == two.ids
        && one.header == two.header
        && data(one) == data(two)
}

/// Whether two responses are the same.
pub fn same_response(one: &Response, two: &Response) -> bool {
    let answers = match (&one.answer, &two.answer) {
        (Answer::Completed, Answer::Completed) => true,
        (Answer::Reply(one), Answer::Reply(two)) => one == two,
        (Answer::Arriving(one), Answer::Arriving(two)) => {
            let lengths = |reply: &StreamingReply| (reply.level, reply.data.len());
            lengths(one) == lengths(two)
                && one.header == two.header
                && come_of(&one.data) == come_of(&two.data)
        }
        (Answer::Failed(one), Answer::Failed(two)) => one == two,
        (Answer::Partial(one), Answer::Partial(two)) => one == two,
        _ => false,
    };
    one.call == two.call && answers
}

/// Whether two events are the same.
pub fn same_event(one: &Event, two: &Event) -> bool {
    match (one, two) {
        (Event::Hello(one), Event::Hello(two)) => one == two,
        (Event::Request(one), Event::Request(two)) => same_request(one, two),
        (Event::Response(one), Event::Response(two)) => same_response(one, two),
        (
            Event::Oversized { call: one, bytes: some, .. },
            Event::Oversized { call: two, bytes: others, .. },
        ) => (one, some) == (two, others),
        (Event::DataArrived(one), Event::DataArrived(two))
        | (Event::ReplyArrived(one), Event::ReplyArrived(two))
        | (Event::UnawaitedReply(one), Event::UnawaitedReply(two))
        | (Event::Cancel(one), Event::Cancel(two))
        | (Event::Release(one), Event::Release(two))
        | (Event::Moved(one), Event::Moved(two)) => one == two,
        (
            Event::RequestStarted { call: one, limit: some },
            Event::RequestStarted { call: two, limit: others },
        ) => (one, some) == (two, others),
        (Event::Credit(one), Event::Credit(two)) => one == two,
        (Event::Pause(one), Event::Pause(two)) => one == two,
        (Event::Stragglers(one), Event::Stragglers(two)) => one == two,
        (Event::Window(one), Event::Window(two)) => one == two,
        (Event::Goodbye(one), Event::Goodbye(two)) => one == two,
        (Event::ReplyStarted, Event::ReplyStarted)
        | (Event::RequestAbandoned, Event::RequestAbandoned)
        | (Event::Ping, Event::Ping)
        | (Event::Pong, Event::Pong) => true,
        _ => false,
    }
}
