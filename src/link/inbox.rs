//! From bytes to messages: one side of a link, without the socket.
//!
//! Bytes come in pieces of any size; what comes out are the events of `docs/wire.md`. Bodies that travel in segments are put together
//! here, growing with what has arrived. Bytes that break the protocol end the link with an error; they never panic.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use super::answers::answer;
use super::event::{Context, Event, Refused};
use super::replies::Replies;
use crate::chain::Time;
use crate::hint::likely;
use crate::wire::body::{CHUNK_MIN, Chunk, Spare};
use crate::wire::budget::{Budget, Counted, Share};
use crate::wire::frame::{FIRST_MAX, FRAME_HEADER, FrameError, FrameHeader, Kind, WINDOW, flags};
use crate::wire::head::{
    AnswerKind, CallRef, ExtentRef, Goodbye, RequestHead, ResponseHead, WindowRef, parse_credit, parse_pause,
};
use crate::wire::message::Merging;
use crate::wire::prefix::parse_prefix;
use crate::wire::short::SHORT_MAX;
use crate::wire::{Body, BodyUse, BodyWriter, CallId, Hello, Request};
use bytes::{Bytes, BytesMut};

/// Requests in arrival on one link: as many as a sender may have unacknowledged, with room. A node's hiwater is no higher.
pub const BODIES_MAX: usize = 512;

/// Bytes of a frame that came in pieces which nobody counts: all but requests and replies are shorter.
const PIECES_FREE: usize = 4 << 10;

/// Data of a request from which on they are counted here: those of shorter ones are the chain's to count.
const COUNTED_MIN: usize = SHORT_MAX;

/// Ids, shape and header of a request of which there must surely be memory to read them.
const PREFIX_PROBED: u64 = 1 << 20;

/// A request whose body is not complete.
#[derive(Debug)]
enum RequestBody {
    Prefix {
        head: RequestHead,
        flags: u8,
        bytes: Counted<Vec<u8>>,
        /// When all of it must have come.
        until: Option<Time>,
    },
    Data(BodyWriter),
}

impl RequestBody {
    /// When its ids, shape and header must have come, while they have not.
    fn until(&self) -> Option<Time> {
        match self {
            RequestBody::Prefix { until, .. } => *until,
            RequestBody::Data(_) => None,
        }
    }
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
    /// What that takes.
    pieces: Share,
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

    /// The peer's hello was read before anything came here.
    pub fn greeted(&mut self) {
        self.greeted = true;
    }

