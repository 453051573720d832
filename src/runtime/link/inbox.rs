//! From bytes to messages: one side of a link, without the socket.
//!
//! Bytes come in pieces of any size; what comes out are the events of `docs/wire.md`. Bodies that travel in segments are put together
//! here, growing with what has arrived. Bytes that break the protocol end the link with an error; they never panic.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use gpc_trees::Tree;

use super::replies::Replies;
use crate::hint::likely;
use crate::wire::body::{CHUNK_MIN, Chunk, Extent, Spare};
use crate::wire::frame::{FRAME_HEADER, FrameError, FrameHeader, Kind, WINDOW, flags};
use crate::wire::head::{
    AnswerKind, CallRef, ExtentRef, Goodbye, RequestHead, ResponseHead, WindowRef, parse_credit,
};
use crate::wire::message::{Answer, Partial, Response, SubtreeReply};
use crate::wire::prefix::parse_prefix;
use crate::wire::{Body, BodyWriter, CallId, Hello, Payload, Report, Request, Use};

/// Requests in arrival on one link: as many as a sender may have unacknowledged, with room. A node's hiwater is no higher.
pub const BODIES_MAX: usize = 512;

/// What the inbox must know of the node it serves.
pub trait Context {
    /// The tree registered under a wire id.
    fn tree(&self, id: u32) -> Option<Tree>;
    /// Whether an answer to this call is awaited from the peer: only then are its bytes kept.
    fn awaits(&self, call: CallId) -> bool;
    /// Longest header and data of a reply together, bytes.
    fn reply_max(&self) -> u64;
    /// The next sealed memory that the peer has handed over, of so many bytes.
    ///
    /// # Errors
    /// When there is none, or it is not as docs/wire.md wants it.
    fn extent(&self, _length: usize) -> Result<Extent, FrameError> {
        Err(FrameError::OutOfPlace { kind: Kind::Extent, when: "on a link that takes no descriptors" })
    }
    /// Whether the function under this handle takes its data as they come.
    fn streams(&self, _func: u32) -> bool {
        false
    }
    /// Whether a long reply of the peer to this call is passed on as it comes, and not needed whole here.
    fn passes_on(&self, _call: CallId) -> bool {
        false
    }
}

/// What came on a link.
#[derive(Debug)]
pub enum Event {
    /// The peer's first frame.
    Hello(Hello),
    /// A call begins; its data may still be arriving.
    Request(Arc<Request>),
    /// More of the data of a request that is still arriving, whose func gets them whole, or of a reply that is passed on as it comes.
    DataGrew,
    /// More of the data of this request, whose func takes them as they come.
    DataDue(CallId),
    /// The data of this request are whole now.
    DataArrived(CallId),
    /// A call has ended below, perhaps with a reply whose data are still arriving.
    Response(Response),
    /// The data of the reply to this call, which is passed on as it comes, have all come.
    ReplyArrived(CallId),
    /// A reply begins that is longer than a window: its sender is to be told how far it may go on.
    ReplyBegun,
    /// A reply that is longer than a window begins, and nobody awaits or takes it: its sender waits for a word.
    Unwanted(CallId),
    /// A call has ended below with a reply over the limit; its bytes are dropped as they come.
    Oversized {
        /// Which call.
        call: CallId,
        /// Bytes of the reply.
        bytes: u64,
    },
    /// A request was cancelled before it could be read whole: nothing but its credit is left of it.
    Abandoned,
    /// The parent cancels.
    Cancel(CallId),
    /// The root has what it needs.
    Release(CallId),
    /// The child has another parent.
    Moved(CallId),
    /// The peer asks for a sign of life.
    Ping,
    /// The peer gives a sign of life.
    Pong,
    /// The peer has consumed so many requests.
    Credit(u32),
    /// The peer takes so much of the data of a request.
    Window(WindowRef),
    /// The peer ends the link.
    Goodbye(Goodbye),
}

/// A request whose body is not complete.
#[derive(Debug)]
enum RequestBody {
    Prefix { head: RequestHead, flags: u8, bytes: Vec<u8> },
    Data(BodyWriter),
}

