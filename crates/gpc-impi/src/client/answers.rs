//! The server's broadcasts by label, and the division of concatenated values among the clients.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};

use super::LearnError;
use crate::server::Rank;
use crate::wire::{Label, Per};

/// The broadcast of one label.
#[derive(Debug)]
pub(super) struct Answer {
    /// Mask of the clients with values.
    pub(super) mask: u32,
    /// Values by ascending client rank, without gaps.
    pub(super) values: Bytes,
}

/// All broadcasts.
pub(super) type Answers = BTreeMap<Label, Answer>;

/// Values of each client that has sent any, by rank.
pub(super) type Parts = Vec<Option<Bytes>>;

impl Answer {
    /// The clients with values, ascending.
    pub(super) fn ranks(&self) -> impl Iterator<Item = Rank> + Clone + use<> {
        let mask = self.mask;
        (0..32).filter(move |rank| mask >> rank & 1 == 1)
    }

    /// Whether these may be the values of this client. The boundaries of the other clients' values are unknown.
    pub(super) fn may_have(&self, rank: Rank, values: &[u8]) -> bool {
        let (below, above) = (self.mask & ((1 << rank) - 1), self.mask >> rank >> 1);
        self.values.len() >= values.len()
            && (below != 0 || self.values.starts_with(values))
            && (above != 0 || self.values.ends_with(values))
            && (below != 0 || above != 0 || self.values.len() == values.len())
    }

    /// Whether the clients with values are a proper subset of `mask`. A server broadcasts a label again if a client
    /// sends it after the first broadcast.
    pub(super) fn lacks_some_of(&self, mask: u32) -> bool {
        self.mask & !mask == 0 && self.mask != mask
    }

    /// Whether this client has values.
    pub(super) fn has(&self, rank: Rank) -> bool {
        self.mask >> rank & 1 == 1
    }
}

/// One 4-byte value of each client, by rank.
pub(super) fn words(label: Label, answer: &Answer) -> Result<[Option<u32>; 32], LearnError> {
    let (words, rest) = answer.values.as_chunks::<4>();
    let clients = answer.mask.count_ones() as usize;
    if !rest.is_empty() || words.len() != clients {
        return Err(LearnError::length(label, answer.values.len(), clients as u64, 4));
    }
    let mut by_rank = [None; 32];
    for (rank, word) in answer.ranks().zip(words) {
        by_rank[rank as usize] = Some(u32::from_be_bytes(*word));
    }
    Ok(by_rank)
}

/// Another width for the elements of a label, used by some implementations or by the text of the source.
fn narrow(label: Label) -> Option<usize> {
    match label {
        // The source's text says Uint4.
        Label::P_PID => Some(4),
        // MetaMPICH sends the 2 bytes of an `in_port_t`.
        Label::H_PORT => Some(2),
        _ => None,
    }
}

/// Infers missing counts from the lengths of these labels' values, if exactly one count is missing. Labels whose
/// elements may have another width are unreliable, and are skipped.
pub(super) fn infer(counts: &mut [Option<u64>], labels: &[Label], answers: &Answers) {
    // Ends: each round except the last completes a count.
    while labels
        .iter()
        .filter(|label| narrow(**label).is_none())
        .any(|label| infer_one(counts, *label, answers))
    {}
}

fn infer_one(counts: &mut [Option<u64>], label: Label, answers: &Answers) -> bool {
    let (Some(answer), Some((_, size))) = (answers.get(&label), label.shape()) else { return false };
    let mut unknown = answer.ranks().filter(|rank| counts[*rank as usize].is_none());
    let (Some(one), None) = (unknown.next(), unknown.next()) else { return false };
    let known = answer.ranks().filter_map(|rank| counts[rank as usize]).fold(0, u64::saturating_add);
    let len = answer.values.len();
    match (len as u64 / size as u64).checked_sub(known) {
        Some(rest) if rest > 0 && len.is_multiple_of(size) => {
            counts[one as usize] = Some(rest);
            true
        }
        _ => false,
    }
}

