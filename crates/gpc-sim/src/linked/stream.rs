//! Rules for the bytes of one direction of a connection, whatever their sender is: credit, windows, segments, order.
//!
//! Source: docs/wire.md. The rules read the frames as they are written, and do not use the code under test beyond the
//! fixed parts of frames.

use std::collections::{BTreeMap, BTreeSet};

use chained_gpc::wire::frame::{FRAME_HEADER, FrameError, FrameHeader, Kind, SEGMENT, WINDOW, flags};
use chained_gpc::wire::head::{AnswerKind, CallRef, RequestHead, ResponseHead, WindowRef, parse_credit};
use chained_gpc::wire::message::SubtreeReply;
use chained_gpc::wire::short::SHORT_MAX;
use chained_gpc::wire::{CallId, Payload};

/// A body of which some bytes were not written when its first frame was.
#[derive(Debug)]
struct Body {
    /// Bytes before the data, of the data, and behind them.
    parts: [u64; 3],
    written: u64,
    /// How far its data may go.
    limit: u64,
    /// The reply that it is.
    reply: Option<(ResponseHead, Vec<u8>)>,
}

impl Body {
    fn new(parts: [u64; 3]) -> Body {
        Body { parts, written: 0, limit: WINDOW, reply: None }
    }

    fn len(&self) -> u64 {
        self.parts.iter().sum()
    }

    /// How many bytes may be written.
    fn allowed(&self) -> u64 {
        let [before, data, _] = self.parts;
        if self.limit >= data { self.len() } else { before + self.limit }
    }
}

/// What was written in one direction.
#[derive(Default, Debug)]
pub(super) struct StreamRules {
    /// Bytes before the first frame that are still to be written; `None` before the connection is a link.
    before: Option<usize>,
    /// The start of a frame.
    partial: Vec<u8>,
    /// Requests that may be written.
    credit: u64,
    /// Requests of the other direction that its receiver has read and not acknowledged.
    unacknowledged: u64,
    /// Those of which ids, shape and header have not come.
    begun: BTreeSet<CallId>,
    /// Heartbeats that the other direction has asked for.
    asked: u64,
    /// Questions that were written, and that their node has not been told about.
    questions: u64,
    /// Questions and answers that were written.
    beats: [u64; 2],
    /// How far the writing side lets data of the other direction go.
    windows: BTreeMap<(bool, CallId), u64>,
    bodies: BTreeMap<(bool, CallId), Body>,
    /// Long replies that were written whole, until they arrive.
    replies: Vec<(CallId, SubtreeReply)>,
    is_over: bool,
    /// Bytes of frames that were written.
    bytes: u64,
}

impl StreamRules {
    /// The connection is a link at the writing side, whose peer grants this credit; so many bytes of its greeting are
    /// still to be written.
    pub(super) fn begin(&mut self, greeting: usize, credit: u32) {
        (self.before, self.credit) = (Some(greeting), credit.into());
    }

    /// Whether a part of a request was written, and the rest was not.
    pub(super) fn has_begun(&self, call: CallId) -> bool {
        self.bodies.contains_key(&(false, call))
    }

    /// Whether a part of the answer to a call was written, and the rest was not.
    pub(super) fn answers(&self, call: CallId) -> bool {
        self.bodies.contains_key(&(true, call))
    }

    /// Bytes of frames that were written.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether nothing was written since so many bytes were.
    pub(super) fn rests_since(&self, bytes: u64) -> bool {
        self.before == Some(0) && self.bytes == bytes && !self.is_over
    }

    /// Credit that the writing side has not used.
    pub(super) fn credit(&self) -> u64 {
        self.credit
    }

    /// The writing side has read a credit.
    pub(super) fn credit_came(&mut self, count: u32) {
        self.credit += u64::from(count);
    }

    /// The writing side has read a request.
    pub(super) fn request_came(&mut self, call: CallId) {
        // One of which the first bytes have come before was counted then.
        if !self.begun.remove(&call) {
            self.unacknowledged += 1;
        }
    }

    /// The writing side has read the first bytes of a request: it may be refused from now on.
    pub(super) fn request_begun(&mut self, call: CallId) {
        self.unacknowledged += 1;
        self.begun.insert(call);
    }