/// A SEGMENT whose bytes are passing through.
#[derive(Clone, Copy, Debug)]
struct Passing {
    call: CallId,
    of_response: bool,
    left: usize,
}

/// A complete frame, its header in front: where it was read, or gathered from several reads.
enum Frame<'a> {
    Here(&'a [u8]),
    Gathered(BytesMut),
}

impl Deref for Frame<'_> {
    type Target = [u8];

    /// The payload.
    fn deref(&self) -> &[u8] {
        match self {
            Frame::Here(bytes) => &bytes[FRAME_HEADER..],
            Frame::Gathered(bytes) => &bytes[FRAME_HEADER..],
        }
    }
}

/// The receiving side of a link.
#[derive(Debug, Default)]
pub struct Inbox {
    /// Whether the peer's hello has come.
    greeted: bool,
    /// The start of a frame whose rest has not come.
    partial: BytesMut,
    passing: Option<Passing>,
    /// Where the bytes of the segment go that is passing, if its body is one that passes through.
    chunk: Option<Chunk>,
    /// Memory for long data.
    spare: Spare,
    requests: BTreeMap<CallId, RequestBody>,
    replies: Replies,
}

impl Inbox {
    /// An inbox at the start of a link.
    pub fn new() -> Inbox {
        Inbox::default()
    }

    /// Long data that come are put into memory that the node keeps for them.
    pub fn use_memory(&mut self, spare: Spare) {
        self.spare = spare;
    }

    /// Takes the next bytes of the link and appends what they complete. Bytes of bodies are copied once, to where
    /// they belong, so that no message keeps the buffer that was read into.
    ///
    /// # Errors
    /// When the bytes break the protocol: the link is to be closed.
    pub fn feed(
        &mut self,
        mut bytes: &[u8],
        context: &dyn Context,
        events: &mut Vec<Event>,
    ) -> Result<(), FrameError> {
        // Each round takes bytes or returns.
        loop {
            while self.passing.is_some() {
                if bytes.is_empty() {
                    return Ok(());
                }
                self.pass(&mut bytes, context, events)?;
            }
            let Some((header, payload)) = self.next_frame(&mut bytes)? else { return Ok(()) };
            self.frame(header, &payload, context, events)?;
        }
    }

    /// Drops the data of a request that are still arriving: the call has ended here, and the rest of its bytes are of no use.
    ///
    /// A request that is no [`Event::Request`] yet stays: nobody has judged it, and its credit is still to be returned.
    pub fn drop_request(&mut self, call: CallId) {
        if let Some(RequestBody::Data(_)) = self.requests.get(&call) {
            self.requests.remove(&call);
            if self.passing.is_some_and(|passing| passing.call == call && !passing.of_response) {
                self.chunk = None;
            }
        }
    }

    /// Drops what has come of the response to a call: the call has ended here, and its sender is told.
    pub fn drop_response(&mut self, call: CallId) {
        self.replies.drop(call);
        if self.passing.is_some_and(|passing| passing.call == call && passing.of_response) {
            self.chunk = None;
        }
    }

    /// Whether a segment is passing, whose bytes may belong elsewhere than those before it.
    pub fn is_passing(&self) -> bool {
        self.passing.is_some()
    }

    /// Where the next bytes of the link belong, if that is known before they are read, and enough of them to be worth it; what was read there is for [`filled`](Self::filled).
    pub fn room(&mut self) -> Option<&mut [u8]> {
        let left = self.passing?.left;
        let room = self.chunk.as_mut()?.room();
        let room_len = room.len().min(left);
        Some(&mut room[..room_len])
    }

    /// So many bytes were read into the [`room`](Self::room), or all of it if that is less; says how many.
    #[inline(always)]
    pub fn filled(&mut self, count: usize, events: &mut Vec<Event>) -> usize {
        if likely(!self.is_passing()) { 0 } else { self.filled_segment(count, events) }
    }

