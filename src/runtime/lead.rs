//! Leader and followers: the thread that drives a node, and runs its default functions itself.
//!
//! The event loop takes a turn, and writes what is ready. Then a default function that is due runs on the same thread,
//! outside the loop, which is free meanwhile: no other thread is woken for it. If the function still runs after
//! [`FREE_LIMIT`], the [guard](super::guard) has another thread take the loop, and the first one is a worker until its
//! function returns. A function that is about to wait gives the loop away at once.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use gpc_trees::Id;
use tracing::error;

use super::event_loop::EventLoop;
use super::executor::on_worker;
use super::guard::{Guarded, Timer};
use super::outside::{Outside, Ran};
use super::side::Side;
use super::waiting::{self, LeftLoop};

/// How long a loop may be free while its thread runs a function. Where 64 processes share two cores, one that has lost
/// its core has it again after one or two milliseconds: with a limit of one, their loops were taken for that alone, and
/// a call took half as long again.
pub(super) const FREE_LIMIT: Duration = Duration::from_millis(3);

/// The loop's thread is inside it.
const INSIDE: u8 = 0;
/// It runs a function outside, and will come back.
const OUTSIDE: u8 = 1;
/// Another thread takes the loop.
const TAKEN: u8 = 2;

/// The event loop of a node, and the threads that may drive it.
pub(super) struct Lead {
    id: Id,
    side: Arc<Side>,
    /// `None` once the node has ended.
    event_loop: Mutex<Option<EventLoop>>,
    state: AtomicU8,
    /// Whether the loop was taken because a function was long, or waits.
    overran: AtomicBool,
    /// Made when the first function runs; `None` if the system gives none.
    timer: OnceLock<Option<Timer>>,
    threads: Mutex<Threads>,
    changed: Condvar,
}

/// The threads that do not drive the loop.
#[derive(Default)]
struct Threads {
    /// Those that wait for their turn: at most one beside the driving one and each function that overran.
    spare: usize,
    /// How many of these are to lead.
    called: usize,
    ended: bool,
    /// Why the loop broke off.
    broke: Option<io::Error>,
}

impl Lead {
    pub(super) fn new(id: Id, side: Arc<Side>, event_loop: EventLoop) -> Arc<Lead> {
        Arc::new(Lead {
            id,
            side,
            event_loop: Mutex::new(Some(event_loop)),
            state: AtomicU8::new(INSIDE),
            overran: AtomicBool::new(false),
            timer: OnceLock::new(),
            threads: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// Starts the thread that leads first.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn start(self: &Arc<Lead>) -> io::Result<()> {
        let lead = self.clone();
        thread::Builder::new().name(format!("gpc-{}", self.id)).spawn(move || lead.follow()).map(drop)
    }

    /// Drives the loop on this thread until it has ended. Functions run elsewhere, since one that does not return must
    /// not keep this method from it.
    ///
    /// # Errors
    /// Of the loop.
    pub(super) fn serve(self: &Arc<Lead>) -> io::Result<()> {
        self.drive(false);
        self.wait_for_end();
        self.threads().broke.take().map_or(Ok(()), Err)
    }

    /// Waits until the loop has ended. This thread may have left it.
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

    /// Leads, and waits for the next turn to lead, until the loop has ended.
    fn follow(self: &Arc<Lead>) {
        loop {
            self.drive(true);
            let mut threads = self.threads();
            threads.spare += 1;
            while threads.called == 0 && !threads.ended {
                threads = self.changed.wait(threads).unwrap_or_else(PoisonError::into_inner);
            }
            threads.spare -= 1;
            if threads.ended {
                return;
            }
            threads.called -= 1;
        }
    }

    /// Drives the loop until it has ended, or another thread has taken it.
    fn drive(self: &Arc<Lead>, runs_functions: bool) {
        let ends = EndsIfItPanics(self);
        let mut event_loop = self.event_loop();
        self.state.store(INSIDE, Ordering::SeqCst);
        if self.overran.swap(false, Ordering::SeqCst)
            && let Some(event_loop) = &mut *event_loop
        {
            event_loop.was_taken();
        }
        // Ends with the loop.
        while let Some(inside) = &mut *event_loop {
            match inside.run_until_function() {
                Ok(Some(job)) if !runs_functions => {
                    inside.put_back(job);
                    inside.leave();
                    drop(event_loop);
                    self.state.store(TAKEN, Ordering::SeqCst);
                    self.call_follower();
                    break;
                }
                Ok(Some(job)) if self.timer().is_none() => inside.hand_to_worker(job),
                Ok(Some(job)) => {
                    inside.leave();
                    drop(event_loop);
                    let ran = self.run_outside(job);
                    if self.change(OUTSIDE, INSIDE) {
                        event_loop = self.event_loop();
                        if let Some(inside) = &mut *event_loop {
                            inside.come_back(ran);
                        }
                        continue;
                    }
                    self.side.mailbox.result(ran.into_input());
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

    /// Runs a function, while the loop may be taken.
    fn run_outside(self: &Arc<Lead>, job: Outside) -> Ran {
        self.state.store(OUTSIDE, Ordering::SeqCst);
        if let Some(Err(error)) = self.timer().map(|timer| timer.set(FREE_LIMIT)) {
            error!(id = self.id, %error, "the timer for functions cannot be set");
            self.take_over();
        }
        waiting::outside(self.clone(), || match job {
            Outside::Job(job) => Ran::Job(on_worker(&self.side, 0, job)),
            Outside::Short(job, own) => Ran::Short(job.run(&self.side, own)),
        })
    }

    fn timer(self: &Arc<Lead>) -> Option<&Timer> {
        let watched = || {
            let me: Weak<dyn Guarded> = Arc::<Lead>::downgrade(self);
            Timer::watched(me).inspect_err(|error| {
                error!(id = self.id, %error, "functions run on a thread of their own: there is no timer for them");
            })
        };
        self.timer.get_or_init(|| watched().ok()).as_ref()
    }

    fn change(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Has another thread take the loop, if its own is outside.
    fn take_over(self: &Arc<Lead>) {
        if self.change(OUTSIDE, TAKEN) {
            self.overran.store(true, Ordering::SeqCst);
            self.call_follower();
        }
    }

    /// Has a spare thread lead, or a new one.
    fn call_follower(self: &Arc<Lead>) {
        let mut threads = self.threads();
        if threads.spare > threads.called {
            threads.called += 1;
            drop(threads);
            return self.changed.notify_all();
        }
        drop(threads);
        if let Err(error) = self.start() {
            error!(id = self.id, %error, "no thread can drive the node until its function returns");
            self.change(TAKEN, OUTSIDE);
        }
    }

    /// The loop has ended.
    fn end(&self, event_loop: Option<EventLoop>, broke: Option<io::Error>) {
        if let Some(error) = &broke {
            error!(id = self.id, %error, "the event loop broke off");
        }
        drop(event_loop);
        let mut threads = self.threads();
        threads.ended = true;
        threads.broke = broke;
        drop(threads);
        self.changed.notify_all();
    }
}

impl Guarded for Lead {
    fn expired(self: Arc<Self>) {
        self.take_over();
    }
}

impl LeftLoop for Lead {
    fn give_away(self: Arc<Self>) {
        self.take_over();
    }
}

/// Ends the loop if the thread that drives it panics.
struct EndsIfItPanics<'a>(&'a Arc<Lead>);

impl Drop for EndsIfItPanics<'_> {
    fn drop(&mut self) {
        let event_loop = self.0.event_loop().take();
        self.0.end(event_loop, Some(io::Error::other("its thread panicked")));
    }
}

#[cfg(test)]
mod tests;
