//! When each call in flight must have ended. One entry per call: the bound is that of the calls.

use std::time::Duration;

use super::Time;
use super::few::Few;
use crate::wire::CallId;

/// The deadlines of the calls in flight, soonest first.
#[derive(Debug, Default)]
pub(super) struct Deadlines(Few<(Time, CallId), ()>);

impl Deadlines {
    pub(super) fn add(&mut self, at: Time, call: CallId) {
        self.0.insert((at, call), ());
    }

    pub(super) fn remove(&mut self, at: Time, call: CallId) {
        self.0.remove(&(at, call));
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.0.first().map(|&(at, _)| at)
    }

    /// A call whose time has come, if there is one.
    pub(super) fn expired(&self, now: Time) -> Option<CallId> {
        self.0.first().filter(|(at, _)| *at <= now).map(|&(_, call)| call)
    }
}

/// Most that one hop keeps for itself of the time that is left: as long as a node of a busy machine may wait for its turn.
const RESERVE_MAX: Duration = Duration::from_millis(250);

/// The time limit that a child gets: a little less than what is left here, so that of several that wait for a hanging id the
/// deepest gives up first, and names it. The deeper the tree below, the less each hop keeps, so that the deepest still gets its part.
pub(super) fn child_limit(left: Duration, levels_below: u32) -> Duration {
    left - (left / levels_below.saturating_add(1).saturating_mul(4)).min(RESERVE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_shrinks_on_the_way_down_and_never_to_nothing_at_once() {
        for levels in [1, 6, 100, 4000, 65_535] {
            let whole = Duration::from_secs(60);
            let mut limit = whole;
            for below in (1..=levels).rev() {
                let child = child_limit(limit, below);
                assert!(child < limit, "{below} of {levels}");
                limit = child;
            }
            assert!(limit > whole / 20, "{limit:?} are left at the end of {levels} levels");
        }
        assert_eq!(child_limit(Duration::from_millis(16), 1), Duration::from_millis(14));
        assert_eq!(child_limit(Duration::ZERO, 1), Duration::ZERO);
        assert!(child_limit(Duration::from_secs(1), gpc_trees::MAX_DEPTH) < Duration::from_secs(1));
    }
}
