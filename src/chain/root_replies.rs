//! Replies of a short call at its root. If all children are leaves, their replies are not aggregated.
//!
//! Source: the rendezvous web service of Globus (WS Rendezvous), "Data format". An aggregate is made for a parent, but
//! the application at the root reads the part of each id.

use std::fmt;

use bytes::BufMut;
use smallvec::SmallVec;

use super::Reply;
use super::short_replies::{Entry, ShortAnswer};
use crate::wire::Payload;
use crate::wire::head::{AnswerKind, ResponseHead};
use crate::wire::level::{count, whole_leaf};
use crate::wire::message::SubtreeReply;

/// Replies of a whole tree.
#[derive(Clone, Debug)]
pub enum RootReply {
    /// Aggregated, as for a parent.
    Aggregated(SubtreeReply),
    /// The parts of a root and of children that are leaves.
    Parts(RootParts),
}

/// The parts of a root and of children that are leaves, in one buffer.
#[derive(Clone)]
pub struct RootParts {
    /// The children's parts as received, the root's own part, and the entries of the children. A few short parts need
    /// no allocation.
    bytes: SmallVec<[u8; BYTES_INSIDE]>,
    /// Entry of the root's own part; `None` if the root only watches.
    own: Option<Entry>,
    children: u32,
    /// Lengths in the aggregate.
    header_len: u32,
    data_len: u32,
}

/// Bytes that are stored inline: a root and a few children that reply with a number each. The size is that of the other
/// variant.
const BYTES_INSIDE: usize = 56;

const _: () = assert!(size_of::<RootParts>() <= size_of::<SubtreeReply>(), "a reply is moved several times");

impl RootReply {
    /// Returns the result for the application from an answer with this head; `None` if no reply was requested.
    pub(super) fn of(answer: &ShortAnswer<'_>, head: &ResponseHead) -> Option<RootReply> {
        let values = answer.replies.values().filter(|_| head.kind == AnswerKind::Reply && !answer.merged);
        match values {
            Some((bytes, children)) => {
                Some(RootReply::Parts(RootParts::new(head, answer.own, bytes, children)))
            }
            None => answer.reply(head).map(RootReply::Aggregated),
        }
    }

    /// Returns the aggregate.
    pub fn aggregated(self) -> SubtreeReply {
        match self {
            RootReply::Aggregated(reply) => reply,
            RootReply::Parts(parts) => parts.aggregate(),
        }
    }
}

impl RootParts {
    /// Copies the root's own reply and the replies of its children. Together they make an answer with this head.
    fn new(head: &ResponseHead, own: Option<&Reply>, bytes: &[u8], children: &[Entry]) -> RootParts {
        let (header, data): (&[u8], &[u8]) = own.map_or((&[], &[]), |own| (&own.header, &own.data));
        let length = bytes.len() + header.len() + data.len() + children.len() * Entry::BYTES;
        let all = match length <= BYTES_INSIDE {
            true => {
                let mut room = [0; BYTES_INSIDE];
                emit(&mut &mut room[..], [bytes, header, data], children);
                SmallVec::from_buf_and_len(room, length)
            }
            // Not zeroed first: glibc reuses memory faster for `malloc` than for `calloc`.
            false => {
                let mut room = Vec::with_capacity(length);
                emit(&mut room, [bytes, header, data], children);
                SmallVec::from_vec(room)
            }
        };
        RootParts {
            bytes: all,
            own: own.map(|_| Entry::new(0, bytes.len(), header.len(), data.len())),
            children: children.len() as u32,
            // Replies on the fast path have at most twice `SHORT_MAX` bytes.
            header_len: head.header_len as u32,
            data_len: head.data_len as u32,
        }
    }

    /// Level of the aggregate.
    pub fn level(&self) -> u16 {
        1
    }

    /// Returns the aggregate.
    pub fn aggregate(&self) -> SubtreeReply {
        let (header, data) = (Entry::header, Entry::data);
        let header = Payload::made(
            self.header_len as usize,
            |mut out| self.append(&mut out, header),
            |out| self.append(out, header),
        );
        let data = Payload::made(
            self.data_len as usize,
            |mut out| self.append(&mut out, data),
            |out| self.append(out, data),
        );
        SubtreeReply { level: self.level(), header, data, ..SubtreeReply::default() }
    }

    fn append(&self, out: &mut impl BufMut, part: fn(Entry, &[u8]) -> &[u8]) {
        count(out, self.children as usize + usize::from(self.own.is_some()));
        if let Some(own) = self.own.map(|own| part(own, &self.bytes)) {
            count(out, own.len());
            out.put_slice(own);
        }
        self.children().for_each(|child| out.put_slice(part(child, &self.bytes)));
    }

    /// Entries of the children, in tree order.
    fn children(&self) -> impl Iterator<Item = Entry> {
        let at = self.bytes.len() - self.children as usize * Entry::BYTES;
        self.bytes[at..].as_chunks().0.iter().copied().map(Entry::of_bytes)
    }

    /// Passes the header and the data of each id to `each`, in tree order. Returns whether each child has sent a valid
    /// part; if not, the passed parts are invalid.
    pub fn parts<'a>(&'a self, mut each: impl FnMut(&'a [u8], &'a [u8])) -> bool {
        let bytes = &self.bytes;
        if let Some(own) = self.own {
            each(own.header(bytes), own.data(bytes));
        }
        self.children().all(|child| {
            let part = whole_leaf(child.header(bytes)).zip(whole_leaf(child.data(bytes)));
            part.map(|(header, data)| each(header, data)).is_some()
        })
    }
}

/// Appends the parts, and the entries of the children.
fn emit(out: &mut impl BufMut, parts: [&[u8]; 3], children: &[Entry]) {
    parts.iter().for_each(|part| out.put_slice(part));
    children.iter().for_each(|child| out.put_slice(&child.to_bytes()));
}

impl fmt::Debug for RootParts {
    /// Prints the sizes: the bytes of a thousand ids do not fit into a line of a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RootParts { children, header_len, data_len, .. } = self;
        write!(f, "RootParts({children} children, {header_len} bytes of headers, {data_len} of data)")
    }
}
