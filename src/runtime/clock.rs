//! The clock of a node: the only place where the runtime asks for the time.
#![allow(clippy::disallowed_methods, reason = "this is where the runtime asks for the time")]

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::chain::Time;

/// Counts from the moment it was made. The system's own clock is read, past the C library: see [`Socket`](super::socket::Socket).
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Timespec);

impl Clock {
    pub(super) fn new() -> Clock {
        Clock(clock_gettime(ClockId::Monotonic))
    }

    pub(super) fn now(&self) -> Time {
        let now = clock_gettime(ClockId::Monotonic);
        let nanos = (now.tv_sec - self.0.tv_sec) * 1_000_000_000 + (now.tv_nsec - self.0.tv_nsec);
        Time::from_nanos(u64::try_from(nanos).unwrap_or(0))
    }
}

/// A number for this run of an id, later than that of every earlier run: nanoseconds since 1970.
pub(super) fn incarnation() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX / 2)
}
