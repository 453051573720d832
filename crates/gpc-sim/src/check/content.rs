//! Contents of calls: every byte of a reply, a request's data and their headers follows from the call and the id. So
//! contents of another call or id are always detected.

use bytes::Bytes;
use gpc_trees::Id;

use crate::random::Random;
use chained_gpc::wire::CallId;

/// Kind of content; each has a random stream of its own.
#[derive(Clone, Copy)]
enum Kind {
    Part = 1,
    ReplyHeader = 2,
    Data = 3,
    Header = 4,
}

/// Extends `out` to `len` bytes of a stream.
fn fill(kind: Kind, call: CallId, id: Id, len: usize, out: &mut Vec<u8>) {
    if out.len() >= len {
        return out.truncate(len);
    }
    let name = call.sequence.rotate_left(17) ^ u64::from(call.root) << 32 ^ u64::from(id) << 3;
    let mut random = Random::new(name ^ (kind as u64) << 61);
    while out.len() < len {
        let word = random.draw().to_le_bytes();
        out.extend_from_slice(&word[..word.len().min(len - out.len())]);
    }
}

/// An id's own reply of `len` bytes: its id, then bytes unique to the call.
pub(crate) fn part(call: CallId, id: Id, len: u32) -> Vec<u8> {
    let id_bytes = id.to_le_bytes();
    let mut part = Vec::with_capacity(id_bytes.len().max(len as usize));
    part.extend_from_slice(&id_bytes);
    fill(Kind::Part, call, id, len as usize, &mut part);
    part
}

/// Header of that reply.
pub(crate) fn reply_header(call: CallId, id: Id, len: u32) -> Vec<u8> {
    let mut header = Vec::new();
    fill(Kind::ReplyHeader, call, id, len as usize, &mut header);
    header
}

/// Data of a call's requests.
pub(crate) fn data(call: CallId, len: u32) -> Vec<u8> {
    let mut data = Vec::new();
    fill(Kind::Data, call, 0, len as usize, &mut data);
    data
}

/// Header of a call's requests.
pub(crate) fn header(call: CallId, len: u32) -> Vec<u8> {
    let mut header = Vec::new();
    fill(Kind::Header, call, 0, len as usize, &mut header);
    header
}

/// The callback's merge of two replies, or of their headers.
pub(crate) fn merged(mut own: Vec<u8>, child: &[u8]) -> Vec<u8> {
    own.extend_from_slice(child);
    own
}

/// Whether two pieces are equal; most share their memory.
pub(super) fn same(one: &Bytes, other: &Bytes) -> bool {
    one.len() == other.len() && (one.as_ptr() == other.as_ptr() || one == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_pieces_are_alike() {
        let calls = [(0, 7), (0, 8), (1, 7)].map(|(root, sequence)| CallId { root, sequence });
        let mut all: Vec<Vec<u8>> = Vec::new();
        for call in calls {
            all.extend([data(call, 16), header(call, 16)]);
            all.extend((0..4).flat_map(|id| [part(call, id, 20)[4..].to_vec(), reply_header(call, id, 16)]));
        }
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(all.iter().all(|piece| piece.len() == 16));
        assert_eq!((part(calls[0], 5, 4), part(calls[0], 5, 0)), (vec![5, 0, 0, 0], vec![]));
    }
}