    /// The writing side has read that a call is cancelled.
    pub(super) fn cancel_came(&mut self, call: CallId) {
        self.begun.remove(&call);
    }

    /// The writing side has read a question.
    pub(super) fn question_came(&mut self) {
        self.asked += 1;
    }

    /// The node of the writing side is told that a question has left; returns whether one has.
    pub(super) fn question_left(&mut self) -> bool {
        let has_left = self.questions > 0;
        self.questions = self.questions.saturating_sub(1);
        has_left
    }

    /// Questions and answers that were written.
    pub(super) fn beats(&self) -> [u64; 2] {
        self.beats
    }

    /// Whether a question was written that its node has not been told about.
    pub(super) fn asks(&self) -> bool {
        self.questions > 0
    }

    /// The writing side has read the first frame of a body, whose window begins anew.
    pub(super) fn body_came(&mut self, of_response: bool, call: CallId) {
        self.windows.remove(&(of_response, call));
    }

    /// The writing side has read a window.
    pub(super) fn window_came(&mut self, window: &WindowRef) {
        if let Some(body) = self.bodies.get_mut(&(window.of_response, window.call)) {
            body.limit = body.limit.max(window.limit);
        }
    }

    /// The whole reply to a call that was written in several frames.
    pub(super) fn reply(&mut self, call: CallId) -> Option<SubtreeReply> {
        let place = self.replies.iter().position(|(of, _)| *of == call)?;
        Some(self.replies.remove(place).1)
    }

    /// Bytes are written: what is wrong with them.
    pub(super) fn written(&mut self, mut bytes: &[u8]) -> Vec<String> {
        let mut wrong = Vec::new();
        let Some(before) = &mut self.before else { return wrong };
        let greeting = bytes.len().min(*before);
        *before -= greeting;
        bytes = &bytes[greeting..];
        self.bytes += bytes.len() as u64;
        self.partial.extend_from_slice(bytes);
        let mut at = 0;
        while let Some(header) = self.partial[at..].first_chunk::<FRAME_HEADER>() {
            let header = match FrameHeader::parse(*header) {
                Ok(header) => header,
                Err(error) => {
                    wrong.push(format!("writes bytes that begin no frame: {error}"));
                    break;
                }
            };
            let (from, end) = (at + FRAME_HEADER, at + FRAME_HEADER + header.length as usize);
            if self.partial.len() < end {
                break;
            }
            let payload = self.partial[from..end].to_vec();
            wrong
                .extend(self.frame(header, &payload).unwrap_or_else(|error| Some(format!("writes {error}"))));
            at = end;
        }
        self.partial.drain(..at);
        wrong
    }

    fn frame(&mut self, header: FrameHeader, payload: &[u8]) -> Result<Option<String>, FrameError> {
        let kind = header.kind;
        if self.is_over {
            return Ok(Some(format!("writes a frame behind its GOODBYE: {kind:?}")));
        }
        self.is_over = kind == Kind::Goodbye;
        Ok(match kind {
            Kind::Request => self.request(header, payload)?,
            Kind::Response => self.response(payload)?,
            Kind::Segment => self.segment(header, payload)?,
            Kind::Cancel => {
                let CallRef(call) = CallRef::parse(kind, payload)?;
                self.bodies.remove(&(false, call));
                None
            }
            Kind::Credit => {
                let count = u64::from(parse_credit(payload)?);
                let more = count > self.unacknowledged;
                self.unacknowledged = self.unacknowledged.saturating_sub(count);
                more.then(|| format!("acknowledges {count} requests, more than it has read"))
            }
            Kind::Pong => {
                self.beats[1] += 1;
                let more = self.asked == 0;
                self.asked = self.asked.saturating_sub(1);
                more.then(|| "answers a question that nobody has asked".into())
            }
            Kind::Ping => {
                self.beats[0] += 1;
                self.questions += 1;
                None
            }
            Kind::Window => {
                let WindowRef { call, of_response, limit } = WindowRef::parse(header.flags, payload)?;
                let before = self.windows.insert((of_response, call), limit);
                let no_wider = limit <= before.unwrap_or(WINDOW);
                no_wider.then(|| {
                    format!("lets data of {call} go as far as {limit}, which is no wider than before")
                })
            }
            Kind::Hello => Some("writes a second hello".into()),
            _ => None,
        })
    }

