//! Waits for conditions that send no event, such as all of `/proc`. Each has a time limit.
#![allow(clippy::disallowed_methods, reason = "every wait has a limit")]

use std::thread;
use std::time::{Duration, Instant};

/// Enough for any machine: this time passes only if something is broken.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Interval between two checks.
const PAUSE: Duration = Duration::from_millis(2);

/// Waits until a condition holds.
///
/// # Panics
/// If it does not hold within [`PATIENCE`].
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    until_some(what, || holds().then_some(()));
}

/// Waits until there is a value, and returns it.
///
/// # Panics
/// If there is none within [`PATIENCE`].
#[track_caller]
pub fn until_some<T>(what: &str, find: impl FnMut() -> Option<T>) -> T {
    find_within(PATIENCE, find).unwrap_or_else(|| panic!("after {PATIENCE:?} this is not so: {what}"))
}

/// Waits until there is a value; returns none if there is none within the limit.
pub fn find_within<T>(limit: Duration, mut find: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        let found = find();
        if found.is_some() || Instant::now() >= deadline {
            return found;
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_its_condition_or_its_limit() {
        let mut checks = 0;
        until("the third check", || {
            checks += 1;
            checks == 3
        });
        assert_eq!(find_within(Duration::ZERO, || Some(7)), Some(7));
        assert_eq!(find_within(Duration::from_millis(5), || None::<u32>), None);
    }
}
