//! When each call in flight must have ended. One entry per call: the bound is that of the calls.
//!
//! Most calls have the limit of the one before them and end in the order in which they came, so that theirs is the last deadline when they come, and the first when they end. These stand in a
//! queue, where both cost next to nothing; the others in a tree. Calls whose limit has passed, and which wait for reports of those below, stand apart.

use super::Time;
use super::time::sooner;
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
    /// The first of these: it is asked for after every input.
    first: Option<Entry>,
    /// Calls whose limit has passed, and until when they wait for reports.
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

    /// The limit of a call has passed, and it waits for reports until then.
    pub(super) fn add_late(&mut self, until: Time, call: CallId) {
        self.late.insert((until, call));
    }

    /// A call that is [late](Self::add_late) is over.
    pub(super) fn remove_late(&mut self, until: Time, call: CallId) {
        self.late.remove(&(until, call));
    }

    /// Takes out the [only](Self::only) one.
    pub(super) fn forget(&mut self, at: Time, call: CallId) {
        self.remove(at, call);
        self.remove_late(at, call);
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
        match (self.only, self.late.len()) {
            (only, 0) if !more => Ok(only),
            (None, 1) if !more => Ok(self.late.first().copied()),
            _ => Err(()),
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        usize::from(self.only.is_some()) + self.queue.len() - self.ended + self.others.len() + self.late.len()
    }

    pub(super) fn next(&self) -> Option<Time> {
        sooner(self.first.map(|(at, _)| at), self.late.first().map(|(at, _)| *at))
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

    /// Takes out a call that is late and has waited long enough, if there is one.
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
}
