//! Time as the chain knows it: a number that its driver brings along.

use std::time::Duration;

/// A moment, in nanoseconds since an origin that the driver chose.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Time(u64);

impl Time {
    /// The moment so many nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The moment so much later; the last one there is, if that is past it.
    pub fn plus(self, span: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The sooner of two moments, of which there may be none.
pub(crate) fn sooner(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    // As numbers, without a branch: each turn of a node asks for the soonest of half a dozen.
    let nanos = |at: Option<Time>| at.map_or(u64::MAX, Time::as_nanos);
    (one.is_some() | other.is_some()).then_some(Time(nanos(one).min(nanos(other))))
}
