//! Completed partial calls: each is remembered until its root's time limit has passed, because it may be requested
//! again until then.
//!
//! A root numbers its calls in increasing order, so any number of consecutive calls is one entry. An entry is kept at
//! least as long as its last call needs. Nothing is forgotten because time passes: a process that was stopped reads old
//! messages after all time limits.

use std::collections::{BTreeMap, BTreeSet};

use super::Time;
use crate::wire::CallId;

/// Maximum number of entries: a thousand non-consecutive calls in each second of the usual limit, and some MiB. Beyond
/// it, the entry with the least time left, or expired longest ago, is dropped.
const RUNS_MAX: usize = 65_536;

/// Number of expired entries that are kept: some hundred KiB.
const RUNS_IDLE: usize = 4096;

/// Consecutive calls of one root, up to the last.
#[derive(Clone, Copy, Debug)]
struct Run {
    last: u64,
    until: Time,
}

/// The partial calls that have ended.
#[derive(Debug, Default)]
pub(super) struct CompletedPartialCalls {
    /// By the first call of each.
    runs: BTreeMap<CallId, Run>,
    by_time: BTreeSet<(Time, CallId)>,
}

impl CompletedPartialCalls {
    /// Records an ended call that may be requested again `until` then.
    pub(super) fn add(&mut self, call: CallId, until: Time) {
        let CallId { root, sequence } = call;
        let (mut first, mut run) = (call, Run { last: sequence, until });
        if let Some((before, known)) = self.before(call)
            && sequence <= known.last.saturating_add(1)
        {
            self.take(before);
            (first, run) = (before, Run { last: known.last.max(sequence), until: known.until.max(until) });
        }
        let next = run.last.checked_add(1).map(|sequence| CallId { root, sequence });
        if let Some((next, behind)) = next.and_then(|next| self.take(next).map(|run| (next, run))) {
            debug_assert!(next > first, "runs do not overlap");
            run = Run { last: behind.last, until: run.until.max(behind.until) };
        }
        self.by_time.insert((run.until, first));
        self.runs.insert(first, run);
        while self.runs.len() > RUNS_MAX && self.drop_soonest() {}
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(super) fn contains(&self, call: CallId) -> bool {
        self.before(call).is_some_and(|(_, run)| call.sequence <= run.last)
    }

    /// Number of leaked times, of calls that were dropped.
    pub(super) fn leaks(&self) -> usize {
        self.by_time.len().saturating_sub(self.runs.len())
    }

    /// When the next of too many entries expires.
    pub(super) fn next(&self) -> Option<Time> {
        // Called after every input; most nodes have no entries.
        let (until, _) = self.by_time.first()?;
        (self.runs.len() > RUNS_IDLE).then_some(*until)
    }

    /// Drops expired entries, down to a few.
    pub(super) fn expire(&mut self, now: Time) {
        while self.next().is_some_and(|until| until <= now) && self.drop_soonest() {}
    }

    /// Returns the last entry of the same root that begins at or before a call.
    fn before(&self, call: CallId) -> Option<(CallId, Run)> {
        let (first, run) = self.runs.range(..=call).next_back()?;
        (first.root == call.root).then_some((*first, *run))
    }

    fn take(&mut self, first: CallId) -> Option<Run> {
        let run = self.runs.remove(&first)?;
        self.by_time.remove(&(run.until, first));
        Some(run)
    }

    fn drop_soonest(&mut self) -> bool {
        let Some((_, first)) = self.by_time.pop_first() else { return false };
        self.runs.remove(&first).is_some()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn call(sequence: u64) -> CallId {
        CallId { root: 1, sequence }
    }

    const fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    /// Forty thousand calls took four MiB, and were kept for good.
    #[test]
    fn calls_that_follow_each_other_are_one_entry() {
        let mut completed = CompletedPartialCalls::default();
        (0..40_000).rev().for_each(|sequence| completed.add(call(2 * sequence), at(100 + sequence)));
        assert_eq!((completed.runs.len(), completed.next()), (40_000, Some(at(100))));
        (0..40_000).for_each(|sequence| completed.add(call(2 * sequence + 1), at(50)));
        assert_eq!((completed.runs.len(), completed.next()), (1, None));
        assert!(completed.by_time.len() <= 1);
        assert!(
            completed.contains(call(0))
                && completed.contains(call(79_999))
                && !completed.contains(call(80_000))
        );
        completed.expire(at(u64::MAX));
        assert!(completed.contains(call(7)), "time alone makes nothing forgotten");
    }

    #[test]
    fn they_are_bounded_and_many_go_with_their_time() {
        let mut completed = CompletedPartialCalls::default();
        (0..70_000).for_each(|sequence| completed.add(call(2 * sequence), at(1000 + sequence)));
        assert_eq!((completed.runs.len(), completed.by_time.len()), (RUNS_MAX, RUNS_MAX));
        assert!(completed.contains(call(2 * 69_999)) && !completed.contains(call(0)));
        completed.expire(at(1000 + 10_000));
        assert!(completed.contains(call(2 * 10_001)) && !completed.contains(call(2 * 10_000)));
        completed.expire(at(u64::MAX));
        assert_eq!(
            (completed.runs.len(), completed.by_time.len(), completed.next()),
            (RUNS_IDLE, RUNS_IDLE, None)
        );
    }

    proptest! {
        /// For calls of any roots that end in any order, exactly the ended ones are remembered.
        #[test]
        fn it_is_a_set(calls in proptest::collection::vec((0u32..3, 0u64..20, 0u64..9), 0..60)) {
            let (mut completed, mut model) = (CompletedPartialCalls::default(), BTreeSet::new());
            for (root, number, until) in calls {
                // Includes the highest possible numbers.
                let sequence = if number < 4 { u64::MAX - number } else { number };
                completed.add(CallId { root, sequence }, at(until));
                model.insert((root, sequence));
                prop_assert_eq!(completed.by_time.len(), completed.runs.len());
                for root in 0..3 {
                    for sequence in (0..24).chain(u64::MAX - 5..=u64::MAX) {
                        let there = completed.contains(CallId { root, sequence });
                        prop_assert_eq!(there, model.contains(&(root, sequence)));
                    }
                }
            }
        }
    }
}
