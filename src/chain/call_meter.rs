//! Counts the calls that end at one id, for metrics. Nothing is allocated for a call, except for the first one of a
//! function.

use std::sync::Arc;

use super::end::End;
use super::seeded_hash::{Seeded, SeededMap};
use crate::branch_hint::likely;
use crate::wire::call_metrics::{Bucket, CallMetrics, Histogram};

/// Functions with a histogram of their own: about 60 KiB. Few programs have more; the calls of others are counted
/// together.
const FUNCTIONS_MAX: usize = 256;

/// Peers' calls that are counted together: calls of one function that are done, with durations of one bucket. Function
/// and histogram stay after the count, since the next call often has the same function.
#[derive(Default, Debug)]
struct Batch {
    func: u64,
    histogram: Option<Arc<Histogram>>,
    bucket: Bucket,
    calls: u64,
    nanos: u64,
}

/// The writer of a node's metrics, which finds the histogram of a function without a lock.
#[derive(Debug)]
pub(super) struct CallMeter {
    shared: CallMetrics,
    known: SeededMap<u64, Arc<Histogram>>,
    other: Option<Arc<Histogram>>,
    batch: Batch,
}

impl CallMeter {
    pub(super) fn new(shared: CallMetrics, seed: u64) -> CallMeter {
        let known = SeededMap::with_hasher(Seeded::new(seed));
        CallMeter { shared, known, other: None, batch: Batch::default() }
    }

    /// Counts a call that has ended; `own` is whether it was started here, and `took_ns` how long it took. Own calls
    /// are counted at once, peers' calls at the latest by [`count`](Self::count).
    #[inline(always)]
    pub(super) fn ended(&mut self, own: bool, func: u64, end: End, took_ns: u64) {
        let Batch { func: last, bucket, calls, nanos, .. } = &mut self.batch;
        if likely(!own & (end == End::Done) & (func == *last) & bucket.contains(took_ns)) {
            *calls += 1;
            *nanos = nanos.saturating_add(took_ns);
        } else {
            self.ended_alone(own, func, end, took_ns);
        }
    }

    /// Adds the batch to the metrics. The driver does this once a turn: the memory of the metrics is seldom in the
    /// processor's cache.
    #[inline(always)]
    pub(super) fn count(&mut self) {
        if self.batch.calls == 0 {
            return;
        }
        let Batch { histogram, bucket, calls, nanos, .. } = &mut self.batch;
        let (calls, nanos) = (std::mem::take(calls), std::mem::take(nanos));
        self.shared.counts(false).done.add(calls);
        if let Some(histogram) = histogram {
            histogram.add(*bucket, calls, nanos);
        }
    }

    /// Counts a call at once. If a peer started it, calls like it begin a batch.
    #[inline(never)]
    fn ended_alone(&mut self, own: bool, func: u64, end: End, took_ns: u64) {
        let counts = self.shared.counts(own);
        let counter = match end {
            End::Done => &counts.done,
            End::Partial => &counts.partial,
            End::Failed => &counts.failed,
            End::Cancelled => &counts.cancelled,
            End::Refused => &counts.refused,
        };
        counter.add(1);
        if !matches!(end, End::Done | End::Partial) {
            return;
        }
        let bucket = Bucket::of(took_ns);
        let is_last = func == self.batch.func && self.batch.histogram.is_some();
        if !is_last && !self.begin_batch(func) {
            return self.new_histogram(func, end).add(bucket, 1, took_ns);
        }
        if let Some(histogram) = &self.batch.histogram {
            histogram.add(bucket, 1, took_ns);
        }
        if !own {
            self.count();
            self.batch.bucket = bucket;
        }
    }

    /// Begins a batch of this function, if it has a histogram of its own.
    fn begin_batch(&mut self, func: u64) -> bool {
        let Some(histogram) = self.known.get(&func).cloned() else { return false };
        self.count();
        self.batch = Batch { func, histogram: Some(histogram), ..Batch::default() };
        true
    }

    /// Changes the duration of a call that was counted.
    #[cold]
    pub(super) fn correct(&mut self, func: u64, from_ns: u64, to_ns: u64) {
        self.count();
        if let Some(histogram) = self.known.get(&func).or(self.other.as_ref()) {
            histogram.correct(from_ns, to_ns);
        }
    }

