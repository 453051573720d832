//! Shared by the tests of the wire: a node's context, and messages in a form that can be compared.

#![allow(dead_code, reason = "each test file uses its part")]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use chained_gpc::link::{Context, DescriptorRoom, DescriptorSender, Event, Inbox, Outbox, PARTS_MAX};
use chained_gpc::wire::body::{self, Extent, Sealed};
use chained_gpc::wire::frame::FrameError;
use chained_gpc::wire::message::{Answer, Partial, SubtreeReply};
use chained_gpc::wire::{CallId, Failure, Hello, Job, Message, ReplyLimits, Request, Response};
use gpc_trees::Tree;
use smallvec::SmallVec;

pub(crate) const HELLO: Hello = Hello {
    from: 3,
    to: 4,
    incarnation: 0x0102_0304_0506_0708,
    generation: 2,
    hiwater: 64,
    job: Job([
        0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf,
    ]),
    rings: false,
    extents: false,
};

/// A node without registered trees that awaits every call with an even sequence.
pub(crate) struct Around {
    pub(crate) reply_max: u64,
}

impl Context for Around {
    fn tree(&self, _id: u64) -> Option<Tree> {
        None
    }

    fn awaits(&self, call: CallId) -> bool {
        call.sequence.is_multiple_of(2)
    }

    fn reply_max(&self) -> u64 {
        self.reply_max
    }
}

pub(crate) const AROUND: Around = Around { reply_max: 64 << 20 };

/// An inbox that has received its hello.
pub(crate) fn greeted() -> Inbox {
    let mut outbox = Outbox::new();
    outbox.push_hello(&HELLO);
    let (mut inbox, mut events) = (Inbox::new(), Vec::new());
    inbox.feed(&drain(&mut outbox, usize::MAX), &AROUND, &mut events).expect("a good hello");
    assert!(matches!(events[..], [Event::Hello(HELLO)]) && inbox.is_idle());
    inbox
}

/// The events of bytes that arrive after the hello, in one read.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<Event>, FrameError> {
    let mut events = Vec::new();
    greeted().feed(bytes, &AROUND, &mut events).map(|()| events)
}

/// Plain memory in place of sealed memory.
#[derive(Debug)]
pub(crate) struct Plain(pub(crate) Bytes);

impl Sealed for Plain {
    fn length(&self) -> usize {
        self.0.len()
    }

    fn bytes(&self) -> Bytes {
        self.0.clone()
    }

    fn room(&self, _: u64) -> Option<Box<dyn body::Room>> {
        None
    }

    fn may_be_kept(&self) -> bool {
        true
    }
}

/// Extents passed beside the bytes of a link, in order.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    pub(crate) extents: RefCell<VecDeque<Extent>>,
    /// Result of each of the next attempts to pass an extent; later attempts find room.
    pub(crate) rooms: VecDeque<DescriptorRoom>,
    /// Whether every second attempt fails.
    pub(crate) fails: bool,
    pub(crate) handed: usize,
}

impl Context for Beside {
    fn tree(&self, id: u64) -> Option<Tree> {
        AROUND.tree(id)
    }

    fn awaits(&self, call: CallId) -> bool {
        AROUND.awaits(call)
    }

    fn reply_max(&self) -> u64 {
        AROUND.reply_max()
    }

    fn extent(&self, length: usize) -> Result<Extent, FrameError> {
        let extent = self.extents.borrow_mut().pop_front().expect("the descriptor comes before its frame");
        assert_eq!(extent.length(), length);
        Ok(extent)
    }
}

impl DescriptorSender for Beside {
    fn room(&mut self) -> DescriptorRoom {
        self.rooms.pop_front().unwrap_or(DescriptorRoom::Available)
    }

    fn seal(&mut self, bytes: &Bytes) -> Option<Extent> {
        Some(Arc::new(Plain(bytes.clone())))
    }

    fn send(&mut self, extent: &Extent, _queued: usize) -> bool {
        self.handed += 1;
        let over = !self.fails || self.handed.is_multiple_of(2);
        self.extents.borrow_mut().extend(over.then(|| extent.clone()));
        over
    }
}

