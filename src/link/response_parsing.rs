//! Parses a complete response: its fixed part and its body.

use bytes::Bytes;

use crate::wire::frame::FrameError;
use crate::wire::head::{AnswerKind, ResponseHead};
use crate::wire::message::{Answer, Partial, Response, SubtreeReply};
use crate::wire::{Payload, Report};

/// Parses a response from a borrowed body; copies the parts that the response retains.
pub(super) fn parse_response(head: &ResponseHead, body: &[u8]) -> Result<Response, FrameError> {
    let (header, rest) = body.split_at(head.header_len as usize);
    let (data, rest) = rest.split_at(head.data_len as usize);
    let (report, trace) = rest.split_at(head.report_len as usize);
    let reply = || SubtreeReply {
        level: head.level,
        header: Payload::copy_from_slice(header),
        data: Payload::copy_from_slice(data),
        trace: Bytes::copy_from_slice(trace),
    };
    build_response(head, reply, report)
}

/// Parses a response from an owned body; the response retains the body without a copy.
pub(super) fn parse_owned_response(head: &ResponseHead, mut body: Bytes) -> Result<Response, FrameError> {
    let header = body.split_to(head.header_len as usize);
    let data = body.split_to(head.data_len as usize);
    let report = body.split_to(head.report_len as usize);
    let (header, data) = (header.into(), data.into());
    build_response(head, || SubtreeReply { level: head.level, header, data, trace: body }, &report)
}

fn build_response(
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