    #[inline(never)]
    fn filled_segment(&mut self, count: usize, events: &mut Vec<Event>) -> usize {
        let taken = self.room().map_or(0, |room| room.len()).min(count);
        let (Some(passing), Some(chunk)) = (&mut self.passing, &mut self.chunk) else { return 0 };
        let body = *passing;
        chunk.fill(taken);
        passing.left -= taken;
        let through = passing.left == 0;
        let full = chunk.room().is_empty();
        if through {
            self.passing = None;
        }
        if through || full {
            self.seal(body, events);
            // A segment longer than a chunk goes on in another.
            self.chunk = if through { None } else { self.chunk_for(body) };
        }
        taken
    }

    /// Where the next bytes of a body go, if it passes through.
    fn chunk_for(&self, Passing { call, of_response, .. }: Passing) -> Option<Chunk> {
        match of_response {
            true => self.replies.chunk(call),
            false => self.requests.get(&call).and_then(RequestBody::chunk),
        }
    }

    /// What the chunk holds belongs to its body from now on.
    fn seal(&mut self, Passing { call, of_response, .. }: Passing, events: &mut Vec<Event>) {
        let Some(chunk) = self.chunk.take() else { return };
        if of_response {
            return self.replies.append(call, chunk, events);
        }
        let Some(RequestBody::Data(writer)) = self.requests.get_mut(&call) else { return };
        writer.append(chunk);
        self.grown(call, events);
    }

    /// Says which of the requests and responses in arrival may go on, and how far.
    pub fn windows(&mut self, mut say: impl FnMut(WindowRef)) {
        self.replies.windows(&mut say);
        for (&call, body) in &mut self.requests {
            if let RequestBody::Data(writer) = body
                && let Some(limit) = writer.grant()
            {
                say(WindowRef { call, of_response: false, limit });
            }
        }
    }

    /// Whether a request or a response is in arrival whose sender is to be told, sooner or later, how far it may go on.
    pub fn will_grant(&self) -> bool {
        let of_request =
            |body: &RequestBody| matches!(body, RequestBody::Data(writer) if writer.will_grant());
        self.requests.values().any(of_request) || self.replies.will_grant()
    }

    /// Whether nothing is arriving: no part of a frame, no part of a body.
    pub fn is_idle(&self) -> bool {
        // At once, without a branch for each.
        self.partial.is_empty() & self.passing.is_none() & self.requests.is_empty() & self.replies.is_empty()
    }

