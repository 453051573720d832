//! A range within a body, such as the data of one id of a scatter call.

use std::ops::Range;

use super::read_range::read_range;

/// A range of bytes of a body; its places are counted from its start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    start: u64,
    len: u64,
}

impl Span {
    /// The part of a range that lies within a body of `len` bytes.
    pub(super) fn within(range: Range<u64>, len: u64) -> Span {
        let end = range.end.min(len);
        let start = range.start.min(end);
        Span { start, len: end - start }
    }

    pub(super) fn len(self) -> u64 {
        self.len
    }

    /// Where a place of the span lies in the body.
    pub(super) fn outer(self, place: u64) -> u64 {
        self.start.saturating_add(place.min(self.len))
    }

    /// How far the first bytes of the body reach into the span.
    pub(super) fn inner(self, bytes: u64) -> u64 {
        bytes.saturating_sub(self.start).min(self.len)
    }

    /// Number of bytes from a place on, at most `max`.
    pub(super) fn left(self, place: u64, max: usize) -> usize {
        max.min(usize::try_from(self.len.saturating_sub(place)).unwrap_or(usize::MAX))
    }

    /// The range in bytes of the body that are present.
    pub(super) fn range(self, present: usize) -> Range<usize> {
        read_range(present, self.start, usize::try_from(self.len).unwrap_or(usize::MAX))
    }
}
