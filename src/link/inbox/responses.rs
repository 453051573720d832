//! Responses that are being received, whose first frame was not complete.
//!
//! The root, callbacks and partial calls need a reply whole: its bytes are gathered here, and its sender gets one
//! window for all of its data. Other long replies are forwarded: only the head and the header are gathered. Their data
//! go through a [`Body`] that the link to the parent reads, one window at a time. Source: docs/wire.md, "RESPONSE" and
//! "WINDOW".

use std::collections::BTreeMap;

use bytes::Bytes;

use super::split::split_to;
use crate::link::event::{Context, Event};
use crate::link::response_parsing::parse_owned_response;
use crate::wire::body::{Chunk, Spare};
use crate::wire::budget::Counted;
use crate::wire::frame::{FrameError, SEGMENT, WINDOW};
use crate::wire::head::{AnswerKind, ResponseHead, WindowRef};
use crate::wire::message::{Answer, Response};
use crate::wire::streaming_reply::StreamingReply;
use crate::wire::{Body, BodyUse, BodyWriter, CallId};

/// Number of responses above which those that are not awaited any more are removed. It bounds the memory that they
/// retain. The threshold doubles with the awaited responses, so a sweep costs constant time per response.
const SWEEP_MIN: usize = 16;

/// A response whose body is not complete.
#[derive(Debug)]
enum IncomingResponse {
    /// Gathered whole.
    Whole { head: ResponseHead, bytes: Counted<Vec<u8>>, is_granted: bool },
    /// Forwarded: its header is being gathered.
    Header { head: ResponseHead, bytes: Counted<Vec<u8>>, spare: Spare },
    /// Forwarded: its data are arriving.
    Data(BodyWriter),
}

/// The incomplete responses of one link.
#[derive(Debug, Default)]
pub(super) struct IncomingResponses {
    responses: BTreeMap<CallId, IncomingResponse>,
    /// Number of responses after the last sweep.
    swept_len: usize,
}

impl IncomingResponses {
    pub(super) fn is_empty(&self) -> bool {
        self.responses.is_empty()
    }

    pub(super) fn contains(&self, call: CallId) -> bool {
        self.responses.contains_key(&call)
    }

    /// Whether a failure may replace the rest of this response.
    pub(super) fn accepts_failure(&self, call: CallId) -> bool {
        match self.responses.get(&call) {
            Some(IncomingResponse::Whole { head, .. } | IncomingResponse::Header { head, .. }) => {
                head.kind == AnswerKind::Reply
            }
            Some(IncomingResponse::Data(_)) => true,
            None => false,
        }
    }

    /// Drops a response; its further bytes are ignored.
    pub(super) fn discard(&mut self, call: CallId) {
        if !self.responses.is_empty() {
            self.responses.remove(&call);
        }
    }

    /// Starts an awaited response with the first bytes of its body.
    pub(super) fn start(
        &mut self,
        head: ResponseHead,
        body: &[u8],
        spare: &Spare,
        context: &dyn Context,
        events: &mut Vec<Event>,
    ) -> Result<(), FrameError> {
        self.sweep(context);
        if head.data_len > WINDOW {
            events.push(Event::ReplyStarted);
        }
        let long = head.kind == AnswerKind::Reply && head.data_len > SEGMENT as u64;
        let reply = match long && context.passes_on(head.call) {
            true => {
                IncomingResponse::Header { head, bytes: Counted::of(spare.budget()), spare: spare.clone() }
            }
            false => {
                let (bytes, is_granted) = (Counted::of(spare.budget()), head.data_len <= WINDOW);
                IncomingResponse::Whole { head, bytes, is_granted }
            }
        };
        self.responses.insert(head.call, reply);
        self.append_bytes(head.call, body, context, events)
    }

    /// Drops incomplete responses that are not awaited any more. Their next segments would drop them too, but a peer
    /// may never send any.
    fn sweep(&mut self, context: &dyn Context) {
        if self.responses.len() >= SWEEP_MIN.max(2 * self.swept_len) {
            self.responses.retain(|call, _| context.awaits(*call));
            self.swept_len = self.responses.len();
        }
    }

    /// Number of bytes of a response that have not arrived; `None` if it is not being received.
    pub(super) fn missing(&self, call: CallId) -> Option<u64> {
        Some(match self.responses.get(&call)? {
            IncomingResponse::Whole { head, bytes, .. } | IncomingResponse::Header { head, bytes, .. } => {
                head.body_len() - bytes.bytes.len() as u64
            }
            IncomingResponse::Data(writer) => writer.missing(),
        })
    }

    /// Number of bytes that the peer may send before it gets a WINDOW.
    pub(super) fn allowed(&self, call: CallId) -> Option<u64> {
        Some(match self.responses.get(&call)? {
            IncomingResponse::Whole { is_granted: true, .. } => u64::MAX,
            IncomingResponse::Whole { head, bytes, .. } | IncomingResponse::Header { head, bytes, .. } => {
                head.header_len.saturating_add(WINDOW).saturating_sub(bytes.bytes.len() as u64)
            }
            IncomingResponse::Data(writer) => writer.allowed(),
        })
    }

