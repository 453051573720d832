//! From messages to bytes: the other side of a link, without the socket.
//!
//! Small messages are written at once, one behind the other, and leave in one gather write. Long ones are cut into segments that take turns, so
//! none holds up the others; bytes of a body that is still arriving are read from it as they come. Requests wait here for credit.

mod ending;
mod unsent;

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use gpc_trees::Id;
use smallvec::SmallVec;

pub use unsent::UnsentRequests;

use super::handing::{Handed, Handover, Never};
use super::holding::Holding;
use super::inbox::BODIES_MAX;
use super::leave::Leave;
use crate::chain::{OwnAnswer, ShortAnswer, ToChild};
use crate::hint::{likely, unlikely};
use crate::wire::frame::{FRAME_HEADER, FrameHeader, Kind, SEGMENT, WINDOW, flags};
use crate::wire::head::{
    AnswerKind, CallRef, ExtentRef, IdsForm, RequestHead, ResponseHead, WindowRef, emit_pause,
};
use crate::wire::message::{Answer, Response, SubtreeReply};
use crate::wire::prefix::{emit_prefix, request_flags, request_head};
use crate::wire::short::{SHORT_MAX, Template};
use crate::wire::streaming_reply::{StreamingPart, StreamingReply};
use crate::wire::{
    Body, Budget, CallId, Cause, CauseKind, Coverage, Failure, Hello, Message, Report, Request, Share, Stage,
};

/// Messages up to this many bytes of body are copied into one buffer and leave in one frame: below it a copy costs less than a part of its own.
const SMALL: u64 = SHORT_MAX as u64;

/// Bytes that are cut from long messages ahead of the socket: two segments keep it busy, and a small message waits behind no more.
const AHEAD: usize = 2 * SEGMENT;

/// Bytes of small frames that lie in one piece while they wait for the peer.
const RUN_MAX: usize = 64 << 10;

/// Parts of one gather write, as many as the system takes without allocating.
pub const PARTS_MAX: usize = 16;

/// A piece of a long body.
#[derive(Debug)]
pub(super) enum Part {
    Bytes(Bytes),
    /// The peer takes it as far as `limit` for the moment.
    Body {
        body: Body,
        read: u64,
        limit: u64,
    },
}

/// A long message on its way.
#[derive(Debug)]
pub(super) struct Stream {
    call: CallId,
    pub(super) kind: Kind,
    flags: u8,
    /// The fixed part of the first frame; taken when that frame is cut.
    pub(super) head: Option<Vec<u8>>,
    /// What is left of the body: every part has bytes that are still to be cut, or to come.
    pub(super) parts: VecDeque<Part>,
    /// Of a response: how far the peer lets it go.
    leave: Leave,
    /// Of a response: what of its bytes is here, until the last has left.
    _share: Share,
}

/// The sending side of a link.
#[derive(Debug)]
pub struct Outbox {
    /// Bytes in the order in which they leave; the first may be written in part.
    ready: VecDeque<Bytes>,
    /// Whether the last frame, a GOODBYE, is queued or has left.
    over: bool,
    /// Small frames behind `ready`.
    tail: BytesMut,
    /// Bytes in `ready` and `tail`.
    queued: usize,
    /// Requests that wait for credit: at most one of each call in flight.
    waiting: VecDeque<Arc<Request>>,
    streams: VecDeque<Stream>,
    credit: u32,
    /// Whether a byte of what is queued has left, or another link had it queued before.
    has_begun: bool,
    /// What is held for a peer that does not read.
    holding: Holding,
    /// Bytes of a segment, and of those that may be cut before the socket has room again.
    segment: usize,
    allowance: usize,
}

impl Outbox {
    /// An outbox without credit: it sends no request until the peer's hello grants some.
    pub fn new() -> Outbox {
        Outbox {
            ready: VecDeque::new(),
            over: false,
            tail: BytesMut::new(),
            queued: 0,
            waiting: VecDeque::new(),
            streams: VecDeque::new(),
            credit: 0,
            has_begun: false,
            holding: Holding::default(),
            segment: SEGMENT,
            allowance: usize::MAX,
        }
    }

    /// Replies that wait for the peer are of a budget of its link, small frames of another; `me` is who refuses what does not fit.
    pub fn use_memory(&mut self, me: Id, replies: &Budget, small: &Budget) {
        self.holding = Holding::new(me, replies, small);
    }

    /// Whether there was no room for long replies when one last came.
    #[inline(always)]
    pub fn was_full(&self) -> bool {
        self.holding.was_full()
    }

