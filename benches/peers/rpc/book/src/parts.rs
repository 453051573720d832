//! What a request asks for and an id answers; the same bytes as in `c/measure.c`.

use crate::Outcome;

/// What an id contributes to a reply, bytes; and the request, unless it is bulk.
pub const PART: usize = 64;

/// A request: its last bytes say which round it is of, the rest is a pattern.
pub fn request(bytes: usize, round: u32) -> Vec<u8> {
    let mut request = vec![7; bytes];
    request[bytes - PART + 4..][..4].copy_from_slice(&round.to_le_bytes());
    request
}

/// What an id makes of a request: its last bytes, the id in front.
pub fn part(request: &[u8], id: u32) -> Vec<u8> {
    let mut part = Vec::with_capacity(PART);
    part_into(request, id, &mut part);
    part
}

/// The same, into an empty one that may have room.
pub fn part_into(request: &[u8], id: u32, part: &mut Vec<u8>) {
    part.extend_from_slice(&request[request.len() - PART..]);
    part[..4].copy_from_slice(&id.to_le_bytes());
}

/// Whether this is the part of that id, of that round.
pub fn check_part(part: &[u8], id: u32, round: u32) -> Outcome<()> {
    let said = |at: usize| part.get(at..at + 4).map(|bytes| bytes.try_into().map(u32::from_le_bytes));
    match (said(0), said(4), part.len()) {
        (Some(Ok(by)), Some(Ok(of)), PART) if by == id && of == round => Ok(()),
        _ => Err(format!("round {round}, id {id}: a wrong part: {part:?}").into()),
    }
}
