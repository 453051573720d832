//! Inbox of a link: parses received bytes into events, without a socket.
//!
//! Bytes arrive in pieces of any size; the events are those of docs/wire.md. Bodies that arrive in segments are
//! reassembled, in memory that grows with the received bytes. Bytes that violate the protocol return an error, which
//! closes the link; they never cause a panic.

mod incoming_request;
mod requests;
mod responses;
mod split;

use std::collections::BTreeMap;
use std::ops::Deref;

use bytes::BytesMut;

use super::event::{Context, Event};
use super::response_parsing::parse_response;
use crate::branch_hint::likely;
use crate::chain::Time;
use crate::wire::body::{CHUNK_MIN, Chunk, Spare};
use crate::wire::budget::{Budget, Share};
use crate::wire::frame::{FIRST_MAX, FRAME_HEADER, FrameError, FrameHeader, Kind, WINDOW, flags};
use crate::wire::head::{
    AnswerKind, CallRef, ExtentRef, Goodbye, ResponseHead, WindowRef, parse_credit, parse_pause,
};
use crate::wire::stragglers::parse_stragglers;
use crate::wire::{CallId, Hello};
use incoming_request::IncomingRequest;
use responses::IncomingResponses;
use split::split_to;

/// Maximum number of incomplete requests on one link: at least the hiwater of any node.
pub const BODIES_MAX: usize = 512;

/// Bytes of an incomplete frame that are not charged to a budget. Frames other than requests and responses are shorter.
const PARTIAL_FREE: usize = 4 << 10;

/// A SEGMENT whose bytes are being received.
#[derive(Clone, Copy, Debug)]
struct OpenSegment {
    call: CallId,
    of_response: bool,
    left: usize,
}

/// A complete frame with its header: borrowed from one read, or assembled from several.
enum Frame<'a> {
    Borrowed(&'a [u8]),
    Owned(BytesMut),
}

impl Deref for Frame<'_> {
    type Target = [u8];

    /// The payload.
    fn deref(&self) -> &[u8] {
        match self {
            Frame::Borrowed(bytes) => &bytes[FRAME_HEADER..],
            Frame::Owned(bytes) => &bytes[FRAME_HEADER..],
        }
    }
}

/// The inbox of a link.
#[derive(Debug, Default)]
pub struct Inbox {
    /// Whether the hello of the peer has arrived.
    has_hello: bool,
    /// The start of a frame whose rest has not arrived.
    partial: BytesMut,
    /// Share of the budget for [`partial`](Self::partial).
    partial_share: Share,
    segment: Option<OpenSegment>,
    /// Memory for the next bytes of the segment, if its body is streamed.
    chunk: Option<Chunk>,
    /// Memory for long data.
    spare: Spare,
    requests: BTreeMap<CallId, IncomingRequest>,
    responses: IncomingResponses,
}

impl Inbox {
    /// Returns the inbox of a new link.
    pub fn new() -> Inbox {
        Inbox::default()
    }

    /// Skips the hello: peering has received it already.
    pub fn skip_hello(&mut self) {
        self.has_hello = true;
    }

    /// Sets the memory of long data with its budget, and the budget `pieces` of incomplete frames.
    pub fn set_budgets(&mut self, spare: Spare, pieces: &Budget) {
        self.spare = spare;
        self.partial_share = pieces.share();
    }

    /// Parses the next bytes of the link, and appends the events that they complete. Bytes of bodies are copied once,
    /// to their final place, so no message retains the buffer of the read.
    ///
    /// # Errors
    /// If the bytes violate the protocol: the link is to be closed.
    pub fn feed(
        &mut self,
        mut bytes: &[u8],
        context: &dyn Context,
        events: &mut Vec<Event>,
    ) -> Result<(), FrameError> {
        // Terminates: each iteration consumes bytes or returns.
        loop {
            while self.segment.is_some() {
                if bytes.is_empty() {
                    return Ok(());
                }
                self.feed_segment(&mut bytes, context, events)?;
            }
            let Some((header, payload)) = self.next_frame(&mut bytes)? else { return Ok(()) };
            self.handle_frame(header, &payload, context, events)?;
        }
    }

