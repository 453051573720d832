//! Limits how many rejected connections are logged: otherwise any process that reaches a node's port could fill its
//! log.

use std::time::Duration;

use crate::chain::Time;

/// Maximum number of logged rejections in one [`PERIOD`].
const LOGGED: u32 = 10;

/// A person who debugs a wrong secret retries less often. The limit is about one megabyte of log in an hour.
const PERIOD: Duration = Duration::from_secs(10);

/// The rejections of the current period.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    begun: Time,
    logged: u32,
    left_out: u64,
}

impl Refusals {
    /// Counts a rejection. If it is to be logged, returns the number of earlier ones that were not.
    pub(super) fn count(&mut self, now: Time) -> Option<u64> {
        if self.begun.plus(PERIOD) <= now {
            (self.begun, self.logged) = (now, 0);
        }
        if self.logged == LOGGED {
            self.left_out += 1;
            return None;
        }
        self.logged += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_them_is_counted_and_not_logged() {
        let mut refusals = Refusals::default();
        let begin = Time::from_nanos(1 << 50);
        let logged = (0..1000).filter(|_| refusals.count(begin) == Some(0)).count();
        assert_eq!(logged, LOGGED as usize);
        let later = begin.plus(PERIOD);
        assert_eq!(refusals.count(later), Some(1000 - u64::from(LOGGED)));
        assert_eq!(refusals.count(later), Some(0));
    }
}
