//! What is still to happen, in the order of its time; at one time, in the order in which it was arranged.
//!
//! Bounded by what a world has under way: messages, jobs, one timer for each id, and the faults of its plan.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use gpc_trees::Id;

/// A queue of things of type `T`, and of the ids' timers, which are many and small.
#[derive(Debug)]
pub(super) struct Queue<T> {
    heap: BinaryHeap<Reverse<Entry>>,
    slots: Vec<Option<T>>,
    free: Vec<u32>,
    sequence: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Entry {
    time: u64,
    sequence: u64,
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum What {
    Slot(u32),
    Timer(Id),
}

/// What happens next.
#[derive(Debug)]
pub(super) enum Next<T> {
    Event(T),
    /// The timer of an id, perhaps one that does not count any more.
    Timer(Id),
}

impl<T> Queue<T> {
    pub(super) fn new() -> Queue<T> {
        Queue { heap: BinaryHeap::new(), slots: Vec::new(), free: Vec::new(), sequence: 0 }
    }

    /// Arranges for something to happen, nanoseconds.
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
        self.enter(time, What::Slot(slot));
    }

    /// Arranges for an id's timer.
    pub(super) fn push_timer(&mut self, time: u64, id: Id) {
        self.enter(time, What::Timer(id));
    }

    fn enter(&mut self, time: u64, what: What) {
        self.heap.push(Reverse(Entry { time, sequence: self.sequence, what }));
        self.sequence += 1;
    }

    pub(super) fn pop(&mut self) -> Option<(u64, Next<T>)> {
        let Reverse(Entry { time, what, .. }) = self.heap.pop()?;
        let next = match what {
            What::Timer(id) => Next::Timer(id),
            What::Slot(slot) => {
                self.free.push(slot);
                Next::Event(self.slots[slot as usize].take().expect("an entry of the heap owns its slot"))
            }
        };
        Some((time, next))
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
    }
}
