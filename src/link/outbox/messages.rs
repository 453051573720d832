//! Requests and responses as frames: a small message becomes one frame, a long one a [`Stream`].

use std::collections::VecDeque;

use bytes::Bytes;

use super::stream::{BodyPart, Stream};
use super::{Outbox, SMALL};
use crate::link::send_window::SendWindow;
use crate::wire::frame::{Kind, WINDOW};
use crate::wire::head::{AnswerKind, IdsForm, RequestHead, ResponseHead};
use crate::wire::message::{Answer, Response, SubtreeReply};
use crate::wire::prefix::{emit_prefix, request_flags, request_head};
use crate::wire::streaming_reply::{StreamingPart, StreamingReply};
use crate::wire::{CallId, Cause, CauseKind, Coverage, Failure, Report, Request, Share, Stage};

impl Outbox {
    pub(super) fn start_request(&mut self, request: &Request) {
        request.body().waits(false);
        let head = request_head(request);
        let flags = request_flags(request);
        let form: IdsForm = head.ids_form;
        let small = head.prefix_len().saturating_add(head.data_len) <= SMALL;
        if let (true, Some(data)) = (small, request.body().as_bytes()) {
            let length = RequestHead::LENGTH + head.prefix_len() as usize + data.len();
            return self.push_frame(Kind::Request, flags, length, |tail| {
                head.emit(tail);
                emit_prefix(request, form, tail);
                tail.extend_from_slice(&data);
            });
        }
        let mut fixed = Vec::with_capacity(RequestHead::LENGTH);
        head.emit(&mut fixed);
        let mut prefix = Vec::with_capacity(head.prefix_len() as usize);
        emit_prefix(request, form, &mut prefix);
        let data = BodyPart::Body { body: request.body().clone(), read: 0, limit: WINDOW };
        let data = Some(data).filter(|_| head.data_len > 0);
        let parts = std::iter::once(BodyPart::Bytes(prefix.into())).chain(data).collect();
        let (call, kind, head) = (request.call, Kind::Request, Some(fixed));
        let (window, _share) = (SendWindow::unbounded(), Share::default());
        self.streams.push_back(Stream { call, kind, flags, head, parts, window, _share });
    }

    pub(super) fn push_response(&mut self, response: Response) {
        let Response { call, answer } = response;
        let (kind, reply, report) = match answer {
            Answer::Completed => (AnswerKind::Completed, SubtreeReply::default(), Vec::new()),
            Answer::Reply(reply) => (AnswerKind::Reply, reply, Vec::new()),
            Answer::Arriving(reply) => return self.push_streaming_reply(call, *reply),
            Answer::Failed(failure) => {
                (AnswerKind::Failed, SubtreeReply::default(), Report::from(*failure).emit())
            }
            Answer::Partial(partial) => (AnswerKind::Partial, partial.reply, partial.report.emit()),
        };
        let head = ResponseHead {
            call,
            level: reply.level,
            kind,
            header_len: reply.header.len() as u64,
            data_len: reply.data.len() as u64,
            report_len: report.len() as u32,
            trace_len: reply.trace.len() as u32,
        };
        if head.body_len() <= SMALL {
            let length = ResponseHead::LENGTH + head.body_len() as usize;
            if head.kind == AnswerKind::Failed {
                // The failure replaces a reply that is being sent.
                self.stop_response(call);
            }
            return self.push_frame(Kind::Response, 0, length, |tail| {
                head.emit(tail);
                reply.header.copy_to(tail);
                reply.data.copy_to(tail);
                tail.extend_from_slice(&report);
                tail.extend_from_slice(&reply.trace);
            });
        }
        let rest = [Bytes::from(report), reply.trace.clone()];
        let rest = rest.into_iter().filter(|part| !part.is_empty());
        let parts = reply.header.parts().chain(reply.data.parts());
        let parts = parts.map(Bytes::from).chain(rest).map(BodyPart::Bytes).collect();
        self.push_long_response(&head, parts);
    }

    /// Queues a reply whose data may still be arriving: its header does not wait for them.
    fn push_streaming_reply(&mut self, call: CallId, reply: StreamingReply) {
        let head = ResponseHead {
            call,
            level: reply.level,
            kind: AnswerKind::Reply,
            header_len: reply.header.len() as u64,
            data_len: reply.data.len(),
            report_len: 0,
            trace_len: 0,
        };
        let data = reply.data.into_parts().into_iter().map(|part| match part {
            StreamingPart::Arrived(bytes) => BodyPart::Bytes(bytes),
            StreamingPart::Arriving(body) => BodyPart::Body { body, read: 0, limit: u64::MAX },
        });
        let header = reply.header.parts().map(|part| BodyPart::Bytes(part.into()));
        self.push_long_response(&head, header.chain(data).collect());
    }

    fn push_long_response(&mut self, head: &ResponseHead, parts: VecDeque<BodyPart>) {
        let mut fixed = Vec::with_capacity(ResponseHead::LENGTH);
        head.emit(&mut fixed);
        if head.kind == AnswerKind::Failed {
            self.stop_response(head.call);
        }
        let (call, kind, window) = (head.call, Kind::Response, SendWindow::of_response(head));
        let here = |part: &BodyPart| if let BodyPart::Bytes(bytes) = part { bytes.len() as u64 } else { 0 };
        let Some(_share) = self.limits.reserve_reply(parts.iter().map(here).sum()) else {
            return self.push_refusal(call, Coverage::new());
        };
        self.streams.push_back(Stream { call, kind, flags: 0, head: Some(fixed), parts, window, _share });
    }

    /// Queues a failure as the response: the response itself does not fit.
    pub fn push_refusal(&mut self, call: CallId, coverage: Coverage) {
        let cause = Cause::new(self.limits.me(), Stage::Reply, CauseKind::NoMemory, self.refusal());
        self.push_response(Response { call, answer: Answer::Failed(Box::new(Failure { cause, coverage })) });
    }
}
