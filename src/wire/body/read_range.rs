//! The range of bytes that one read of a body returns.

use std::ops::Range;

/// Returns the range of at most `max` bytes from `offset`, cut to `len`.
pub(super) fn read_range(len: usize, offset: u64, max: usize) -> Range<usize> {
    let start = usize::try_from(offset).unwrap_or(len).min(len);
    start..start.saturating_add(max).min(len)
}
