//! Short frames: requests and replies of a few KiB that arrive whole. They are parsed in place, and written from
//! templates.
//!
//! Most calls differ from the call before only in name, time and data. The common part is the [`PlanKey`], which is
//! compared as bytes. The common part of a request to a child is a [`Template`], which is written once. Any other
//! frame, and any invalid one, is left to the parser of all frames, which reports errors.
//!
//! Source: docs/wire.md, "REQUEST" and "RESPONSE".

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use gpc_trees::{Id, IdList, Tree};

use super::frame::{FRAME_HEADER, FrameHeader, Kind, flags};
use super::head::{IdsForm, RequestHead, ResponseHead, whole_ms};
use super::prefix::{emit_ids, parse_ids, smaller_form};
use super::{Body, CallId, Request};
use crate::branch_hint::unlikely;

/// Maximum length of ids, header and data of a short request, and of header and data of a short reply, in bytes. Below
/// it a copy costs less than a shared part.
pub const SHORT_MAX: usize = 16 << 10;

/// Maximum length of the ids of a short request, in bytes: they are compared for each call and stored in each plan.
pub const IDS_MAX: usize = 1 << 10;

/// Length of the adjacent fields of a request's fixed part that belong to the key: func, callback, tree, its parameter,
/// form of the ids, number of entries.
const SHARED: usize = 36;

/// Offset of these fields.
const SHARED_AT: usize = 16;

/// The common part of calls to the same ids, in the same tree, with the same functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlanKey<'a> {
    flags: u8,
    /// A reference to the received bytes: comparing bytes that were just written stalls the processor.
    shared: &'a [u8; SHARED],
    ids: &'a [u8],
}

/// An owned [`PlanKey`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanOwned {
    flags: u8,
    shared: [u8; SHARED],
    ids: Box<[u8]>,
}

/// The parts of a plan's key.
#[derive(Clone, Copy, Debug)]
pub struct PlanParts<'a> {
    /// Name of the function that every id executes.
    pub func: u64,
    /// Name of the function that merges replies, if one does.
    pub callback: Option<u64>,
    /// How the list is split.
    pub tree: &'a Tree,
    /// The receiver's slice.
    pub ids: &'a IdList,
    /// Whether replies are collected.
    pub reply_wanted: bool,
    /// Forward before executing.
    pub forward_first: bool,
}

/// The fields of a short request that differ from call to call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Particulars<'a> {
    /// Identifier of the call.
    pub call: CallId,
    /// The receiver's position in the whole tree.
    pub position: u32,
    /// Number of places in the whole tree.
    pub total: u32,
    /// Time left of the call's limit, in microseconds.
    pub limit: u64,
    /// Age of the call, in milliseconds.
    pub age: u32,
    /// Time left of the root's limit, in milliseconds.
    pub left: u32,
    /// Request header.
    pub header: &'a [u8],
    /// Request data.
    pub data: &'a [u8],
}

/// A whole REQUEST frame from the parent in the tree, of a call that is not partial.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShortRequest<'a> {
    /// The common part.
    pub plan: PlanKey<'a>,
    /// The other fields.
    pub particulars: Particulars<'a>,
}

/// A whole RESPONSE frame of a call that succeeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShortResponse<'a> {
    /// Identifier of the call.
    pub call: CallId,
    /// Level of the reply.
    pub level: u16,
    /// Header and data of the reply; `None` for a bare completion.
    pub reply: Option<(&'a [u8], &'a [u8])>,
}

/// The bytes of a key, in a buffer for one key after another. Most calls of a root have the key of the call before,
/// which is not written again.
#[derive(Debug, Default)]
pub struct KeyBuffer {
    bytes: Vec<u8>,
    source: Option<Box<KeySource>>,
}

/// The parts of a request from which the key was written.
#[derive(Debug)]
struct KeySource {
    func: u64,
    callback: Option<u64>,
    tree: Tree,
    ids: IdList,
}

impl KeyBuffer {
    /// Whether the buffer already contains the key of this request.
    #[inline]
    fn is_of(&self, request: &PlanParts<'_>) -> bool {
        self.source.as_ref().is_some_and(|source| {
            (source.func == request.func) & (source.callback == request.callback)
                && source.ids == *request.ids
                && source.tree == *request.tree
        })
    }

