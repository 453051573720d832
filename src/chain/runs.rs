//! Whose turn it is: functions and callbacks that are ready, and how many may run at once.
//!
//! Source: chained-gpc.md, "Internal implementation details" 4: func and callback are interrupted by setup only, so at one node one runs at a time.
//! A call has at most one entry, so the queue is bounded by the calls in flight.

use super::few::Few;
use crate::wire::CallId;

/// A place in the queue.
pub(super) type Turn = u64;

/// The queue of calls whose next job is ready, first come first served.
#[derive(Debug)]
pub(super) struct Runs {
    queue: Few<Turn, CallId>,
    next: Turn,
    running: usize,
    workers: usize,
}

impl Runs {
    pub(super) fn new(workers: usize) -> Runs {
        Runs { queue: Few::default(), next: 0, running: 0, workers }
    }

    /// Queues a call; the turn is for [`leave`](Self::leave).
    pub(super) fn enter(&mut self, call: CallId) -> Turn {
        let turn = self.next;
        self.next += 1;
        self.queue.insert(turn, call);
        turn
    }

    /// Takes a call out of the queue.
    pub(super) fn leave(&mut self, turn: Turn) {
        self.queue.remove(&turn);
    }

    /// The next call to run a job of, while a worker is free; it counts as running until [`done`](Self::done).
    pub(super) fn take(&mut self) -> Option<CallId> {
        if self.running >= self.workers {
            return None;
        }
        let (_, call) = self.queue.pop_first()?;
        self.running += 1;
        Some(call)
    }

    /// A job has ended.
    pub(super) fn done(&mut self) {
        self.running = self.running.saturating_sub(1);
    }

    /// Jobs handed out that have not ended.
    pub(super) fn running(&self) -> usize {
        self.running
    }
}
