//! The fixed parts of REQUEST, RESPONSE and the small frames (docs/wire.md, the sections of those names).

use std::time::Duration;

use bytes::BufMut;
use gpc_trees::Id;

use super::frame::{
    EXTENT_MAX, EXTENT_MIN, Fields, FrameError, HEADER_MAX, Kind, PREFIX_MAX, REPORT_MAX, TRACE_MAX, flags,
    zero,
};
use super::trace::ENTRY;
use super::{CallId, Parts, ReplyLimits};

/// Encoding of the ids of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdsForm {
    /// Runs of consecutive ids, 8 bytes each.
    Runs,
    /// Single ids, 4 bytes each.
    Listed,
}

impl IdsForm {
    /// Bytes of one entry.
    pub fn entry(self) -> usize {
        match self {
            IdsForm::Runs => 8,
            IdsForm::Listed => 4,
        }
    }
}

/// The fixed part of a REQUEST.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestHead {
    /// Identifier of the call.
    pub call: CallId,
    /// The receiver's position in the whole tree, in preorder: 0 at the root.
    pub position: u32,
    /// Number of places in the whole tree, including the root's.
    pub total: u32,
    /// Hash of the name of func.
    pub func: u64,
    /// Hash of the name of callback, 0 for none.
    pub callback: u64,
    /// The tree's wire id.
    pub tree: u64,
    /// The tree's parameter.
    pub tree_param: u32,
    /// Encoding of the ids.
    pub ids_form: IdsForm,
    /// Number of entries in that encoding.
    pub ids_count: u32,
    /// Bytes of header.
    pub header_len: u32,
    /// Bytes of data.
    pub data_len: u64,
    /// Whether the body begins with limits for replies; a flag of the frame.
    pub has_reply_limits: bool,
    /// Whether the data are a part for each id, whose lengths follow the header; a flag of the frame.
    pub has_parts: bool,
    /// Time left of the call's limit.
    pub limit: Duration,
    /// Time since the call began, as far as known.
    pub age: Duration,
    /// Places of an explicit shape.
    pub shape_count: u32,
    /// Number of parents given up between the sender and the receiver.
    pub skipped: u32,
    /// Time left of the root's limit.
    pub left: Duration,
}

impl RequestHead {
    /// Bytes of the fixed part.
    pub const LENGTH: usize = 92;

    /// Reads and checks the fixed part at the start of the payload of a REQUEST with these flags.
    pub fn parse(flags: u8, payload: &[u8]) -> Result<RequestHead, FrameError> {
        let mut fields = Fields::new(Kind::Request, payload, Self::LENGTH)?;
        let bad =
            |field, value, expected| FrameError::BadField { kind: Kind::Request, field, value, expected };
        let (root, position, sequence) = (fields.u32(), fields.u32(), fields.u64());
        let (func, callback, tree) = (fields.u64(), fields.u64(), fields.u64());
        let tree_param = fields.u32();
        let form = fields.u32();
        let ids_form = match form {
            0 => IdsForm::Runs,
            1 => IdsForm::Listed,
            _ => return Err(bad("ids form", form.into(), "0 for runs or 1 for listed ids")),
        };
        let head = RequestHead {
            call: CallId { root, sequence },
            position,
            func,
            callback,
            tree,
            tree_param,
            ids_form,
            ids_count: fields.u32(),
            header_len: fields.u32(),
            data_len: fields.u64(),
            has_reply_limits: flags & flags::REPLY_LIMITS != 0,
            has_parts: flags & flags::SCATTER != 0,
            limit: Duration::from_micros(fields.u64()),
            shape_count: fields.u32(),
            age: Duration::from_millis(fields.u32().into()),
            skipped: fields.u32(),
            left: Duration::from_millis(fields.u32().into()),
            total: fields.u32(),
        };
        if head.has_parts && ids_form == IdsForm::Runs {
            return Err(bad(
                "ids form",
                form.into(),
                "1, listed ids, where each id has its own part of the data",
            ));
        }
        if head.header_len as usize > HEADER_MAX {
            return Err(bad("header length", head.header_len.into(), "at most 65535"));
        }
        if head.prefix_len() > PREFIX_MAX as u64 {
            return Err(bad(
                "length of limits, ids, shape, header and lengths of parts",
                head.prefix_len(),
                "at most 67108864",
            ));
        }
        Ok(head)
    }

