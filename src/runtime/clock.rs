//! The clock of a node: the only place where the runtime reads the time.
#![allow(clippy::disallowed_methods, reason = "this is where the runtime asks for the time")]

use std::cell::Cell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

use crate::chain::Time;

/// Returns the time since its creation. Within a turn the time is constant, unless something is due. A turn that needs
/// no time does not read the clock, which would cost a twentieth of a short call with cold caches.
#[derive(Debug)]
pub(super) struct Clock {
    begun: ClockStart,
    /// The last time that was read.
    last_reading: Cell<Time>,
    /// Whether that time was read in this turn.
    is_current: Cell<bool>,
}

impl Clock {
    /// Creates a clock whose zero is `begun`.
    pub(super) fn since(begun: ClockStart) -> Clock {
        Clock { begun, last_reading: Cell::default(), is_current: Cell::new(false) }
    }

    /// Reads the time, which becomes the time of this turn.
    pub(super) fn now(&self) -> Time {
        let now = self.reading();
        self.last_reading.set(now);
        self.is_current.set(true);
        now
    }

    /// Reads the time for a measurement, and leaves that of this turn unchanged.
    pub(super) fn reading(&self) -> Time {
        Time::from_nanos(self.begun.nanos_since())
    }

    /// The time of this turn.
    pub(super) fn time(&self) -> Time {
        if self.is_current.get() { self.last_reading.get() } else { self.now() }
    }

    /// Makes the next query read the clock: a turn begins, or the node has slept.
    pub(super) fn invalidate(&self) {
        self.is_current.set(false);
    }
}

/// The zero of a node's clock, in nanoseconds of the system's monotonic clock. A number takes fewer instructions than
/// an `Instant`, and a node reads the clock twice for a short call.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockStart(u64);

impl ClockStart {
    /// Now.
    pub(super) fn now() -> ClockStart {
        ClockStart(monotonic())
    }

    /// Time since then.
    pub(super) fn elapsed(self) -> Duration {
        Duration::from_nanos(self.nanos_since())
    }

    #[inline]
    fn nanos_since(self) -> u64 {
        monotonic().saturating_sub(self.0)
    }
}

/// Nanoseconds of the monotonic clock, which is not before its own zero.
#[inline]
fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A number for this run of an id, higher than that of every earlier run: nanoseconds since 1970.
pub(super) fn incarnation() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX / 2)
}
