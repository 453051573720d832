//! Queue of scheduled events, ordered by time, then by insertion.
//!
//! Its size is bounded by the messages, jobs, timers (one for each id) and planned faults of a world.

use gpc_trees::Id;

use super::ahead::soon;
use super::upcoming::{Entry, Upcoming};

/// A queue of events of type `T` and of the ids' timers. Timers have a queue of their own: a million of them, mostly
/// never due, would slow the events down.
#[derive(Debug)]
pub(super) struct Queue<T> {
    /// Each entry names its slot.
    events: Upcoming,
    /// Each entry names its id.
    timers: Upcoming,
    slots: Vec<Option<T>>,
    free: Vec<u32>,
    sequence: u64,
}

/// The next item of the queue.
#[derive(Debug)]
pub(super) enum Next<T> {
    Event(T),
    /// The timer of an id, perhaps superseded.
    Timer(Id),
}

impl<T> Queue<T> {
    pub(super) fn new() -> Queue<T> {
        let (events, timers) = (Upcoming::new(), Upcoming::new());
        Queue { events, timers, slots: Vec::new(), free: Vec::new(), sequence: 0 }
    }

    /// Schedules an event at a time in nanoseconds.
    pub(super) fn push(&mut self, time: u64, event: T) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(event);
                slot
            }
            None => {
                self.slots.push(Some(event));
                u32::try_from(self.slots.len() - 1).expect("fewer events under way than memory could hold")
            }
        };
        let entry = self.entry(time, slot);
        self.events.push(entry);
    }

    /// Schedules an id's timer at a time in nanoseconds.
    pub(super) fn push_timer(&mut self, time: u64, id: Id) {
        let entry = self.entry(time, id);
        self.timers.push(entry);
    }

    fn entry(&mut self, time: u64, what: u32) -> Entry {
        let sequence = self.sequence;
        self.sequence += 1;
        Entry::new(time, sequence, what)
    }

    pub(super) fn pop(&mut self) -> Option<(u64, Next<T>)> {
        let timer_first = match (self.events.first(), self.timers.first()) {
            (Some(event), Some(timer)) => timer < event,
            (event, _) => event.is_none(),
        };
        if timer_first {
            let entry = self.timers.pop()?;
            return Some((entry.time, Next::Timer(entry.what())));
        }
        let entry = self.events.pop()?;
        let what = entry.what();
        self.free.push(what);
        let event = self.slots[what as usize].take().expect("an entry owns its slot");
        Some((entry.time, Next::Event(event)))
    }

    /// The event after `place` others, if it is known already.
    pub(super) fn at_place(&self, place: usize) -> Option<&T> {
        let entry = self.events.at_place(place)?;
        self.slots[entry.what() as usize].as_ref()
    }

    /// Prefetches the event after `place` others.
    pub(super) fn expect(&self, place: usize) {
        self.events.at_place(place).into_iter().for_each(|entry| soon(&self.slots[entry.what() as usize]));
    }

    /// The id of the timer after `place` others, if it is known already.
    pub(super) fn timer_at(&self, place: usize) -> Option<Id> {
        self.timers.at_place(place).map(Entry::what)
    }

    /// Whether only timers are left.
    pub(super) fn only_timers(&self) -> bool {
        self.events.is_empty() && !self.timers.is_empty()
    }

    /// Drops the timers of ids that no longer need them.
    pub(super) fn keep_timers(&mut self, needed: impl Fn(Id) -> bool) {
        self.timers.retain(|entry| needed(entry.what()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_come_by_time_and_then_as_they_were_arranged() {
        let mut queue = Queue::new();
        queue.push(5, 'c');
        queue.push(3, 'a');
        queue.push(5, 'd');
        queue.push_timer(4, 9);
        let mut seen = Vec::new();
        while let Some((time, next)) = queue.pop() {
            seen.push(match next {
                Next::Event(letter) => (time, letter),
                Next::Timer(_) => (time, 't'),
            });
            if seen.len() == 1 {
                queue.push(4, 'b');
            }
        }
        assert_eq!(seen, [(3, 'a'), (4, 't'), (4, 'b'), (5, 'c'), (5, 'd')]);
        assert!(queue.slots.len() <= 3, "slots are used again");
        queue.push_timer(9, 1);
        queue.push_timer(8, 2);
        assert!(queue.only_timers());
        queue.keep_timers(|id| id == 1);
        assert!(matches!(queue.pop(), Some((9, Next::Timer(1)))) && queue.pop().is_none());
    }
}
