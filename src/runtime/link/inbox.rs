//! From bytes to messages: one side of a link, without the socket.
//!
//! Bytes come in pieces of any size; what comes out are the events of `docs/wire.md`. Bodies that travel in segments are put together
//! here, growing with what has arrived. Bytes that break the protocol end the link with an error; they never panic.

use std::collections::BTreeMap;

use bytes::{Buf, Bytes, BytesMut};
use gpc_trees::Tree;

use crate::wire::frame::{FRAME_HEADER, FrameError, FrameHeader, Kind, flags};
use crate::wire::head::{AnswerKind, CallRef, Goodbye, RequestHead, ResponseHead, parse_credit};
use crate::wire::message::{Answer, Response, SubtreeReply};
use crate::wire::prefix::parse_prefix;
use crate::wire::{Body, BodyWriter, CallId, Cause, Coverage, Failure, Hello, Request};

/// Bodies in arrival on one link: as many long requests as a sender may have unacknowledged, with room.
const BODIES_MAX: usize = 4096;

/// What the inbox must know of the node it serves.
pub trait Context {
    /// The tree registered under a wire id.
    fn tree(&self, id: u32) -> Option<Tree>;
    /// Whether an answer to this call is awaited from the peer: only then are its bytes kept.
    fn awaits(&self, call: CallId) -> bool;
    /// Longest header and data of a reply together, bytes.
    fn reply_max(&self) -> u64;
}

/// What came on a link.
#[derive(Debug)]
pub enum Event {
    /// The peer's first frame.
    Hello(Hello),
    /// A call begins; its data may still be arriving.
    Request(Box<Request>),
    /// More of the data of a request that is still arriving.
    DataGrew,
    /// The data of this request are whole now.
    DataArrived(CallId),
    /// A call has ended below.
    Response(Response),
    /// A request was cancelled before it could be read whole: nothing but its credit is left of it.
    Abandoned,
    /// The parent cancels.
    Cancel(CallId),
    /// The peer has consumed so many requests.
    Credit(u32),
    /// The peer ends the link.
    Goodbye(Goodbye),
}

/// A request whose body is not complete.
#[derive(Debug)]
enum RequestBody {
    Prefix { head: RequestHead, flags: u8, bytes: Vec<u8> },
    Data(BodyWriter),
}

/// A response whose body is not complete.
#[derive(Debug)]
struct ResponseBody {
    head: ResponseHead,
    bytes: Vec<u8>,
}

/// A SEGMENT whose bytes are passing through.
#[derive(Clone, Copy, Debug)]
struct Passing {
    call: CallId,
    of_response: bool,
    left: usize,
}

/// The receiving side of a link.
#[derive(Debug, Default)]
pub struct Inbox {
    /// The start of a frame whose rest has not come.
    partial: BytesMut,
    passing: Option<Passing>,
    requests: BTreeMap<CallId, RequestBody>,
    responses: BTreeMap<CallId, ResponseBody>,
}

impl Inbox {
    /// An inbox at the start of a link.
    pub fn new() -> Inbox {
        Inbox::default()
    }

    /// Takes the next bytes of the link and appends what they complete.
    ///
    /// # Errors
    /// When the bytes break the protocol: the link is to be closed.
    pub fn feed(
        &mut self,
        bytes: Bytes,
        context: &dyn Context,
        events: &mut Vec<Event>,
    ) -> Result<(), FrameError> {
        let mut bytes = bytes;
        // Each round takes bytes or returns.
        loop {
            if self.passing.is_some() {
                self.pass(&mut bytes, context, events)?;
                if self.passing.is_some() {
                    return Ok(());
                }
            }
            let Some((header, payload)) = self.next_frame(&mut bytes)? else { return Ok(()) };
            self.frame(header, payload, context, events)?;
        }
    }

    /// Drops what has arrived of a request: the call has ended here, and the rest of its bytes are of no use.
    pub fn drop_request(&mut self, call: CallId) {
        self.requests.remove(&call);
    }