    /// Whether there is no room for long replies: then requests are refused before they are executed.
    pub fn is_full(&mut self) -> bool {
        self.holding.is_full()
    }

    /// Why a reply does not fit, in words.
    pub fn refusal(&self) -> String {
        self.holding.refusal()
    }

    /// The peer takes nothing for the moment: counts what waits for it.
    ///
    /// # Errors
    /// When more of small frames waits than a peer that reads ever leaves; in words.
    pub fn waits(&mut self) -> Result<(), String> {
        // Longer runs are not moved when more comes behind them.
        if self.tail.len() > RUN_MAX && !self.over {
            self.ready.push_back(self.tail.split().freeze());
        }
        let ahead = if self.streams.is_empty() { 0 } else { AHEAD };
        self.holding.waits(self.queued.saturating_sub(ahead))
    }

    /// Gives back the room of what has left, where nothing is there to send.
    pub fn release_spare_memory(&mut self) {
        if self.is_idle() {
            self.tail = BytesMut::new();
            self.ready = VecDeque::new();
            self.waiting = VecDeque::new();
            self.streams = VecDeque::new();
        }
    }

    /// Queues the link's first frame.
    pub fn hello(&mut self, hello: &Hello) {
        let flags = [(hello.rings, flags::RINGS), (hello.extents, flags::EXTENTS)];
        let flags = flags.iter().filter(|(set, _)| *set).fold(0, |all, (_, flag)| all | flag);
        let hello = hello.emit();
        self.frame(Kind::Hello, flags, hello.len(), |tail| tail.extend_from_slice(&hello));
    }

    /// Queues bytes of the greeting, before all frames.
    pub fn greeting(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
        self.queued += bytes.len();
    }

    /// Acknowledges requests; none is no news, and not sent.
    pub fn acknowledge(&mut self, count: u32) {
        if count > 0 {
            self.small_frame(Kind::Credit, &count.to_le_bytes());
        }
    }

    /// Says how far the data of a request or a response may come.
    pub fn window(&mut self, window: &WindowRef) {
        let flags = if window.of_response { flags::OF_RESPONSE } else { 0 };
        self.frame(Kind::Window, flags, WindowRef::LENGTH, |tail| window.emit(tail));
    }

    /// The peer takes so much of the data of a request or a response. Of one that is not under way any more nobody cares.
    pub fn widen(&mut self, window: &WindowRef) {
        let kind = if window.of_response { Kind::Response } else { Kind::Request };
        let asked = |stream: &&mut Stream| stream.call == window.call && stream.kind == kind;
        let Some(stream) = self.streams.iter_mut().find(asked) else { return };
        stream.leave.widen(window.limit);
        if kind == Kind::Request
            && let Some(Part::Body { limit, .. }) = stream.parts.back_mut()
        {
            *limit = window.limit.max(*limit);
        }
    }

    /// How long segments are from now on, at most [`SEGMENT`], and how many bytes of them may be cut before this is said again.
    pub fn pace(&mut self, segment: usize, allowance: usize) {
        (self.segment, self.allowance) = (segment, allowance);
    }

    /// Whether long messages have to wait until more may be cut.
    pub fn is_held(&self) -> bool {
        self.allowance == 0 && !self.streams.is_empty()
    }

    /// Bytes that are queued, those of small frames and of segments that were cut.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// Queues a message.
    pub fn push(&mut self, message: Message) {
        match message {
            Message::Request(request) => {
                // What it waits for may be the end of other calls: nothing waits for it meanwhile.
                request.body().waits(true);
                self.waiting.push_back(request);
                self.release();
            }
            Message::Response(response) => self.response(response),
            Message::Cancel(call) => self.cancel(call),
            Message::Release(call) => self.call_frame(Kind::Release, call),
            Message::Moved(call) => self.call_frame(Kind::Moved, call),
            Message::Ping => self.small_frame(Kind::Ping, &[]),
            Message::Pause(length) => self.small_frame(Kind::Pause, &emit_pause(length)),
            // The one that waits tells as much as two.
            Message::Pong => {
                if self.holding.takes_pong(self.queued + FRAME_HEADER) {
                    self.small_frame(Kind::Pong, &[]);
                }
            }
        }
    }

