//! Time of a world, in microseconds.

/// A millisecond, in microseconds.
pub(super) const MS: u64 = 1_000;

/// Start time of a world in microseconds; above 0, so that calls can be older than the nodes.
pub(super) const BEGIN: u64 = 1_000_000_000;
