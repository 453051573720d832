//! How many refusals are logged: whoever reaches a node's port could fill its log otherwise.

use std::time::Duration;

use crate::chain::Time;

/// So many in a row are logged, and as many again each [`PERIOD`].
const LOGGED: u32 = 10;

/// A person who looks for a wrong secret tries it less often; and it is no more than a megabyte of log in an hour.
const PERIOD: Duration = Duration::from_secs(10);

/// Refusals of the period that is running.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    begun: Time,
    logged: u32,
    left_out: u64,
}

impl Refusals {
    /// Counts a refusal: whether it is logged, and how many before it were not.
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