    /// Drops the data of a request that is still arriving, and ignores the rest of its bytes: the call has ended here.
    ///
    /// A request before its [`Event::Request`] stays: it is not validated, and its credit is still to be returned.
    pub fn drop_request(&mut self, call: CallId) {
        if let Some(IncomingRequest::Data(_)) = self.requests.get(&call) {
            self.requests.remove(&call);
            if self.segment.is_some_and(|segment| segment.call == call && !segment.of_response) {
                self.chunk = None;
            }
        }
    }

    /// Drops the bytes of the response to a call that has ended here. Its sender gets a CANCEL.
    pub fn drop_response(&mut self, call: CallId) {
        self.responses.discard(call);
        if self.segment.is_some_and(|segment| segment.call == call && segment.of_response) {
            self.chunk = None;
        }
    }

    /// Sets the deadline for the ids, the shape and the header of a request. Returns false if they are complete, or the
    /// request is not being received.
    pub fn set_deadline(&mut self, of: CallId, at: Time) -> bool {
        match self.requests.get_mut(&of) {
            Some(IncomingRequest::Prefix { deadline, .. }) => *deadline = Some(at),
            _ => return false,
        }
        true
    }

    /// Drops the requests whose ids, shape and header have not arrived in time. Returns their calls, and the next
    /// deadline.
    pub fn expire(&mut self, now: Time) -> (Vec<CallId>, Option<Time>) {
        let late = |body: &IncomingRequest| body.deadline().is_some_and(|deadline| deadline <= now);
        let calls: Vec<CallId> =
            self.requests.iter().filter(|(_, body)| late(body)).map(|(call, _)| *call).collect();
        self.requests.retain(|_, body| !late(body));
        (calls, self.next_deadline())
    }

    /// The soonest deadline of incomplete ids, shapes and headers.
    pub fn next_deadline(&self) -> Option<Time> {
        self.requests.values().filter_map(IncomingRequest::deadline).min()
    }

    /// Releases the buffer of incomplete frames, if it is empty.
    pub fn release_spare_memory(&mut self) {
        if self.partial.is_empty() {
            self.partial = BytesMut::new();
        }
    }

    /// Whether a segment is being received: its bytes may belong into a [`read_buffer`](Self::read_buffer).
    pub fn is_in_segment(&self) -> bool {
        self.segment.is_some()
    }

    /// Memory for the next bytes of the link, if their place is known before the read and large enough to be useful.
    /// After the read, call [`commit_read`](Self::commit_read).
    pub fn read_buffer(&mut self) -> Option<&mut [u8]> {
        let left = self.segment?.left;
        let room = self.chunk.as_mut()?.room();
        let room_len = room.len().min(left);
        Some(&mut room[..room_len])
    }

    /// Registers bytes that were read into the [`read_buffer`](Self::read_buffer). Returns their number: `count`, or
    /// the length of that buffer if it is less.
    #[inline(always)]
    pub fn commit_read(&mut self, count: usize, events: &mut Vec<Event>) -> usize {
        if likely(!self.is_in_segment()) { 0 } else { self.commit_segment(count, events) }
    }

    #[inline(never)]
    fn commit_segment(&mut self, count: usize, events: &mut Vec<Event>) -> usize {
        let taken = self.read_buffer().map_or(0, |room| room.len()).min(count);
        let (Some(segment), Some(chunk)) = (&mut self.segment, &mut self.chunk) else { return 0 };
        let body = *segment;
        chunk.fill(taken);
        segment.left -= taken;
        let through = segment.left == 0;
        let full = chunk.room().is_empty();
        if through {
            self.segment = None;
        }
        if through || full {
            self.commit_chunk(body, events);
            // A segment that is longer than a chunk continues in another.
            self.chunk = if through { None } else { self.chunk_for(body) };
        }
        taken
    }

