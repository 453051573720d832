//! Position of a call among the calls in flight: a number that is valid while the call is in flight.

/// Position of a call, valid while one input is processed and the call is in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slot(pub(super) u32);
