//! Counts the calls that end at one id, for metrics. Nothing is allocated for a call, except for the first one of a
//! function.

use std::sync::Arc;

use super::end::End;
use super::seeded_hash::{Seeded, SeededMap};
use crate::wire::call_metrics::{CallMetrics, Histogram};

/// Functions with a histogram of their own: about 60 KiB. Few programs have more; the calls of others are counted
/// together.
const FUNCTIONS_MAX: usize = 256;

/// The writer of a node's metrics, which finds the histogram of a function without a lock.
#[derive(Debug)]
pub(super) struct CallMeter {
    shared: CallMetrics,
    known: SeededMap<u64, Arc<Histogram>>,
    /// The function of the last call, which often is that of the next one, too.
    last: Option<(u64, Arc<Histogram>)>,
    other: Option<Arc<Histogram>>,
}

impl CallMeter {
    pub(super) fn new(shared: CallMetrics, seed: u64) -> CallMeter {
        CallMeter { shared, known: SeededMap::with_hasher(Seeded::new(seed)), last: None, other: None }
    }

    /// Counts a call that has ended; `own` is whether it was started here, and `took_ns` how long it took.
    #[inline]
    pub(super) fn ended(&mut self, own: bool, func: u64, end: End, took_ns: u64) {
        let counts = self.shared.counts(own);
        let counter = match end {
            End::Done => &counts.done,
            End::Partial => &counts.partial,
            End::Failed => &counts.failed,
            End::Cancelled => &counts.cancelled,
            End::Refused => &counts.refused,
        };
        counter.add(1);
        if matches!(end, End::Done | End::Partial) {
            match &self.last {
                Some((last, histogram)) if *last == func => histogram.add(took_ns),
                _ => self.other_function(func, end, took_ns),
            }
        }
    }

    /// Counts a call of a function that is not that of the last call.
    fn other_function(&mut self, func: u64, end: End, took_ns: u64) {
        match self.known.get(&func) {
            Some(histogram) => {
                histogram.add(took_ns);
                self.last = Some((func, Arc::clone(histogram)));
            }
            None => self.first_call(func, end, took_ns),
        }
    }

    /// A peer may name any function, and a call of one that does not exist is not done: it gets no histogram.
    #[cold]
    fn first_call(&mut self, func: u64, end: End, took_ns: u64) {
        if end == End::Done && self.known.len() < FUNCTIONS_MAX {
            let histogram = self.shared.histogram(Some(func));
            histogram.add(took_ns);
            self.known.insert(func, histogram);
        } else {
            self.other.get_or_insert_with(|| self.shared.histogram(None)).add(took_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::wire::call_metrics::CallCounts;

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
