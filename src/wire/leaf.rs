//! A request to one id alone, read where it lies: what a call costs where it ends.
//!
//! Source: docs/wire.md, "REQUEST". Whatever is not such a request whole, or is not right, is left to the parser of all frames, which says what is wrong.

use gpc_trees::{Id, Tree};

use super::frame::{FRAME_HEADER, FrameHeader, Kind, flags};
use super::head::{IdsForm, RequestHead};

/// A whole REQUEST frame for its receiver alone.
#[derive(Clone, Copy, Debug)]
pub struct LeafRequest<'a> {
    /// Its fixed part.
    pub head: RequestHead,
    /// Whether a reply is wanted.
    pub reply_wanted: bool,
    /// Request header.
    pub header: &'a [u8],
    /// Request data.
    pub data: &'a [u8],
}

impl<'a> LeafRequest<'a> {
    /// The request at the start of `bytes`, and the bytes behind it: if it is there whole, to `me` alone, of a call that fails as a whole, and from the parent in the tree.
    pub fn parse(bytes: &'a [u8], me: Id) -> Option<(LeafRequest<'a>, &'a [u8])> {
        let (header, rest) = bytes.split_first_chunk::<FRAME_HEADER>()?;
        if header[4] != Kind::Request as u8 {
            return None;
        }
        let FrameHeader { length, flags: set, .. } = FrameHeader::parse(*header).ok()?;
        let (payload, rest) = rest.split_at_checked(length as usize)?;
        let head = RequestHead::parse(payload).ok()?;
        let usual = set & (flags::PARTIAL | flags::ADOPTED) == 0 && head.skipped == 0;
        let alone = head.ids_form == IdsForm::Listed && head.ids_count == 1 && head.shape_count == 0;
        if !usual || !alone || Tree::from_wire(head.tree, head.tree_param).is_none() {
            return None;
        }
        let (id, body) = payload[RequestHead::LENGTH..].split_first_chunk::<4>()?;
        let (header, data) = body.split_at_checked(head.header_len as usize)?;
        let whole = Id::from_le_bytes(*id) == me && data.len() as u64 == head.data_len;
        let reply_wanted = set & flags::REPLY_WANTED != 0;
        whole.then_some((LeafRequest { head, reply_wanted, header, data }, rest))
    }
}