    /// Long data that come are put into memory that the node keeps for them, and are of its budget; frames that come in pieces are of `pieces`.
    pub fn use_memory(&mut self, spare: Spare, pieces: &Budget) {
        self.spare = spare;
        self.pieces = pieces.share();
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

    /// Until when the ids, the shape and the header of a request must have come; says whether they have not.
    pub fn limit(&mut self, of: CallId, at: Time) -> bool {
        match self.requests.get_mut(&of) {
            Some(RequestBody::Prefix { until, .. }) => *until = Some(at),
            _ => return false,
        }
        true
    }

    /// Drops the requests whose ids, shape and header should have come by now, and says which, and when the next ones should.
    pub fn expire(&mut self, now: Time) -> (Vec<CallId>, Option<Time>) {
        let late = |body: &RequestBody| body.until().is_some_and(|until| until <= now);
        let calls: Vec<CallId> =
            self.requests.iter().filter(|(_, body)| late(body)).map(|(call, _)| *call).collect();
        self.requests.retain(|_, body| !late(body));
        (calls, self.next_limit())
    }

    /// When the next ids, shape and header must have come.
    pub fn next_limit(&self) -> Option<Time> {
        self.requests.values().filter_map(RequestBody::until).min()
    }

    /// Gives back the room of what has come, where nothing is arriving.
    pub fn release_spare_memory(&mut self) {
        if self.partial.is_empty() {
            self.partial = BytesMut::new();
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
            self.count_pieces(header)?;
            return Ok(None);
        }
        Ok(Some((
            header,
            match self.partial.is_empty() {
                true => Frame::Here(split_to(bytes, FRAME_HEADER + length)),
                false => {
                    let _ = self.pieces.resize(0);
                    Frame::Gathered(self.partial.split())
                }
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

    /// The start of a frame waits for its rest.
    fn count_pieces(&mut self, FrameHeader { kind, length, .. }: FrameHeader) -> Result<(), FrameError> {
        let came = self.partial.len();
        if came <= PIECES_FREE || self.pieces.resize(came as u64) {
            return Ok(());
        }
        let why = self.pieces.budget().refusal();
        Err(FrameError::NoMemory { kind, length: length as usize, why })
    }

    fn peek_header(&self, bytes: &[u8]) -> [u8; FRAME_HEADER] {
        let source = if self.partial.is_empty() { bytes } else { &self.partial[..] };
        *source.first_chunk().expect("the header was topped up before")
    }

    /// The first frame is a hello, and the only one; a peer that refuses this side says goodbye instead.
    fn in_place(&self, FrameHeader { kind, length, .. }: FrameHeader) -> Result<(), FrameError> {
        match kind {
            Kind::Hello if self.greeted => Err(FrameError::OutOfPlace { kind, when: "a second time" }),
            _ if !self.greeted && length as usize > FIRST_MAX => {
                Err(FrameError::TooMuch { kind, extra: u64::from(length) - FIRST_MAX as u64 })
            }
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
            Kind::Pause => events.push(Event::Pause(parse_pause(payload)?)),
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
        let head = RequestHead::parse(flags, payload)?;
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
            let Some(data) = self.copied(data) else {
                events.push(self.refused(&head));
                return Ok(());
            };
            let data = Body::whole(data);
            let mut request = parse_prefix(&head, flags, prefix, data, &|id| context.tree(id))?;
            settle(&mut request, context);
            events.push(Event::Request(Arc::new(request)));
            return Ok(());
        }
        if self.requests.len() >= BODIES_MAX {
            return Err(FrameError::OutOfPlace {
                kind: Kind::Request,
                when: "with too many bodies still arriving",
            });
        }
        let bytes = Counted::of(self.spare.budget());
        self.requests.insert(head.call, RequestBody::Prefix { head, flags, bytes, until: None });
        if head.prefix_len() > body.len() as u64 {
            events.push(Event::Begun { call: head.call, limit: head.limit });
        }
        self.request_bytes(head.call, body, context, events)
    }

    /// A copy of the data of a request that came in one frame; `None` where there is no memory for it.
    fn copied(&self, data: &[u8]) -> Option<Bytes> {
        match data.len() < COUNTED_MIN {
            true => Some(Bytes::copy_from_slice(data)),
            false => self.spare.copy(data, b""),
        }
    }

    /// There is no memory for a request.
    fn refused(&self, head: &RequestHead) -> Event {
        let why = self.spare.budget().refusal();
        Event::Refused(Refused { call: head.call, why })
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
            let (bytes, most) = (head.reply_len(), context.reply_max());
            let oversized = Event::Oversized { call: head.call, bytes, most };
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
        self.replies.begin(head, body, &self.spare, context, events)
    }

    /// How many bytes of a call's request or response are still to come; `None` if none is arriving.
    fn missing(&self, call: CallId, of_response: bool) -> Option<u64> {
        if of_response {
            return self.replies.missing(call);
        }
        self.requests.get(&call).map(|body| match body {
            RequestBody::Prefix { head, bytes, .. } => {
                (head.prefix_len() - bytes.bytes.len() as u64).saturating_add(head.data_len)
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
        if let RequestBody::Prefix { head, flags, bytes, .. } = body {
            let missing = (head.prefix_len() as usize - bytes.bytes.len()).min(piece.len());
            let room = bytes.append(split_to(&mut piece, missing), head.prefix_len());
            if room && (bytes.bytes.len() as u64) < head.prefix_len() {
                return Ok(());
            }
            let mut prefix = std::mem::take(bytes);
            if !room || !can_be_read(&mut prefix) {
                let head = *head;
                self.requests.remove(&call);
                events.push(self.refused(&head));
                return Ok(());
            }
            let prefix = &prefix.bytes;
            let mut request = parse_prefix(head, *flags, prefix, Body::default(), &|id| context.tree(id))?;
            settle(&mut request, context);
            let (data, writer) = Body::arriving_in(head.data_len, usage(&request, context), &self.spare);
            request.set_body(data);
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
        if writer.is_refused() {
            let why = writer.refusal();
            self.requests.remove(&call);
            events.push(Event::DataRefused { call, why });
        } else if writer.missing() == 0 {
            self.requests.remove(&call);
            events.push(Event::DataArrived(call));
        } else {
            events.push(if writer.usage() == BodyUse::Whole {
                Event::DataGrew
            } else {
                Event::DataDue(call)
            });
        }
    }

    /// How many bytes of a call's data may come before this side says how far they may go on.
    fn allowed(&self, call: CallId) -> Option<u64> {
        match self.requests.get(&call)? {
            RequestBody::Prefix { head, bytes, .. } => {
                Some((head.prefix_len() - bytes.bytes.len() as u64).saturating_add(WINDOW))
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

/// Adds what this node says of a request's functions: in which order it merges replies, and which workers run them.
fn settle(request: &mut Request, context: &dyn Context) {
    request.local.merging = request.callback.map_or(Merging::default(), |callback| context.merging(callback));
    request.local.classes = context.classes(request.func, request.callback);
}

/// What becomes of the data of a request: they pass through where func takes them as they come, children get them at once or there are none, and no adopter can ask for them.
/// The parts of a scatter call have readers that begin at different places, so they are retained.
fn usage(request: &Request, context: &dyn Context) -> BodyUse {
    let scatters = request.parts.as_ref().is_some_and(|parts| parts.count() > 1);
    let at_once = request.forward_first || request.ids.len() == 1;
    match context.streams(request.func) {
        false => BodyUse::Whole,
        true if at_once && !request.partial && !scatters => BodyUse::Passing,
        true => BodyUse::Retained,
    }
}

/// Whether there is memory for what the ids, the shape and the header of a request are read into.
fn can_be_read(prefix: &mut Counted<Vec<u8>>) -> bool {
    let (len, budgeted) = (prefix.bytes.len(), prefix.share.bytes());
    // The list of ids, and the shape, each at most as long as their bytes.
    prefix.share.resize(budgeted + len as u64)
        && (len as u64 <= PREFIX_PROBED || Vec::<u8>::new().try_reserve_exact(2 * len).is_ok())
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