    fn request(&mut self, header: FrameHeader, payload: &[u8]) -> Result<Option<String>, FrameError> {
        let head = RequestHead::parse(header.flags, payload)?;
        let call = head.call;
        if self.credit == 0 {
            return Ok(Some(format!("writes the request of {call} without credit")));
        }
        self.credit -= 1;
        let body = Body::new([head.prefix_len(), head.data_len, 0]);
        Ok(self.begin_body((false, call), body, &payload[RequestHead::LENGTH..]))
    }

    fn response(&mut self, payload: &[u8]) -> Result<Option<String>, FrameError> {
        let head = ResponseHead::parse(payload)?;
        let mut body = Body::new([
            head.header_len,
            head.data_len,
            u64::from(head.report_len) + u64::from(head.trace_len),
        ]);
        if head.kind == AnswerKind::Failed {
            // It stands in place of a reply that is under way.
            self.bodies.remove(&(true, head.call));
        }
        if head.kind == AnswerKind::Reply && head.body_len() > SHORT_MAX as u64 {
            body.reply = Some((head, Vec::new()));
        }
        Ok(self.begin_body((true, head.call), body, &payload[ResponseHead::LENGTH..]))
    }

    fn begin_body(&mut self, name: (bool, CallId), body: Body, first: &[u8]) -> Option<String> {
        let under_way = self.bodies.insert(name, body).is_some();
        let what = if name.0 { "a response" } else { "a request" };
        if under_way && !name.0 {
            return Some(format!("writes {what} of {} twice at a time", name.1));
        }
        self.body_bytes(name, first)
    }

    fn segment(&mut self, header: FrameHeader, payload: &[u8]) -> Result<Option<String>, FrameError> {
        let CallRef(call) = CallRef::parse(header.kind, &payload[..CallRef::LENGTH.min(payload.len())])?;
        let bytes = &payload[CallRef::LENGTH..];
        if bytes.is_empty() || bytes.len() > SEGMENT {
            return Ok(Some(format!("writes a segment of {} bytes of {call}", bytes.len())));
        }
        Ok(self.body_bytes((header.flags & flags::OF_RESPONSE != 0, call), bytes))
    }

