//! Time in the chain: a number that the driver supplies.

use std::time::Duration;

/// A moment, in nanoseconds since an origin that the driver chose.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Time(u64);

impl Time {
    /// Returns the moment `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the moment `span` later; saturates at the last moment.
    pub fn plus(self, span: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Returns the time since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }

    /// Returns the time since `earlier` in nanoseconds, without the division that a [`Duration`] takes; zero if
    /// `earlier` is later.
    #[inline]
    pub fn nanos_since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Returns the sooner of two optional moments.
pub(crate) fn sooner(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    // Computed as numbers, without a branch: each turn of a node takes the soonest of half a dozen.
    let nanos = |at: Option<Time>| at.map_or(u64::MAX, Time::as_nanos);
    (one.is_some() | other.is_some()).then_some(Time(nanos(one).min(nanos(other))))
}