    /// Appends the fixed part.
    pub fn emit(&self, out: &mut impl BufMut) {
        let form = match self.ids_form {
            IdsForm::Runs => 0u32,
            IdsForm::Listed => 1,
        };
        let limit = u64::try_from(self.limit.as_micros()).unwrap_or(u64::MAX);
        let words = [
            [self.call.root, self.position],
            halves(self.call.sequence),
            halves(self.func),
            halves(self.callback),
            halves(self.tree),
            [self.tree_param, form],
            [self.ids_count, self.header_len],
            halves(self.data_len),
            halves(limit),
            [self.shape_count, whole_ms(self.age)],
            [self.skipped, whole_ms(self.left)],
            [self.total, 0],
        ];
        // The last word has no partner.
        put_words(&words.as_flattened()[..Self::LENGTH / 4], out);
    }

    /// Length of limits, ids, shape, header and lengths of parts together, in bytes.
    pub fn prefix_len(&self) -> u64 {
        let limits = if self.has_reply_limits { ReplyLimits::LENGTH as u64 } else { 0 };
        let ids = u64::from(self.ids_count) * self.ids_form.entry() as u64;
        limits + ids + u64::from(self.shape_count) * 4 + u64::from(self.header_len) + self.lengths_len()
    }

    /// Bytes of the lengths of parts. The ids of a request with parts are listed.
    pub fn lengths_len(&self) -> u64 {
        if self.has_parts { u64::from(self.ids_count) * Parts::ENTRY as u64 } else { 0 }
    }
}

/// Splits a 64-bit number into two words, the low one first.
fn halves(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

/// Appends all words with a single write, so the buffer checks its capacity once.
#[inline(always)]
fn put_words(words: &[u32], out: &mut impl BufMut) {
    let mut bytes = [0; RequestHead::LENGTH];
    let bytes = &mut bytes[..words.len() * 4];
    for (word, place) in words.iter().zip(bytes.chunks_exact_mut(4)) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    out.put_slice(bytes);
}

/// Milliseconds, rounded up: the receiver takes the call for no younger than it is, and its limit does not end early.
pub(crate) fn whole_ms(span: Duration) -> u32 {
    u32::try_from(span.as_micros().div_ceil(1000)).unwrap_or(u32::MAX)
}

/// Result of the call, as a RESPONSE carries it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum AnswerKind {
    /// Completed; no reply was requested.
    Completed = 0,
    /// A reply.
    Reply = 1,
    /// A failure: the report has its cause and coverage.
    Failed = 2,
    /// The available reply, and a report on every id.
    Partial = 3,
}

/// The fixed part of a RESPONSE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResponseHead {
    /// Identifier of the call.
    pub call: CallId,
    /// Level of the reply.
    pub level: u16,
    /// Result of the call.
    pub kind: AnswerKind,
    /// Bytes of header.
    pub header_len: u64,
    /// Bytes of data.
    pub data_len: u64,
    /// Bytes of report.
    pub report_len: u32,
    /// Bytes of trace.
    pub trace_len: u32,
}

impl ResponseHead {
    /// Bytes of the fixed part.
    pub const LENGTH: usize = 40;

    /// Reads and checks the fixed part at the start of a RESPONSE's payload.
    pub fn parse(payload: &[u8]) -> Result<ResponseHead, FrameError> {
        let mut fields = Fields::new(Kind::Response, payload, Self::LENGTH)?;
        let bad =
            |field, value, expected| FrameError::BadField { kind: Kind::Response, field, value, expected };
        let (root, level, status) = (fields.u32(), fields.u16(), fields.u8());
        zero(Kind::Response, "reserved", fields.u8().into())?;
        let kind = match status {
            0 => AnswerKind::Completed,
            1 => AnswerKind::Reply,
            2 => AnswerKind::Failed,
            3 => AnswerKind::Partial,
            _ => return Err(bad("status", status.into(), "0 completed, 1 reply, 2 failure or 3 partial")),
        };
        let call = CallId { root, sequence: fields.u64() };
        let (header_len, data_len) = (fields.u64(), fields.u64());
        let (report_len, trace_len) = (fields.u32(), fields.u32());
        let head = ResponseHead { call, level, kind, header_len, data_len, report_len, trace_len };
        let (reply, rest) = (header_len.checked_add(data_len), u64::from(report_len) + u64::from(trace_len));
        let Some(reply) = reply.filter(|reply| reply.checked_add(rest).is_some()) else {
            return Err(bad("length of header and data", data_len, "together at most 2^64"));
        };
        if reply != 0 && matches!(kind, AnswerKind::Completed | AnswerKind::Failed) {
            return Err(bad("length of header and data", reply, "none, without a reply"));
        }
        if report_len as usize > REPORT_MAX {
            return Err(bad("length of the report", report_len.into(), "at most 67108864"));
        }
        if trace_len as usize > TRACE_MAX || !(trace_len as usize).is_multiple_of(ENTRY) {
            return Err(bad("length of the trace", trace_len.into(), "at most 67108864, 20 for each id"));
        }
        if trace_len != 0 && matches!(kind, AnswerKind::Completed | AnswerKind::Failed) {
            return Err(bad("length of the trace", trace_len.into(), "none, without a reply"));
        }
        if report_len != 0 && matches!(kind, AnswerKind::Completed | AnswerKind::Reply) {
            return Err(bad("length of the report", report_len.into(), "none, where nothing is amiss"));
        }
        Ok(head)
    }

