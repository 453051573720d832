//! When each call in flight must have ended. One entry per call: the bound is that of the calls.
//!
//! Most calls have the limit of the one before them and end in the order in which they came, so that theirs is the last deadline when they come, and the first when they end. These stand in a
//! queue, where both cost next to nothing; the others in a tree.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use super::Time;
use crate::wire::CallId;

type Entry = (Time, CallId);

/// Entries in the queue that may have ended before those in front of them without the queue being cleared of them.
const ENDED_MIN: usize = 64;

/// The deadlines of the calls in flight.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    /// The only one, as most ids have: it costs no allocation.
    only: Option<Entry>,
    /// In order; whether each is still in flight. The first one is.
    queue: VecDeque<(Entry, bool)>,
    /// How many of the queue have ended.
    ended: usize,
    /// Those that were not the last when they came.
    others: BTreeSet<Entry>,
    /// The first of all: it is asked for after every input.
    first: Option<Entry>,
}

impl Deadlines {
    pub(super) fn add(&mut self, at: Time, call: CallId) {
        let entry = (at, call);
        self.first = Some(self.first.map_or(entry, |first| first.min(entry)));
        if self.only.is_none() && self.queue.is_empty() && self.others.is_empty() {
            self.only = Some(entry);
            return;
        }
        if let Some(only) = self.only.take() {
            self.queue.push_back((only, true));
        }
        match self.queue.back() {
            Some((last, _)) if *last >= entry => {
                self.others.insert(entry);
            }
            _ => self.queue.push_back((entry, true)),
        }
    }

    pub(super) fn remove(&mut self, at: Time, call: CallId) {
        let entry = (at, call);
        self.take(entry);
        if self.first == Some(entry) {
            let queued = self.queue.front().map(|(entry, _)| *entry);
            self.first = [self.only, queued, self.others.first().copied()].into_iter().flatten().min();
        }
    }

    fn take(&mut self, entry: Entry) {
        if self.only == Some(entry) {
            self.only = None;
            return;
        }
        let first = self.queue.front().is_some_and(|(first, _)| *first == entry);
        let place = if first { Ok(0) } else { self.queue.binary_search_by_key(&entry, |(entry, _)| *entry) };
        match place {
            Ok(place) if self.queue[place].1 => self.end(place),
            // One that has ended may stand there under the same name and time.
            Ok(_) | Err(_) => {
                self.others.remove(&entry);
            }
        }
    }

    /// An entry of the queue is over.
    fn end(&mut self, place: usize) {
        if std::mem::replace(&mut self.queue[place].1, false) {
            self.ended += 1;
        }
        while let Some((_, false)) = self.queue.front() {
            self.queue.pop_front();
            self.ended -= 1;
        }
        // One long call in front keeps no more than twice those in flight.
        if self.ended > ENDED_MIN && self.ended > self.queue.len() / 2 {
            self.queue.retain(|(_, in_flight)| *in_flight);
            self.ended = 0;
        }
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.first.map(|(at, _)| at)
    }

    /// Drops the first deadline, of a call that is not in flight: none behind it may wait for it.
    pub(super) fn drop_first(&mut self) {
        if let Some((at, call)) = self.first {
            self.remove(at, call);
        }
    }

    /// A call whose time has come, if there is one.
    pub(super) fn expired(&self, now: Time) -> Option<CallId> {
        self.first.filter(|(at, _)| *at <= now).map(|(_, call)| call)
    }
}

/// Most that one hop keeps for itself of the time that is left: as long as a node of a busy machine may wait for its turn.
const RESERVE_MAX: Duration = Duration::from_millis(250);

/// The time limit that a child gets: a little less than what is left here, so that of several that wait for a hanging id the
/// deepest gives up first, and names it. The deeper the tree below, the less each hop keeps, so that the deepest still gets its part.
pub(super) fn child_limit(left: Duration, levels_below: u32) -> Duration {
    let nanos = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
    left - Duration::from_nanos(kept(nanos, levels_below, RESERVE_MAX.as_nanos() as u64))
}

/// The same in whole microseconds, as the wire has them.
pub(super) fn child_limit_us(left: u64, levels_below: u32) -> u64 {
    left - kept(left, levels_below, RESERVE_MAX.as_micros() as u64)
}

/// What a hop keeps of what is left, at most so much, in whatever unit.
fn kept(left: u64, levels_below: u32, most: u64) -> u64 {
    let parts = u64::from(levels_below.saturating_add(1).saturating_mul(4));
    // Most limits are long, and need no division.
    if left >= most * parts { most } else { left / parts }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever comes and ends in whatever order, the first deadline is that of an ordered set, and what has ended does not pile up.
        #[test]
        fn it_is_an_ordered_set(deeds in proptest::collection::vec((0u8..6, 0u64..9, 0usize..40), 0..400)) {
            let (mut deadlines, mut model) = (Deadlines::default(), BTreeSet::new());
            for (sequence, (deed, later, which)) in (0u64..).zip(deeds) {
                match deed {
                    // A stranger may give a name and a limit once more.
                    0..=2 => {
                        let call = CallId { root: 1, sequence: if deed == 2 { later % 3 } else { sequence } };
                        let at = Time::from_nanos(if deed == 2 { 100 + later / 3 } else { sequence + 100 });
                        if model.insert((at, call)) {
                            deadlines.add(at, call);
                        }
                    }
                    _ => {
                        let first = if deed == 3 { 0 } else { which };
                        let Some(&(at, call)) = model.iter().nth(first) else { continue };
                        deadlines.remove(at, call);
                        deadlines.remove(at, call);
                        model.remove(&(at, call));
                    }
                }
                prop_assert_eq!(deadlines.first, model.first().copied());
                prop_assert!(deadlines.queue.len() <= 2 * model.len() + 2 * ENDED_MIN);
            }
        }
    }

    #[test]
    fn a_limit_shrinks_on_the_way_down_and_never_to_nothing_at_once() {
        for levels in [1, 6, 100, 4000, 65_535] {
            let whole = Duration::from_secs(60);
            let mut limit = whole;
            for below in (1..=levels).rev() {
                let child = child_limit(limit, below);
                let short = child_limit_us(limit.as_micros() as u64, below);
                assert!(short.abs_diff(child.as_micros() as u64) <= 1, "{limit:?} at {below}");
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
