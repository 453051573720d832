//! The fast path at a leaf, that is at half of the ids of most trees: func runs, and its reply is sent from where func
//! wrote it. The call has no entry in a table; only its name is stored, among the completed calls.
//!
//! Source: as for `fast_path`; the reply is level-0 data (the rendezvous web service of Globus (WS Rendezvous), "Data
//! format").

use bytes::{BufMut, BytesMut};
use gpc_trees::IdList;

use super::recorder::End;
use super::{Node, Reply, gather};
use crate::branch_hint::{cold_path, likely, unlikely};
use crate::wire::head::{AnswerKind, ResponseHead};
use crate::wire::level::{count, count_bytes};
use crate::wire::message::{Answer, SubtreeReply};
use crate::wire::short::SHORT_MAX;
use crate::wire::{CallId, Cause, Coverage, Failure, Payload, Reason, Stage, Status};

/// Form in which a leaf's reply is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// Not sent: no reply was requested.
    Completed,
    /// Unchanged, as a callback would have merged it.
    Merged,
    /// As a value of level 0.
    Value,
}

/// An answer that consists of the leaf's own reply.
#[derive(Clone, Copy, Debug)]
pub struct LeafAnswer<'a> {
    own: &'a Reply,
    form: Form,
}

impl LeafAnswer<'_> {
    /// Returns the fixed part of the frame; `None` if the answer is not short, or is longer than `reply_max`.
    #[inline(always)]
    fn head(&self, call: CallId, reply_max: u64) -> Option<ResponseHead> {
        let (header, data) = (self.own.header.len(), self.own.data_len());
        let (kind, header, data) = match self.form {
            Form::Completed => (AnswerKind::Completed, 0, 0),
            Form::Merged => (AnswerKind::Reply, header, data),
            Form::Value => (AnswerKind::Reply, count_bytes(header) + header, count_bytes(data) + data),
        };
        let length = header + data;
        let (header_len, data_len) = (header as u64, data as u64);
        let short = length <= SHORT_MAX && length as u64 <= reply_max;
        short.then_some(ResponseHead {
            call,
            level: 0,
            kind,
            header_len,
            data_len,
            report_len: 0,
            trace_len: 0,
        })
    }

    /// Maximum length of the [start](Self::emit_start), in bytes: two counts.
    pub const START_MAX: usize = 8;

    /// Appends the header and the data up to the first part that is not empty.
    #[inline(always)]
    pub fn emit_start(&self, out: &mut impl BufMut) {
        if likely(self.form == Form::Value) {
            count(out, self.own.header.len());
            if likely(self.own.header.is_empty()) {
                count(out, self.own.data.len());
            }
        }
    }

    /// Appends the rest.
    #[inline(always)]
    pub fn emit_rest(&self, out: &mut BytesMut) {
        if unlikely(!self.own.header.is_empty()) {
            self.emit_header(out);
        }
        if likely(self.form != Form::Completed) {
            out.extend_from_slice(&self.own.data);
        }
    }

    #[cold]
    fn emit_header(&self, out: &mut BytesMut) {
        if self.form != Form::Completed {
            out.extend_from_slice(&self.own.header);
        }
        if self.form == Form::Value {
            count(out, self.own.data.len());
        }
    }

    /// Returns the reply in the form of the general path; `None` if no reply was requested.
    pub fn reply(&self) -> Option<SubtreeReply> {
        let payload = |part: &Vec<u8>| {
            let mut bytes = Vec::new();
            if self.form == Form::Value {
                count(&mut bytes, part.len());
            }
            bytes.put_slice(part);
            Payload::from(bytes)
        };
        let (header, data) = (payload(&self.own.header), payload(&self.own.data));
        (self.form != Form::Completed).then_some(SubtreeReply {
            level: 0,
            header,
            data,
            ..SubtreeReply::default()
        })
    }
}

impl Node {
    /// The ids of a call that has [begun](Self::begin_fast) at a leaf (this id alone), and an empty reply for func in
    /// reused memory.
    pub fn leaf_room(&mut self) -> Option<(&IdList, &mut Reply)> {
        let fast_calls = self.fast_calls.as_deref_mut()?;
        let plan = fast_calls.plans.found()?;
        Some((&plan.ids, &mut fast_calls.spare_reply))
    }

    /// Ends a call after its func, whose reply is in [`leaf_room`](Self::leaf_room). Returns the fixed part of the
    /// answer's frame, and the rest.
    ///
    /// # Errors
    /// The answer in the form of the general path, if it is not short or a failure.
    #[inline(always)]
    pub fn leaf_ran(
        &mut self,
        call: CallId,
        result: Result<(), Box<Reason>>,
    ) -> Result<(ResponseHead, LeafAnswer<'_>), Box<Answer>> {
        self.completed.add(call);
        self.record_fast(if result.is_ok() { End::Done } else { End::Failed });
        if let Err(reason) = result {
            cold_path();
            return Err(Box::new(self.failed_alone(1, Cause::of(self.config.me, Stage::Func, *reason))));
        }
        let (me, reply_max) = (self.config.me, self.config.reply_max);
        let fast_calls = self.fast_calls();
        let (wanted, merged) = fast_calls.plans.form();
        let form = match (wanted, merged) {
            (false, _) => Form::Completed,
            (true, true) => Form::Merged,
            (true, false) => Form::Value,
        };
        match (LeafAnswer { own: &fast_calls.spare_reply, form }).head(call, reply_max) {
            Some(head) => Ok((head, LeafAnswer { own: &fast_calls.spare_reply, form })),
            None => {
                cold_path();
                let own = std::mem::take(&mut fast_calls.spare_reply);
                Err(Box::new(gather::alone_or_failed(me, wanted, merged, own, reply_max)))
            }
        }
    }

    /// Empties the reply after the answer was sent.
    #[inline(always)]
    pub fn leaf_answered(&mut self) {
        self.fast_calls().empty_reply();
    }

    /// The answer of a call that failed here and was not forwarded.
    #[cold]
    pub(super) fn failed_alone(&self, ids: u32, cause: Cause) -> Answer {
        let mut coverage = Coverage::all(Status::Failed, 1);
        coverage.push(Status::Unreached, ids - 1);
        Answer::Failed(Box::new(Failure { cause, coverage }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest start belongs to the longest data of a short frame.
    #[test]
    fn a_start_has_room_for_its_counts() {
        let call = CallId { root: 1, sequence: 2 };
        let longest = |form| {
            let answers = |data| Reply { data: vec![0; data], ..Reply::default() };
            let short =
                |data: &usize| LeafAnswer { own: &answers(*data), form }.head(call, u64::MAX).is_some();
            let own = answers((0..=SHORT_MAX).rev().find(short).expect("nothing is short"));
            let answer = LeafAnswer { own: &own, form };
            let (mut start, mut rest) = (Vec::new(), BytesMut::new());
            answer.emit_start(&mut start);
            answer.emit_rest(&mut rest);
            let length = answer.head(call, u64::MAX).unwrap().reply_len();
            assert_eq!((start.len() + rest.len()) as u64, length, "{form:?}");
            start.len()
        };
        let starts = [Form::Completed, Form::Merged, Form::Value].map(longest);
        assert_eq!(starts, [0, 0, LeafAnswer::START_MAX]);
    }
}