    /// Queues a request of a plan; says whether there is credit for it.
    #[inline(always)]
    pub fn relay(&mut self, child: &ToChild<'_>) -> bool {
        // Behind those that wait.
        if unlikely((self.credit == 0) | !self.waiting.is_empty()) {
            return false;
        }
        self.credit -= 1;
        let before = self.tail.len();
        match (child.frame, child.alone) {
            (Some(frame), Some(id)) => {
                Template::copy(frame, id, child.particulars.position, &mut self.tail);
            }
            (_, alone) => child.template.fill(&child.particulars, alone, &mut self.tail),
        }
        self.queued += self.tail.len() - before;
        true
    }

    /// Queues an answer that is written where it leaves.
    #[inline(always)]
    pub fn short_response(&mut self, head: &ResponseHead, answer: &ShortAnswer<'_>) {
        let length = FRAME_HEADER + ResponseHead::LENGTH + head.reply_len() as usize;
        let start = self.tail.len();
        // Its parts are many and small: into room that is there they go without asking for it one by one.
        self.tail.resize(start + length, 0);
        self.queued += length;
        let mut room = &mut self.tail[start..];
        let header = FrameHeader { length: (length - FRAME_HEADER) as u32, kind: Kind::Response, flags: 0 };
        room.put_slice(&header.emit());
        head.emit(&mut room);
        answer.emit(&mut room);
        debug_assert!(room.is_empty(), "a frame says how long it is");
    }

    /// The peer takes so many more requests.
    pub fn grant(&mut self, credit: u32) {
        // No node takes more; who says so has this one hold requests that are not read.
        self.credit = self.credit.saturating_add(credit).min(BODIES_MAX as u32);
        self.release();
    }

    /// Queues the answer of an id with nobody below it.
    #[inline(always)]
    pub fn own_response(&mut self, head: &ResponseHead, answer: &OwnAnswer<'_>) {
        let length = FRAME_HEADER + ResponseHead::LENGTH + head.reply_len() as usize;
        let header = FrameHeader { length: (length - FRAME_HEADER) as u32, kind: Kind::Response, flags: 0 };
        // In as few pieces as may be, for each asks whether there is room.
        let mut start = [0; FRAME_HEADER + ResponseHead::LENGTH + OwnAnswer::START_MAX];
        let mut room = &mut start[..];
        room.put_slice(&header.emit());
        head.emit(&mut room);
        answer.emit_start(&mut room);
        let unused = room.len();
        let before = self.tail.len();
        self.tail.extend_from_slice(&start[..start.len() - unused]);
        answer.emit_rest(&mut self.tail);
        debug_assert_eq!(self.tail.len() - before, length, "a frame says how long it is");
        self.queued += length;
    }

    /// Stops sending a request of which the answer has come already.
    pub fn answered(&mut self, call: CallId) {
        match self.drop_stream(call, Kind::Request) {
            Some(true) => self.call_frame(Kind::Cancel, call),
            // The peer answered what it cannot know: nothing was sent, so its credit is still here.
            Some(false) => self.grant(1),
            None => {}
        }
    }

    /// Stops sending a response that the parent does not want any more. What it has of it, it drops when the next segment would come.
    pub fn unwanted(&mut self, call: CallId) {
        if !self.streams.is_empty() {
            self.drop_stream(call, Kind::Response);
        }
    }

    /// Whether there are bytes to write now.
    pub fn is_ready(&mut self) -> bool {
        self.is_ready_beside(&mut Never)
    }

    /// The same, of a link whose long data may leave by descriptor.
    pub fn is_ready_beside(&mut self, over: &mut dyn Handover) -> bool {
        self.fill(over);
        self.queued > 0
    }

    /// Requests that the peer still takes.
    pub fn credit(&self) -> u32 {
        self.credit
    }

    /// How many long responses are under way, whatever they wait for.
    pub fn replies(&self) -> usize {
        self.streams.iter().filter(|stream| stream.kind == Kind::Response).count()
    }

    /// Bytes that wait to be written, of those that are there and that the peer takes.
    pub fn backlog(&self) -> u64 {
        self.queued as u64 + self.streams.iter().map(Stream::backlog).sum::<u64>()
    }

    /// Whether a message is waiting for anything: credit, its turn, or bytes still to arrive.
    pub fn is_idle(&self) -> bool {
        self.queued == 0 && self.waiting.is_empty() && self.streams.is_empty()
    }

    /// Whether long messages are under way, whose bytes may still have to arrive.
    pub fn is_streaming(&self) -> bool {
        !self.streams.is_empty()
    }

