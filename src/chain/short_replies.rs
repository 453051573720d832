//! The replies of the children of a call on the spot, and its answer: bytes beside each other, and no allocation for any of them.
//!
//! Source: chained-gpc.md, "The action for any response" 2, and ws-rendezvous.html, "Data format", as in `gather`.

use bytes::BufMut;
use smallvec::SmallVec;

use super::Reply;
use crate::wire::frame::FRAME_HEADER;
use crate::wire::head::{AnswerKind, ResponseHead};
use crate::wire::level::Copied;
use crate::wire::message::SubtreeReply;
use crate::wire::short::SHORT_MAX;
use crate::wire::{CallId, Payload};

/// Room that is kept for the next call: what a busy id uses all the time.
const ROOM_KEPT: usize = 16 << 10;

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
}

impl ShortReplies {
    /// Takes a child's reply, if all of them stay short.
    pub(super) fn push(&mut self, child: u32, level: u16, header: &[u8], data: &[u8]) -> bool {
        let at = self.bytes.len();
        if at + header.len() + data.len() > SHORT_MAX {
            return false;
        }
        self.bytes.extend_from_slice(header);
        self.bytes.extend_from_slice(data);
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

    fn headers(&self) -> impl Iterator<Item = (u16, &[u8])> + Clone {
        let header = |entry: &Entry| &self.bytes[entry.at as usize..][..entry.header as usize];
        self.entries.iter().map(move |entry| (entry.level, header(entry)))
    }

    fn data(&self) -> impl Iterator<Item = (u16, &[u8])> + Clone {
        let data = |entry: &Entry| &self.bytes[(entry.at + entry.header) as usize..][..entry.data as usize];
        self.entries.iter().map(move |entry| (entry.level, data(entry)))
    }

    /// Each child's index and reply, in list order, as the long way has them.
    pub(super) fn replies(&self) -> impl Iterator<Item = (u32, SubtreeReply)> + '_ {
        self.entries.iter().zip(self.headers().zip(self.data())).map(|(entry, ((level, header), (_, data)))| {
            let (header, data) = (Payload::copy_from_slice(header), Payload::copy_from_slice(data));
            (entry.child, SubtreeReply { level, header, data })
        })
    }

    /// Drops them, and room for more than a few.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.bytes.clear();
        if self.bytes.capacity() > ROOM_KEPT {
            self.bytes = Vec::new();
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
        let (kind, (level, header, data)) = match (self.wanted, self.own) {
            (false, _) => (AnswerKind::Completed, (0, 0, 0)),
            (true, Some(own)) if self.merged => (AnswerKind::Reply, (0, own.header.len(), own.data.len())),
            (true, _) => {
                let (header, data) = (self.headers()?, self.data()?);
                (AnswerKind::Reply, (data.level(), header.length(), data.length()))
            }
        };
        let (header_len, data_len) = (header as u64, data as u64);
        let short = header + data <= SHORT_MAX && header_len + data_len <= reply_max;
        short.then_some(ResponseHead { call: self.call, level, kind, header_len, data_len, report_len: 0 })
    }

    /// Appends header and data.
    pub fn emit(&self, out: &mut impl BufMut) {
        match (self.wanted, self.own) {
            (false, _) => {}
            (true, Some(own)) if self.merged => {
                out.put_slice(&own.header);
                out.put_slice(&own.data);
            }
            (true, _) => {
                self.headers().into_iter().for_each(|headers| headers.emit(out));
                self.data().into_iter().for_each(|data| data.emit(out));
            }
        }
    }

    fn headers(&self) -> Option<Copied<'_, impl Iterator<Item = (u16, &[u8])> + Clone>> {
        Copied::new(self.own.map(|own| &own.header[..]), self.replies.headers())
    }

    fn data(&self) -> Option<Copied<'_, impl Iterator<Item = (u16, &[u8])> + Clone>> {
        Copied::new(self.own.map(|own| &own.data[..]), self.replies.data())
    }

    /// As the application gets it, if a reply is wanted.
    pub fn reply(&self, head: &ResponseHead) -> Option<SubtreeReply> {
        let (header_len, data_len) = (head.header_len as usize, head.data_len as usize);
        if head.kind != AnswerKind::Reply {
            return None;
        }
        let mut bytes = Vec::with_capacity(header_len + data_len);
        self.emit(&mut bytes);
        let header = Payload::copy_from_slice(&bytes[..header_len]);
        bytes.drain(..header_len);
        Some(SubtreeReply { level: head.level, header, data: bytes.into() })
    }
}

/// Bytes of a frame with this head.
pub fn frame_len(head: &ResponseHead) -> usize {
    FRAME_HEADER + ResponseHead::LENGTH + head.reply_len() as usize
}
