//! A body that passes through a node: the bytes that a reader still needs, and the limit for the sender.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::read_range::read_range;
use super::{CHUNK_MIN, Spare};
use crate::wire::frame::WINDOW;

/// Number of parts that are left as they arrived: the segments of a window, and some more.
const PARTS_FEW: usize = 64;

/// The bytes of a body between its slowest reader and the last arrived byte.
#[derive(Debug, Default)]
pub(super) struct Passing {
    /// Parts in order, each with its offset; at most a window of bytes, except while a reader waits for permission to
    /// begin.
    parts: VecDeque<(u64, Bytes)>,
    end: u64,
    /// Number of readers at each position. A flat tree has a reader for each of its ids, most of them at the same few
    /// positions.
    places: BTreeMap<u64, u32>,
    /// Number of readers that wait for permission to begin. The permission may depend on other calls, so this body must
    /// not wait for these readers.
    waiting: u32,
}

impl Passing {
    /// Number of bytes that have arrived.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Offset of the first byte that a reader still needs.
    pub(super) fn start(&self) -> u64 {
        self.places.first_key_value().map_or(self.end, |(place, _)| *place)
    }

    /// Number of buffered bytes.
    #[cfg(test)]
    pub(super) fn buffered(&self) -> u64 {
        self.parts.iter().map(|(_, part)| part.len() as u64).sum()
    }

    /// How far the sender may go: a window beyond the slowest reader. While a reader waits for permission to begin, the
    /// limit is a window beyond the arrived bytes, which are retained for it.
    pub(super) fn limit(&self) -> u64 {
        let from = if self.waiting > 0 { self.end } else { self.start() };
        from.saturating_add(WINDOW)
    }

    pub(super) fn push(&mut self, part: Bytes, spare: &Spare) {
        let offset = self.end;
        self.end += part.len() as u64;
        if !self.places.is_empty() {
            self.parts.push_back((offset, part));
            self.join(spare);
        }
    }

    /// Joins short parts if there are many. Otherwise a sender that cuts its bytes into crumbs would make each crumb
    /// take a hundred times its size. A byte is copied once for each doubling of its part.
    fn join(&mut self, spare: &Spare) {
        while self.parts.len() > PARTS_FEW
            && let (last, before) = (self.parts.len() - 1, self.parts.len() - 2)
            && self.parts[before].1.len() <= self.parts[last].1.len()
            && self.parts[before].1.len() + self.parts[last].1.len() <= CHUNK_MIN
        {
            let joined = spare.copy(&self.parts[before].1, &self.parts[last].1);
            let Some(joined) = joined else { return };
            self.parts.pop_back();
            self.parts[before].1 = joined;
        }
    }

    /// Returns bytes from `offset`, at most `max` and from one part; empty if they have not arrived or were dropped.
    pub(super) fn read(&self, offset: u64, max: usize) -> Bytes {
        let behind = self.parts.partition_point(|(start, _)| *start <= offset);
        let Some((start, part)) = behind.checked_sub(1).and_then(|at| self.parts.get(at)) else {
            return Bytes::new();
        };
        part.slice(read_range(part.len(), offset - start, max))
    }

    pub(super) fn enter(&mut self, place: u64) {
        *self.places.entry(place).or_insert(0) += 1;
    }

    pub(super) fn leave(&mut self, place: u64) {
        if let Some(count) = self.places.get_mut(&place) {
            *count -= 1;
            if *count == 0 {
                self.places.remove(&place);
                self.trim();
            }
        }
    }

    pub(super) fn advance(&mut self, from: u64, to: u64) {
        self.enter(to);
        self.leave(from);
    }

    pub(super) fn wait(&mut self, waits: bool) {
        self.waiting = if waits { self.waiting + 1 } else { self.waiting.saturating_sub(1) };
    }

    /// Drops the bytes that every reader has read.
    fn trim(&mut self) {
        let start = self.start();
        while let Some((offset, part)) = self.parts.front()
            && offset + part.len() as u64 <= start
        {
            self.parts.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// For any cuts, the bytes are read as they were sent, and occupy few parts.
        #[test]
        fn crumbs_are_put_together(cuts in proptest::collection::vec(1usize..50, 1..2000), read in 0usize..2000) {
            let mut passing = Passing::default();
            passing.enter(0);
            let mut all = Vec::new();
            for (place, len) in (0u8..=255).cycle().zip(&cuts) {
                let piece = vec![place; *len];
                all.extend_from_slice(&piece);
                passing.push(piece.into(), &Spare::default());
            }
            prop_assert!(passing.parts.len() <= PARTS_FEW + 2 * all.len().ilog2() as usize, "{} parts", passing.parts.len());
            let mut at = read.min(all.len());
            passing.advance(0, at as u64);
            while at < all.len() {
                let piece = passing.read(at as u64, 777);
                prop_assert!(!piece.is_empty() && all[at..].starts_with(&piece));
                at += piece.len();
            }
        }
    }

    #[test]
    fn long_parts_are_not_copied() {
        let mut passing = Passing::default();
        passing.enter(0);
        let lengths = [100, CHUNK_MIN, 1, CHUNK_MIN].into_iter().cycle().take(2 * PARTS_FEW);
        let parts: Vec<Bytes> = lengths.map(|len| Bytes::from(vec![1; len])).collect();
        parts.iter().for_each(|part| passing.push(part.clone(), &Spare::default()));
        assert!(
            passing.parts.iter().map(|(_, part)| part.as_ptr()).eq(parts.iter().map(|part| part.as_ptr()))
        );
    }
}