/// Takes up to `max` bytes from an outbox, as one write to a socket would.
pub(crate) fn drain_once(outbox: &mut Outbox, max: usize) -> Bytes {
    match outbox.prepare() {
        true => write_once(outbox, max),
        false => Bytes::new(),
    }
}

/// The same, for a link that can pass long data by descriptor.
pub(crate) fn drain_beside(outbox: &mut Outbox, max: usize, beside: &mut Beside) -> Bytes {
    match outbox.prepare_with(beside) {
        true => write_once(outbox, max),
        false => Bytes::new(),
    }
}

fn write_once(outbox: &mut Outbox, max: usize) -> Bytes {
    let mut bytes = Vec::new();
    {
        let mut slices = SmallVec::new();
        outbox.parts(&mut slices);
        assert!(
            !slices.is_empty() && slices.len() <= PARTS_MAX && slices.iter().all(|slice| !slice.is_empty())
        );
        for slice in &slices {
            bytes.extend_from_slice(&slice[..slice.len().min(max.max(1) - bytes.len())]);
        }
    }
    outbox.mark_written(bytes.len());
    bytes.into()
}

/// Takes bytes from an outbox until it is empty, or `max` have been taken.
pub(crate) fn drain(outbox: &mut Outbox, max: usize) -> Bytes {
    let mut all = Vec::new();
    while all.len() < max {
        match drain_once(outbox, max - all.len()) {
            more if more.is_empty() => break,
            more => all.extend_from_slice(&more),
        }
    }
    all.into()
}

/// The bytes that an outbox with credit makes of a message.
pub(crate) fn written(message: Message) -> Bytes {
    let mut outbox = Outbox::new();
    outbox.add_credit(1);
    outbox.push(message);
    let bytes = drain(&mut outbox, usize::MAX);
    assert!(outbox.is_idle());
    bytes
}

/// A request without its data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) call: CallId,
    pub(crate) flags: (bool, bool, bool),
    pub(crate) reply_limits: ReplyLimits,
    pub(crate) partial: (bool, bool, u32),
    pub(crate) times: (std::time::Duration, std::time::Duration),
    pub(crate) place: (u32, u32),
    pub(crate) functions: (u64, Option<u64>),
    pub(crate) limit: std::time::Duration,
    pub(crate) tree: (u64, u32, Vec<u32>),
    pub(crate) ids: Vec<u32>,
    pub(crate) header: Bytes,
    pub(crate) data_len: u64,
}

impl Seen {
    pub(crate) fn of(request: &Request) -> Seen {
        let tree = match &request.tree {
            Ok(Tree::Explicit(shape)) => (Tree::EXPLICIT_WIRE_ID, 0, shape.sizes().to_vec()),
            Ok(tree) => (tree.wire_id(), tree.wire_param(), vec![]),
            Err(id) => (*id, u32::MAX, vec![]),
        };
        Seen {
            call: request.call,
            flags: (request.reply_wanted, request.forward_first, request.local.trace),
            reply_limits: request.reply_limits,
            partial: (request.partial, request.adopted, request.skipped),
            times: (request.age, request.left),
            place: (request.position, request.total),
            functions: (request.func, request.callback),
            limit: request.limit,
            tree,
            ids: request.ids.iter().collect(),
            header: request.header.clone(),
            data_len: request.data.len(),
        }
    }
}

/// The contents of an answer.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Content {
    Completed,
    Reply(SubtreeReply),
    Failed(Failure),
    Partial(Partial),
}

impl Content {
    pub(crate) fn of(response: &Response) -> (CallId, Content) {
        let content = match &response.answer {
            Answer::Completed => Content::Completed,
            Answer::Reply(reply) => Content::Reply(reply.clone()),
            Answer::Arriving(_) => panic!("this node passes no reply on"),
            Answer::Failed(failure) => Content::Failed(Failure::clone(failure)),
            Answer::Partial(partial) => Content::Partial(Partial::clone(partial)),
        };
        (response.call, content)
    }
}
