//! Leader and followers: the threads that take turns driving a node's event loop and running its default functions.
//!
//! A leader drives the loop. After a turn it runs a default function outside the loop, which wakes no other thread. If
//! the function still runs after [`FREE_LIMIT`], the [guard](super::guard) promotes a follower, which takes the loop.
//! The former leader is a worker until its function returns. A function that is about to wait hands the loop over at
//! once.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use gpc_trees::Id;
use tracing::error;

use super::deadlock_check::{self, ReleasedLoop};
use super::event_loop::EventLoop;
use super::executor::on_worker;
use super::guard::{Guarded, Timer};
use super::leader_jobs::{LeaderJob, LeaderResult};
use super::shared_state::SharedState;

/// How long a loop may be without a thread while its leader runs a function. Where 64 processes share two cores, a
/// process that lost its core waits one or two milliseconds for it. With a limit of one millisecond, calls took half as
/// long again, since loops were taken over for that alone.
pub(super) const FREE_LIMIT: Duration = Duration::from_millis(3);

/// The leader is inside the loop.
const IN_LOOP: u8 = 0;
/// The leader runs a function, and will return to the loop.
const IN_FUNCTION: u8 = 1;
/// Another thread takes the loop over.
const TAKEN_OVER: u8 = 2;

/// The event loop of a node, and the threads that may drive it.
pub(super) struct LeaderFollowers {
    id: Id,
    shared: Arc<SharedState>,
    /// `None` once the node has ended.
    event_loop: Mutex<Option<EventLoop>>,
    state: AtomicU8,
    /// Whether the loop was taken over because a function takes long, or waits.
    has_overrun: AtomicBool,
    /// Created with the first function; `None` if the system provides none.
    timer: OnceLock<Option<Timer>>,
    threads: Mutex<Threads>,
    changed: Condvar,
}

/// The threads that do not drive the loop.
#[derive(Default)]
struct Threads {
    /// Number of waiting followers: at most that of the functions which took too long at the same time.
    spare: usize,
    /// Number of followers that were promoted and do not lead yet.
    promoted: usize,
    ended: bool,
    /// The error that ended the loop.
    error: Option<io::Error>,
}

