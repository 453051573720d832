//! The queue of calls that arrive before their handlers.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use chained_gpc::Deferred;

use super::jobs::Job;
use super::levels::LEVELS;
use super::table::Table;

/// Number of early calls that wait: a call of each of some thousand processes.
const WAITING_MAX: usize = 4096;

/// Bytes of header and data that wait: as many as one handler may reply with.
const BYTES_MAX: usize = 256 << 20;

/// How long a call waits for its handler: the processes of a job start within this time.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// The registered handlers, and the calls that arrived before theirs.
#[derive(Default)]
pub(super) struct Handlers {
    pub(super) table: Table,
    pub(super) early: Early<Deferred>,
    /// Grows with each change that the thread of the early calls must see.
    pub(super) changes: u64,
    /// The layer ends: no call waits any longer.
    pub(super) ended: bool,
}

/// Early calls, with the tokens of their replies.
pub(super) struct Early<T> {
    pub(super) waiting: VecDeque<Waiting<T>>,
    bytes: usize,
    /// A thread watches the queue.
    pub(super) watched: bool,
    /// By level: the worker was asked to execute those that are ready.
    pub(super) asked: [bool; LEVELS],
}

/// A call that waits.
pub(super) struct Waiting<T> {
    pub(super) job: Job,
    pub(super) token: T,
    pub(super) until: Instant,
}

impl<T> Default for Early<T> {
    fn default() -> Early<T> {
        Early { waiting: VecDeque::new(), bytes: 0, watched: false, asked: [false; LEVELS] }
    }
}

impl<T> Early<T> {
    /// Adds a call.
    ///
    /// # Errors
    /// If the queue is full: with the token, and why.
    pub(super) fn add(&mut self, job: Job, token: T, now: Instant) -> Result<(), (T, String)> {
        let bytes = self.bytes + job.bytes();
        if self.waiting.len() >= WAITING_MAX {
            return Err((token, format!("{WAITING_MAX} calls wait for registrations there")));
        }
        if bytes > BYTES_MAX {
            return Err((token, format!("calls of {BYTES_MAX} bytes wait for registrations there")));
        }
        self.bytes = bytes;
        self.waiting.push_back(Waiting { job, token, until: now + LIMIT });
        Ok(())
    }

    /// Takes the calls out for which `is_taken` holds.
    pub(super) fn take_all(&mut self, is_taken: impl Fn(&Waiting<T>) -> bool) -> Vec<Waiting<T>> {
        let (taken, rest) =
            std::mem::take(&mut self.waiting).into_iter().partition(|waiting| is_taken(waiting));
        self.waiting = rest;
        let taken: Vec<Waiting<T>> = Vec::from(taken as VecDeque<_>);
        self.bytes -= taken.iter().map(|waiting| waiting.job.bytes()).sum::<usize>();
        taken
    }

    /// Takes the first call of a level out for which `is_ready` holds.
    pub(super) fn take_first(&mut self, level: usize, is_ready: impl Fn(&Job) -> bool) -> Option<Waiting<T>> {
        let is_next = |waiting: &Waiting<T>| waiting.job.level == level && is_ready(&waiting.job);
        let place = self.waiting.iter().position(is_next)?;
        let taken = self.waiting.remove(place)?;
        self.bytes -= taken.job.bytes();
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "any moment will do")]

    use super::*;

    fn early(jobs: usize, bytes: usize) -> (Early<usize>, Instant) {
        let (mut early, now) = (Early::default(), Instant::now());
        for number in 0..jobs {
            early
                .add(Job::needing([-100, 0], number % 2, bytes), number, now)
                .map_err(|(_, why)| why)
                .unwrap();
        }
        (early, now)
    }

    #[test]
    fn calls_that_wait_are_bounded_by_number_and_by_bytes() {
        let (mut full, now) = early(WAITING_MAX, 1);
        let (token, why) = full.add(Job::needing([-100, 0], 0, 0), 9, now).unwrap_err();
        assert_eq!((token, &*why), (9, "4096 calls wait for registrations there"));
        assert_eq!(full.take_all(|waiting| waiting.token == 7).len(), 1);
        assert!(full.add(Job::needing([-100, 0], 0, 0), 9, now).is_ok());
        assert_eq!(full.bytes, WAITING_MAX - 1);
        // No memory is touched: it is zero.
        let (mut large, now) = early(2, BYTES_MAX / 2);
        let (_, why) = large.add(Job::needing([-100, 0], 0, 1), 9, now).unwrap_err();
        assert_eq!(why, "calls of 268435456 bytes wait for registrations there");
        assert!(large.add(Job::needing([-100, 0], 0, 0), 9, now).is_ok());
    }

    #[test]
    fn calls_of_a_level_are_taken_in_order() {
        let (mut early, now) = early(6, 10);
        let first = early.take_first(1, |_| true).unwrap();
        assert_eq!((first.token, first.until), (1, now + Duration::from_secs(60)));
        assert!(early.take_first(1, |_| false).is_none() && early.take_first(2, |_| true).is_none());
        let rest: Vec<usize> =
            std::iter::from_fn(|| early.take_first(1, |_| true)).map(|w| w.token).collect();
        assert_eq!((rest, early.bytes), (vec![3, 5], 30));
    }
}