    /// Memory for the next bytes of a streamed body.
    fn chunk_for(&self, OpenSegment { call, of_response, .. }: OpenSegment) -> Option<Chunk> {
        match of_response {
            true => self.responses.chunk(call),
            false => self.requests.get(&call).and_then(IncomingRequest::chunk),
        }
    }

    /// Moves the filled chunk into its body.
    fn commit_chunk(&mut self, OpenSegment { call, of_response, .. }: OpenSegment, events: &mut Vec<Event>) {
        let Some(chunk) = self.chunk.take() else { return };
        if of_response {
            return self.responses.append_chunk(call, chunk, events);
        }
        let Some(IncomingRequest::Data(writer)) = self.requests.get_mut(&call) else { return };
        writer.append(chunk);
        self.report_data(call, events);
    }

    /// Passes to `send` the new windows of the requests and responses that are being received.
    pub fn take_windows(&mut self, mut send: impl FnMut(WindowRef)) {
        self.responses.take_windows(&mut send);
        for (&call, body) in &mut self.requests {
            if let IncomingRequest::Data(writer) = body
                && let Some(limit) = writer.grant()
            {
                send(WindowRef { call, of_response: false, limit });
            }
        }
    }

    /// Whether the sender of a request or a response still needs a WINDOW, now or later.
    pub fn owes_window(&self) -> bool {
        let of_request =
            |body: &IncomingRequest| matches!(body, IncomingRequest::Data(writer) if writer.will_grant());
        self.requests.values().any(of_request) || self.responses.owes_window()
    }

    /// Whether the inbox has no part of a frame and no part of a body.
    pub fn is_idle(&self) -> bool {
        // Evaluated without branches.
        self.partial.is_empty()
            & self.segment.is_none()
            & self.requests.is_empty()
            & self.responses.is_empty()
    }

