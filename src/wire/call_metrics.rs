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

/// The durations that a histogram counts together: those above the limit of one bucket, up to the next. Small, since
/// each of a million simulated nodes has one.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Bucket {
    /// [`BUCKETS`] beyond the last limit.
    place: u8,
    /// The shortest duration, and the number of durations, in nanoseconds; none by default, and beyond four seconds:
    /// such calls are rare.
    first: u32,
    width: u32,
}

impl Bucket {
    /// The bucket of a duration.
    pub(crate) fn of(took_ns: u64) -> Bucket {
        let micros = took_ns.div_ceil(1000).max(1);
        let place = ((u64::BITS - (micros - 1).leading_zeros()) as usize).min(BUCKETS);
        let nanos = |place: usize| 1000u64 << place;
        let first = if place == 0 { 0 } else { nanos(place - 1) + 1 };
        let (first, width) = match (u32::try_from(first), u32::try_from(nanos(place))) {
            (Ok(first), Ok(last)) => (first, last + 1 - first),
            _ => (0, 0),
        };
        Bucket { place: place as u8, first, width }
    }

    /// The place in a histogram; `None` beyond the last limit.
    fn place(self) -> Option<usize> {
        Some(usize::from(self.place)).filter(|place| *place < BUCKETS)
    }

    /// Whether a duration belongs into the bucket; false for all beyond four seconds.
    #[inline(always)]
    pub(crate) fn contains(&self, took_ns: u64) -> bool {
        took_ns.wrapping_sub(self.first.into()) < self.width.into()
    }
}

/// The durations of one function's calls.
#[derive(Default, Debug)]
pub(crate) struct Histogram {
    calls: Counter,
    nanos: Counter,
    buckets: [Counter; BUCKETS],
}

impl Histogram {
    /// Adds a number of calls of one bucket, and their total duration.
    pub(crate) fn add(&self, bucket: Bucket, calls: u64, nanos: u64) {
        self.calls.add(calls);
        self.nanos.add(nanos);
        if let Some(place) = bucket.place() {
            self.buckets[place].add(calls);
        }
    }

    /// Changes the duration of a call that was added.
    pub(crate) fn correct(&self, from_ns: u64, to_ns: u64) {
        self.nanos.set(self.nanos.get().saturating_sub(from_ns).saturating_add(to_ns));
        if let Some(place) = Bucket::of(from_ns).place() {
            self.buckets[place].set(self.buckets[place].get().saturating_sub(1));
        }
        if let Some(place) = Bucket::of(to_ns).place() {
            self.buckets[place].add(1);
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
        let bucket = |nanos| Bucket::of(nanos).place();
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

    /// The function that is the last of its turn is found to be slow after its call was counted.
    #[test]
    fn a_corrected_call_moves_to_its_bucket() {
        let histogram = Histogram::default();
        histogram.add(Bucket::of(50), 2, 100);
        histogram.correct(50, 9_000);
        let read = histogram.read(None);
        let counts: Vec<u64> = read.buckets.iter().map(|(_, count)| *count).collect();
        assert_eq!((read.calls, read.total), (2, Duration::from_nanos(9_050)));
        assert_eq!((&counts[..5], counts.iter().sum::<u64>()), (&[1, 0, 0, 0, 1][..], 2));
    }

    #[test]
    fn a_bucket_contains_the_durations_that_belong_into_it() {
        assert!(!Bucket::default().contains(0));
        let limits = (0..BUCKETS).map(|place| limit(place).as_nanos() as u64);
        let all: Vec<u64> = limits.flat_map(|limit| [limit - 1, limit, limit + 1]).chain([0]).collect();
        for &one in &all {
            for &other in &all {
                let same = Bucket::of(one).place() == Bucket::of(other).place();
                let is_long = one.max(other) > limit(22).as_nanos() as u64;
                assert_eq!(Bucket::of(one).contains(other), same && !is_long, "{one} {other}");
            }
        }
    }
}
