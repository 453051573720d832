//! Outbox of a link: serializes messages into bytes, without a socket.
//!
//! Small messages are serialized at once into one buffer, and sent in one gather write. Long ones are cut into segments
//! that take turns, so none delays the others. Bytes of a body that is still arriving are read from it as they arrive.
//! Requests wait here for credit.

mod goodbye;
mod messages;
mod stream;
pub(super) mod unsent;

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use gpc_trees::Id;
use smallvec::SmallVec;

pub(super) use stream::{BodyPart, Stream};

use super::descriptor_passing::{DescriptorSender, NoDescriptors, PassOutcome};
use super::inbox::BODIES_MAX;
use super::queue_limits::QueueLimits;
use crate::branch_hint::{likely, unlikely};
use crate::chain::{ChildRequest, LeafAnswer, ShortAnswer};
use crate::wire::frame::{FRAME_HEADER, FrameHeader, Kind, SEGMENT, flags};
use crate::wire::head::{CallRef, ExtentRef, ResponseHead, WindowRef, emit_pause};
use crate::wire::short::{SHORT_MAX, Template};
use crate::wire::stragglers::emit_stragglers;
use crate::wire::{Budget, CallId, Hello, Message, Request};

/// Maximum body of a message that is copied into one buffer and one frame, in bytes: a copy costs less than a further
/// part of the gather write.
const SMALL: u64 = SHORT_MAX as u64;

/// Bytes of long messages that are queued ahead of the socket: two segments keep it busy, and delay a small message
/// little.
const AHEAD: usize = 2 * SEGMENT;

/// Maximum contiguous bytes of small frames that wait for the peer.
const RUN_MAX: usize = 64 << 10;

/// Maximum number of parts of one gather write: as many as the system accepts without an allocation.
pub const PARTS_MAX: usize = 16;

/// The outbox of a link.
#[derive(Debug)]
pub struct Outbox {
    /// Queued bytes in order; the first part may be sent partially.
    ready: VecDeque<Bytes>,
    /// Whether the last frame, a GOODBYE, was queued.
    is_closed: bool,
    /// Small frames after `ready`.
    tail: BytesMut,
    /// Bytes in `ready` and `tail`.
    queued: usize,
    /// Requests that wait for credit, at most one for each call in flight.
    waiting_requests: VecDeque<Arc<Request>>,
    streams: VecDeque<Stream>,
    credit: u32,
    /// Whether a byte of the queue was sent, or another link had queued it before.
    has_begun: bool,
    /// Limits of the queues.
    limits: QueueLimits,
    /// Length of a segment, and number of bytes that may be cut before the pace is set again.
    segment: usize,
    allowance: usize,
}

impl Outbox {
    /// Returns an outbox without credit: it sends no request until the hello of the peer grants credit.
    pub fn new() -> Outbox {
        Outbox {
            ready: VecDeque::new(),
            is_closed: false,
            tail: BytesMut::new(),
            queued: 0,
            waiting_requests: VecDeque::new(),
            streams: VecDeque::new(),
            credit: 0,
            has_begun: false,
            limits: QueueLimits::default(),
            segment: SEGMENT,
            allowance: usize::MAX,
        }
    }

    /// Sets the budgets of queued replies and of small frames. `me` is the node in the failures of replies that do not
    /// fit.
    pub fn set_budgets(&mut self, me: Id, replies: &Budget, small: &Budget) {
        self.limits = QueueLimits::new(me, replies, small);
    }

