//! The clock of a service, for its leases, waits and lifetimes.

#![allow(clippy::disallowed_methods, reason = "it tells the service what time it is")]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::machine::Millis;

/// A clock that advances evenly from its start, whatever happens to the machine's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    began: Instant,
    at: Millis,
}

impl Clock {
    /// Starts at the machine's time, or at `least` if that is later.
    pub(crate) fn not_before(least: Millis) -> Clock {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock { began: Instant::now(), at: millis(since.as_millis()).max(least) }
    }

    pub(crate) fn now(&self) -> Millis {
        self.at.saturating_add(millis(self.began.elapsed().as_millis()))
    }
}

fn millis(count: u128) -> Millis {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If the machine's clock was set back between two runs, a restarted service had resources that were created in its
    /// future.
    #[test]
    fn a_clock_does_not_begin_before_the_stored_time_and_does_not_go_back() {
        let machine = Clock::not_before(0).now();
        let ahead = Clock::not_before(machine + 3_600_000);
        assert!(ahead.now() >= machine + 3_600_000);
        assert!(Clock::not_before(1).now() >= machine);
        let times: Vec<Millis> = (0..1000).map(|_| ahead.now()).collect();
        assert!(times.is_sorted());
        assert_eq!(Clock::not_before(Millis::MAX).now(), Millis::MAX);
    }
}