    /// The next complete frame, or of a SEGMENT its fixed part.
    fn next_frame<'a>(
        &mut self,
        bytes: &mut &'a [u8],
    ) -> Result<Option<(FrameHeader, Frame<'a>)>, FrameError> {
        if !self.top_up(bytes, FRAME_HEADER) {
            return Ok(None);
        }
        let header = FrameHeader::parse(self.peek_header(bytes))?;
        self.in_place(header)?;
        let length = match header.kind {
            Kind::Segment => CallRef::LENGTH,
            _ => header.length as usize,
        };
        if !self.top_up(bytes, FRAME_HEADER + length) {
            return Ok(None);
        }
        Ok(Some((
            header,
            match self.partial.is_empty() {
                true => Frame::Here(split_to(bytes, FRAME_HEADER + length)),
                false => Frame::Gathered(self.partial.split()),
            },
        )))
    }

    /// Makes sure that the first `needed` bytes of a frame lie in one piece: in `bytes`, or in `partial` if it was begun there.
    /// `needed` is bounded by a checked frame header.
    fn top_up(&mut self, bytes: &mut &[u8], needed: usize) -> bool {
        if self.partial.is_empty() && bytes.len() >= needed {
            return true;
        }
        let missing = needed.saturating_sub(self.partial.len()).min(bytes.len());
        self.partial.extend_from_slice(split_to(bytes, missing));
        self.partial.len() >= needed && needed > 0
    }

    fn peek_header(&self, bytes: &[u8]) -> [u8; FRAME_HEADER] {
        let source = if self.partial.is_empty() { bytes } else { &self.partial[..] };
        *source.first_chunk().expect("the header was topped up before")
    }

    /// The first frame is a hello, and the only one; a peer that refuses this side says goodbye instead.
    fn in_place(&self, FrameHeader { kind, length, .. }: FrameHeader) -> Result<(), FrameError> {
        match kind {
            Kind::Hello if self.greeted => Err(FrameError::OutOfPlace { kind, when: "a second time" }),
            Kind::Hello | Kind::Goodbye => Ok(()),
            _ if !self.greeted => Err(FrameError::OutOfPlace { kind, when: "before the hello" }),
            Kind::Segment if length as usize <= CallRef::LENGTH => {
                Err(FrameError::TooShort { kind, length: length as usize, needed: CallRef::LENGTH + 1 })
            }
            _ => Ok(()),
        }
    }

    fn frame(
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
                self.greeted = true;
            }
            Kind::Request => self.request(header.flags, payload, context, events)?,
            Kind::Response => self.response(payload, context, events)?,
            Kind::Segment => {
                let CallRef(call) = CallRef::parse(header.kind, payload)?;
                let of_response = header.flags & flags::OF_RESPONSE != 0;
                let left = header.length as usize - CallRef::LENGTH;
                let missing = self.missing(call, of_response).unwrap_or(u64::MAX);
                if left as u64 > missing {
                    return Err(FrameError::TooMuch { kind: Kind::Segment, extra: left as u64 - missing });
                }
                let allowed = if of_response { self.replies.allowed(call) } else { self.allowed(call) };
                if allowed.is_some_and(|allowed| left as u64 > allowed) {
                    return Err(FrameError::OutOfPlace {
                        kind: Kind::Segment,
                        when: "beyond the window of its body",
                    });
                }
                let passing = Passing { call, of_response, left };
                self.chunk = if left >= CHUNK_MIN { self.chunk_for(passing) } else { None };
                self.passing = Some(passing);
            }
            Kind::Cancel => {
                let call = call_alone(header.kind, payload)?;
                if let Some(RequestBody::Prefix { .. }) = self.requests.remove(&call) {
                    events.push(Event::Abandoned);
                }
                events.push(Event::Cancel(call));
            }
            Kind::Credit => events.push(Event::Credit(parse_credit(payload)?)),
            Kind::Window => events.push(Event::Window(WindowRef::parse(header.flags, payload)?)),
            Kind::Extent => self.extent(ExtentRef::parse(payload)?, context, events)?,
            Kind::Goodbye => events.push(Event::Goodbye(Goodbye::parse(payload)?)),
            Kind::Release => events.push(Event::Release(call_alone(header.kind, payload)?)),
            Kind::Moved => events.push(Event::Moved(call_alone(header.kind, payload)?)),
            Kind::Ping | Kind::Pong if !payload.is_empty() => {
                return Err(FrameError::TooMuch { kind: header.kind, extra: payload.len() as u64 });
            }
            Kind::Ping => events.push(Event::Ping),
            Kind::Pong => events.push(Event::Pong),
        }
        Ok(())
    }

    fn request(
        &mut self,
        flags: u8,
        payload: &[u8],
        context: &dyn Context,
        events: &mut Vec<Event>,
    ) -> Result<(), FrameError> {
        let head = RequestHead::parse(payload)?;
        let body = &payload[RequestHead::LENGTH..];
        let whole = head.prefix_len().saturating_add(head.data_len);
        if body.len() as u64 > whole {
            return Err(FrameError::TooMuch { kind: Kind::Request, extra: body.len() as u64 - whole });
        }
        if self.requests.contains_key(&head.call) {
            return Err(FrameError::OutOfPlace {
                kind: Kind::Request,
                when: "for a call whose request is still arriving",
            });
        }
        if body.len() as u64 == whole {
            let (prefix, data) = body.split_at(head.prefix_len() as usize);
            let data = Body::whole(Bytes::copy_from_slice(data));
            let request = parse_prefix(&head, flags, prefix, data, &|id| context.tree(id))?;
            events.push(Event::Request(Arc::new(request)));
            return Ok(());
        }
        if self.requests.len() >= BODIES_MAX {
            return Err(FrameError::OutOfPlace {
                kind: Kind::Request,
                when: "with too many bodies still arriving",
            });
        }
        self.requests.insert(head.call, RequestBody::Prefix { head, flags, bytes: Vec::new() });
        self.request_bytes(head.call, body, context, events)
    }

    fn response(
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
        if self.replies.contains(head.call) {
            // What fails while its reply is under way says so instead of the rest of it.
            if head.kind != AnswerKind::Failed || !self.replies.may_fail(head.call) {
                return Err(FrameError::OutOfPlace {
                    kind: Kind::Response,
                    when: "for a call whose response is still arriving",
                });
            }
            self.replies.drop(head.call);
        }
        let long = body.len() as u64 != head.body_len() && head.data_len > WINDOW;
        // The report has its own limit, which the head was checked for.
        if head.reply_len() > context.reply_max() {
            let oversized = Event::Oversized { call: head.call, bytes: head.reply_len() };
            events.extend(Some(oversized).filter(|_| context.awaits(head.call)));
            events.extend(Some(Event::Unwanted(head.call)).filter(|_| long));
            return Ok(());
        }
        if body.len() as u64 == head.body_len() {
            events.push(Event::Response(answer(&head, body)?));
            return Ok(());
        }
        if !context.awaits(head.call) {
            events.extend(Some(Event::Unwanted(head.call)).filter(|_| long));
            return Ok(());
        }
        self.replies.begin(head, body, context, events)
    }

    /// How many bytes of a call's request or response are still to come; `None` if none is arriving.
    fn missing(&self, call: CallId, of_response: bool) -> Option<u64> {
        if of_response {
            return self.replies.missing(call);
        }
        self.requests.get(&call).map(|body| match body {
            RequestBody::Prefix { head, bytes, .. } => {
                (head.prefix_len() - bytes.len() as u64).saturating_add(head.data_len)
            }
            RequestBody::Data(writer) => writer.missing(),
        })
    }

    /// Bytes of a segment go straight to where they belong, however the reads cut them.
    fn pass(
        &mut self,
        bytes: &mut &[u8],
        context: &dyn Context,
        events: &mut Vec<Event>,
    ) -> Result<(), FrameError> {
        if let Some(room) = self.room() {
            // What came in one read with other bytes is copied.
            let piece = split_to(bytes, room.len().min(bytes.len()));
            room[..piece.len()].copy_from_slice(piece);
            self.filled(piece.len(), events);
            return Ok(());
        }
        let Some(mut passing) = self.passing.take() else { return Ok(()) };
        let piece = split_to(bytes, passing.left.min(bytes.len()));
        passing.left -= piece.len();
        if passing.left > 0 {
            self.passing = Some(passing);
        }
        match passing.of_response {
            true => self.replies.take(passing.call, piece, context, events),
            false => self.request_bytes(passing.call, piece, context, events),
        }
    }

    fn request_bytes(
        &mut self,
        call: CallId,
        mut piece: &[u8],
        context: &dyn Context,
        events: &mut Vec<Event>,
    ) -> Result<(), FrameError> {
        let Some(body) = self.requests.get_mut(&call) else { return Ok(()) };
        if let RequestBody::Prefix { head, flags, bytes } = body {
            let missing = (head.prefix_len() as usize - bytes.len()).min(piece.len());
            bytes.extend_from_slice(split_to(&mut piece, missing));
            if (bytes.len() as u64) < head.prefix_len() {
                return Ok(());
            }
            let prefix = std::mem::take(bytes);
            let mut request = parse_prefix(head, *flags, &prefix, Body::default(), &|id| context.tree(id))?;
            let (data, writer) = Body::arriving_in(head.data_len, usage(&request, context), &self.spare);
            request.data = data;
            events.push(Event::Request(Arc::new(request)));
            *body = RequestBody::Data(writer);
        }
        let RequestBody::Data(writer) = body else { return Ok(()) };
        // What goes past the end of a body was refused with the header of its frame.
        let taken = writer.push(piece);
        if taken > 0 || writer.missing() == 0 {
            self.grown(call, events);
        }
        Ok(())
    }

    /// The next bytes of a request's data lie in sealed memory.
    fn extent(
        &mut self,
        ExtentRef { call, length }: ExtentRef,
        context: &dyn Context,
        events: &mut Vec<Event>,
    ) -> Result<(), FrameError> {
        // Also that of a call which has ended: the next one's comes behind it.
        let extent = context.extent(length)?;
        let (kind, bytes) = (Kind::Extent, length as u64);
        match self.requests.get_mut(&call) {
            None => return Ok(()),
            Some(RequestBody::Prefix { .. }) => {
                return Err(FrameError::OutOfPlace { kind, when: "before the header of its request" });
            }
            Some(RequestBody::Data(writer)) => {
                if bytes > writer.allowed() && bytes <= writer.missing() {
                    return Err(FrameError::OutOfPlace { kind, when: "beyond the window of its body" });
                }
                if !writer.extend(&extent) {
                    return Err(FrameError::TooMuch { kind, extra: bytes - writer.missing() });
                }
            }
        }
        self.grown(call, events);
        Ok(())
    }

    /// More of a request's data has come.
    fn grown(&mut self, call: CallId, events: &mut Vec<Event>) {
        let Some(RequestBody::Data(writer)) = self.requests.get(&call) else { return };
        if writer.missing() == 0 {
            self.requests.remove(&call);
            events.push(Event::DataArrived(call));
        } else {
            events.push(if writer.usage() == Use::Whole { Event::DataGrew } else { Event::DataDue(call) });
        }
    }

    /// How many bytes of a call's data may come before this side says how far they may go on.
    fn allowed(&self, call: CallId) -> Option<u64> {
        match self.requests.get(&call)? {
            RequestBody::Prefix { head, bytes, .. } => {
                Some((head.prefix_len() - bytes.len() as u64).saturating_add(WINDOW))
            }
            RequestBody::Data(writer) => Some(writer.allowed()),
        }
    }
}