    /// Memory for the next bytes of forwarded data.
    pub(super) fn chunk(&self, call: CallId) -> Option<Chunk> {
        match self.responses.get(&call)? {
            IncomingResponse::Data(writer) => writer.chunk(),
            IncomingResponse::Whole { .. } | IncomingResponse::Header { .. } => None,
        }
    }

    /// Appends a filled chunk to forwarded data.
    pub(super) fn append_chunk(&mut self, call: CallId, chunk: Chunk, events: &mut Vec<Event>) {
        if let Some(IncomingResponse::Data(writer)) = self.responses.get_mut(&call) {
            writer.append(chunk);
            self.report_data(call, events);
        }
    }

    /// Appends bytes to a response.
    pub(super) fn append_bytes(
        &mut self,
        call: CallId,
        mut piece: &[u8],
        context: &dyn Context,
        events: &mut Vec<Event>,
    ) -> Result<(), FrameError> {
        if !context.awaits(call) {
            self.responses.remove(&call);
        }
        let Some(reply) = self.responses.get_mut(&call) else { return Ok(()) };
        if let IncomingResponse::Header { head, bytes, spare } = reply {
            let missing = (head.header_len - bytes.bytes.len() as u64).min(piece.len() as u64) as usize;
            if !bytes.append(split_to(&mut piece, missing), head.header_len) {
                self.refuse(call, events);
                return Ok(());
            }
            if (bytes.bytes.len() as u64) < head.header_len {
                return Ok(());
            }
            let (header, level) = (std::mem::take(bytes).bytes.into(), head.level);
            let (data, writer) = Body::arriving_in(head.data_len, BodyUse::Passing, spare);
            let answer = Answer::Arriving(Box::new(StreamingReply { level, header, data: data.into() }));
            events.push(Event::Response(Response { call, answer }));
            *reply = IncomingResponse::Data(writer);
        }
        match reply {
            IncomingResponse::Data(writer) => {
                // Bytes beyond the end of the body were rejected with the header of their frame.
                if writer.push(piece) > 0 {
                    self.report_data(call, events);
                }
            }
            IncomingResponse::Whole { head, bytes, .. } => {
                if !bytes.append(piece, head.body_len()) {
                    self.refuse(call, events);
                } else if bytes.bytes.len() as u64 == head.body_len()
                    && let Some(IncomingResponse::Whole { head, bytes, .. }) = self.responses.remove(&call)
                {
                    events.push(Event::Response(parse_owned_response(&head, Bytes::from(bytes.bytes))?));
                }
            }
            IncomingResponse::Header { .. } => {}
        }
        Ok(())
    }

    /// Drops a response for lack of memory. The events report this to the chain, and cancel the reply at its sender.
    fn refuse(&mut self, call: CallId, events: &mut Vec<Event>) {
        let Some(reply) = self.responses.remove(&call) else { return };
        let why = match reply {
            IncomingResponse::Whole { bytes, .. } | IncomingResponse::Header { bytes, .. } => {
                bytes.share.budget().refusal()
            }
            IncomingResponse::Data(writer) => writer.refusal(),
        };
        events.extend([Event::ReplyRefused { call, why }, Event::UnawaitedReply(call)]);
    }

    /// Reports that more forwarded data have arrived.
    fn report_data(&mut self, call: CallId, events: &mut Vec<Event>) {
        let Some(IncomingResponse::Data(writer)) = self.responses.get(&call) else { return };
        if writer.is_refused() {
            self.refuse(call, events);
        } else if writer.missing() == 0 {
            self.responses.remove(&call);
            events.push(Event::ReplyArrived(call));
        } else {
            events.push(Event::DataGrew);
        }
    }

    /// Passes the new windows of the responses to `send`.
    pub(super) fn take_windows(&mut self, mut send: impl FnMut(WindowRef)) {
        for (&call, reply) in &mut self.responses {
            let limit = match reply {
                IncomingResponse::Whole { head, is_granted: is_granted @ false, .. } => {
                    *is_granted = true;
                    Some(head.data_len)
                }
                IncomingResponse::Data(writer) => writer.grant(),
                IncomingResponse::Whole { .. } | IncomingResponse::Header { .. } => None,
            };
            limit.into_iter().for_each(|limit| send(WindowRef { call, of_response: true, limit }));
        }
    }

    /// Whether the sender of a response still needs a WINDOW, now or later.
    pub(super) fn owes_window(&self) -> bool {
        self.responses.values().any(|reply| match reply {
            IncomingResponse::Whole { is_granted, .. } => !is_granted,
            IncomingResponse::Header { head, .. } => head.data_len > WINDOW,
            IncomingResponse::Data(writer) => writer.will_grant(),
        })
    }
}
