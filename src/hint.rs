//! Which way the code goes nearly always: the compiler puts that way in one piece, and the others aside.
//!
//! Where many processes share a core, the processor has forgotten where the branches of each go when it runs again, and takes the next instruction for the next one. Wherever that is wrong it
//! begins anew, which takes as long as fifty instructions in a row; so the way of a short call has as few such places as may be.

/// Says that this is seldom reached.
#[cold]
pub(crate) fn cold_path() {}

/// A condition that holds nearly always.
#[inline(always)]
pub(crate) fn likely(condition: bool) -> bool {
    if !condition {
        cold_path();
    }
    condition
}

/// A condition that holds hardly ever.
#[inline(always)]
pub(crate) fn unlikely(condition: bool) -> bool {
    if condition {
        cold_path();
    }
    condition
}
