//! Encodes and decodes messages, in some runs: the receiver gets the message as read from the wire, not the sender's
//! value.
//!
//! Ages and remaining limits stay exact in every world, as inside a node; frames carry whole milliseconds, and the
//! checkers count nanoseconds. Data that are still arriving have no bytes yet.

use std::sync::Arc;

use gpc_trees::Id;

use super::large::{FEW, LARGE};
use super::world::World;
use chained_gpc::wire::frame::FrameError;
use chained_gpc::wire::head::{AnswerKind, RequestHead, ResponseHead};
use chained_gpc::wire::message::{Answer, Partial, SubtreeReply};
use chained_gpc::wire::prefix::{emit_prefix, parse_prefix, request_flags, request_head};
use chained_gpc::wire::{Message, Payload, Report, Request, Response};

impl World {
    /// A message of this id as its receiver reads it.
    pub(super) fn through_bytes(&self, from: Id, message: Message) -> Message {
        let small = self.scenario.n <= LARGE;
        // Whole blocks of neighbouring ids: some of them take the fast path, and some run functions on workers.
        if !self.profile.as_bytes || !(small || (from / FEW).is_multiple_of(FEW)) {
            return message;
        }
        let read = match message {
            Message::Request(request) => request_read(&request).map(|read| Message::Request(Arc::new(read))),
            Message::Response(response) => response_read(response).map(Message::Response),
            other => return other,
        };
        // A node sends nothing that exceeds the limits of the wire.
        read.unwrap_or_else(|error| panic!("a node's own bytes are read: {error}"))
    }
}

fn request_read(request: &Request) -> Result<Request, FrameError> {
    let head = request_head(request);
    let flags = request_flags(request);
    let mut bytes = Vec::new();
    head.emit(&mut bytes);
    emit_prefix(request, head.ids_form, &mut bytes);
    let read = RequestHead::parse(flags, &bytes)?;
    let data = request.body().fork();
    let read = parse_prefix(&read, flags, &bytes[RequestHead::LENGTH..], data, &|_| None)?;
    Ok(Request { age: request.age, left: request.left, ..read })
}

fn response_read(response: Response) -> Result<Response, FrameError> {
    let Response { call, answer } = response;
    let (kind, reply, report) = match answer {
        Answer::Completed => (AnswerKind::Completed, SubtreeReply::default(), Vec::new()),
        Answer::Reply(reply) => (AnswerKind::Reply, reply, Vec::new()),
        Answer::Failed(failure) => {
            (AnswerKind::Failed, SubtreeReply::default(), Report::from(*failure).emit())
        }
        Answer::Partial(partial) => (AnswerKind::Partial, partial.reply, partial.report.emit()),
        arriving @ Answer::Arriving(_) => return Ok(Response { call, answer: arriving }),
    };
    let mut bytes = Vec::new();
    let (header_len, data_len) = (reply.header.len() as u64, reply.data.len() as u64);
    let (report_len, trace_len) = (report.len() as u32, reply.trace.len() as u32);
    ResponseHead { call, level: reply.level, kind, header_len, data_len, report_len, trace_len }
        .emit(&mut bytes);
    reply.header.copy_to(&mut bytes);
    reply.data.copy_to(&mut bytes);
    bytes.extend_from_slice(&report);
    bytes.extend_from_slice(&reply.trace);
    let head = ResponseHead::parse(&bytes)?;
    let (header, rest) = bytes[ResponseHead::LENGTH..].split_at(head.header_len as usize);
    let (data, rest) = rest.split_at(head.data_len as usize);
    let (report, trace) = rest.split_at(head.report_len as usize);
    let (header, data) = (Payload::copy_from_slice(header), Payload::copy_from_slice(data));
    let reply = SubtreeReply { level: head.level, header, data, trace: trace.to_vec().into() };
    let answer = match head.kind {
        AnswerKind::Completed => Answer::Completed,
        AnswerKind::Reply => Answer::Reply(reply),
        AnswerKind::Failed => Answer::Failed(Box::new(Report::parse(report)?.into_failure()?)),
        AnswerKind::Partial => Answer::Partial(Box::new(Partial { reply, report: Report::parse(report)? })),
    };
    Ok(Response { call: head.call, answer })
}