    /// Returns the histogram of a function that has none of its own yet. A peer may name any function. A call of a
    /// function that does not exist is not done, so the function gets no histogram.
    #[cold]
    fn new_histogram(&mut self, func: u64, end: End) -> &Histogram {
        if end == End::Done && self.known.len() < FUNCTIONS_MAX {
            self.known.entry(func).or_insert_with(|| self.shared.histogram(Some(func)))
        } else {
            self.other.get_or_insert_with(|| self.shared.histogram(None))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::wire::call_metrics::CallCounts;

    proptest! {
        /// However calls mix, and whenever the batches are counted: each call is in the bucket of its own duration, of
        /// its own function, and is counted once.
        #[test]
        fn batches_add_up_to_all_calls(
            calls in prop::collection::vec(
                (any::<bool>(), 0u64..3, any::<bool>(), 0usize..4, 0u8..8),
                0..80,
            ),
        ) {
            let (shared, mut model) = (CallMetrics::default(), BTreeMap::new());
            let mut meter = CallMeter::new(shared.clone(), 7);
            let mut done = [0, 0];
            for (own, func, ends_well, took, counts) in calls {
                let took = [0, 1_000, 1_001, 5_000_000_000][took];
                let end = if ends_well { End::Done } else { End::Failed };
                meter.ended(own, func, end, took);
                if ends_well {
                    done[usize::from(own)] += 1;
                    let (number, total) = model.entry((func, took)).or_insert((0, 0));
                    (*number, *total) = (*number + 1, *total + took);
                }
                if counts == 0 {
                    meter.count();
                }
            }
            meter.count();
            prop_assert_eq!([shared.others().done, shared.own().done], done);
            for function in shared.functions() {
                let func = function.func.expect("there are few functions");
                let mut calls = |took| model.remove(&(func, took)).unwrap_or((0, 0));
                let [zero, one, more, long] = [0, 1_000, 1_001, 5_000_000_000].map(&mut calls);
                let buckets: Vec<u64> = function.buckets.iter().map(|(_, count)| *count).collect();
                let total = [zero, one, more, long].iter().map(|(_, total)| total).sum();
                prop_assert_eq!(function.total, Duration::from_nanos(total));
                prop_assert_eq!((buckets[0], buckets[1]), (zero.0 + one.0, more.0));
                prop_assert_eq!((buckets.iter().sum::<u64>(), function.calls), {
                    let all = zero.0 + one.0 + more.0 + long.0;
                    (all, all)
                });
            }
            prop_assert!(model.is_empty(), "{model:?}");
        }
    }

    #[test]
    fn calls_are_counted_by_their_end_and_where_they_started() {
        let (shared, second) = (CallMetrics::default(), 1_000_000_000);
        let mut meter = CallMeter::new(shared.clone(), 7);
        let all = [End::Done, End::Partial, End::Failed, End::Cancelled, End::Refused];
        for (times, end) in (1u64..).zip(all) {
            (0..times).for_each(|_| meter.ended(true, 9, end, second));
        }
        meter.ended(false, 9, End::Refused, second);
        let counts = CallCounts { done: 1, partial: 2, failed: 3, cancelled: 4, refused: 5 };
        assert_eq!(
            (shared.own(), shared.others()),
            (counts, CallCounts { refused: 1, ..CallCounts::default() })
        );
        let functions = shared.functions();
        assert_eq!((functions.len(), functions[0].func, functions[0].calls), (1, Some(9), 3));
        assert_eq!(functions[0].total, Duration::from_secs(3));
    }

    #[test]
    fn further_functions_and_those_that_do_not_exist_are_counted_together() {
        let shared = CallMetrics::default();
        let mut meter = CallMeter::new(shared.clone(), 7);
        meter.ended(false, u64::MAX, End::Partial, 200_000_000_000);
        assert_eq!(shared.functions()[0].func, None);
        for func in 0..FUNCTIONS_MAX as u64 + 2 {
            meter.ended(false, func, End::Failed, 0);
            meter.ended(false, func, End::Done, 1_000_000_000);
        }
        let all = shared.functions();
        assert_eq!(all.len(), FUNCTIONS_MAX + 1);
        assert_eq!([all[0].calls, all[1].calls, all[FUNCTIONS_MAX].calls], [3, 1, 1]);
        let counted = all[0].buckets.iter().map(|(_, count)| count).sum::<u64>();
        assert_eq!(counted, 2, "200 s are beyond all limits");
    }
}