    /// Whether the long replies were over their limit at the last check.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.limits.is_full()
    }

    /// Checks whether the long replies are still over their limit: then requests are rejected before they are executed.
    pub fn update_full(&mut self) -> bool {
        self.limits.update_full()
    }

    /// The reason why a reply does not fit, for people.
    pub fn refusal(&self) -> String {
        self.limits.refusal()
    }

    /// Charges the queued small frames to their budget: the peer accepts no bytes at the moment.
    ///
    /// # Errors
    /// If more small frames wait than a peer that reads ever leaves; the text is for people.
    pub fn charge_backlog(&mut self) -> Result<(), String> {
        // A longer buffer would be moved when it grows.
        if self.tail.len() > RUN_MAX && !self.is_closed {
            self.ready.push_back(self.tail.split().freeze());
        }
        let ahead = if self.streams.is_empty() { 0 } else { AHEAD };
        self.limits.charge_small(self.queued.saturating_sub(ahead))
    }

    /// Releases the buffers, if no message is queued.
    pub fn release_spare_memory(&mut self) {
        if self.is_idle() {
            self.tail = BytesMut::new();
            self.ready = VecDeque::new();
            self.waiting_requests = VecDeque::new();
            self.streams = VecDeque::new();
        }
    }

    /// Queues the link's first frame.
    pub fn push_hello(&mut self, hello: &Hello) {
        let flags = [(hello.rings, flags::RINGS), (hello.extents, flags::EXTENTS)];
        let flags = flags.iter().filter(|(set, _)| *set).fold(0, |all, (_, flag)| all | flag);
        let hello = hello.emit();
        self.push_frame(Kind::Hello, flags, hello.len(), |tail| tail.extend_from_slice(&hello));
    }

    /// Queues bytes of the greeting, before all frames.
    pub fn push_greeting(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
        self.queued += bytes.len();
    }

    /// Queues an acknowledgement of requests, unless their number is 0.
    pub fn push_credit(&mut self, count: u32) {
        if count > 0 {
            self.push_small_frame(Kind::Credit, &count.to_le_bytes());
        }
    }

    /// Queues a WINDOW for the data of a request or a response.
    pub fn push_window(&mut self, window: &WindowRef) {
        let flags = if window.of_response { flags::OF_RESPONSE } else { 0 };
        self.push_frame(Kind::Window, flags, WindowRef::LENGTH, |tail| window.emit(tail));
    }

    /// Extends the window of a request or a response. A window of a message that is not being sent has no effect.
    pub fn extend_window(&mut self, window: &WindowRef) {
        let kind = if window.of_response { Kind::Response } else { Kind::Request };
        let asked = |stream: &&mut Stream| stream.call == window.call && stream.kind == kind;
        let Some(stream) = self.streams.iter_mut().find(asked) else { return };
        stream.window.extend(window.limit);
        if kind == Kind::Request
            && let Some(BodyPart::Body { limit, .. }) = stream.parts.back_mut()
        {
            *limit = window.limit.max(*limit);
        }
    }

    /// Sets the length of segments, at most [`SEGMENT`], and the number of bytes of segments that may be cut before the
    /// next call.
    pub fn set_pace(&mut self, segment: usize, allowance: usize) {
        (self.segment, self.allowance) = (segment, allowance);
    }

    /// Whether long messages wait for the next [`set_pace`](Self::set_pace).
    pub fn is_throttled(&self) -> bool {
        self.allowance == 0 && !self.streams.is_empty()
    }

    /// Number of queued bytes, of small frames and cut segments.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// Queues a message.
    pub fn push(&mut self, message: Message) {
        match message {
            Message::Request(request) => {
                // The request may wait for the end of other calls, so its data do not wait for this reader.
                request.body().waits(true);
                self.waiting_requests.push_back(request);
                self.start_waiting();
            }
            Message::Response(response) => self.push_response(response),
            Message::Cancel(call) => self.cancel_request(call),
            Message::Release(call) => self.push_call_frame(Kind::Release, call),
            Message::Moved(call) => self.push_call_frame(Kind::Moved, call),
            Message::Ping => self.push_small_frame(Kind::Ping, &[]),
            Message::Pause(length) => self.push_small_frame(Kind::Pause, &emit_pause(length)),
            // They precede a PONG, and are limited like it.
            Message::Stragglers(_) if self.limits.is_pong_queued() => {}
            Message::Stragglers(calls) => self.push_small_frame(Kind::Stragglers, &emit_stragglers(&calls)),
            // A queued PONG serves both PINGs.
            Message::Pong => {
                if self.limits.admit_pong(self.queued + FRAME_HEADER) {
                    self.push_small_frame(Kind::Pong, &[]);
                }
            }
        }
    }

    /// Queues a request of a plan; returns whether there was credit for it.
    #[inline(always)]
    pub fn relay(&mut self, child: &ChildRequest<'_>) -> bool {
        // Requests that wait for credit come first.
        if unlikely((self.credit == 0) | !self.waiting_requests.is_empty()) {
            return false;
        }
        self.credit -= 1;
        let before = self.tail.len();
        match (child.frame, child.alone) {
            (Some(frame), Some(id)) => {
                Template::copy(frame, id, child.particulars.position, &mut self.tail);
            }
            (_, alone) => child.template.fill(child.particulars, alone, &mut self.tail),
        }
        self.queued += self.tail.len() - before;
        true
    }

    /// Queues a response that is serialized directly into the buffer.
    #[inline(always)]
    pub fn short_response(&mut self, head: &ResponseHead, answer: &ShortAnswer<'_>) {
        let length = FRAME_HEADER + ResponseHead::LENGTH + head.reply_len() as usize;
        let start = self.tail.len();
        // The parts are many and small: one reservation serves all.
        self.tail.resize(start + length, 0);
        self.queued += length;
        let mut room = &mut self.tail[start..];
        let header = FrameHeader { length: (length - FRAME_HEADER) as u32, kind: Kind::Response, flags: 0 };
        room.put_slice(&header.emit());
        head.emit(&mut room);
        answer.emit(&mut room);
        debug_assert!(room.is_empty(), "the header has the length of the frame");
    }

    /// Adds credit of the peer, and starts the requests that waited for it.
    pub fn add_credit(&mut self, credit: u32) {
        // No node accepts more. More credit would let a peer make this node queue requests that are never read.
        self.credit = self.credit.saturating_add(credit).min(BODIES_MAX as u32);
        self.start_waiting();
    }

    /// Queues the response of an id without children.
    #[inline(always)]
    pub fn own_response(&mut self, head: &ResponseHead, answer: &LeafAnswer<'_>) {
        let length = FRAME_HEADER + ResponseHead::LENGTH + head.reply_len() as usize;
        let header = FrameHeader { length: (length - FRAME_HEADER) as u32, kind: Kind::Response, flags: 0 };
        // Few writes: each checks the capacity.
        let mut start = [0; FRAME_HEADER + ResponseHead::LENGTH + LeafAnswer::START_MAX];
        let mut room = &mut start[..];
        room.put_slice(&header.emit());
        head.emit(&mut room);
        answer.emit_start(&mut room);
        let unused = room.len();
        let before = self.tail.len();
        self.tail.extend_from_slice(&start[..start.len() - unused]);
        answer.emit_rest(&mut self.tail);
        debug_assert_eq!(self.tail.len() - before, length, "the header has the length of the frame");
        self.queued += length;
    }

    /// Stops sending a request whose response has arrived.
    pub fn stop_request(&mut self, call: CallId) {
        match self.drop_stream(call, Kind::Request) {
            Some(true) => self.push_call_frame(Kind::Cancel, call),
            // The peer has responded to a request that was not sent, so its credit was not used.
            Some(false) => self.add_credit(1),
            None => {}
        }
    }

    /// Stops sending a response that the parent does not await any more. The parent drops the received part at the next
    /// segment.
    pub fn stop_response(&mut self, call: CallId) {
        if !self.streams.is_empty() {
            self.drop_stream(call, Kind::Response);
        }
    }

    /// Cuts segments from long messages, and returns whether there are bytes to write.
    pub fn prepare(&mut self) -> bool {
        self.prepare_with(&mut NoDescriptors)
    }

    /// [`prepare`](Self::prepare) for a link that passes descriptors.
    pub fn prepare_with(&mut self, descriptors: &mut dyn DescriptorSender) -> bool {
        self.cut_segments(descriptors);
        self.queued > 0
    }

    /// Number of requests that the peer accepts.
    pub fn credit(&self) -> u32 {
        self.credit
    }

    /// Number of long responses that are being sent.
    pub fn response_count(&self) -> usize {
        self.streams.iter().filter(|stream| stream.kind == Kind::Response).count()
    }

    /// Number of bytes that are present and that the peer accepts, but that are not written.
    pub fn backlog(&self) -> u64 {
        self.queued as u64 + self.streams.iter().map(Stream::backlog).sum::<u64>()
    }

    /// Whether no message is queued, waits for credit or is being sent.
    pub fn is_idle(&self) -> bool {
        self.queued == 0 && self.waiting_requests.is_empty() && self.streams.is_empty()
    }

    /// Whether a long message is being sent. Its bytes may still be arriving.
    pub fn is_streaming(&self) -> bool {
        !self.streams.is_empty()
    }

    /// The queued bytes, if they are contiguous and no other message is queued.
    #[inline]
    pub fn small_bytes(&self) -> Option<&[u8]> {
        let only = self.ready.is_empty() & self.waiting_requests.is_empty() & self.streams.is_empty();
        match likely(only & !self.tail.is_empty()) {
            true => Some(&self.tail),
            false => None,
        }
    }

    /// Counts written bytes of [`small_bytes`](Self::small_bytes); returns whether all have been written.
    #[inline]
    pub fn mark_small_written(&mut self, count: usize) -> bool {
        let all = count == self.queued;
        match likely(all) {
            // The buffer is reused.
            true => {
                self.tail.clear();
                (self.queued, self.has_begun) = (0, false);
                self.limits.mark_written(count);
            }
            false => self.mark_written(count),
        }
        all
    }

    /// The next bytes to write, as parts of one gather write.
    pub fn parts<'a>(&'a self, slices: &mut SmallVec<[IoSlice<'a>; PARTS_MAX]>) {
        slices.extend(self.ready.iter().take(PARTS_MAX - 1).map(|part| IoSlice::new(part)));
        if self.ready.len() < PARTS_MAX && !self.tail.is_empty() && !self.is_closed {
            slices.push(IoSlice::new(&self.tail));
        }
    }

    /// Counts written bytes.
    pub fn mark_written(&mut self, mut count: usize) {
        self.queued -= count;
        self.has_begun = self.queued > 0;
        self.limits.mark_written(count);
        if self.queued == 0 {
            self.limits.release_small();
        }
        while count > 0 {
            let Some(first) = self.ready.front_mut() else {
                // The buffer is reused.
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

    /// Starts the requests that there is credit for.
    fn start_waiting(&mut self) {
        while self.credit > 0
            && let Some(request) = self.waiting_requests.pop_front()
        {
            self.credit -= 1;
            self.start_request(&request);
        }
    }

    /// Cancels a request: silently if it was not started, with a CANCEL otherwise.
    fn cancel_request(&mut self, call: CallId) {
        if let Some(place) = self.waiting_requests.iter().position(|request| request.call == call) {
            self.waiting_requests.remove(place);
            return;
        }
        match self.drop_stream(call, Kind::Request) {
            // Its credit was taken, and no request was sent for it.
            Some(false) => self.add_credit(1),
            Some(true) | None => self.push_call_frame(Kind::Cancel, call),
        }
    }

    fn push_call_frame(&mut self, kind: Kind, call: CallId) {
        self.push_frame(kind, 0, CallRef::LENGTH, |tail| CallRef(call).emit(tail));
    }

    /// Removes the long message of a call. Returns whether its first frame has been cut; `None` if the call has no such
    /// message.
    fn drop_stream(&mut self, call: CallId, kind: Kind) -> Option<bool> {
        let place = self.streams.iter().position(|stream| stream.call == call && stream.kind == kind)?;
        self.streams.remove(place).map(|stream| stream.head.is_none())
    }

    fn push_small_frame(&mut self, kind: Kind, payload: &[u8]) {
        self.push_frame(kind, 0, payload.len(), |tail| tail.extend_from_slice(payload));
    }

    /// Appends one frame to the small frames; `emit` appends its payload of `length` bytes.
    #[inline(always)]
    fn push_frame(&mut self, kind: Kind, flags: u8, length: usize, emit: impl FnOnce(&mut BytesMut)) {
        self.tail.reserve(FRAME_HEADER + length);
        let start = self.tail.len();
        self.tail.extend_from_slice(&FrameHeader { length: length as u32, kind, flags }.emit());
        emit(&mut self.tail);
        debug_assert_eq!(
            self.tail.len() - start,
            FRAME_HEADER + length,
            "the header has the length of the frame"
        );
        self.queued += self.tail.len() - start;
    }

    /// Cuts segments from long messages in turn, until enough is queued or none has bytes. After a passed descriptor it
    /// returns, so that the peer gets each one at once.
    fn cut_segments(&mut self, descriptors: &mut dyn DescriptorSender) {
        if unlikely(self.is_closed) {
            return self.drop_queued();
        }
        let mut starved = 0;
        // On a slow link no segment is ahead: its rest would delay the next small message.
        let ahead = if self.segment == SEGMENT { AHEAD } else { 1 };
        while self.queued < ahead && self.allowance > 0 && starved < self.streams.len() {
            let Some(mut stream) = self.streams.pop_front() else { return };
            let began = stream.head.is_none();
            match stream.pass_descriptor(descriptors, self.queued) {
                PassOutcome::Passed(length) => {
                    let call = stream.call;
                    self.push_frame(Kind::Extent, 0, ExtentRef::LENGTH, |tail| {
                        ExtentRef { call, length }.emit(tail)
                    });
                    self.streams.extend(Some(stream).filter(|stream| !stream.parts.is_empty()));
                    return;
                }
                PassOutcome::Blocked => {
                    starved += 1;
                    self.streams.push_back(stream);
                    continue;
                }
                PassOutcome::UseSegments => {}
            }
            let segment = stream.cut(self.segment);
            if segment.is_empty() && began {
                starved += 1;
                self.streams.push_back(stream);
                continue;
            }
            starved = 0;
            self.push_segment(&mut stream, began, segment);
            if !stream.parts.is_empty() {
                self.streams.push_back(stream);
            }
        }
    }

    /// Queues one frame of a long message without a copy of its bytes.
    fn push_segment(&mut self, stream: &mut Stream, began: bool, segment: SmallVec<[Bytes; 4]>) {
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