    /// The bytes to write, where they lie in one piece and nothing else is there to send or to wait for.
    #[inline]
    pub fn only_small(&self) -> Option<&[u8]> {
        let only = self.ready.is_empty() & self.waiting.is_empty() & self.streams.is_empty();
        match likely(only & !self.tail.is_empty()) {
            true => Some(&self.tail),
            false => None,
        }
    }

    /// So many of [these](Self::only_small) have been written; says whether that was all.
    #[inline]
    pub fn small_written(&mut self, count: usize) -> bool {
        let all = count == self.queued;
        match likely(all) {
            // Its room is used again.
            true => {
                self.tail.clear();
                (self.queued, self.has_begun) = (0, false);
                self.holding.written(count);
            }
            false => self.written(count),
        }
        all
    }

    /// The next bytes to write, as parts of one gather write.
    pub fn parts<'a>(&'a self, slices: &mut SmallVec<[IoSlice<'a>; PARTS_MAX]>) {
        slices.extend(self.ready.iter().take(PARTS_MAX - 1).map(|part| IoSlice::new(part)));
        if self.ready.len() < PARTS_MAX && !self.tail.is_empty() && !self.over {
            slices.push(IoSlice::new(&self.tail));
        }
    }

    /// So many bytes have been written.
    pub fn written(&mut self, mut count: usize) {
        self.queued -= count;
        self.has_begun = self.queued > 0;
        self.holding.written(count);
        if self.queued == 0 {
            self.holding.drained();
        }
        while count > 0 {
            let Some(first) = self.ready.front_mut() else {
                // Its room is used again.
                if count == self.tail.len() {
                    self.tail.clear()
                } else {
                    self.tail.advance(count)
                }
                return;
            };
            let taken = count.min(first.len());
            let _ = first.split_to(taken);
            count -= taken;
            if first.is_empty() {
                self.ready.pop_front();
            }
        }
    }

    /// Moves requests from the queue to the wire while there is credit.
    fn release(&mut self) {
        while self.credit > 0
            && let Some(request) = self.waiting.pop_front()
        {
            self.credit -= 1;
            self.request(&request);
        }
    }

    fn request(&mut self, request: &Request) {
        request.body().waits(false);
        let head = request_head(request);
        let flags = request_flags(request);
        let form: IdsForm = head.ids_form;
        let small = head.prefix_len().saturating_add(head.data_len) <= SMALL;
        if let (true, Some(data)) = (small, request.body().as_bytes()) {
            let length = RequestHead::LENGTH + head.prefix_len() as usize + data.len();
            return self.frame(Kind::Request, flags, length, |tail| {
                head.emit(tail);
                emit_prefix(request, form, tail);
                tail.extend_from_slice(&data);
            });
        }
        let mut fixed = Vec::with_capacity(RequestHead::LENGTH);
        head.emit(&mut fixed);
        let mut prefix = Vec::with_capacity(head.prefix_len() as usize);
        emit_prefix(request, form, &mut prefix);
        let data = Part::Body { body: request.body().clone(), read: 0, limit: WINDOW };
        let data = Some(data).filter(|_| head.data_len > 0);
        let parts = std::iter::once(Part::Bytes(prefix.into())).chain(data).collect();
        let (call, kind, head) = (request.call, Kind::Request, Some(fixed));
        let (leave, _share) = (Leave::unbounded(), Share::default());
        self.streams.push_back(Stream { call, kind, flags, head, parts, leave, _share });
    }

    fn response(&mut self, response: Response) {
        let Response { call, answer } = response;
        let (kind, reply, report) = match answer {
            Answer::Completed => (AnswerKind::Completed, SubtreeReply::default(), Vec::new()),
            Answer::Reply(reply) => (AnswerKind::Reply, reply, Vec::new()),
            Answer::Arriving(reply) => return self.arriving(call, *reply),
            Answer::Failed(failure) => {
                (AnswerKind::Failed, SubtreeReply::default(), Report::from(*failure).emit())
            }
            Answer::Partial(partial) => (AnswerKind::Partial, partial.reply, partial.report.emit()),
        };
        let head = ResponseHead {
            call,
            level: reply.level,
            kind,
            header_len: reply.header.len() as u64,
            data_len: reply.data.len() as u64,
            report_len: report.len() as u32,
            trace_len: reply.trace.len() as u32,
        };
        if head.body_len() <= SMALL {
            let length = ResponseHead::LENGTH + head.body_len() as usize;
            if head.kind == AnswerKind::Failed {
                // It stands instead of a reply that is under way.
                self.unwanted(call);
            }
            return self.frame(Kind::Response, 0, length, |tail| {
                head.emit(tail);
                reply.header.copy_to(tail);
                reply.data.copy_to(tail);
                tail.extend_from_slice(&report);
                tail.extend_from_slice(&reply.trace);
            });
        }
        let rest = [Bytes::from(report), reply.trace.clone()];
        let rest = rest.into_iter().filter(|part| !part.is_empty());
        let parts = reply.header.parts().chain(reply.data.parts());
        let parts = parts.map(Bytes::from).chain(rest).map(Part::Bytes).collect();
        self.long_response(&head, parts);
    }

