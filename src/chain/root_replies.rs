//! The replies of a short call at its root, as they came: nobody need aggregate what nobody wants aggregated.
//!
//! Source: the rendezvous web service of Globus (WS Rendezvous), "Data format": an aggregate is for a parent that reads it. The application at the root wants each id's part; where no child has anybody below it, the parts are what came.

use std::fmt;

use bytes::BufMut;
use smallvec::SmallVec;

use super::Reply;
use super::short_replies::{Entry, ShortAnswer};
use crate::wire::Payload;
use crate::wire::head::{AnswerKind, ResponseHead};
use crate::wire::level::{count, whole_leaf};
use crate::wire::message::SubtreeReply;

/// The replies of a whole tree.
#[derive(Clone, Debug)]
pub enum RootReply {
    /// As a parent would get them.
    Aggregated(SubtreeReply),
    /// Of a root whose children have nobody below them.
    Parts(RootParts),
}

/// The replies of a root and of children that have nobody below them, in one piece.
#[derive(Clone)]
pub struct RootParts {
    bytes: Vec<u8>,
    /// Where the root's own part lies, as it was made; none of one that only watches.
    own: Option<Entry>,
    /// Where the children's lie, as they came: level-0 values.
    children: SmallVec<[Entry; 6]>,
    header_len: usize,
    data_len: usize,
}

impl RootReply {
    /// What the application gets of an answer of this head, if a reply is wanted.
    pub(super) fn of(answer: &ShortAnswer<'_>, head: &ResponseHead) -> Option<RootReply> {
        let values = answer.replies.values().filter(|_| head.kind == AnswerKind::Reply && !answer.merged);
        match values {
            Some((bytes, children)) => {
                Some(RootReply::Parts(RootParts::new(head, answer.own, bytes, children)))
            }
            None => answer.reply(head).map(RootReply::Aggregated),
        }
    }

    /// As a parent would get it.
    pub fn aggregated(self) -> SubtreeReply {
        match self {
            RootReply::Aggregated(reply) => reply,
            RootReply::Parts(parts) => parts.aggregate(),
        }
    }
}

impl RootParts {
    /// A copy of a root's own reply and of what its children have sent; an answer of `head` is what they make.
    fn new(head: &ResponseHead, own: Option<&Reply>, bytes: &[u8], children: &[Entry]) -> RootParts {
        let (header, data): (&[u8], &[u8]) = own.map_or((&[], &[]), |own| (&own.header, &own.data));
        let mut all = Vec::with_capacity(bytes.len() + header.len() + data.len());
        all.extend_from_slice(bytes);
        all.extend_from_slice(header);
        all.extend_from_slice(data);
        RootParts {
            bytes: all,
            own: own.map(|_| Entry::new(0, bytes.len(), header.len(), data.len())),
            children: SmallVec::from_slice(children),
            header_len: head.header_len as usize,
            data_len: head.data_len as usize,
        }
    }

    /// The level of their aggregate.
    pub fn level(&self) -> u16 {
        1
    }

    /// Their aggregate.
    pub fn aggregate(&self) -> SubtreeReply {
        let (header, data) = (Entry::header, Entry::data);
        let header = Payload::made(
            self.header_len,
            |mut out| self.append(&mut out, header),
            |out| self.append(out, header),
        );
        let data =
            Payload::made(self.data_len, |mut out| self.append(&mut out, data), |out| self.append(out, data));
        SubtreeReply { level: self.level(), header, data, ..SubtreeReply::default() }
    }

    fn append(&self, out: &mut impl BufMut, part: fn(Entry, &[u8]) -> &[u8]) {
        count(out, self.children.len() + usize::from(self.own.is_some()));
        if let Some(own) = self.own.map(|own| part(own, &self.bytes)) {
            count(out, own.len());
            out.put_slice(own);
        }
        for child in &self.children {
            out.put_slice(part(*child, &self.bytes));
        }
    }

    /// Gives `each` the header and data of each id, in tree order; says whether each child has sent a part that is one. If not, what was given means nothing.
    pub fn parts<'a>(&'a self, mut each: impl FnMut(&'a [u8], &'a [u8])) -> bool {
        let bytes = &self.bytes;
        if let Some(own) = self.own {
            each(own.header(bytes), own.data(bytes));
        }
        self.children.iter().all(|child| {
            let part = whole_leaf(child.header(bytes)).zip(whole_leaf(child.data(bytes)));
            part.map(|(header, data)| each(header, data)).is_some()
        })
    }
}

impl fmt::Debug for RootParts {
    /// How much it is: the bytes of a thousand ids are no line of a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RootParts { children, header_len, data_len, .. } = self;
        write!(f, "RootParts({} children, {header_len} bytes of headers, {data_len} of data)", children.len())
    }
}