    /// The next complete frame, or of a SEGMENT its fixed part.
    fn next_frame(&mut self, bytes: &mut Bytes) -> Result<Option<(FrameHeader, Bytes)>, FrameError> {
        if !self.top_up(bytes, FRAME_HEADER) {
            return Ok(None);
        }
        let header = FrameHeader::parse(self.peek_header(bytes))?;
        let length = match header.kind {
            Kind::Segment => CallRef::LENGTH.min(header.length as usize),
            _ => header.length as usize,
        };
        if !self.top_up(bytes, FRAME_HEADER + length) {
            return Ok(None);
        }
        let mut frame = match self.partial.is_empty() {
            true => bytes.split_to(FRAME_HEADER + length),
            false => self.partial.split().freeze(),
        };
        frame.advance(FRAME_HEADER);
        Ok(Some((header, frame)))
    }

    /// Makes sure that the first `needed` bytes of a frame lie in one piece: in `bytes`, or in `partial` if it was begun there.
    /// `needed` is bounded by a checked frame header.
    fn top_up(&mut self, bytes: &mut Bytes, needed: usize) -> bool {
        if self.partial.is_empty() && bytes.len() >= needed {
            return true;
        }
        let missing = needed.saturating_sub(self.partial.len()).min(bytes.len());
        self.partial.extend_from_slice(&bytes.split_to(missing));
        self.partial.len() >= needed && needed > 0
    }

    fn peek_header(&self, bytes: &Bytes) -> [u8; FRAME_HEADER] {
        let source = if self.partial.is_empty() { &bytes[..] } else { &self.partial[..] };
        *source.first_chunk().expect("the header was topped up before")
    }

    fn frame(
        &mut self,
        header: FrameHeader,
        payload: Bytes,
        context: &dyn Context,
        events: &mut Vec<Event>,
    ) -> Result<(), FrameError> {
        match header.kind {
            Kind::Hello => events.push(Event::Hello(Hello::parse(&payload)?)),
            Kind::Request => self.request(header.flags, payload, context, events)?,
            Kind::Response => self.response(payload, context, events)?,
            Kind::Segment => {
                let CallRef(call) = CallRef::parse(header.kind, &payload)?;
                let of_response = header.flags & flags::OF_RESPONSE != 0;
                self.passing =
                    Some(Passing { call, of_response, left: header.length as usize - CallRef::LENGTH });
            }
            Kind::Cancel => {
                let CallRef(call) = CallRef::parse(header.kind, &payload)?;
                if let Some(RequestBody::Prefix { .. }) = self.requests.remove(&call) {
                    events.push(Event::Abandoned);
                }
                events.push(Event::Cancel(call));
            }
            Kind::Credit => events.push(Event::Credit(parse_credit(&payload)?)),
            Kind::Goodbye => events.push(Event::Goodbye(Goodbye::parse(&payload)?)),
        }
        Ok(())
    }

    fn request(
        &mut self,
        flags: u8,
        mut payload: Bytes,
        context: &dyn Context,
        events: &mut Vec<Event>,
    ) -> Result<(), FrameError> {
        let head = RequestHead::parse(&payload)?;
        payload.advance(RequestHead::LENGTH);
        let whole = head.prefix_len().saturating_add(head.data_len);
        if payload.len() as u64 > whole {
            return Err(FrameError::TooMuch { kind: Kind::Request, extra: payload.len() as u64 - whole });
        }
        if payload.len() as u64 == whole {
            let prefix = payload.split_to(head.prefix_len() as usize);
            let data = Body::whole(payload);
            let request = parse_prefix(&head, flags, prefix, data, &|id| context.tree(id))?;
            events.push(Event::Request(Box::new(request)));
            return Ok(());
        }
        if self.requests.len() >= BODIES_MAX {
            return Err(FrameError::OutOfPlace {
                kind: Kind::Request,
                when: "with too many bodies still arriving",
            });
        }
        self.requests.insert(head.call, RequestBody::Prefix { head, flags, bytes: Vec::new() });
        self.request_bytes(head.call, payload, context, events)
    }