impl LeaderFollowers {
    pub(super) fn new(id: Id, shared: Arc<SharedState>, event_loop: EventLoop) -> Arc<LeaderFollowers> {
        Arc::new(LeaderFollowers {
            id,
            shared,
            event_loop: Mutex::new(Some(event_loop)),
            state: AtomicU8::new(IN_LOOP),
            has_overrun: AtomicBool::new(false),
            timer: OnceLock::new(),
            threads: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// Starts a thread that leads.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn start(self: &Arc<LeaderFollowers>) -> io::Result<()> {
        let lead = self.clone();
        thread::Builder::new().name(format!("gpc-{}", self.id)).spawn(move || lead.run_thread()).map(drop)
    }

    /// Drives the loop until it has ended: on this thread up to the first default function, then on other threads. A
    /// default function that never returns would keep this method from returning, so none runs on this thread.
    ///
    /// # Errors
    /// Of the loop.
    pub(super) fn serve(self: &Arc<LeaderFollowers>) -> io::Result<()> {
        self.drive(false);
        self.wait_for_end();
        self.threads().error.take().map_or(Ok(()), Err)
    }

    /// Waits until the loop has ended, on whatever thread it runs.
    pub(super) fn wait_for_end(&self) {
        let mut threads = self.threads();
        while !threads.ended {
            threads = self.changed.wait(threads).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn threads(&self) -> MutexGuard<'_, Threads> {
        // No code panics while it holds the lock.
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn event_loop(&self) -> MutexGuard<'_, Option<EventLoop>> {
        // A loop whose thread has panicked is dropped.
        self.event_loop.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leads, and waits for the next promotion, until the loop has ended.
    fn run_thread(self: &Arc<LeaderFollowers>) {
        loop {
            self.drive(true);
            let mut threads = self.threads();
            threads.spare += 1;
            while threads.promoted == 0 && !threads.ended {
                threads = self.changed.wait(threads).unwrap_or_else(PoisonError::into_inner);
            }
            threads.spare -= 1;
            if threads.ended {
                return;
            }
            threads.promoted -= 1;
        }
    }

    /// Drives the loop until it has ended, or another thread has taken it over.
    fn drive(self: &Arc<LeaderFollowers>, runs_functions: bool) {
        let ends = PanicGuard(self);
        let mut event_loop = self.event_loop();
        self.state.store(IN_LOOP, Ordering::SeqCst);
        if self.has_overrun.swap(false, Ordering::SeqCst)
            && let Some(event_loop) = &mut *event_loop
        {
            event_loop.note_takeover();
        }
        // Terminates with the loop.
        while let Some(inside) = &mut *event_loop {
            match inside.run_until_function() {
                Ok(Some(job)) if !runs_functions => {
                    inside.put_back(job);
                    inside.release();
                    drop(event_loop);
                    self.state.store(TAKEN_OVER, Ordering::SeqCst);
                    self.promote_follower();
                    break;
                }
                Ok(Some(job)) if self.timer().is_none() => inside.hand_to_worker(job),
                Ok(Some(job)) => {
                    inside.release();
                    drop(event_loop);
                    let ran = self.run_outside(job);
                    if self.change(IN_FUNCTION, IN_LOOP) {
                        event_loop = self.event_loop();
                        if let Some(inside) = &mut *event_loop {
                            inside.resume(ran);
                        }
                        continue;
                    }
                    self.shared.mailbox.result(ran.into_input());
                    break;
                }
                ended => {
                    self.end(event_loop.take(), ended.err());
                    break;
                }
            }
        }
        std::mem::forget(ends);
    }

    /// Runs a function outside the loop, which other threads may take over meanwhile.
    fn run_outside(self: &Arc<LeaderFollowers>, job: LeaderJob) -> LeaderResult {
        self.state.store(IN_FUNCTION, Ordering::SeqCst);
        if let Some(Err(error)) = self.timer().map(|timer| timer.set(FREE_LIMIT)) {
            error!(id = self.id, %error, "cannot set the timer of functions");
            self.take_over();
        }
        deadlock_check::with_released_loop(self.clone(), || match job {
            LeaderJob::Job(job) => LeaderResult::Job(on_worker(&self.shared, 0, job)),
            LeaderJob::Short(job, own) => LeaderResult::Short(job.run(&self.shared, own)),
        })
    }

    fn timer(self: &Arc<LeaderFollowers>) -> Option<&Timer> {
        let register = || {
            let me: Weak<dyn Guarded> = Arc::<LeaderFollowers>::downgrade(self);
            Timer::register(me).inspect_err(|error| {
                error!(id = self.id, %error, "cannot create the timer of functions: they run on a separate thread");
            })
        };
        self.timer.get_or_init(|| register().ok()).as_ref()
    }

    fn change(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Makes another thread take the loop over, if the leader runs a function.
    fn take_over(self: &Arc<LeaderFollowers>) {
        if self.change(IN_FUNCTION, TAKEN_OVER) {
            self.has_overrun.store(true, Ordering::SeqCst);
            self.promote_follower();
        }
    }

    /// Promotes a waiting follower, or starts a thread.
    fn promote_follower(self: &Arc<LeaderFollowers>) {
        let mut threads = self.threads();
        if threads.spare > threads.promoted {
            threads.promoted += 1;
            drop(threads);
            return self.changed.notify_all();
        }
        drop(threads);
        if let Err(error) = self.start() {
            error!(id = self.id, %error, "cannot start a thread: the node stands still until its function returns");
            self.change(TAKEN_OVER, IN_FUNCTION);
        }
    }

    /// Records the end of the loop.
    fn end(&self, event_loop: Option<EventLoop>, error: Option<io::Error>) {
        if let Some(error) = &error {
            error!(id = self.id, %error, "the event loop failed");
        }
        drop(event_loop);
        let mut threads = self.threads();
        threads.ended = true;
        threads.error = error;
        drop(threads);
        self.changed.notify_all();
    }
}

impl Guarded for LeaderFollowers {
    fn expired(self: Arc<Self>) {
        self.take_over();
    }
}

impl ReleasedLoop for LeaderFollowers {
    fn hand_over(self: Arc<Self>) {
        self.take_over();
    }
}

/// Ends the loop if the thread that drives it panics.
struct PanicGuard<'a>(&'a Arc<LeaderFollowers>);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        let event_loop = self.0.event_loop().take();
        self.0.end(event_loop, Some(io::Error::other("the thread of the event loop panicked")));
    }
}

#[cfg(test)]
mod tests;