    /// Writes the key of a request. Returns `None` if its tree is not built in, or if it has too many ids.
    #[inline(never)]
    fn write(&mut self, request: &PlanParts<'_>) -> Option<()> {
        let PlanParts { func, callback, tree, ids, .. } = *request;
        let (wire_id, param) = (tree.wire_id(), tree.wire_param());
        let (room, source) = (&mut self.bytes, self.source.take());
        Tree::from_wire(wire_id, param)?;
        let form = smaller_form(ids);
        let entries = match form {
            IdsForm::Runs => ids.runs().take(IDS_MAX).count(),
            IdsForm::Listed => ids.len() as usize,
        };
        if entries * form.entry() > IDS_MAX {
            return None;
        }
        room.clear();
        let form_word = if form == IdsForm::Runs { 0 } else { 1 };
        for name in [func, callback.unwrap_or(0), wire_id] {
            room.extend_from_slice(&name.to_le_bytes());
        }
        for word in [param, form_word, entries as u32] {
            room.extend_from_slice(&word.to_le_bytes());
        }
        emit_ids(ids, form, room);
        let written = KeySource { func, callback, tree: tree.clone(), ids: ids.clone() };
        match source {
            Some(mut source) => {
                *source = written;
                self.source = Some(source);
            }
            None => self.source = Some(Box::new(written)),
        }
        Some(())
    }
}

impl<'a> PlanKey<'a> {
    /// Returns the key of a call that starts here, written into `room`; `None` if its tree is not built in, or if it
    /// has too many ids.
    #[inline(always)]
    pub fn new(request: &PlanParts<'_>, room: &'a mut KeyBuffer) -> Option<PlanKey<'a>> {
        let PlanParts { reply_wanted, forward_first, .. } = *request;
        if unlikely(!room.is_of(request)) {
            room.write(request)?;
        }
        let (shared, ids) = room.bytes.split_first_chunk()?;
        let bits = [(reply_wanted, flags::REPLY_WANTED), (forward_first, flags::FORWARD_FIRST)];
        let flags = bits.iter().filter(|(set, _)| *set).fold(0, |flags, (_, bit)| flags | bit);
        Some(PlanKey { flags, shared, ids })
    }

    /// Name of the function that every id executes.
    pub fn func(&self) -> u64 {
        two_words(self.shared, 0)
    }

    /// Name of the function that merges replies, if one does.
    pub fn callback(&self) -> Option<u64> {
        Some(two_words(self.shared, 8)).filter(|name| *name != 0)
    }

    /// How the list is split; `None` if the tree is not built in.
    pub fn tree(&self) -> Option<Tree> {
        Tree::from_wire(two_words(self.shared, 16), word(self.shared, 24))
    }

    /// The receiver's slice; `None` if it is invalid or empty.
    pub fn ids(&self) -> Option<IdList> {
        let form = if word(self.shared, 28) == 0 { IdsForm::Runs } else { IdsForm::Listed };
        parse_ids(form, self.ids).ok().filter(|ids| !ids.is_empty())
    }

    /// Whether replies are collected.
    pub fn reply_wanted(&self) -> bool {
        self.flags & flags::REPLY_WANTED != 0
    }

    /// Forward before executing.
    pub fn forward_first(&self) -> bool {
        self.flags & flags::FORWARD_FIRST != 0
    }

    /// Whether the receiver is the only id.
    pub fn is_alone(&self) -> bool {
        two_words(self.shared, 28) == 1 | 1 << 32
    }

    /// Returns an owned copy.
    pub fn to_owned(&self) -> PlanOwned {
        PlanOwned { flags: self.flags, shared: *self.shared, ids: self.ids.into() }
    }

    /// The key as numbers, for a hash.
    pub fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        let names = [two_words(self.shared, 0), two_words(self.shared, 8), two_words(self.shared, 16)];
        let words = [two_words(self.shared, 24), word(self.shared, 32).into()];
        let (ids, rest) = self.ids.as_chunks::<8>();
        let rest = rest.iter().fold(u64::from(self.flags), |rest, byte| rest << 8 | u64::from(*byte));
        names.into_iter().chain(words).chain(ids.iter().map(|eight| u64::from_le_bytes(*eight))).chain([rest])
    }
}

impl PlanOwned {
    /// Returns the borrowed form.
    pub fn key(&self) -> PlanKey<'_> {
        PlanKey { flags: self.flags, shared: &self.shared, ids: &self.ids }
    }
}

