//! Durations in four bytes, as records and traces have them: exact below two seconds, up to nine hours.
//!
//! If the highest bit is clear, the rest counts nanoseconds; otherwise it counts units of 16 microseconds. Longer
//! durations count as the longest.

use std::time::Duration;

/// The highest bit: the others count [`COARSE_NS`].
const COARSE: u32 = 1 << 31;

/// Unit of long durations, in nanoseconds.
const COARSE_NS: u64 = 16_000;

/// A duration in four bytes, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span(u32);

/// None.
impl Default for Span {
    fn default() -> Span {
        Span::NONE
    }
}

impl Span {
    /// No duration: what it measures has not happened.
    pub const NONE: Span = Span(u32::MAX);

    /// Returns the duration, rounded down to the unit.
    #[inline]
    pub fn of(duration: Duration) -> Span {
        Span::of_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Returns the duration of so many nanoseconds, rounded down to the unit.
    #[inline]
    pub fn of_nanos(nanos: u64) -> Span {
        match u32::try_from(nanos) {
            Ok(nanos) if nanos < COARSE => Span(nanos),
            _ => Span(COARSE | (nanos / COARSE_NS).min(u64::from(COARSE - 2)) as u32),
        }
    }

    /// Returns an optional duration.
    #[inline]
    pub fn of_option(duration: Option<Duration>) -> Span {
        duration.map_or(Span::NONE, Span::of)
    }

    /// The duration, if there is one.
    pub fn duration(self) -> Option<Duration> {
        self.nanos().map(Duration::from_nanos)
    }

    /// The duration in nanoseconds, if there is one.
    #[inline]
    pub fn nanos(self) -> Option<u64> {
        match self {
            Span::NONE => None,
            Span(units) if units & COARSE != 0 => Some(u64::from(units ^ COARSE) * COARSE_NS),
            Span(nanos) => Some(nanos.into()),
        }
    }

    /// Its number, as messages carry it.
    pub fn number(self) -> u32 {
        self.0
    }

    /// The duration with this number.
    pub fn of_number(number: u32) -> Span {
        Span(number)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Short durations are exact, long ones are off by less than a unit, and the order stays.
        #[test]
        fn a_span_is_the_duration_within_its_unit(nanos in 0..30_000_000_000_000_u64, later in 0..1_u64 << 40) {
            let duration = Duration::from_nanos(nanos);
            let read = Span::of_number(Span::of(duration).number()).duration().unwrap();
            let unit = if nanos < u64::from(COARSE) { 1 } else { COARSE_NS };
            prop_assert!(read <= duration && duration - read < Duration::from_nanos(unit));
            let other = Span::of(Duration::from_nanos(nanos.saturating_add(later))).duration().unwrap();
            prop_assert!(other >= read);
        }
    }

    #[test]
    fn the_longest_span_is_not_none() {
        let longest = Span::of(Duration::MAX);
        assert!(longest != Span::NONE && longest.duration().unwrap() > Duration::from_secs(9 * 3600));
        assert_eq!((Span::of_option(None).duration(), Span::NONE.duration()), (None, None));
    }
}
