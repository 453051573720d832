//! Timers of a service.

use super::holder::Holder;
use super::{ResourceId, Ticket};

/// A timer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Timer {
    /// The resource ends.
    End(ResourceId),
    /// The lease expires.
    Lease(ResourceId, Holder),
    /// The wait ends.
    Wait(Ticket),
}