    fn body_bytes(&mut self, name: (bool, CallId), bytes: &[u8]) -> Option<String> {
        let (_, call) = name;
        let Some(body) = self.bodies.get_mut(&name) else {
            return Some(format!("writes bytes of {call}, which is not under way"));
        };
        body.written += bytes.len() as u64;
        if let Some((_, reply)) = &mut body.reply {
            reply.extend_from_slice(bytes);
        }
        if body.written > body.allowed() {
            return Some(format!(
                "writes {} bytes of {call}, of which {} are allowed",
                body.written,
                body.allowed()
            ));
        }
        if body.written == body.len()
            && let Some(Body { reply: Some((head, bytes)), .. }) = self.bodies.remove(&name)
        {
            let (header, data) = bytes.split_at(head.header_len as usize);
            let (header, data) = (Payload::copy_from_slice(header), Payload::copy_from_slice(data));
            self.replies
                .push((call, SubtreeReply { level: head.level, header, data, ..SubtreeReply::default() }));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use chained_gpc::wire::Request;
    use chained_gpc::wire::prefix::{emit_prefix, request_head};
    use gpc_trees::IdList;

    use super::*;

    const CALL: CallId = CallId { root: 0, sequence: 1 };

    fn frame(kind: Kind, flags: u8, payload: &[u8]) -> Vec<u8> {
        let header = FrameHeader { length: payload.len() as u32, kind, flags };
        [&header.emit()[..], payload].concat()
    }

    /// The first frame of a request with so much data, of which none is in it.
    fn request(sequence: u64, data: u64) -> Vec<u8> {
        let call = CallId { sequence, ..CALL };
        let (body, _) = chained_gpc::wire::Body::arriving(data);
        let request = Request { data: body, ..Request::new(call, IdList::range(1..2)) };
        let (head, mut payload) = (request_head(&request), Vec::new());
        head.emit(&mut payload);
        emit_prefix(&request, head.ids_form, &mut payload);
        frame(Kind::Request, 0, &payload)
    }

    fn segment(bytes: usize) -> Vec<u8> {
        let mut payload = Vec::new();
        CallRef(CALL).emit(&mut payload);
        payload.resize(payload.len() + bytes, 7);
        frame(Kind::Segment, 0, &payload)
    }

    /// Rules of a link with this credit, after a greeting of three bytes.
    fn rules(credit: u32) -> StreamRules {
        let mut rules = StreamRules::default();
        assert_eq!(rules.written(b"before"), [""; 0]);
        rules.begin(3, credit);
        assert_eq!(rules.written(b"abc"), [""; 0]);
        rules
    }

    fn assert_wrong(rules: &mut StreamRules, bytes: &[u8], with: &str) {
        let wrong = rules.written(bytes);
        assert!(wrong.iter().any(|what| what.contains(with)), "{with}: {wrong:?}");
    }

    #[test]
    fn requests_need_credit_and_only_what_was_read_is_acknowledged() {
        let mut rules = rules(2);
        for byte in [request(1, 0), request(2, 0)].concat() {
            assert_eq!(rules.written(&[byte]), [""; 0], "in any pieces");
        }
        assert_wrong(&mut rules, &request(3, 0), "without credit");
        rules.credit_came(1);
        assert_eq!(rules.written(&request(4, 0)), [""; 0]);
        rules.request_begun(CALL);
        rules.request_came(CALL);
        let credit = |count: u32| frame(Kind::Credit, 0, &count.to_le_bytes());
        assert_eq!(rules.written(&credit(1)), [""; 0]);
        assert_wrong(&mut rules, &credit(1), "more than it has read");
    }

    #[test]
    fn data_keep_to_their_window_and_to_their_length() {
        let mut rules = rules(9);
        assert_eq!(rules.written(&request(1, WINDOW + 9)), [""; 0]);
        assert_wrong(&mut rules, &request(1, 5), "twice at a time");
        assert!(rules.has_begun(CALL));
        let mut rules = self::rules(9);
        rules.written(&request(1, WINDOW + 9));
        for _ in 0..WINDOW / SEGMENT as u64 {
            assert_eq!(rules.written(&segment(SEGMENT)), [""; 0]);
        }
        assert_wrong(&mut rules, &segment(1), "are allowed");
        rules.window_came(&WindowRef { call: CALL, of_response: false, limit: WINDOW + 9 });
        assert_eq!(rules.written(&segment(8)), [""; 0]);
        assert_wrong(&mut rules, &segment(1), "is not under way");
        assert_wrong(&mut rules, &segment(0), "a segment of 0 bytes");
    }

    #[test]
    fn windows_become_wider_and_a_question_leaves_once() {
        let mut rules = rules(1);
        let window = |limit: u64| {
            let mut payload = Vec::new();
            WindowRef { call: CALL, of_response: true, limit }.emit(&mut payload);
            frame(Kind::Window, flags::OF_RESPONSE, &payload)
        };
        assert_eq!(rules.written(&window(WINDOW + 2)), [""; 0]);
        assert_wrong(&mut rules, &window(WINDOW + 2), "no wider than before");
        rules.body_came(true, CALL);
        assert_wrong(&mut rules, &window(WINDOW), "no wider than before");
        assert!(!rules.question_left());
        assert_eq!(rules.written(&frame(Kind::Ping, 0, &[])), [""; 0]);
        assert!(rules.question_left() && !rules.question_left());
    }

    #[test]
    fn what_nobody_has_asked_for_is_not_answered_and_a_goodbye_is_the_last_frame() {
        let mut rules = rules(1);
        assert_wrong(&mut rules, &frame(Kind::Pong, 0, &[]), "nobody has asked");
        rules.question_came();
        assert_eq!(rules.written(&frame(Kind::Pong, 0, &[])), [""; 0]);
        assert_eq!(rules.written(&frame(Kind::Goodbye, 0, &[0; 3])), [""; 0]);
        rules.question_came();
        assert_wrong(&mut rules, &frame(Kind::Pong, 0, &[]), "behind its GOODBYE");
    }
}