    /// Returns the next complete frame, or the fixed part of a SEGMENT.
    fn next_frame<'a>(
        &mut self,
        bytes: &mut &'a [u8],
    ) -> Result<Option<(FrameHeader, Frame<'a>)>, FrameError> {
        if !self.fill_frame(bytes, FRAME_HEADER) {
            return Ok(None);
        }
        let header = FrameHeader::parse(self.peek_header(bytes))?;
        self.check_order(header)?;
        let length = match header.kind {
            Kind::Segment => CallRef::LENGTH,
            _ => header.length as usize,
        };
        if !self.fill_frame(bytes, FRAME_HEADER + length) {
            self.charge_partial(header)?;
            return Ok(None);
        }
        Ok(Some((
            header,
            match self.partial.is_empty() {
                true => Frame::Borrowed(split_to(bytes, FRAME_HEADER + length)),
                false => {
                    let _ = self.partial_share.resize(0);
                    Frame::Owned(self.partial.split())
                }
            },
        )))
    }

    /// Ensures that the first `needed` bytes of a frame are contiguous: in `bytes`, or in `partial` if the frame began
    /// there. A checked frame header bounds `needed`.
    fn fill_frame(&mut self, bytes: &mut &[u8], needed: usize) -> bool {
        if self.partial.is_empty() && bytes.len() >= needed {
            return true;
        }
        let missing = needed.saturating_sub(self.partial.len()).min(bytes.len());
        self.partial.extend_from_slice(split_to(bytes, missing));
        self.partial.len() >= needed && needed > 0
    }

    /// Charges the start of an incomplete frame to its budget.
    fn charge_partial(&mut self, FrameHeader { kind, length, .. }: FrameHeader) -> Result<(), FrameError> {
        let length_so_far = self.partial.len();
        if length_so_far <= PARTIAL_FREE || self.partial_share.resize(length_so_far as u64) {
            return Ok(());
        }
        let why = self.partial_share.budget().refusal();
        Err(FrameError::NoMemory { kind, length: length as usize, why })
    }

    fn peek_header(&self, bytes: &[u8]) -> [u8; FRAME_HEADER] {
        let source = if self.partial.is_empty() { bytes } else { &self.partial[..] };
        *source.first_chunk().expect("the header was buffered before")
    }

    /// Checks that the first frame, and no other, is a hello. A peer that rejects this side sends a goodbye instead.
    fn check_order(&self, FrameHeader { kind, length, .. }: FrameHeader) -> Result<(), FrameError> {
        match kind {
            Kind::Hello if self.has_hello => Err(FrameError::OutOfPlace { kind, when: "a second time" }),
            _ if !self.has_hello && length as usize > FIRST_MAX => {
                Err(FrameError::TooMuch { kind, extra: u64::from(length) - FIRST_MAX as u64 })
            }
            Kind::Hello | Kind::Goodbye => Ok(()),
            _ if !self.has_hello => Err(FrameError::OutOfPlace { kind, when: "before the hello" }),
            Kind::Segment if length as usize <= CallRef::LENGTH => {
                Err(FrameError::TooShort { kind, length: length as usize, needed: CallRef::LENGTH + 1 })
            }
            _ => Ok(()),
        }
    }

    fn handle_frame(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        context: &dyn Context,
        events: &mut Vec<Event>,
    ) -> Result<(), FrameError> {
        match header.kind {
            Kind::Hello => {
                let [rings, extents] = [flags::RINGS, flags::EXTENTS].map(|flag| header.flags & flag != 0);
                events.push(Event::Hello(Hello { rings, extents, ..Hello::parse(payload)? }));
                self.has_hello = true;
            }
            Kind::Request => self.receive_request(header.flags, payload, context, events)?,
            Kind::Response => self.receive_response(payload, context, events)?,
            Kind::Segment => {
                let CallRef(call) = CallRef::parse(header.kind, payload)?;
                let of_response = header.flags & flags::OF_RESPONSE != 0;
                let left = header.length as usize - CallRef::LENGTH;
                let missing = self.missing(call, of_response).unwrap_or(u64::MAX);
                if left as u64 > missing {
                    return Err(FrameError::TooMuch { kind: Kind::Segment, extra: left as u64 - missing });
                }
                let allowed = if of_response { self.responses.allowed(call) } else { self.allowed(call) };
                if allowed.is_some_and(|allowed| left as u64 > allowed) {
                    return Err(FrameError::OutOfPlace {
                        kind: Kind::Segment,
                        when: "beyond the window of its body",
                    });
                }
                let segment = OpenSegment { call, of_response, left };
                self.chunk = if left >= CHUNK_MIN { self.chunk_for(segment) } else { None };
                self.segment = Some(segment);
            }
            Kind::Cancel => {
                let call = parse_lone_call(header.kind, payload)?;
                if let Some(IncomingRequest::Prefix { .. }) = self.requests.remove(&call) {
                    events.push(Event::RequestAbandoned);
                }
                events.push(Event::Cancel(call));
            }
            Kind::Credit => events.push(Event::Credit(parse_credit(payload)?)),
            Kind::Window => events.push(Event::Window(WindowRef::parse(header.flags, payload)?)),
            Kind::Extent => self.receive_extent(ExtentRef::parse(payload)?, context, events)?,
            Kind::Goodbye => events.push(Event::Goodbye(Goodbye::parse(payload)?)),
            Kind::Release => events.push(Event::Release(parse_lone_call(header.kind, payload)?)),
            Kind::Moved => events.push(Event::Moved(parse_lone_call(header.kind, payload)?)),
            Kind::Ping | Kind::Pong if !payload.is_empty() => {
                return Err(FrameError::TooMuch { kind: header.kind, extra: payload.len() as u64 });
            }
            Kind::Ping => events.push(Event::Ping),
            Kind::Pong => events.push(Event::Pong),
            Kind::Stragglers => events.push(Event::Stragglers(parse_stragglers(payload)?)),
            Kind::Pause => events.push(Event::Pause(parse_pause(payload)?)),
        }
        Ok(())
    }

    fn receive_response(
        &mut self,
        payload: &[u8],
        context: &dyn Context,
        events: &mut Vec<Event>,
    ) -> Result<(), FrameError> {
        let head = ResponseHead::parse(payload)?;
        let body = &payload[ResponseHead::LENGTH..];
        if body.len() as u64 > head.body_len() {
            let extra = body.len() as u64 - head.body_len();
            return Err(FrameError::TooMuch { kind: Kind::Response, extra });
        }
        if self.responses.contains(head.call) {
            // A failure replaces the rest of a reply that is being received.
            if head.kind != AnswerKind::Failed || !self.responses.accepts_failure(head.call) {
                return Err(FrameError::OutOfPlace {
                    kind: Kind::Response,
                    when: "for a call whose response is still arriving",
                });
            }
            self.responses.discard(head.call);
        }
        let long = body.len() as u64 != head.body_len() && head.data_len > WINDOW;
        // The report has a limit of its own, which was checked with the head.
        if head.reply_len() > context.reply_max() {
            let (bytes, most) = (head.reply_len(), context.reply_max());
            let oversized = Event::Oversized { call: head.call, bytes, most };
            events.extend(Some(oversized).filter(|_| context.awaits(head.call)));
            events.extend(Some(Event::UnawaitedReply(head.call)).filter(|_| long));
            return Ok(());
        }
        if body.len() as u64 == head.body_len() {
            events.push(Event::Response(parse_response(&head, body)?));
            return Ok(());
        }
        if !context.awaits(head.call) {
            events.extend(Some(Event::UnawaitedReply(head.call)).filter(|_| long));
            return Ok(());
        }
        self.responses.start(head, body, &self.spare, context, events)
    }

    /// Number of bytes of a request or a response that have not arrived; `None` if it is not being received.
    fn missing(&self, call: CallId, of_response: bool) -> Option<u64> {
        if of_response {
            return self.responses.missing(call);
        }
        self.requests.get(&call).map(|body| match body {
            IncomingRequest::Prefix { head, bytes, .. } => {
                (head.prefix_len() - bytes.bytes.len() as u64).saturating_add(head.data_len)
            }
            IncomingRequest::Data(writer) => writer.missing(),
        })
    }

    /// Consumes bytes of a segment, in pieces of any size.
    fn feed_segment(
        &mut self,
        bytes: &mut &[u8],
        context: &dyn Context,
        events: &mut Vec<Event>,
    ) -> Result<(), FrameError> {
        if let Some(room) = self.read_buffer() {
            // Bytes of a read that began with other bytes are copied.
            let piece = split_to(bytes, room.len().min(bytes.len()));
            room[..piece.len()].copy_from_slice(piece);
            self.commit_read(piece.len(), events);
            return Ok(());
        }
        let Some(mut segment) = self.segment.take() else { return Ok(()) };
        let piece = split_to(bytes, segment.left.min(bytes.len()));
        segment.left -= piece.len();
        if segment.left > 0 {
            self.segment = Some(segment);
        }
        match segment.of_response {
            true => self.responses.append_bytes(segment.call, piece, context, events),
            false => self.append_request(segment.call, piece, context, events),
        }
    }
}

/// Parses a frame that has only a call.
fn parse_lone_call(kind: Kind, payload: &[u8]) -> Result<CallId, FrameError> {
    let CallRef(call) = CallRef::parse(kind, payload)?;
    match payload.len() - CallRef::LENGTH {
        0 => Ok(call),
        extra => Err(FrameError::TooMuch { kind, extra: extra as u64 }),
    }
}