    /// Appends the fixed part.
    #[inline(always)]
    pub fn emit(&self, out: &mut impl BufMut) {
        let kind = u32::from(self.level) | u32::from(self.kind as u8) << 16;
        let words = [
            [self.call.root, kind],
            halves(self.call.sequence),
            halves(self.header_len),
            halves(self.data_len),
            [self.report_len, self.trace_len],
        ];
        put_words(words.as_flattened(), out);
    }

    /// Length of header and data together, in bytes. The parser has checked that the sum does not overflow.
    pub fn reply_len(&self) -> u64 {
        self.header_len.saturating_add(self.data_len)
    }

    /// Length of header, data, report and trace together, in bytes.
    pub fn body_len(&self) -> u64 {
        self.reply_len().saturating_add(u64::from(self.report_len) + u64::from(self.trace_len))
    }
}

/// The fixed part of a SEGMENT, CANCEL and other small frames: the call that they belong to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallRef(pub CallId);

impl CallRef {
    /// Bytes of the fixed part.
    pub const LENGTH: usize = 16;

    /// Reads the fixed part at the start of a payload of `kind`.
    pub fn parse(kind: Kind, payload: &[u8]) -> Result<CallRef, FrameError> {
        let mut fields = Fields::new(kind, payload, Self::LENGTH)?;
        let root: Id = fields.u32();
        zero(kind, "reserved", fields.u32().into())?;
        Ok(CallRef(CallId { root, sequence: fields.u64() }))
    }

    /// Appends the fixed part.
    pub fn emit(&self, out: &mut impl BufMut) {
        let [low, high] = halves(self.0.sequence);
        put_words(&[self.0.root, 0, low, high], out);
    }
}

/// The payload of WINDOW: how far the data of a call's request or response may be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowRef {
    /// Identifier of the call.
    pub call: CallId,
    /// Whether the window belongs to the response; a flag of the frame.
    pub of_response: bool,
    /// Limit of the data, in bytes from their beginning.
    pub limit: u64,
}

impl WindowRef {
    /// Bytes of the payload.
    pub const LENGTH: usize = CallRef::LENGTH + 8;

    /// Reads the payload of a WINDOW frame with these flags.
    ///
    /// # Errors
    /// If the payload is not valid.
    pub fn parse(flags: u8, payload: &[u8]) -> Result<WindowRef, FrameError> {
        let mut fields = Fields::new(Kind::Window, payload, Self::LENGTH)?;
        let CallRef(call) = CallRef::parse(Kind::Window, &fields.take::<{ CallRef::LENGTH }>())?;
        let (of_response, limit) = (flags & flags::OF_RESPONSE != 0, fields.u64());
        match payload.len() - Self::LENGTH {
            0 => Ok(WindowRef { call, of_response, limit }),
            extra => Err(FrameError::TooMuch { kind: Kind::Window, extra: extra as u64 }),
        }
    }

    /// Appends the payload.
    pub fn emit(&self, out: &mut impl BufMut) {
        CallRef(self.call).emit(out);
        out.put_u64_le(self.limit);
    }
}

/// The payload of EXTENT: the next bytes of a request's data lie in sealed memory whose descriptor has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExtentRef {
    /// Identifier of the call.
    pub call: CallId,
    /// Length of the data, in bytes.
    pub length: usize,
}

impl ExtentRef {
    /// Bytes of the payload.
    pub const LENGTH: usize = CallRef::LENGTH + 8;

