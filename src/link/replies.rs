//! The responses that are arriving on a link, of which the first frame did not bring all.
//!
//! Where a reply is needed whole (at the root, for callback, in a partial call) its bytes are gathered here, and its sender may go on as fast as it can. Where it is passed on as it comes, its head and
//! its header are gathered, and the data go through a [`Body`] that the link to the parent reads from: a window of them is here at a time. Source: docs/wire.md, "RESPONSE" and "WINDOW".

use std::collections::BTreeMap;

use bytes::Bytes;

use super::answers::answer_keeping;
use super::event::{Context, Event};
use super::inbox::split_to;
use crate::wire::body::{Chunk, Spare};
use crate::wire::budget::Counted;
use crate::wire::frame::{FrameError, SEGMENT, WINDOW};
use crate::wire::head::{AnswerKind, ResponseHead, WindowRef};
use crate::wire::message::{Answer, Response};
use crate::wire::streaming_reply::StreamingReply;
use crate::wire::{Body, BodyUse, BodyWriter, CallId};

/// Responses in arrival from which on those that nobody awaits any more are looked for: few enough to hold little memory in
/// vain, and the mark doubles with those that are awaited, so that looking costs a constant per response.
const SWEEP_MIN: usize = 16;

/// A response whose body is not complete.
#[derive(Debug)]
enum Reply {
    /// It is gathered whole.
    Whole { head: ResponseHead, bytes: Counted<Vec<u8>>, granted: bool },
    /// Of one that is passed on: its header is gathered.
    Header { head: ResponseHead, bytes: Counted<Vec<u8>>, spare: Spare },
    /// Of one that is passed on: its data come.
    Data(BodyWriter),
}

/// The responses in arrival on one link.
#[derive(Debug, Default)]
pub(super) struct Replies {
    arriving: BTreeMap<CallId, Reply>,
    /// How many were left by the last sweep.
    swept: usize,
}

impl Replies {
    pub(super) fn is_empty(&self) -> bool {
        self.arriving.is_empty()
    }

    pub(super) fn contains(&self, call: CallId) -> bool {
        self.arriving.contains_key(&call)
    }

    /// Whether what is arriving is a reply that a failure may end.
    pub(super) fn may_fail(&self, call: CallId) -> bool {
        match self.arriving.get(&call) {
            Some(Reply::Whole { head, .. } | Reply::Header { head, .. }) => head.kind == AnswerKind::Reply,
            Some(Reply::Data(_)) => true,
            None => false,
        }
    }

    /// What still comes of it is of no use.
    pub(super) fn drop(&mut self, call: CallId) {
        if !self.arriving.is_empty() {
            self.arriving.remove(&call);
        }
    }

    /// The head of a response that is awaited, and the first bytes of its body, which are not all.
    pub(super) fn begin(
        &mut self,
        head: ResponseHead,
        body: &[u8],
        spare: &Spare,
        context: &dyn Context,
        events: &mut Vec<Event>,
    ) -> Result<(), FrameError> {
        self.sweep(context);
        if head.data_len > WINDOW {
            events.push(Event::ReplyBegun);
        }
        let long = head.kind == AnswerKind::Reply && head.data_len > SEGMENT as u64;
        let reply = match long && context.passes_on(head.call) {
            true => Reply::Header { head, bytes: Counted::of(spare.budget()), spare: spare.clone() },
            false => {
                let (bytes, granted) = (Counted::of(spare.budget()), head.data_len <= WINDOW);
                Reply::Whole { head, bytes, granted }
            }
        };
        self.arriving.insert(head.call, reply);
        self.take(head.call, body, context, events)
    }

    /// Drops the beginnings of responses that are not awaited any more. Their segments would do so, but a peer may never send them.
    fn sweep(&mut self, context: &dyn Context) {
        if self.arriving.len() >= SWEEP_MIN.max(2 * self.swept) {
            self.arriving.retain(|call, _| context.awaits(*call));
            self.swept = self.arriving.len();
        }
    }

    /// How many bytes of a call's response are still to come; `None` if none is arriving.
    pub(super) fn missing(&self, call: CallId) -> Option<u64> {
        Some(match self.arriving.get(&call)? {
            Reply::Whole { head, bytes, .. } | Reply::Header { head, bytes, .. } => {
                head.body_len() - bytes.bytes.len() as u64
            }
            Reply::Data(writer) => writer.missing(),
        })
    }