impl PartialEq<PlanKey<'_>> for PlanOwned {
    fn eq(&self, other: &PlanKey<'_>) -> bool {
        // Comparing the arrays would call a function.
        let same = |at| two_words(&self.shared, at) == two_words(other.shared, at);
        let names = same(0) & same(8) & same(16) & same(24);
        let count = word(&self.shared, 32) == word(other.shared, 32);
        names & count & (self.flags == other.flags) && *self.ids == *other.ids
    }
}

/// A 4-byte field of a fixed part.
#[inline]
fn word<const N: usize>(fixed: &[u8; N], at: usize) -> u32 {
    u32::from_le_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]])
}

fn two_words<const N: usize>(fixed: &[u8; N], at: usize) -> u64 {
    u64::from(word(fixed, at)) | u64::from(word(fixed, at + 4)) << 32
}

/// Sets a field of a fixed part.
#[inline]
fn put<const N: usize, const M: usize>(fixed: &mut [u8; N], at: usize, field: [u8; M]) {
    fixed[at..at + M].copy_from_slice(&field);
}

/// The flags and the payload of a whole frame of this kind at the start of `bytes`, and the bytes after it.
fn payload(bytes: &[u8], kind: Kind) -> Option<(u8, &[u8], &[u8])> {
    let (header, rest) = bytes.split_first_chunk::<FRAME_HEADER>()?;
    if header[4] != kind as u8 || header[6..] != [0, 0] {
        return None;
    }
    let (payload, rest) = rest.split_at_checked(word(header, 0) as usize)?;
    Some((header[5], payload, rest))
}