    /// Reads the payload.
    ///
    /// # Errors
    /// If the payload is not valid, or the length is outside the limits for one descriptor.
    pub fn parse(payload: &[u8]) -> Result<ExtentRef, FrameError> {
        let kind = Kind::Extent;
        let mut fields = Fields::new(kind, payload, Self::LENGTH)?;
        let CallRef(call) = CallRef::parse(kind, &fields.take::<{ CallRef::LENGTH }>())?;
        let value = fields.u64();
        if payload.len() > Self::LENGTH {
            return Err(FrameError::TooMuch { kind, extra: (payload.len() - Self::LENGTH) as u64 });
        }
        let expected = "data by descriptor are 256 KiB to 2 MiB";
        let refused = FrameError::BadField { kind, field: "length", value, expected };
        let length = usize::try_from(value).ok().filter(|length| (EXTENT_MIN..=EXTENT_MAX).contains(length));
        Ok(ExtentRef { call, length: length.ok_or(refused)? })
    }

    /// Appends the payload.
    pub fn emit(&self, out: &mut impl BufMut) {
        CallRef(self.call).emit(out);
        out.put_u64_le(self.length as u64);
    }
}

/// Why a side closes the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum GoodbyeReason {
    /// The node shuts down.
    Shutdown = 0,
    /// Another link between the two nodes is kept.
    Duplicate = 1,
    /// The hello was rejected.
    Refused = 2,
    /// The hello was rejected because its sender belongs to another job.
    OtherJob = 3,
    /// The node runs on and closes only this link: it is short of file descriptors, or has removed the other node from
    /// its peers.
    LinkClosed = 4,
}

/// The payload of GOODBYE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Goodbye {
    /// Reason for the close.
    pub reason: GoodbyeReason,
    /// Message for people, at most 255 bytes.
    pub text: String,
}

impl Goodbye {
    /// Maximum length of the text, in bytes.
    pub const TEXT_MAX: usize = 255;

    /// Reads a GOODBYE's payload.
    pub fn parse(payload: &[u8]) -> Result<Goodbye, FrameError> {
        let bad =
            |field, value, expected| FrameError::BadField { kind: Kind::Goodbye, field, value, expected };
        let code = Fields::new(Kind::Goodbye, payload, 1)?.u8();
        let reason = match code {
            0 => GoodbyeReason::Shutdown,
            1 => GoodbyeReason::Duplicate,
            2 => GoodbyeReason::Refused,
            3 => GoodbyeReason::OtherJob,
            4 => GoodbyeReason::LinkClosed,
            _ => return Err(bad("reason", code.into(), "0 to 4")),
        };
        let text = &payload[1..];
        if text.len() > Self::TEXT_MAX {
            return Err(bad("text length", text.len() as u64, "at most 255"));
        }
        Ok(Goodbye { reason, text: String::from_utf8_lossy(text).into_owned() })
    }

    /// Returns a GOODBYE's payload.
    pub fn emit(&self) -> Vec<u8> {
        let text = &self.text[..self.text.floor_char_boundary(Self::TEXT_MAX)];
        [&[self.reason as u8], text.as_bytes()].concat()
    }
}

/// Writes a PAUSE's payload: its length in whole milliseconds, rounded up so that a short pause is not written as 0,
/// which ends one.
pub fn emit_pause(length: Duration) -> [u8; 4] {
    let ms = length.as_nanos().div_ceil(1_000_000);
    u32::try_from(ms).unwrap_or(u32::MAX).to_le_bytes()
}

/// Reads a PAUSE's payload.
pub fn parse_pause(payload: &[u8]) -> Result<Duration, FrameError> {
    let ms = Fields::new(Kind::Pause, payload, 4)?.u32();
    match payload.len() {
        4 => Ok(Duration::from_millis(ms.into())),
        length => Err(FrameError::TooMuch { kind: Kind::Pause, extra: length as u64 - 4 }),
    }
}

/// Reads a CREDIT's payload: the number of requests consumed.
pub fn parse_credit(payload: &[u8]) -> Result<u32, FrameError> {
    let count = Fields::new(Kind::Credit, payload, 4)?.u32();
    if payload.len() > 4 {
        return Err(FrameError::TooMuch { kind: Kind::Credit, extra: payload.len() as u64 - 4 });
    }
    match count {
        0 => {
            Err(FrameError::BadField { kind: Kind::Credit, field: "count", value: 0, expected: "at least 1" })
        }
        _ => Ok(count),
    }
}

#[cfg(test)]
mod tests;