/// Divides the values of a label by each client's number of elements, `counts`, by rank. Deviations from the source
/// that were nevertheless understood are added to `doubts`.
pub(super) fn divide(
    label: Label,
    answer: &Answer,
    counts: &[Option<u64>],
    own: Rank,
    doubts: &mut Vec<(Label, String)>,
) -> Result<Parts, LearnError> {
    let Some((per, size)) = label.shape() else { return Ok(vec![None; counts.len()]) };
    let missing: Vec<Rank> = answer.ranks().filter(|rank| counts[*rank as usize].is_none()).collect();
    if !missing.is_empty() {
        let count = if per == Per::Host { Label::C_NHOSTS } else { Label::C_NPROCS };
        return Err(LearnError::Missing { label, count, clients: missing });
    }
    let count = |rank: Rank| counts[rank as usize].unwrap_or(0);
    let all = answer.ranks().map(count).fold(0, u64::saturating_add);
    let len = answer.values.len() as u64;
    let own_count = if answer.has(own) { count(own) } else { 0 };
    let others = all - own_count;
    let narrow = narrow(label).filter(|narrow| {
        let len_if = others.checked_mul(*narrow as u64).zip(own_count.checked_mul(size as u64));
        others > 0 && len_if.and_then(|(others, own)| others.checked_add(own)) == Some(len)
    });
    if narrow.is_none() && all.checked_mul(size as u64) != Some(len) {
        let suspect = suspect(label, answer, count, all, own);
        return Err(LearnError::Length { label, found: answer.values.len(), count: all, size, suspect });
    }
    let mut rest = answer.values.clone();
    let mut parts = vec![None; counts.len()];
    for rank in answer.ranks() {
        let width = narrow.filter(|_| rank != own).unwrap_or(size);
        // Within the values: the sum of the lengths was checked.
        let part = rest.split_to(count(rank) as usize * width);
        parts[rank as usize] = Some(if width == size { part } else { widened(&part, width, size) });
    }
    if let Some(narrow) = narrow {
        doubts
            .push((label, format!("the other clients have sent {narrow} bytes for each value, not {size}")));
    }
    Ok(parts)
}

/// The one client that has sent narrower elements than the others, if that would explain the length.
fn suspect(
    label: Label,
    answer: &Answer,
    count: impl Fn(Rank) -> u64,
    all: u64,
    own: Rank,
) -> Option<(Rank, usize)> {
    let (narrow, (_, size)) = (narrow(label)?, label.shape()?);
    let full = all.checked_mul(size as u64)?;
    let short = full.checked_sub(answer.values.len() as u64)?;
    let would = |rank: &Rank| count(*rank).checked_mul((size - narrow) as u64) == Some(short);
    answer.ranks().filter(|rank| *rank != own).find(would).map(|rank| (rank, narrow))
}

/// Extends each element with leading zeros.
fn widened(part: &[u8], width: usize, size: usize) -> Bytes {
    let mut bytes = BytesMut::with_capacity(part.len() / width * size);
    for element in part.chunks_exact(width) {
        bytes.put_bytes(0, size - width);
        bytes.put_slice(element);
    }
    bytes.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first client's values are a prefix, the last one's a suffix, and a single client has all.
    #[test]
    fn values_are_compared_where_their_client_stands() {
        let of = |mask, values: &'static [u8]| Answer { mask, values: Bytes::from_static(values) };
        let three = of(0b101_0010, b"aabbcc");
        for (rank, values, may) in [
            (1, b"aa".as_slice(), true),
            (1, b"bb", false),
            (4, b"bb", true),
            (4, b"anything", false),
            (4, b"xx", true),
            (6, b"cc", true),
            (6, b"bb", false),
        ] {
            assert_eq!(three.may_have(rank, values), may, "client {rank}");
        }
        let one = of(0b100, b"aa");
        assert!(one.may_have(2, b"aa") && !one.may_have(2, b"a") && !one.may_have(2, b"aaa"));
    }
}