    fn response(
        &mut self,
        mut payload: Bytes,
        context: &dyn Context,
        events: &mut Vec<Event>,
    ) -> Result<(), FrameError> {
        let head = ResponseHead::parse(&payload)?;
        payload.advance(ResponseHead::LENGTH);
        if payload.len() as u64 > head.body_len() {
            let extra = payload.len() as u64 - head.body_len();
            return Err(FrameError::TooMuch { kind: Kind::Response, extra });
        }
        if payload.len() as u64 == head.body_len() {
            events.push(Event::Response(answer(&head, payload)?));
            return Ok(());
        }
        if !context.awaits(head.call) {
            return Ok(());
        }
        if head.body_len() > context.reply_max() {
            let expected = "within this node's limit for replies";
            let (kind, field) = (Kind::Response, "length of header and data");
            return Err(FrameError::BadField { kind, field, value: head.body_len(), expected });
        }
        self.responses.insert(head.call, ResponseBody { head, bytes: payload.to_vec() });
        Ok(())
    }

    /// Bytes of a segment go straight to where they belong, however the reads cut them.
    fn pass(
        &mut self,
        bytes: &mut Bytes,
        context: &dyn Context,
        events: &mut Vec<Event>,
    ) -> Result<(), FrameError> {
        let Some(mut passing) = self.passing.take() else { return Ok(()) };
        let piece = bytes.split_to(passing.left.min(bytes.len()));
        passing.left -= piece.len();
        if passing.left > 0 {
            self.passing = Some(passing);
        }
        match passing.of_response {
            true => self.response_bytes(passing.call, piece, context, events),
            false => self.request_bytes(passing.call, piece, context, events),
        }
    }

    fn request_bytes(
        &mut self,
        call: CallId,
        mut piece: Bytes,
        context: &dyn Context,
        events: &mut Vec<Event>,
    ) -> Result<(), FrameError> {
        let Some(body) = self.requests.get_mut(&call) else { return Ok(()) };
        if let RequestBody::Prefix { head, flags, bytes } = body {
            let missing = head.prefix_len() as usize - bytes.len();
            bytes.extend_from_slice(&piece.split_to(missing.min(piece.len())));
            if (bytes.len() as u64) < head.prefix_len() {
                return Ok(());
            }
            let (data, writer) = Body::arriving(head.data_len);
            let prefix = Bytes::from(std::mem::take(bytes));
            let request = parse_prefix(head, *flags, prefix, data, &|id| context.tree(id))?;
            events.push(Event::Request(Box::new(request)));
            *body = RequestBody::Data(writer);
        }
        let RequestBody::Data(writer) = body else { return Ok(()) };
        let taken = writer.push(&piece);
        if taken < piece.len() {
            let extra = (piece.len() - taken) as u64;
            return Err(FrameError::TooMuch { kind: Kind::Segment, extra });
        }
        if writer.missing() == 0 {
            self.requests.remove(&call);
            events.push(Event::DataArrived(call));
        } else if taken > 0 {
            events.push(Event::DataGrew);
        }
        Ok(())
    }

    fn response_bytes(
        &mut self,
        call: CallId,
        piece: Bytes,
        context: &dyn Context,
        events: &mut Vec<Event>,
    ) -> Result<(), FrameError> {
        if !context.awaits(call) {
            self.responses.remove(&call);
            return Ok(());
        }
        let Some(body) = self.responses.get_mut(&call) else { return Ok(()) };
        let missing = body.head.body_len() - body.bytes.len() as u64;
        if piece.len() as u64 > missing {
            return Err(FrameError::TooMuch { kind: Kind::Segment, extra: piece.len() as u64 - missing });
        }
        body.bytes.extend_from_slice(&piece);
        if piece.len() as u64 == missing
            && let Some(ResponseBody { head, bytes }) = self.responses.remove(&call)
        {
            events.push(Event::Response(answer(&head, Bytes::from(bytes))?));
        }
        Ok(())
    }
}

/// The response that a fixed part and its complete body make.
fn answer(head: &ResponseHead, mut body: Bytes) -> Result<Response, FrameError> {
    let header = body.split_to(head.header_len as usize);
    let answer = match head.kind {
        AnswerKind::Completed => Answer::Completed,
        AnswerKind::Reply => {
            Answer::Reply(SubtreeReply { level: head.level, header: header.into(), data: body.into() })
        }
        AnswerKind::Failed => {
            let failure = Failure { cause: Cause::parse(&header)?, coverage: Coverage::parse(&body)? };
            Answer::Failed(Box::new(failure))
        }
    };
    Ok(Response { call: head.call, answer })
}