impl<'a> ShortRequest<'a> {
    /// Returns the short form of a request from the general parser, with its data; `None` if it is not short. `room`
    /// receives the bytes of the key.
    pub fn of(request: &'a Request, data: &'a [u8], room: &'a mut KeyBuffer) -> Option<ShortRequest<'a>> {
        let Request { call, func, callback, reply_wanted, forward_first, ids, header, .. } = request;
        let usual = !request.partial
            && !request.local.trace
            && !request.adopted
            && request.skipped == 0
            && request.parts.is_none()
            && request.reply_limits.is_unlimited();
        let tree = request.tree.as_ref().ok().filter(|_| usual)?;
        let (func, callback) = (*func, *callback);
        let (reply_wanted, forward_first) = (*reply_wanted, *forward_first);
        let plan = PlanKey::new(&PlanParts { func, callback, tree, ids, reply_wanted, forward_first }, room)?;
        if plan.ids.len() + header.len() + data.len() > SHORT_MAX {
            return None;
        }
        let limit = u64::try_from(request.limit.as_micros()).unwrap_or(u64::MAX);
        let (age, left) = (whole_ms(request.age), whole_ms(request.left));
        let (position, total) = (request.position, request.total);
        let particulars = Particulars { call: *call, position, total, limit, age, left, header, data };
        Some(ShortRequest { plan, particulars })
    }

    /// Parses the request at the start of `bytes`, and returns it with the bytes after it. Returns `None` unless it is
    /// whole, short, not partial, and from the parent in the tree.
    #[inline(always)]
    pub fn parse(bytes: &'a [u8]) -> Option<(ShortRequest<'a>, &'a [u8])> {
        let (set, payload, rest) = payload(bytes, Kind::Request)?;
        let (fixed, body) = payload.split_first_chunk::<{ RequestHead::LENGTH }>()?;
        let shared = fixed[SHARED_AT..].first_chunk()?;
        let count = word(shared, 32) as usize;
        let entry = match word(shared, 28) {
            0 => 8,
            1 => 4,
            _ => return None,
        };
        let usual = set & !(flags::REPLY_WANTED | flags::FORWARD_FIRST) == 0;
        let (shape_count, skipped) = (word(fixed, 72), word(fixed, 80));
        let short = body.len() <= SHORT_MAX && count <= IDS_MAX / entry;
        if !usual || !short || shape_count != 0 || skipped != 0 {
            return None;
        }
        let (ids, body) = body.split_at_checked(count * entry)?;
        let (header, data) = body.split_at_checked(word(fixed, 52) as usize)?;
        if two_words(fixed, 56) != data.len() as u64 {
            return None;
        }
        let call = CallId { root: word(fixed, 0), sequence: two_words(fixed, 8) };
        let (limit, age, left) = (two_words(fixed, 64), word(fixed, 76), word(fixed, 84));
        let (position, total) = (word(fixed, 4), word(fixed, 88));
        let plan = PlanKey { flags: set, shared, ids };
        let particulars = Particulars { call, position, total, limit, age, left, header, data };
        Some((ShortRequest { plan, particulars }, rest))
    }
}

/// Adjusts the times of a whole REQUEST frame after a delay.
pub fn delay(frame: &mut [u8], waited: Duration) {
    let Some(fixed) = frame.get_mut(FRAME_HEADER..).and_then(|payload| payload.first_chunk_mut()) else {
        return;
    };
    let fixed: &mut [u8; RequestHead::LENGTH] = fixed;
    let us = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
    let ms = u32::try_from(waited.as_millis()).unwrap_or(u32::MAX);
    let (limit, age, left) = (two_words(fixed, 64), word(fixed, 76), word(fixed, 84));
    put(fixed, 64, limit.saturating_sub(us).to_le_bytes());
    put(fixed, 76, age.saturating_add(ms).to_le_bytes());
    put(fixed, 84, left.saturating_sub(ms).to_le_bytes());
}

impl<'a> ShortResponse<'a> {
    /// Parses the response at the start of `bytes`, and returns it with the bytes after it. Returns `None` unless it is
    /// whole and short, and every id has succeeded.
    pub fn parse(bytes: &'a [u8]) -> Option<(ShortResponse<'a>, &'a [u8])> {
        let (set, payload, rest) = payload(bytes, Kind::Response)?;
        let (fixed, body) = payload.split_first_chunk::<{ ResponseHead::LENGTH }>()?;
        // Level, status and a reserved field; then the length of the report and a reserved field.
        let (kind, report) = (word(fixed, 4), two_words(fixed, 32));
        if set != 0 || report != 0 || kind >> 16 > 1 || body.len() > SHORT_MAX {
            return None;
        }
        let (header_len, data_len) = (two_words(fixed, 16), two_words(fixed, 24));
        let (header, data) = body.split_at_checked(usize::try_from(header_len).ok()?)?;
        let replied = kind >> 16 == 1;
        if data.len() as u64 != data_len || !(replied || body.is_empty()) {
            return None;
        }
        let call = CallId { root: word(fixed, 0), sequence: two_words(fixed, 8) };
        Some((ShortResponse { call, level: kind as u16, reply: replied.then_some((header, data)) }, rest))
    }
}

/// The common part of a plan's frames to a child.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Template(Box<[u8]>);

impl Template {
    /// Makes the template of the frames to a child and its subtree.
    pub fn new(plan: &PlanKey<'_>, ids: &IdList) -> Template {
        let form = smaller_form(ids);
        let ids_count = match form {
            IdsForm::Runs => ids.runs().count(),
            IdsForm::Listed => ids.len() as usize,
        };
        let head = RequestHead {
            call: CallId { root: 0, sequence: 0 },
            position: 0,
            total: 0,
            func: plan.func(),
            callback: two_words(plan.shared, 8),
            tree: two_words(plan.shared, 16),
            tree_param: word(plan.shared, 24),
            ids_form: form,
            ids_count: ids_count as u32,
            header_len: 0,
            data_len: 0,
            has_reply_limits: false,
            has_parts: false,
            limit: Duration::ZERO,
            age: Duration::ZERO,
            shape_count: 0,
            skipped: 0,
            left: Duration::ZERO,
        };
        let mut frame = FrameHeader { length: 0, kind: Kind::Request, flags: plan.flags }.emit().to_vec();
        head.emit(&mut frame);
        emit_ids(ids, form, &mut frame);
        Template(frame.into())
    }

    /// Length of the frame that [`fill`](Self::fill) appends, in bytes.
    pub fn frame_len(&self, of: &Particulars<'_>) -> usize {
        self.0.len() + of.header.len() + of.data.len()
    }

