//! Contents of requests and answers; the same bytes as in `c/measure.c`.

use crate::Outcome;

/// Bytes that an id contributes to a reply; also of the request, unless it is bulk.
pub const PART: usize = 64;

/// Makes a request: its last bytes hold the round, the rest is a pattern.
pub fn request(bytes: usize, round: u32) -> Vec<u8> {
    let mut request = vec![7; bytes];
    request[bytes - PART + 4..][..4].copy_from_slice(&round.to_le_bytes());
    request
}

/// Makes an id's answer to a request: the request's last bytes, with the id in front.
pub fn part(request: &[u8], id: u32) -> Vec<u8> {
    let mut part = Vec::with_capacity(PART);
    part_into(request, id, &mut part);
    part
}

/// The same, into an empty buffer.
pub fn part_into(request: &[u8], id: u32, part: &mut Vec<u8>) {
    part.extend_from_slice(&request[request.len() - PART..]);
    part[..4].copy_from_slice(&id.to_le_bytes());
}

/// Checks that a part is that of this id and round.
pub fn check_part(part: &[u8], id: u32, round: u32) -> Outcome<()> {
    let said = |at: usize| part.get(at..at + 4).map(|bytes| bytes.try_into().map(u32::from_le_bytes));
    match (said(0), said(4), part.len()) {
        (Some(Ok(by)), Some(Ok(of)), PART) if by == id && of == round => Ok(()),
        _ => Err(format!("round {round}, id {id}: a wrong part: {part:?}").into()),
    }
}
