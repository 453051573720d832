//! When each call in flight must have ended. One entry per call: the bound is that of the calls.
//!
//! Most calls have the limit of the one before them and end in the order in which they came, so that theirs is the last deadline when they come, and the first when they end. These stand in a
//! queue, where both cost next to nothing; the others in a tree.

use super::Time;
use crate::hint::likely;
use crate::wire::CallId;
use std::collections::{BTreeSet, VecDeque};

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
            if self.queue.is_empty() && self.others.is_empty() {
                self.first = self.only;
                return;
            }
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

    /// Gives back the room of those that are over.
    pub(super) fn release_room(&mut self) {
        self.queue.shrink_to_fit();
    }

    /// The only one, if there is one; `Err` if there are others.
    pub(super) fn only(&self) -> Result<Option<(Time, CallId)>, ()> {
        let more = !self.queue.is_empty() || !self.others.is_empty();
        if more { Err(()) } else { Ok(self.only) }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        usize::from(self.only.is_some()) + self.queue.len() - self.ended + self.others.len()
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

/// Most that one hop keeps back of the time that is left: enough for a message to go up one hop, so that the deepest of several that wait gives up first.
const RESERVE_US_MAX: u64 = 5_000;

/// At most one part in so many of what is left is kept back at one hop.
const RESERVE_SHARE: u64 = 100;

/// At most one part in so many of the root's limit is kept back by all hops together.
const TREE_SHARE: u64 = 10;

/// How much time a call has at one id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TimeLeft {
    /// Until its deadline here, microseconds.
    pub(super) here_us: u64,
    /// Until the root's time limit passes, milliseconds.
    pub(super) root_ms: u64,
    /// Since it began at the root, milliseconds.
    pub(super) age_ms: u64,
}

impl TimeLeft {
    /// The time limit that a child gets, microseconds: a little less than what is left here, so that of several that wait for a hanging id the deepest gives up first, and names it.
    ///
    /// A hop keeps back the least of 5 ms, a hundredth of what is left, and its part of a tenth of the root's limit: what of that tenth the hops above have not kept, over the levels from here down.
    #[inline]
    pub(super) fn for_child(self, levels_below: u32) -> u64 {
        let (here, levels) = (self.here_us, u64::from(levels_below.max(1)));
        let whole = self.root_ms.saturating_add(self.age_ms).saturating_mul(1000);
        let kept_above = self.root_ms.saturating_mul(1000).saturating_sub(here);
        let budget = (whole / TREE_SHARE).saturating_sub(kept_above);
        // Most limits are long, and need no division by what is not known before.
        if likely(here >= RESERVE_US_MAX * RESERVE_SHARE && budget >= RESERVE_US_MAX * levels) {
            return here - RESERVE_US_MAX;
        }
        let kept = (here / RESERVE_SHARE).min(budget / levels).min(RESERVE_US_MAX);
        // However little there is, a child has less.
        here.saturating_sub(kept.max(1))
    }
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

    /// What is left at the end of a chain of so many levels, each of which takes `hop_us` to pass the call on, and says so in whole milliseconds.
    fn at_the_end(limit_us: u64, levels: u32, hop_us: u64) -> u64 {
        let (mut here, mut root_us, mut age_us) = (limit_us, limit_us, 0);
        for below in (1..=levels).rev() {
            (here, root_us, age_us) =
                (here.saturating_sub(hop_us), root_us.saturating_sub(hop_us), age_us + hop_us);
            let (root_ms, age_ms) = (root_us.div_ceil(1000), age_us.div_ceil(1000));
            let child = TimeLeft { here_us: here, root_ms, age_ms }.for_child(below);
            assert!(
                child < here.max(1) && here - child <= RESERVE_US_MAX.min(here.div_ceil(100)),
                "{below} of {levels}"
            );
            (here, root_us, age_us) = (child, root_ms * 1000, age_ms * 1000);
        }
        here
    }

    /// A call of 64 ids down a chain, each of which slept for 1 s, with a limit of 2 s, failed after 780 ms: each hop kept back up to 250 ms.
    #[test]
    fn all_hops_together_keep_back_no_more_than_a_tenth() {
        for levels in [1, 2, 6, 63, 1000, gpc_trees::MAX_DEPTH] {
            for limit_us in [100, 10_000, 100_000, 1_000_000, 2_000_000, 60_000_000] {
                // Each takes a microsecond at least.
                if limit_us < 100 * u64::from(levels) {
                    continue;
                }
                let left = at_the_end(limit_us, levels, 0);
                assert!(left >= limit_us - limit_us / 10, "{left} of {limit_us} us after {levels} levels");
                assert!(left >= limit_us.saturating_sub(u64::from(levels) * RESERVE_US_MAX));
            }
        }
        assert_eq!(at_the_end(1_000_000, 1, 0), 995_000);
        assert_eq!(at_the_end(100_000, 1, 0), 99_000);
        assert!(at_the_end(2_000_000, 63, 100) > 1_750_000);
    }

    #[test]
    fn every_hop_keeps_its_part() {
        let of = |here_us, root_ms, age_ms| TimeLeft { here_us, root_ms, age_ms };
        assert_eq!(of(2_000_000, 2000, 0).for_child(64), 2_000_000 - 3_125);
        // Half way down, with half of the tenth kept above.
        assert_eq!(of(1_900_000, 2000, 0).for_child(32), 1_900_000 - 3_125);
        // Those above seem to have kept more than they should: next to nothing is left to keep.
        assert_eq!(of(1_700_000, 2000, 0).for_child(32), 1_699_999);
        assert_eq!(of(20, 1, 0).for_child(32), 19);
        assert_eq!(of(0, 0, 0).for_child(0), 0);
        assert_eq!(of(u64::MAX, u64::MAX, u64::MAX).for_child(u32::MAX), u64::MAX - RESERVE_US_MAX);
    }
}
