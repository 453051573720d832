//! Splits received bytes.

/// Splits the first bytes off a slice.
pub(super) fn split_to<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (first, rest) = bytes.split_at(count);
    *bytes = rest;
    first
}
