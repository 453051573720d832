//! The clock of a node: the only place where the runtime asks for the time.
#![allow(clippy::disallowed_methods, reason = "this is where the runtime asks for the time")]

use std::cell::Cell;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::chain::Time;

/// Counts from the moment it was made. Time stands still within a turn, unless something is due; a turn that does nothing that takes the time does not ask for it, which costs a twentieth of a short call where caches are cold.
#[derive(Debug)]
pub(super) struct Clock {
    begun: Instant,
    /// What it said last.
    said: Cell<Time>,
    /// Whether it has said so in this turn.
    stands: Cell<bool>,
}

impl Clock {
    /// Whose time is zero then.
    pub(super) fn since(begun: Instant) -> Clock {
        Clock { begun, said: Cell::default(), stands: Cell::new(false) }
    }

    /// What time it is: from now on the turn's time.
    pub(super) fn now(&self) -> Time {
        let since = self.begun.elapsed();
        let now = Time::from_nanos(since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos()));
        self.said.set(now);
        self.stands.set(true);
        now
    }

    /// The turn's time.
    pub(super) fn time(&self) -> Time {
        if self.stands.get() { self.said.get() } else { self.now() }
    }

    /// Time goes on: a turn begins, or the node has slept.
    pub(super) fn go_on(&self) {
        self.stands.set(false);
    }
}

/// The moment at which a node's clock begins.
pub(super) fn begin() -> Instant {
    Instant::now()
}

/// A number for this run of an id, later than that of every earlier run: nanoseconds since 1970.
pub(super) fn incarnation() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX / 2)
}
