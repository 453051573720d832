//! Where a call lies among the calls in flight: a number, good for as long as it is in flight.

/// Where a call lies, for as long as one input is taken, and as long as it is in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slot(pub(super) u32);
