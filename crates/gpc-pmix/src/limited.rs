//! Work that may block for ever: a thread of its own runs it in order, and callers wait with a time limit.
//!
//! A call into foreign code cannot be ended from outside. The memory that it reads and writes belongs to the thread
//! that makes it. If a caller gives up, the thread and that memory stay until the call returns or the process ends. So
//! no other code frees the memory.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::Duration;

use chained_gpc::channel::{Sender, channel};

/// A piece of work on the value that the thread owns.
type Job<T> = Box<dyn FnOnce(&mut T) + Send>;

/// A thread that owns a `T` and runs pieces of work on it, one after the other.
pub(crate) struct Limited<T> {
    jobs: Sender<Job<T>>,
    /// Whether a piece of work is queued that has not begun.
    queued: Arc<AtomicBool>,
}

/// A place in the queue, which is free again when the work begins or is dropped.
struct Place(Arc<AtomicBool>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// The reason why there is no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoAnswer {
    /// The limit has passed. The thread goes on, and later work may wait for the same call.
    Late,
    /// The thread has ended: a piece of work has panicked.
    Gone,
}

impl<T: 'static> Limited<T> {
    /// Starts a thread that first creates its own `T`, so `T` need not move between threads.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub(crate) fn new(name: &str, make: impl FnOnce() -> T + Send + 'static) -> io::Result<Limited<T>> {
        let (jobs, receiver) = channel::<Job<T>>();
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            let mut owned = make();
            // Ends when the handle is dropped.
            while let Ok(job) = receiver.recv() {
                job(&mut owned);
            }
        })?;
        Ok(Limited { jobs, queued: Arc::default() })
    }

    /// Runs a piece of work and returns its result within the limit.
    ///
    /// # Errors
    /// The limit has passed, now or earlier with the thread still at that work, or the thread has ended.
    pub(crate) fn ask<A: Send + 'static>(
        &self,
        limit: Duration,
        work: impl FnOnce(&mut T) -> A + Send + 'static,
    ) -> Result<A, NoAnswer> {
        // A caller waits for its result before it asks again, unless the limit has passed. So one place suffices, and
        // further places would hold work without a receiver.
        if self.queued.swap(true, Ordering::AcqRel) {
            return Err(NoAnswer::Late);
        }
        let place = Place(Arc::clone(&self.queued));
        let (answer, receiver) = channel();
        let job: Job<T> = Box::new(move |owned| {
            drop(place);
            // The receiver may have stopped waiting.
            let _ = answer.send(work(owned));
        });
        self.jobs.send(job).map_err(|_| NoAnswer::Gone)?;
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
        let (release, blocked) = channel::<()>();
        let limited = Limited::new("blocked", || ()).unwrap();
        let short = Duration::from_millis(10);
        assert_eq!(limited.ask(short, move |()| blocked.recv().is_ok()), Err(NoAnswer::Late));
        assert_eq!(limited.ask(short, |()| true), Err(NoAnswer::Late));
        let refused = Arc::new(());
        let taken = Arc::clone(&refused);
        assert_eq!(limited.ask(short, move |()| drop(taken)), Err(NoAnswer::Late));
        assert_eq!(Arc::strong_count(&refused), 1, "no room: it is not even queued");
        // The thread outlives the handle, and ends with its work.
        drop(limited);
        release.send(()).unwrap();
    }

    #[test]
    fn work_that_panics_is_an_error_from_then_on() {
        let limited = Limited::new("panics", || ()).unwrap();
        assert_eq!(limited.ask(LONG, |()| -> u32 { panic!("for the test") }), Err(NoAnswer::Gone));
        // The thread may still be unwinding, and then drops this work as well.
        assert_eq!(limited.ask(LONG, |()| 1), Err(NoAnswer::Gone));
    }
}
