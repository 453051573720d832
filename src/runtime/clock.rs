//! The clock of a node: the only place where the runtime asks for the time.
#![allow(clippy::disallowed_methods, reason = "this is where the runtime asks for the time")]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::chain::Time;

/// Counts from the moment it was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    pub(super) fn new() -> Clock {
        Clock(Instant::now())
    }

    pub(super) fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// A number for this run of an id, later than that of every earlier run: nanoseconds since 1970.
pub(super) fn incarnation() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX / 2)
}
