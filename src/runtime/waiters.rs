//! The functions of a node that wait for its calls, and the thread that drives the node.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A number for this thread that no other living thread has.
#[inline(always)]
fn this_thread() -> usize {
    thread_local!(static PLACE: u8 = const { 0 });
    PLACE.with(|place| std::ptr::from_ref(place) as usize)
}

/// A function that waits for a call of its own node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub(super) ticket: u64,
    /// The class of its worker.
    pub(super) class: u8,
    /// The classes that its call needs here, one bit for each.
    pub(super) needs: u64,
    /// Whether its wait has a time limit.
    pub(super) limited: bool,
}

/// The thread that drives a node, and the functions that wait for the node's calls.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    /// The thread that drove the node last; 0 before the first.
    driver: AtomicUsize,
    /// Number of workers of each class.
    workers: Vec<usize>,
    /// At most one for each worker.
    waiting: Mutex<Vec<Waiter>>,
}

impl Waiters {
    pub(super) fn new(workers: Vec<usize>) -> Waiters {
        Waiters { workers, ..Waiters::default() }
    }

    /// Records that this thread drives the node.
    #[inline(always)]
    pub(super) fn drive(&self) {
        self.driver.store(this_thread(), Ordering::Relaxed);
    }

    /// Records that no thread drives the node.
    pub(super) fn leave(&self) {
        self.driver.store(0, Ordering::Relaxed);
    }

    /// Whether this thread drives the node.
    pub(super) fn is_driver(&self) -> bool {
        self.driver.load(Ordering::Relaxed) == this_thread()
    }

    pub(super) fn waiting(&self) -> MutexGuard<'_, Vec<Waiter>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a worker of this class can never become free: all workers of some classes wait for calls that need a
    /// worker of one of these classes.
    pub(super) fn is_stuck(&self, waiting: &[Waiter], class: u8) -> bool {
        let busy = |class: usize| waiting.iter().filter(|waiter| usize::from(waiter.class) == class).count();
        let full = |class: &usize| busy(*class) >= self.workers[*class];
        let mut stuck = (0..self.workers.len()).filter(full).fold(0u64, |stuck, class| stuck | 1 << class);
        // Terminates: each iteration removes a class, or is the last.
        loop {
            let freed = waiting.iter().filter(|waiter| waiter.needs & stuck == 0);
            let left = freed.fold(stuck, |left, waiter| left & !(1 << waiter.class));
            if left == stuck {
                return stuck & 1 << class != 0;
            }
            stuck = left;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(ticket: u64, class: u8, needs: u64) -> Waiter {
        Waiter { ticket, class, needs, limited: false }
    }

    #[test]
    fn only_a_wait_for_the_own_worker_is_stuck() {
        let one = Waiters::new(vec![1, 1]);
        assert!(one.is_stuck(&[waiter(1, 0, 1)], 0), "its own");
        assert!(!one.is_stuck(&[waiter(1, 0, 2)], 0), "another class");
        assert!(!one.is_stuck(&[waiter(1, 0, 0)], 0), "nobody");
        assert!(one.is_stuck(&[waiter(1, 0, 2), waiter(2, 1, 1)], 1), "each other");
        assert!(!one.is_stuck(&[waiter(1, 0, 2), waiter(2, 1, 0)], 1), "the second one ends");
        let two = Waiters::new(vec![2]);
        assert!(!two.is_stuck(&[waiter(1, 0, 1)], 0), "the other worker is free");
        assert!(two.is_stuck(&[waiter(1, 0, 1), waiter(2, 0, 1)], 0), "no worker is left");
        assert!(!two.is_stuck(&[waiter(1, 0, 1), waiter(2, 0, 0)], 0), "one will be");
    }
}
