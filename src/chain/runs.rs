//! Whose turn it is: functions and callbacks that are ready, and how many may run at once.
//!
//! Source: chained-gpc.md, "Internal implementation details" 4: func and callback are interrupted by setup only, so at one node one runs at a time.
//! A call has at most one entry, so the queue is bounded by the calls in flight.

use std::collections::VecDeque;

use super::slot::Slot;

/// A place in the queue.
pub(super) type Turn = u64;

/// The queue of calls whose next job is ready, first come first served.
#[derive(Debug)]
pub(super) struct Runs {
    /// The one whose turn is next: mostly the only one, and then it costs no allocation.
    first: Option<(Turn, Slot)>,
    /// Behind it, in the order of their turns.
    rest: VecDeque<(Turn, Slot)>,
    next: Turn,
    running: usize,
    workers: usize,
}

impl Runs {
    pub(super) fn new(workers: usize) -> Runs {
        Runs { first: None, rest: VecDeque::new(), next: 0, running: 0, workers }
    }

    /// Queues a call; the turn is for [`leave`](Self::leave).
    pub(super) fn enter(&mut self, call: Slot) -> Turn {
        let turn = self.next;
        self.next += 1;
        match self.first {
            None => self.first = Some((turn, call)),
            Some(_) => self.rest.push_back((turn, call)),
        }
        turn
    }

    /// Takes a call out of the queue.
    pub(super) fn leave(&mut self, turn: Turn) {
        if self.first.is_some_and(|(first, _)| first == turn) {
            self.first = self.rest.pop_front();
        } else if let Ok(place) = self.rest.binary_search_by_key(&turn, |(turn, _)| *turn) {
            self.rest.remove(place);
        }
    }

    /// The next call to run a job of, while a worker is free; it counts as running until [`done`](Self::done).
    pub(super) fn take(&mut self) -> Option<Slot> {
        if self.running >= self.workers {
            return None;
        }
        let (_, call) = self.first.take()?;
        self.first = self.rest.pop_front();
        self.running += 1;
        Some(call)
    }

    /// Gives back the room of those whose turn has come.
    pub(super) fn release_room(&mut self) {
        self.rest.shrink_to_fit();
    }

    /// A job has ended.
    pub(super) fn done(&mut self) {
        self.running = self.running.saturating_sub(1);
    }

    /// Whether no job runs, and none waits.
    pub(super) fn is_idle(&self) -> bool {
        self.running == 0 && self.first.is_none()
    }

    /// Jobs handed out that have not ended.
    pub(super) fn running(&self) -> usize {
        self.running
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// First come first served, whoever leaves.
        #[test]
        fn it_is_a_queue(deeds in proptest::collection::vec((0u8..4, 0usize..6), 0..100)) {
            let (mut runs, mut model) = (Runs::new(usize::MAX), Vec::new());
            for (place, (deed, which)) in (0u32..).zip(deeds) {
                match deed {
                    0 | 1 => model.push((runs.enter(Slot(place)), Slot(place))),
                    2 if which < model.len() => runs.leave(model.remove(which).0),
                    2 => {}
                    _ => {
                        let next = (!model.is_empty()).then(|| model.remove(0).1);
                        prop_assert_eq!(runs.take(), next);
                    }
                }
            }
        }
    }
}
