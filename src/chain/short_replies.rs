//! Replies of the children of a call on the fast path, and the answer made of them: one buffer, without an allocation
//! for each reply.
//!
//! Source: the ARMCI design of chained GPC (2007), "The action for any response" 2, and the rendezvous web service of
//! Globus (WS Rendezvous), "Data format", as in `gather`.

use bytes::BufMut;

use super::Reply;
use crate::branch_hint::unlikely;
use crate::wire::head::{AnswerKind, ResponseHead};
use crate::wire::level::{count, count_bytes, lift};
use crate::wire::message::SubtreeReply;
use crate::wire::short::SHORT_MAX;
use crate::wire::{CallId, Payload};

/// Highest level of a reply that is stored here: above it, lifting the other replies is no longer cheap.
const LEVEL_MAX: u16 = 1_024;

/// Place of one child's reply in the buffer. Places and lengths are at most twice [`SHORT_MAX`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    level: u16,
    /// Start of the header; the data follow it.
    at: u16,
    header: u16,
    data: u16,
}

/// The entry of a child without a reply.
const ABSENT: Entry = Entry { level: 0, at: u16::MAX, header: 0, data: 0 };

const _: () = assert!(2 * SHORT_MAX < ABSENT.at as usize, "a place in short replies is a u16");

impl Entry {
    /// Length of an entry that is stored behind its buffer, in bytes.
    pub(super) const BYTES: usize = 8;

    pub(super) fn to_bytes(self) -> [u8; Entry::BYTES] {
        let [l, a, h, d] = [self.level, self.at, self.header, self.data].map(u16::to_le_bytes);
        [l[0], l[1], a[0], a[1], h[0], h[1], d[0], d[1]]
    }

    pub(super) fn of_bytes([l0, l1, a0, a1, h0, h1, d0, d1]: [u8; Entry::BYTES]) -> Entry {
        let [level, at, header, data] = [[l0, l1], [a0, a1], [h0, h1], [d0, d1]].map(u16::from_le_bytes);
        Entry { level, at, header, data }
    }

    pub(super) fn new(level: u16, at: usize, header: usize, data: usize) -> Entry {
        Entry { level, at: at as u16, header: header as u16, data: data as u16 }
    }

    pub(super) fn header(self, bytes: &[u8]) -> &[u8] {
        &bytes[usize::from(self.at)..][..usize::from(self.header)]
    }

    pub(super) fn data(self, bytes: &[u8]) -> &[u8] {
        &bytes[usize::from(self.at) + usize::from(self.header)..][..usize::from(self.data)]
    }
}

/// The replies that have arrived.
#[derive(Debug, Default)]
pub(super) struct ShortReplies {
    bytes: Vec<u8>,
    /// By index of the child in list order.
    entries: Vec<Entry>,
    /// Number of replies that have arrived.
    count: usize,
    /// Highest level, and sum of all levels.
    highest: u16,
    levels: usize,
    /// Bytes of headers; the other bytes are data.
    headers: usize,
}

impl ShortReplies {
    /// Reserves an entry for each child.
    pub(super) fn expect(&mut self, children: usize) {
        self.entries.resize(children, ABSENT);
    }

    /// Stores a child's reply. Returns whether it was expected, all replies together are short, and its level is low.
    #[inline(always)]
    pub(super) fn push(&mut self, child: usize, level: u16, header: &[u8], data: &[u8]) -> bool {
        let (at, len) = (self.bytes.len(), header.len() + data.len());
        let Some(entry) = self.entries.get_mut(child) else { return false };
        if unlikely((at + len > SHORT_MAX) | (level > LEVEL_MAX)) {
            return false;
        }
        *entry = Entry::new(level, at, header.len(), data.len());
        self.bytes.reserve(len);
        if unlikely(!header.is_empty()) {
            self.bytes.extend_from_slice(header);
        }
        self.bytes.extend_from_slice(data);
        self.count += 1;
        self.highest = self.highest.max(level);
        self.levels += usize::from(level);
        self.headers += header.len();
        true
    }

    /// The replies that have arrived, with the indexes of their children, in list order.
    fn arrived(&self) -> impl Iterator<Item = (usize, &Entry)> {
        self.entries.iter().enumerate().filter(|(_, entry)| entry.at != ABSENT.at)
    }

    fn header(&self, entry: &Entry) -> &[u8] {
        entry.header(&self.bytes)
    }

    fn data(&self, entry: &Entry) -> &[u8] {
        entry.data(&self.bytes)
    }

    /// Level of the aggregate, with or without the own part of the id.
    fn level(&self, own: bool) -> u16 {
        match (self.count == 0, own) {
            (false, _) => self.highest + 1,
            (true, true) => 0,
            (true, false) => 1,
        }
    }

    /// Length of the aggregate of these replies, which have `bytes` in total, and of the own part.
    #[inline(always)]
    fn aggregate_len(&self, own: Option<usize>, bytes: usize) -> usize {
        if let (true, Some(own)) = (self.count == 0, own) {
            return count_bytes(own) + own;
        }
        let highest = usize::from(self.highest);
        let own_len = match own {
            Some(own) => highest * 2 + count_bytes(own) + own,
            None => 0,
        };
        let members = self.count + usize::from(own.is_some());
        count_bytes(members) + own_len + (self.count * highest - self.levels) * 2 + bytes
    }