    /// Appends the frame of one request. `alone` replaces the id, if leaves share the template.
    #[inline(always)]
    pub fn fill(&self, of: &Particulars<'_>, alone: Option<Id>, out: &mut BytesMut) {
        let length = self.frame_len(of);
        out.reserve(length);
        let start = out.len();
        out.extend_from_slice(&self.0);
        let Some(fixed) = out[start..].first_chunk_mut::<FIXED>() else { return };
        put(fixed, 0, ((length - FRAME_HEADER) as u32).to_le_bytes());
        put(fixed, 8, of.call.root.to_le_bytes());
        put(fixed, 12, of.position.to_le_bytes());
        put(fixed, 16, of.call.sequence.to_le_bytes());
        put(fixed, 60, (of.header.len() as u32).to_le_bytes());
        put(fixed, 64, (of.data.len() as u64).to_le_bytes());
        put(fixed, 72, of.limit.to_le_bytes());
        put(fixed, 84, of.age.to_le_bytes());
        put(fixed, 92, of.left.to_le_bytes());
        put(fixed, 96, of.total.to_le_bytes());
        if let Some(id) = alone {
            readdress(&mut out[start..], id, of.position);
        }
        if unlikely(!of.header.is_empty()) {
            out.extend_from_slice(of.header);
        }
        out.extend_from_slice(of.data);
    }

    /// Appends a frame that [`fill`](Self::fill) has written, with another id and position.
    pub fn copy(frame: &[u8], alone: Id, position: u32, out: &mut BytesMut) {
        let start = out.len();
        out.extend_from_slice(frame);
        readdress(&mut out[start..], alone, position);
    }
}

/// Bytes of a request's frame before its ids.
const FIXED: usize = FRAME_HEADER + RequestHead::LENGTH;

/// Sets the first id of a request's frame, and its position.
fn readdress(frame: &mut [u8], id: Id, position: u32) {
    if let Some(fixed) = frame.first_chunk_mut::<{ FIXED + 4 }>() {
        put(fixed, 12, position.to_le_bytes());
        put(fixed, FIXED, id.to_le_bytes());
    }
}

impl Particulars<'_> {
    /// Returns the request of a plan to these ids, in the form of the general path.
    pub fn request(&self, plan: &PlanKey<'_>, ids: IdList) -> Option<Request> {
        let tree = plan.tree()?;
        Some(Request {
            position: self.position,
            total: self.total,
            func: plan.func(),
            callback: plan.callback(),
            reply_wanted: plan.reply_wanted(),
            forward_first: plan.forward_first(),
            limit: Duration::from_micros(self.limit),
            age: Duration::from_millis(self.age.into()),
            left: Duration::from_millis(self.left.into()),
            tree: Ok(tree),
            header: Bytes::copy_from_slice(self.header),
            data: Body::whole(Bytes::copy_from_slice(self.data)),
            ..Request::new(self.call, ids)
        })
    }
}

#[cfg(test)]
impl<'a> PlanParts<'a> {
    /// The parts of a call with replies, without a callback, that executes before it forwards.
    pub(crate) fn of(func: u64, tree: &'a Tree, ids: &'a IdList) -> PlanParts<'a> {
        PlanParts { func, callback: None, tree, ids, reply_wanted: true, forward_first: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One buffer serves calls that differ in any part.
    #[test]
    fn a_buffer_has_the_key_of_the_last_call_only() {
        let (ids, others) = (IdList::range(3..9), IdList::range(3..8));
        let first = PlanParts::of(1, &Tree::Binomial, &ids);
        let calls = [
            first,
            PlanParts { func: 2, ..first },
            PlanParts { callback: Some(1), ..first },
            PlanParts { tree: &Tree::Flat, ..first },
            PlanParts { ids: &others, ..first },
            PlanParts { reply_wanted: false, ..first },
            PlanParts { forward_first: true, ..first },
        ];
        let mut room = KeyBuffer::default();
        for call in calls.iter().flat_map(|call| [call, call, &first]) {
            let key = PlanKey::new(call, &mut room).map(|key| key.to_owned());
            assert_eq!(
                key,
                PlanKey::new(call, &mut KeyBuffer::default()).map(|key| key.to_owned()),
                "{call:?}"
            );
        }
        // A request without a key leaves none in the buffer.
        let many = IdList::from_ids((0..IDS_MAX as u32).map(|id| 2 * id)).expect("distinct ids");
        assert!(PlanKey::new(&PlanParts { ids: &many, ..first }, &mut room).is_none());
        assert!(PlanKey::new(&PlanParts { ids: &many, ..first }, &mut room).is_none());
        assert!(PlanKey::new(&first, &mut room).is_some());
    }
}