impl RequestBody {
    fn chunk(&self) -> Option<Chunk> {
        match self {
            RequestBody::Prefix { .. } => None,
            RequestBody::Data(writer) => writer.chunk(),
        }
    }
}

/// What becomes of the data of a request: they pass through where func takes them as they come, children get them at once or there are none, and no adopter can ask for them.
fn usage(request: &Request, context: &dyn Context) -> Use {
    let at_once = request.forward_first || request.ids.len() == 1;
    match context.streams(request.func) {
        false => Use::Whole,
        true if at_once && !request.partial => Use::Passing,
        true => Use::Kept,
    }
}

/// The call of a frame that has nothing else.
fn call_alone(kind: Kind, payload: &[u8]) -> Result<CallId, FrameError> {
    let CallRef(call) = CallRef::parse(kind, payload)?;
    match payload.len() - CallRef::LENGTH {
        0 => Ok(call),
        extra => Err(FrameError::TooMuch { kind, extra: extra as u64 }),
    }
}

/// Takes the first bytes off a slice that has as many.
pub(super) fn split_to<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (first, rest) = bytes.split_at(count);
    *bytes = rest;
    first
}

/// The response that a fixed part and its complete body make, wherever that lies; what is kept of it is copied.
fn answer(head: &ResponseHead, body: &[u8]) -> Result<Response, FrameError> {
    let (header, rest) = body.split_at(head.header_len as usize);
    let (data, report) = rest.split_at(head.data_len as usize);
    let reply = || SubtreeReply {
        level: head.level,
        header: Payload::copy_from_slice(header),
        data: Payload::copy_from_slice(data),
    };
    respond(head, reply, report)
}

/// The response that a fixed part and its complete body make, which it keeps.
pub(super) fn answer_keeping(head: &ResponseHead, mut body: Bytes) -> Result<Response, FrameError> {
    let header = body.split_to(head.header_len as usize);
    let data = body.split_to(head.data_len as usize);
    respond(head, || SubtreeReply { level: head.level, header: header.into(), data: data.into() }, &body)
}

fn respond(
    head: &ResponseHead,
    reply: impl FnOnce() -> SubtreeReply,
    report: &[u8],
) -> Result<Response, FrameError> {
    let answer = match head.kind {
        AnswerKind::Completed => Answer::Completed,
        AnswerKind::Reply => Answer::Reply(reply()),
        AnswerKind::Failed => Answer::Failed(Box::new(Report::parse(report)?.into_failure()?)),
        AnswerKind::Partial => {
            Answer::Partial(Box::new(Partial { reply: reply(), report: Report::parse(report)? }))
        }
    };
    Ok(Response { call: head.call, answer })
}
