//! Branch hints: the compiler keeps the likely path contiguous and moves the other code out of line.
//!
//! Where many processes share a core, a process that runs again finds the branch predictor empty: the processor assumes
//! that no branch is taken. Each misprediction costs as much as fifty straight-line instructions, so the path of a
//! short call has as few taken branches as possible.

/// Marks a cold path.
#[cold]
pub(crate) fn cold_path() {}

/// A condition that is nearly always true.
#[inline(always)]
pub(crate) fn likely(condition: bool) -> bool {
    if !condition {
        cold_path();
    }
    condition
}

/// A condition that is nearly always false.
#[inline(always)]
pub(crate) fn unlikely(condition: bool) -> bool {
    if condition {
        cold_path();
    }
    condition
}
