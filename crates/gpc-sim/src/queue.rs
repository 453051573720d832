//! Queue of scheduled events, ordered by time, then by insertion.
//!
//! Its size is bounded by the messages, jobs, timers (one for each id) and planned faults of a world.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use gpc_trees::Id;

/// A queue of events of type `T` and of the ids' timers. Timers, one for each id, have a heap of their own.
#[derive(Debug)]
pub(super) struct Queue<T> {
    events: BinaryHeap<Scheduled<T>>,
    timers: BinaryHeap<Scheduled<Id>>,
    sequence: u64,
}

/// The next item of the queue.
#[derive(Debug)]
pub(super) enum Next<T> {
    Event(T),
    /// The timer of an id, perhaps superseded.
    Timer(Id),
}

/// An item and its time. Items of one time keep the order in which they were scheduled.
#[derive(Debug)]
struct Scheduled<T> {
    time: u64,
    sequence: u64,
    item: T,
}

impl<T> Scheduled<T> {
    fn key(&self) -> (u64, u64) {
        (self.time, self.sequence)
    }
}

impl<T> PartialEq for Scheduled<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Scheduled<T> {}

impl<T> PartialOrd for Scheduled<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Reversed: a heap gives its greatest item first, and the earliest is wanted.
impl<T> Ord for Scheduled<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl<T> Queue<T> {
    pub(super) fn new() -> Queue<T> {
        Queue { events: BinaryHeap::new(), timers: BinaryHeap::new(), sequence: 0 }
    }

    /// Schedules an event at a time in nanoseconds.
    pub(super) fn push(&mut self, time: u64, event: T) {
        let sequence = self.next_sequence();
        self.events.push(Scheduled { time, sequence, item: event });
    }

    /// Schedules an id's timer at a time in nanoseconds.
    pub(super) fn push_timer(&mut self, time: u64, id: Id) {
        let sequence = self.next_sequence();
        self.timers.push(Scheduled { time, sequence, item: id });
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    pub(super) fn pop(&mut self) -> Option<(u64, Next<T>)> {
        let timer_first = match (self.events.peek(), self.timers.peek()) {
            (Some(event), Some(timer)) => timer.key() < event.key(),
            (event, _) => event.is_none(),
        };
        if timer_first {
            let timer = self.timers.pop()?;
            return Some((timer.time, Next::Timer(timer.item)));
        }
        let event = self.events.pop()?;
        Some((event.time, Next::Event(event.item)))
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
    }
}
