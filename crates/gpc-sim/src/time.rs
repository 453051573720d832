//! Virtual time.

/// Time at which a world begins, nanoseconds. Processes that were not just launched have run since 0, for eleven days.
pub(super) const BEGIN: u64 = 1_000_000_000_000_000;
