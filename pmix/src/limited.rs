//! Work that may block for ever, done in order on a thread of its own, and waited for with a limit.
//!
//! A call into foreign code cannot be ended from outside. What it reads and writes belongs to the thread that makes it, so a caller that gives up leaves nothing behind that somebody else frees: the thread and its memory stay until the call returns, or the process ends.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Something to do with what the thread owns.
type Job<T> = Box<dyn FnOnce(&mut T) + Send>;

/// A thread that owns a `T` and does with it what it is told, one thing after the other.
pub(crate) struct Limited<T> {
    jobs: SyncSender<Job<T>>,
}

/// Why there is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoAnswer {
    /// The limit has passed; the thread is left to itself, and whatever is asked of it later may wait for the same.
    Late,
    /// The thread has ended: what it did has panicked.
    Gone,
}

impl<T: 'static> Limited<T> {
    /// A thread that makes its `T` itself, as the first thing that it does: a `T` need not be moved between threads.
    ///
    /// # Errors
    /// When the system has no room for a thread.
    pub(crate) fn new(name: &str, make: impl FnOnce() -> T + Send + 'static) -> io::Result<Limited<T>> {
        // Who asks waits for the answer before asking again, unless the limit has passed: one place is enough, and more of them would be work for nobody.
        let (jobs, receiver): (_, Receiver<Job<T>>) = sync_channel(1);
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            let mut owned = make();
            receiver.iter().for_each(|job| job(&mut owned));
        })?;
        Ok(Limited { jobs })
    }

    /// What the work gives, within the limit.
    ///
    /// # Errors
    /// When the limit has passed, now or at an earlier time with the thread still at that, or the thread has ended.
    pub(crate) fn ask<A: Send + 'static>(
        &self,
        limit: Duration,
        work: impl FnOnce(&mut T) -> A + Send + 'static,
    ) -> Result<A, NoAnswer> {
        let (answer, receiver) = sync_channel(1);
        let job: Job<T> = Box::new(move |owned| {
            // Nobody may be waiting any more.
            let _ = answer.send(work(owned));
        });
        // A full queue: an earlier piece of work has not ended, nor has the one behind it begun.
        self.jobs.try_send(job).map_err(|error| match error {
            std::sync::mpsc::TrySendError::Full(_) => NoAnswer::Late,
            std::sync::mpsc::TrySendError::Disconnected(_) => NoAnswer::Gone,
        })?;
        receiver.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => NoAnswer::Late,
            RecvTimeoutError::Disconnected => NoAnswer::Gone,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn work_is_done_in_order_by_one_thread() {
        let limited = Limited::new("counter", || 0).unwrap();
        for count in 1..=100 {
            let counted = limited.ask(LONG, |counter: &mut u32| {
                *counter += 1;
                *counter
            });
            assert_eq!(counted, Ok(count));
        }
        let name = limited.ask(LONG, |_| thread::current().name().map(str::to_owned));
        assert_eq!(name, Ok(Some("counter".to_owned())));
    }

    #[test]
    fn work_that_blocks_is_given_up_and_so_is_what_waits_behind_it() {
        let (release, blocked) = sync_channel::<()>(0);
        let limited = Limited::new("blocked", || ()).unwrap();
        let short = Duration::from_millis(10);
        assert_eq!(limited.ask(short, move |()| blocked.recv().is_ok()), Err(NoAnswer::Late));
        assert_eq!(limited.ask(short, |()| true), Err(NoAnswer::Late));
        assert_eq!(limited.ask(LONG, |()| true), Err(NoAnswer::Late), "no room: it does not even wait");
        // The thread outlives whoever asked, and ends when the work does.
        drop(limited);
        release.send(()).unwrap();
    }

    #[test]
    fn work_that_panics_is_an_error_from_then_on() {
        let limited = Limited::new("panics", || ()).unwrap();
        assert_eq!(limited.ask(LONG, |()| -> u32 { panic!("for the test") }), Err(NoAnswer::Gone));
        // The thread may still be unwinding, and then takes this along.
        assert_eq!(limited.ask(LONG, |()| 1), Err(NoAnswer::Gone));
    }
}