    /// A reply whose data may still be arriving: it goes up at once, and they as they come.
    fn arriving(&mut self, call: CallId, reply: StreamingReply) {
        let head = ResponseHead {
            call,
            level: reply.level,
            kind: AnswerKind::Reply,
            header_len: reply.header.len() as u64,
            data_len: reply.data.len(),
            report_len: 0,
            trace_len: 0,
        };
        let data = reply.data.into_parts().into_iter().map(|part| match part {
            StreamingPart::Arrived(bytes) => Part::Bytes(bytes),
            StreamingPart::Arriving(body) => Part::Body { body, read: 0, limit: u64::MAX },
        });
        let header = reply.header.parts().map(|part| Part::Bytes(part.into()));
        self.long_response(&head, header.chain(data).collect());
    }

    fn long_response(&mut self, head: &ResponseHead, parts: VecDeque<Part>) {
        let mut fixed = Vec::with_capacity(ResponseHead::LENGTH);
        head.emit(&mut fixed);
        if head.kind == AnswerKind::Failed {
            self.unwanted(head.call);
        }
        let (call, kind, leave) = (head.call, Kind::Response, Leave::of_response(head));
        let here = |part: &Part| if let Part::Bytes(bytes) = part { bytes.len() as u64 } else { 0 };
        let Some(_share) = self.holding.reply(parts.iter().map(here).sum()) else {
            return self.refuse(call, Coverage::new());
        };
        self.streams.push_back(Stream { call, kind, flags: 0, head: Some(fixed), parts, leave, _share });
    }

    /// Answers that there is no room for what would be the answer.
    pub fn refuse(&mut self, call: CallId, coverage: Coverage) {
        let cause = Cause::new(self.holding.me(), Stage::Reply, CauseKind::NoMemory, self.refusal());
        self.response(Response { call, answer: Answer::Failed(Box::new(Failure { cause, coverage })) });
    }

    /// A request that never began is forgotten; of one that began, the peer must hear.
    fn cancel(&mut self, call: CallId) {
        if let Some(place) = self.waiting.iter().position(|request| request.call == call) {
            self.waiting.remove(place);
            return;
        }
        match self.drop_stream(call, Kind::Request) {
            // Its credit was taken, and no request was sent for it.
            Some(false) => self.grant(1),
            Some(true) | None => self.call_frame(Kind::Cancel, call),
        }
    }

    fn call_frame(&mut self, kind: Kind, call: CallId) {
        self.frame(kind, 0, CallRef::LENGTH, |tail| CallRef(call).emit(tail));
    }

    /// Takes a long message off the link; says whether it had begun.
    fn drop_stream(&mut self, call: CallId, kind: Kind) -> Option<bool> {
        let place = self.streams.iter().position(|stream| stream.call == call && stream.kind == kind)?;
        self.streams.remove(place).map(|stream| stream.head.is_none())
    }

    fn small_frame(&mut self, kind: Kind, payload: &[u8]) {
        self.frame(kind, 0, payload.len(), |tail| tail.extend_from_slice(payload));
    }

    /// Writes one frame into the buffer of small ones; `emit` appends its payload of `length` bytes.
    #[inline(always)]
    fn frame(&mut self, kind: Kind, flags: u8, length: usize, emit: impl FnOnce(&mut BytesMut)) {
        self.tail.reserve(FRAME_HEADER + length);
        let start = self.tail.len();
        self.tail.extend_from_slice(&FrameHeader { length: length as u32, kind, flags }.emit());
        emit(&mut self.tail);
        debug_assert_eq!(self.tail.len() - start, FRAME_HEADER + length, "a frame says how long it is");
        self.queued += self.tail.len() - start;
    }

