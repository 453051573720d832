//! The deadlines of the calls in flight, one entry per call, so the bound on calls bounds them.
//!
//! Most calls have the same limit as the previous one, and end in order of arrival: their deadline is the last when
//! they arrive and the first when they end. These are in a queue, where both operations are nearly free; the others are
//! in a tree. Calls whose limit has passed, and which wait for reports from below, are stored separately.

use super::Time;
use super::time::sooner;
use crate::wire::CallId;
use std::collections::{BTreeSet, VecDeque};

type Entry = (Time, CallId);

/// Number of ended entries that may stay in the queue behind others before it is compacted.
const ENDED_MIN: usize = 64;

/// The deadlines of the calls in flight.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    /// The only entry, as for most ids: it needs no allocation.
    only: Option<Entry>,
    /// In order, each with whether its call is still in flight. The first one is.
    queue: VecDeque<(Entry, bool)>,
    /// Number of ended entries in the queue.
    ended: usize,
    /// Entries that were not the last when they arrived.
    others: BTreeSet<Entry>,
    /// The first of all these, cached because every input needs it.
    first: Option<Entry>,
    /// Calls whose limit has passed, each with the time until which it waits for reports.
    late: BTreeSet<Entry>,
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

    /// Adds a call whose limit has passed, which waits for reports until then.
    pub(super) fn add_late(&mut self, until: Time, call: CallId) {
        self.late.insert((until, call));
    }

    /// Removes a [late](Self::add_late) call.
    pub(super) fn remove_late(&mut self, until: Time, call: CallId) {
        self.late.remove(&(until, call));
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
            // An ended entry of the same name and time may be there.
            Ok(_) | Err(_) => {
                self.others.remove(&entry);
            }
        }
    }

    /// Marks an entry of the queue as ended.
    fn end(&mut self, place: usize) {
        if std::mem::replace(&mut self.queue[place].1, false) {
            self.ended += 1;
        }
        while let Some((_, false)) = self.queue.front() {
            self.queue.pop_front();
            self.ended -= 1;
        }
        // A long call at the front keeps at most twice as many entries as there are calls in flight.
        if self.ended > ENDED_MIN && self.ended > self.queue.len() / 2 {
            self.queue.retain(|(_, in_flight)| *in_flight);
            self.ended = 0;
        }
    }

    /// Frees the memory of ended entries.
    pub(super) fn release_spare_memory(&mut self) {
        self.queue.shrink_to_fit();
    }

    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        usize::from(self.only.is_some()) + self.queue.len() - self.ended + self.others.len() + self.late.len()
    }

    pub(super) fn next(&self) -> Option<Time> {
        sooner(self.first.map(|(at, _)| at), self.late.first().map(|(at, _)| *at))
    }

    /// Drops the first deadline, whose call is not in flight: no later deadline may wait for it.
    pub(super) fn drop_first(&mut self) {
        if let Some((at, call)) = self.first {
            self.remove(at, call);
        }
    }

    /// Returns a call whose deadline has passed, if any.
    pub(super) fn expired(&self, now: Time) -> Option<CallId> {
        self.first.filter(|(at, _)| *at <= now).map(|(_, call)| call)
    }

    /// Removes a late call that has waited long enough, if any.
    pub(super) fn pop_late(&mut self, now: Time) -> Option<CallId> {
        self.late.first().filter(|(until, _)| *until <= now)?;
        self.late.pop_first().map(|(_, call)| call)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// For any additions and removals, the first deadline is that of an ordered set, and ended entries do not
        /// accumulate.
        #[test]
        fn it_is_an_ordered_set(deeds in proptest::collection::vec((0u8..6, 0u64..9, 0usize..40), 0..400)) {
            let (mut deadlines, mut model) = (Deadlines::default(), BTreeSet::new());
            for (sequence, (deed, later, which)) in (0u64..).zip(deeds) {
                match deed {
                    // A stranger may repeat a name and a limit.
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
}
