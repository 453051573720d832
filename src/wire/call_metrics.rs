//! Counters of the calls that end at one id, and histograms of how long they take by function.
//!
//! The thread that drives the node is the only writer: no instruction locks the memory. Any thread reads, and neither
//! waits for the other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A number that one thread writes, and any thread reads.
#[derive(Default, Debug)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        self.set(self.get().saturating_add(more));
    }

    #[inline]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Number of buckets with a limit: 1 us, and twice as long each, up to 134 s.
const BUCKETS: usize = 28;

/// The limit of a bucket.
fn limit(bucket: usize) -> Duration {
    Duration::from_micros(1 << bucket)
}

/// The first bucket whose limit is not below this duration; `None` beyond the last one.
fn bucket(took_ns: u64) -> Option<usize> {
    let micros = took_ns.div_ceil(1000).max(1);
    let bucket = (u64::BITS - (micros - 1).leading_zeros()) as usize;
    (bucket < BUCKETS).then_some(bucket)
}

/// The durations of one function's calls.
#[derive(Default, Debug)]
pub(crate) struct Histogram {
    calls: Counter,
    nanos: Counter,
    buckets: [Counter; BUCKETS],
}

impl Histogram {
    pub(crate) fn add(&self, took_ns: u64) {
        self.calls.add(1);
        self.nanos.add(took_ns);
        if let Some(bucket) = bucket(took_ns) {
            self.buckets[bucket].add(1);
        }
    }

    fn read(&self, func: Option<u64>) -> FunctionDurations {
        let count = |(bucket, count): (usize, &Counter)| (limit(bucket), count.get());
        FunctionDurations {
            func,
            calls: self.calls.get(),
            total: Duration::from_nanos(self.nanos.get()),
            buckets: self.buckets.iter().enumerate().map(count).collect(),
        }
    }
}

/// How long the calls of a function have taken at an id, with all ids below.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionDurations {
    /// Number of the function; `None` for all functions beyond the first 256.
    pub func: Option<u64>,
    /// Calls that have ended and did not fail.
    pub calls: u64,
    /// Their durations together.
    pub total: Duration,
    /// Limits, and the number of calls up to each and beyond the one before.
    pub buckets: Vec<(Duration, u64)>,
}

/// How many calls have ended, by how.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CallCounts {
    /// All ids are done.
    pub done: u64,
    /// Partial calls without some ids.
    pub partial: u64,
    /// Failed calls.
    pub failed: u64,
    /// Calls that were cancelled, or whose parent was lost.
    pub cancelled: u64,
    /// Requests that were rejected before anything was executed.
    pub refused: u64,
}

/// The counters of these.
#[derive(Default, Debug)]
pub(crate) struct Counts {
    pub(crate) done: Counter,
    pub(crate) partial: Counter,
    pub(crate) failed: Counter,
    pub(crate) cancelled: Counter,
    pub(crate) refused: Counter,
}

impl Counts {
    fn read(&self) -> CallCounts {
        let Counts { done, partial, failed, cancelled, refused } = self;
        let [done, partial, failed, cancelled, refused] =
            [done, partial, failed, cancelled, refused].map(Counter::get);
        CallCounts { done, partial, failed, cancelled, refused }
    }
}

/// Metrics of the calls of a node. A clone is a view of the same numbers, for another thread.
#[derive(Clone, Default, Debug)]
pub struct CallMetrics(Arc<Shared>);

#[derive(Default, Debug)]
struct Shared {
    own: Counts,
    others: Counts,
    functions: Mutex<Vec<(Option<u64>, Arc<Histogram>)>>,
}

impl CallMetrics {
    /// The ended calls that were started at this id.
    pub fn own(&self) -> CallCounts {
        self.0.own.read()
    }

    /// The ended calls that were started elsewhere.
    pub fn others(&self) -> CallCounts {
        self.0.others.read()
    }

    /// The durations by function, in the order of the first calls.
    pub fn functions(&self) -> Vec<FunctionDurations> {
        let all = self.0.functions.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.iter().map(|(func, histogram)| histogram.read(*func)).collect()
    }

    /// The counters of calls that were started at this id, or elsewhere.
    pub(crate) fn counts(&self, own: bool) -> &Counts {
        if own { &self.0.own } else { &self.0.others }
    }

    /// Adds the histogram of a function; without a number, of all others.
    pub(crate) fn histogram(&self, func: Option<u64>) -> Arc<Histogram> {
        let histogram = Arc::<Histogram>::default();
        let mut all = self.0.functions.lock().unwrap_or_else(PoisonError::into_inner);
        all.push((func, Arc::clone(&histogram)));
        histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_the_first_bucket_that_it_does_not_exceed() {
        let at = |limit: Duration| bucket(limit.as_nanos() as u64);
        assert_eq!([bucket(0), bucket(1), bucket(1000)], [Some(0); 3]);
        assert_eq!(
            [bucket(1001), bucket(2000), bucket(2001), bucket(4000)],
            [Some(1), Some(1), Some(2), Some(2)]
        );
        let last = limit(BUCKETS - 1);
        let beyond = at(last + Duration::from_nanos(1));
        assert_eq!((last.as_secs(), at(last), beyond), (134, Some(BUCKETS - 1), None));
        assert!((0..BUCKETS).all(|place| at(limit(place)) == Some(place)));
    }
}