    /// Cuts segments from long messages, in turn, until enough is queued or none has bytes. What leaves by descriptor leaves one by one, so that the peer has each as soon as it is there.
    fn fill(&mut self, over: &mut dyn Handover) {
        if unlikely(self.over) {
            return self.drop_what_follows();
        }
        let mut starved = 0;
        // On a slow link nothing is ahead: what is left of a segment would stand before the next small message.
        let ahead = if self.segment == SEGMENT { AHEAD } else { 1 };
        while self.queued < ahead && self.allowance > 0 && starved < self.streams.len() {
            let Some(mut stream) = self.streams.pop_front() else { return };
            let began = stream.head.is_none();
            match stream.hand_over(over, self.queued) {
                Handed::Over(length) => {
                    let call = stream.call;
                    self.frame(Kind::Extent, 0, ExtentRef::LENGTH, |tail| {
                        ExtentRef { call, length }.emit(tail)
                    });
                    self.streams.extend(Some(stream).filter(|stream| !stream.parts.is_empty()));
                    return;
                }
                Handed::Waiting => {
                    starved += 1;
                    self.streams.push_back(stream);
                    continue;
                }
                Handed::Not => {}
            }
            let segment = stream.cut(self.segment);
            if segment.is_empty() && began {
                starved += 1;
                self.streams.push_back(stream);
                continue;
            }
            starved = 0;
            self.segment(&mut stream, began, segment);
            if !stream.parts.is_empty() {
                self.streams.push_back(stream);
            }
        }
    }

    /// Queues one frame of a long message; its bytes are not copied.
    fn segment(&mut self, stream: &mut Stream, began: bool, segment: SmallVec<[Bytes; 4]>) {
        let bytes = segment.iter().map(Bytes::len).sum::<usize>();
        let (kind, flags, fixed) = match stream.head.take() {
            Some(head) => (stream.kind, stream.flags, head),
            None => {
                let flags = if stream.kind == Kind::Response { flags::OF_RESPONSE } else { 0 };
                let mut fixed = Vec::with_capacity(CallRef::LENGTH);
                CallRef(stream.call).emit(&mut fixed);
                (Kind::Segment, flags, fixed)
            }
        };
        debug_assert!(!began || bytes > 0, "a segment carries bytes");
        self.allowance = self.allowance.saturating_sub(bytes);
        let length = fixed.len() + bytes;
        self.tail.extend_from_slice(&FrameHeader { length: length as u32, kind, flags }.emit());
        self.tail.extend_from_slice(&fixed);
        self.ready.push_back(self.tail.split().freeze());
        self.ready.extend(segment);
        self.queued += FRAME_HEADER + length;
    }
}

impl Default for Outbox {
    fn default() -> Outbox {
        Outbox::new()
    }
}

impl Stream {
    fn backlog(&self) -> u64 {
        let left = |part: &Part| match part {
            Part::Bytes(bytes) => bytes.len() as u64,
            Part::Body { body, read, limit } => body.arrived().min(*limit).saturating_sub(*read),
        };
        self.parts.iter().map(left).sum::<u64>().min(self.leave.left())
    }

    /// Whether long data come next. They begin in a frame of their own, so that they are cut at the same places on every link of a tree, and each node passes segments on as they came.
    fn begins_long_data(&self) -> bool {
        matches!(self.parts.front(), Some(Part::Body { body, .. }) if body.len() > SEGMENT as u64)
    }

    /// The next bytes of the body, at most `longest`, as far as they have come. Parts that are through are dropped.
    fn cut(&mut self, longest: usize) -> SmallVec<[Bytes; 4]> {
        let mut segment = SmallVec::new();
        let most = self.leave.room(longest);
        let mut room = most;
        while room > 0
            && let Some(part) = self.parts.front_mut()
        {
            let (piece, through) = match part {
                Part::Bytes(bytes) => {
                    let piece = bytes.split_to(room.min(bytes.len()));
                    let through = bytes.is_empty();
                    (piece, through)
                }
                Part::Body { body, read, limit } => {
                    let allowed = usize::try_from(limit.saturating_sub(*read)).unwrap_or(room);
                    let piece = body.read(*read, room.min(allowed));
                    *read += piece.len() as u64;
                    body.passed(*read);
                    let through = *read == body.len();
                    (piece, through)
                }
            };
            room -= piece.len();
            let stuck = piece.is_empty() && !through;
            if !piece.is_empty() {
                segment.push(piece);
            }
            if through {
                self.parts.pop_front();
            }
            if stuck || (through && self.begins_long_data()) {
                break;
            }
        }
        self.leave.spend(most - room);
        segment
    }
}
