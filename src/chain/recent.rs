//! The calls that this id has lately ended: a request for one of them comes from a second parent, and is not executed again.
//!
//! Source: chained-gpc.md, "Exceptions" 1. A partial call may be asked for again until its root's time limit has passed, so it is known for as long at least; any other only
//! as long as frames may be under way. Time alone makes nothing forgotten: a process that was stopped reads what was sent to it when all time has passed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Time;
use super::seeded_hash::{Seeded, SeededSet};
use crate::wire::CallId;

/// How many ended calls are remembered. A second request is delayed by at most a few frames of one link against another, so a thousand calls
/// later nothing of it is under way; the memory stays at some tens of KiB.
const REMEMBERED: usize = 1024;

/// How many ended partial calls are remembered: a thousand in each second of the usual limit, and some MiB. Beyond them the one goes that has, or had, the least time left.
const PARTIAL_REMEMBERED: usize = 65_536;

/// The last calls that ended here.
#[derive(Debug)]
pub(super) struct Recent {
    order: VecDeque<CallId>,
    calls: SeededSet<CallId>,
    partial: BTreeMap<CallId, Time>,
    by_time: BTreeSet<(Time, CallId)>,
}

impl Recent {
    pub(super) fn new(seed: u64) -> Recent {
        Recent {
            order: VecDeque::new(),
            calls: SeededSet::with_hasher(Seeded::new(seed)),
            partial: BTreeMap::new(),
            by_time: BTreeSet::new(),
        }
    }

    pub(super) fn add(&mut self, call: CallId) {
        if !self.calls.insert(call) {
            return;
        }
        self.order.push_back(call);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.calls.remove(&oldest);
        }
    }

    /// A partial call has ended, and may be asked for again `until` then.
    pub(super) fn add_partial(&mut self, call: CallId, until: Time) {
        if let Some(earlier) = self.partial.insert(call, until) {
            self.by_time.remove(&(earlier, call));
        }
        self.by_time.insert((until, call));
        while self.partial.len() > PARTIAL_REMEMBERED
            && let Some((_, soonest)) = self.by_time.pop_first()
        {
            self.partial.remove(&soonest);
        }
    }

    pub(super) fn contains(&self, call: CallId) -> bool {
        self.calls.contains(&call) || (!self.partial.is_empty() && self.partial.contains_key(&call))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(sequence: u64) -> CallId {
        CallId { root: 1, sequence }
    }

    #[test]
    fn the_last_thousand_are_known_and_no_more() {
        let mut recent = Recent::new(1);
        for sequence in 0..5000 {
            recent.add(call(sequence));
            recent.add(call(sequence));
        }
        assert!(recent.contains(call(4999)) && recent.contains(call(5000 - 1024)));
        assert!(!recent.contains(call(5000 - 1025)));
        assert_eq!((recent.order.len(), recent.calls.len()), (1024, 1024));
    }

    #[test]
    fn a_partial_call_is_known_whatever_comes_between() {
        let mut recent = Recent::new(1);
        let at = Time::from_nanos;
        recent.add_partial(call(0), at(100));
        (1..5000).for_each(|sequence| recent.add_partial(call(sequence), at(50)));
        (5000..10_000).for_each(|sequence| recent.add(call(sequence)));
        assert!(recent.contains(call(0)) && recent.contains(call(1)));
        recent.add_partial(call(1), at(200));
        assert_eq!((recent.partial.len(), recent.by_time.len()), (5000, 5000));
    }

    #[test]
    fn partial_calls_are_bounded_too() {
        let mut recent = Recent::new(1);
        let at = Time::from_nanos;
        (0..70_000).for_each(|sequence| recent.add_partial(call(sequence), at(1000 + sequence)));
        assert_eq!((recent.partial.len(), recent.by_time.len()), (PARTIAL_REMEMBERED, PARTIAL_REMEMBERED));
        assert!(recent.contains(call(69_999)) && !recent.contains(call(0)));
    }
}