    /// Appends the aggregate.
    #[inline(always)]
    fn aggregate<'a>(
        &'a self,
        own: Option<&[u8]>,
        part: impl Fn(&'a Self, &'a Entry) -> &'a [u8],
        out: &mut impl BufMut,
    ) {
        if let (true, Some(own)) = (self.count == 0, own) {
            count(out, own.len());
            return out.put_slice(own);
        }
        count(out, self.count + usize::from(own.is_some()));
        if let Some(own) = own {
            lift(out, self.highest);
            count(out, own.len());
            out.put_slice(own);
        }
        for (_, entry) in self.arrived() {
            lift(out, self.highest - entry.level);
            out.put_slice(part(self, entry));
        }
    }

    /// Index and reply of each child, in list order and in the form of the general path.
    pub(super) fn replies(&self) -> impl Iterator<Item = (usize, SubtreeReply)> + '_ {
        self.arrived().map(|(child, entry)| {
            let header = Payload::copy_from_slice(self.header(entry));
            let data = Payload::copy_from_slice(self.data(entry));
            (child, SubtreeReply { level: entry.level, header, data, ..SubtreeReply::default() })
        })
    }

    /// The buffer and the entries, if every child has sent a level-0 value.
    pub(super) fn values(&self) -> Option<(&[u8], &[Entry])> {
        let all = self.highest == 0 && self.count == self.entries.len();
        all.then_some((&self.bytes, &self.entries))
    }

    /// Removes the replies but keeps the memory.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.bytes.clear();
        (self.count, self.highest, self.levels, self.headers) = (0, 0, 0, 0);
    }

    /// Allocated memory, in bytes.
    pub(super) fn room(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<Entry>()
    }
}

/// An answer that is written from the call's own memory.
#[derive(Clone, Copy, Debug)]
pub struct ShortAnswer<'a> {
    pub(super) call: CallId,
    /// The own part of the id; `None` if the root only watches.
    pub(super) own: Option<&'a Reply>,
    /// The replies of the children.
    pub(super) replies: &'a ShortReplies,
    /// Whether the call has a callback. Then the id has no children, and its own part is sent unchanged.
    pub(super) merged: bool,
    pub(super) wanted: bool,
}

impl ShortAnswer<'_> {
    /// Returns the fixed part of the frame; `None` if the answer is not short, or is longer than `reply_max`.
    #[inline(always)]
    pub fn head(&self, reply_max: u64) -> Option<ResponseHead> {
        let (own_header, own_data) = self.own.map(|own| (own.header.len(), own.data.len())).unzip();
        let (kind, (level, header, data)) = match (self.wanted, self.merged) {
            (false, _) => (AnswerKind::Completed, (0, 0, 0)),
            (true, true) => {
                (AnswerKind::Reply, (0, own_header.unwrap_or_default(), own_data.unwrap_or_default()))
            }
            (true, false) => {
                let replies = self.replies;
                let header = replies.aggregate_len(own_header, replies.headers);
                let data = replies.aggregate_len(own_data, replies.bytes.len() - replies.headers);
                (AnswerKind::Reply, (replies.level(self.own.is_some()), header, data))
            }
        };
        let (header_len, data_len) = (header as u64, data as u64);
        let short = header + data <= SHORT_MAX && header_len + data_len <= reply_max;
        short.then_some(ResponseHead {
            call: self.call,
            level,
            kind,
            header_len,
            data_len,
            report_len: 0,
            trace_len: 0,
        })
    }

    /// Appends the header and the data.
    #[inline(always)]
    pub fn emit(&self, out: &mut impl BufMut) {
        self.emit_header(out);
        self.emit_data(out);
    }

    #[inline(always)]
    fn emit_header(&self, out: &mut impl BufMut) {
        let own = self.own.map(|own| &own.header[..]);
        match (self.wanted, self.merged) {
            (false, _) => {}
            (true, true) => out.put_slice(own.unwrap_or_default()),
            (true, false) => self.replies.aggregate(own, ShortReplies::header, out),
        }
    }

    #[inline(always)]
    fn emit_data(&self, out: &mut impl BufMut) {
        let own = self.own.map(|own| &own.data[..]);
        match (self.wanted, self.merged) {
            (false, _) => {}
            (true, true) => out.put_slice(own.unwrap_or_default()),
            (true, false) => self.replies.aggregate(own, ShortReplies::data, out),
        }
    }

    /// Returns the reply in the form of the general path; `None` if no reply was requested.
    pub fn reply(&self, head: &ResponseHead) -> Option<SubtreeReply> {
        if head.kind != AnswerKind::Reply {
            return None;
        }
        let (header_len, data_len) = (head.header_len as usize, head.data_len as usize);
        let header =
            Payload::made(header_len, |mut out| self.emit_header(&mut out), |out| self.emit_header(out));
        let data = Payload::made(data_len, |mut out| self.emit_data(&mut out), |out| self.emit_data(out));
        Some(SubtreeReply { level: head.level, header, data, ..SubtreeReply::default() })
    }
}