    /// How many bytes of a call's response may come before this side says how far it may go on.
    pub(super) fn allowed(&self, call: CallId) -> Option<u64> {
        Some(match self.arriving.get(&call)? {
            Reply::Whole { granted: true, .. } => u64::MAX,
            Reply::Whole { head, bytes, .. } | Reply::Header { head, bytes, .. } => {
                head.header_len.saturating_add(WINDOW).saturating_sub(bytes.bytes.len() as u64)
            }
            Reply::Data(writer) => writer.allowed(),
        })
    }

    /// Room for the next bytes of data that are passed on.
    pub(super) fn chunk(&self, call: CallId) -> Option<Chunk> {
        match self.arriving.get(&call)? {
            Reply::Data(writer) => writer.chunk(),
            Reply::Whole { .. } | Reply::Header { .. } => None,
        }
    }

    /// Data that are passed on have come into a chunk.
    pub(super) fn append(&mut self, call: CallId, chunk: Chunk, events: &mut Vec<Event>) {
        if let Some(Reply::Data(writer)) = self.arriving.get_mut(&call) {
            writer.append(chunk);
            self.grown(call, events);
        }
    }

    /// More bytes of a response.
    pub(super) fn take(
        &mut self,
        call: CallId,
        mut piece: &[u8],
        context: &dyn Context,
        events: &mut Vec<Event>,
    ) -> Result<(), FrameError> {
        if !context.awaits(call) {
            self.arriving.remove(&call);
        }
        let Some(reply) = self.arriving.get_mut(&call) else { return Ok(()) };
        if let Reply::Header { head, bytes, spare } = reply {
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
            *reply = Reply::Data(writer);
        }
        match reply {
            Reply::Data(writer) => {
                // What goes past the end of a body was refused with the header of its frame.
                if writer.push(piece) > 0 {
                    self.grown(call, events);
                }
            }
            Reply::Whole { head, bytes, .. } => {
                if !bytes.append(piece, head.body_len()) {
                    self.refuse(call, events);
                } else if bytes.bytes.len() as u64 == head.body_len()
                    && let Some(Reply::Whole { head, bytes, .. }) = self.arriving.remove(&call)
                {
                    events.push(Event::Response(answer_keeping(&head, Bytes::from(bytes.bytes))?));
                }
            }
            Reply::Header { .. } => {}
        }
        Ok(())
    }

    /// There is no memory for it: who waits for it is told, and its sender.
    fn refuse(&mut self, call: CallId, events: &mut Vec<Event>) {
        let Some(reply) = self.arriving.remove(&call) else { return };
        let why = match reply {
            Reply::Whole { bytes, .. } | Reply::Header { bytes, .. } => bytes.share.budget().refusal(),
            Reply::Data(writer) => writer.refusal(),
        };
        events.extend([Event::ReplyRefused { call, why }, Event::Unwanted(call)]);
    }

    /// More data that are passed on have come.
    fn grown(&mut self, call: CallId, events: &mut Vec<Event>) {
        let Some(Reply::Data(writer)) = self.arriving.get(&call) else { return };
        if writer.is_refused() {
            self.refuse(call, events);
        } else if writer.missing() == 0 {
            self.arriving.remove(&call);
            events.push(Event::ReplyArrived(call));
        } else {
            events.push(Event::DataGrew);
        }
    }

    /// Says which of the responses may go on, and how far.
    pub(super) fn windows(&mut self, mut say: impl FnMut(WindowRef)) {
        for (&call, reply) in &mut self.arriving {
            let limit = match reply {
                Reply::Whole { head, granted: granted @ false, .. } => {
                    *granted = true;
                    Some(head.data_len)
                }
                Reply::Data(writer) => writer.grant(),
                Reply::Whole { .. } | Reply::Header { .. } => None,
            };
            limit.into_iter().for_each(|limit| say(WindowRef { call, of_response: true, limit }));
        }
    }

    /// Whether a sender is to be told, sooner or later, how far it may go on.
    pub(super) fn will_grant(&self) -> bool {
        self.arriving.values().any(|reply| match reply {
            Reply::Whole { granted, .. } => !granted,
            Reply::Header { .. } => true,
            Reply::Data(writer) => writer.will_grant(),
        })
    }
}
