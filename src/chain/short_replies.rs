//! The replies of the children of a call on the spot, and its answer: bytes beside each other, and no allocation for any of them.
//!
//! Source: chained-gpc.md, "The action for any response" 2, and ws-rendezvous.html, "Data format", as in `gather`.

use bytes::BufMut;
use smallvec::SmallVec;

use super::Reply;
use crate::wire::head::{AnswerKind, ResponseHead};
use crate::wire::level::{count, count_bytes, lift};
use crate::wire::message::SubtreeReply;
use crate::wire::short::SHORT_MAX;
use crate::wire::{CallId, Payload};

/// Room that is kept for the next call, bytes: what an id of most trees uses all the time.
const ROOM_KEPT: usize = 2 << 10;

/// Replies for which room is kept: the children of an id of most trees.
const ENTRIES_KEPT: usize = 16;

/// Highest level of a reply that is lifted here: what lifts others by more is no small part any more.
const LEVEL_MAX: u16 = 1_024;

/// One child's.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The index of the child in list order.
    child: u32,
    level: u16,
    /// Where its header begins, with the data behind it.
    at: u32,
    header: u32,
    data: u32,
}

/// The replies that have come.
#[derive(Debug, Default)]
pub(super) struct ShortReplies {
    bytes: Vec<u8>,
    entries: SmallVec<[Entry; 6]>,
    /// The highest level, and the sum of all.
    highest: u16,
    levels: usize,
    /// Bytes of headers; the others are data.
    headers: usize,
}

impl ShortReplies {
    /// Takes a child's reply, if all of them stay short, and low.
    pub(super) fn push(&mut self, child: u32, level: u16, header: &[u8], data: &[u8]) -> bool {
        let at = self.bytes.len();
        if at + header.len() + data.len() > SHORT_MAX || level > LEVEL_MAX {
            return false;
        }
        self.bytes.extend_from_slice(header);
        self.bytes.extend_from_slice(data);
        self.highest = self.highest.max(level);
        self.levels += usize::from(level);
        self.headers += header.len();
        let entry =
            Entry { child, level, at: at as u32, header: header.len() as u32, data: data.len() as u32 };
        match self.entries.last() {
            // As they stand in the list, whatever the order in which they come.
            Some(last) if last.child > child => {
                let place = self.entries.partition_point(|entry| entry.child < child);
                self.entries.insert(place, entry);
            }
            _ => self.entries.push(entry),
        }
        true
    }

    fn header(&self, entry: &Entry) -> &[u8] {
        &self.bytes[entry.at as usize..][..entry.header as usize]
    }

    fn data(&self, entry: &Entry) -> &[u8] {
        &self.bytes[(entry.at + entry.header) as usize..][..entry.data as usize]
    }

    /// The level of what they are aggregated to, beside an id's own part or alone.
    fn level(&self, own: bool) -> u16 {
        match (self.entries.is_empty(), own) {
            (false, _) => self.highest + 1,
            (true, true) => 0,
            (true, false) => 1,
        }
    }

    /// Bytes of an aggregate of these that take `bytes` by themselves, and of an id's own part.
    fn aggregate_len(&self, own: Option<usize>, bytes: usize) -> usize {
        if let (true, Some(own)) = (self.entries.is_empty(), own) {
            return count_bytes(own) + own;
        }
        let highest = usize::from(self.highest);
        let own_len = own.map_or(0, |own| highest * 2 + count_bytes(own) + own);
        let members = self.entries.len() + usize::from(own.is_some());
        count_bytes(members) + own_len + (self.entries.len() * highest - self.levels) * 2 + bytes
    }

    /// Appends an aggregate.
    fn aggregate<'a>(
        &'a self,
        own: Option<&[u8]>,
        part: impl Fn(&'a Self, &'a Entry) -> &'a [u8],
        out: &mut impl BufMut,
    ) {
        if let (true, Some(own)) = (self.entries.is_empty(), own) {
            count(out, own.len());
            return out.put_slice(own);
        }
        count(out, self.entries.len() + usize::from(own.is_some()));
        if let Some(own) = own {
            lift(out, self.highest);
            count(out, own.len());
            out.put_slice(own);
        }
        for entry in &self.entries {
            lift(out, self.highest - entry.level);
            out.put_slice(part(self, entry));
        }
    }

    /// Each child's index and reply, in list order, as the long way has them.
    pub(super) fn replies(&self) -> impl Iterator<Item = (u32, SubtreeReply)> + '_ {
        self.entries.iter().map(|entry| {
            let header = Payload::copy_from_slice(self.header(entry));
            let data = Payload::copy_from_slice(self.data(entry));
            (entry.child, SubtreeReply { level: entry.level, header, data })
        })
    }

    /// Drops them, and room for more than a few.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.bytes.clear();
        (self.highest, self.levels, self.headers) = (0, 0, 0);
        if self.bytes.capacity() > ROOM_KEPT {
            self.bytes = Vec::new();
        }
        if self.entries.capacity() > ENTRIES_KEPT {
            self.entries = SmallVec::new();
        }
    }
}

/// An answer that is written from what lies in its call.
#[derive(Clone, Copy, Debug)]
pub struct ShortAnswer<'a> {
    pub(super) call: CallId,
    /// The id's own part; none of a root that only watches.
    pub(super) own: Option<&'a Reply>,
    /// Its children's.
    pub(super) replies: &'a ShortReplies,
    /// Whether own is what a callback would have merged, and goes as it is.
    pub(super) merged: bool,
    pub(super) wanted: bool,
}

impl ShortAnswer<'_> {
    /// The fixed part of its frame; none if it is not short, or longer than `reply_max`.
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
        short.then_some(ResponseHead { call: self.call, level, kind, header_len, data_len, report_len: 0 })
    }

    /// Appends header and data.
    pub fn emit(&self, out: &mut impl BufMut) {
        self.emit_header(out);
        self.emit_data(out);
    }

    fn emit_header(&self, out: &mut impl BufMut) {
        let own = self.own.map(|own| &own.header[..]);
        match (self.wanted, self.merged) {
            (false, _) => {}
            (true, true) => out.put_slice(own.unwrap_or_default()),
            (true, false) => self.replies.aggregate(own, ShortReplies::header, out),
        }
    }

    fn emit_data(&self, out: &mut impl BufMut) {
        let own = self.own.map(|own| &own.data[..]);
        match (self.wanted, self.merged) {
            (false, _) => {}
            (true, true) => out.put_slice(own.unwrap_or_default()),
            (true, false) => self.replies.aggregate(own, ShortReplies::data, out),
        }
    }

    /// As the application gets it, if a reply is wanted.
    pub fn reply(&self, head: &ResponseHead) -> Option<SubtreeReply> {
        let (header_len, data_len) = (head.header_len as usize, head.data_len as usize);
        if head.kind != AnswerKind::Reply {
            return None;
        }
        let header = Payload::written(header_len, |mut out| self.emit_header(&mut out));
        let data = Payload::written(data_len, |mut out| self.emit_data(&mut out));
        Some(SubtreeReply { level: head.level, header, data })
    }
}
