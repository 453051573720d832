//! A function that runs, or has kept a token to answer with, as it and the event loop see it: whether its call is still there.

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::error;

type Told = Box<dyn FnOnce() + Send>;

/// A function that runs.
#[derive(Default)]
pub(super) struct Run {
    stopped: AtomicBool,
    /// Who is to be told when it is.
    told: Mutex<Vec<Told>>,
}

/// Told of the same end at most: a function has one use for it, a program that shares its token a few.
const TOLD_MAX: usize = 64;

impl Run {
    /// Its call is over here: what it gives will be ignored.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        let told = std::mem::take(&mut *self.told.lock().unwrap_or_else(PoisonError::into_inner));
        told.into_iter().for_each(call);
    }

    /// Whether its call is over.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Has somebody told when the call is over; at once if it is, or if too many wait for it already.
    pub(super) fn on_stop(&self, tell: Told) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < TOLD_MAX && !self.is_stopped() {
            return told.push(tell);
        }
        drop(told);
        call(tell);
    }
}

/// Runs the application's code, which may panic, on a thread that must go on.
fn call(tell: Told) {
    if catch_unwind(AssertUnwindSafe(tell)).is_err() {
        error!("what was to be told of the end of a call panicked");
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Run(stopped: {})", self.is_stopped())
    }
}

/// The run of a job, made when somebody asks for it: a function that ends at once needs none.
pub(super) struct LazyRun {
    run: OnceCell<Arc<Run>>,
    /// Whether the function may ask for a token to answer with.
    pub(super) may_defer: Cell<bool>,
    deferred: Cell<bool>,
}

impl LazyRun {
    /// Of a job whose run is there already, or of one that has none yet.
    pub(super) fn new(run: Option<Arc<Run>>, may_defer: bool) -> LazyRun {
        let run = run.map_or_else(OnceCell::new, OnceCell::from);
        LazyRun { run, may_defer: Cell::new(may_defer), deferred: Cell::new(false) }
    }

    /// A token is given out to answer with.
    pub(super) fn defer(&self) -> Arc<Run> {
        self.deferred.set(true);
        self.run.get_or_init(Arc::default).clone()
    }

    /// Whether a token was given out.
    pub(super) fn is_deferred(&self) -> bool {
        self.deferred.get()
    }

    /// The run, where a token was given out.
    pub(super) fn kept(self) -> Option<Arc<Run>> {
        self.run.into_inner().filter(|_| self.deferred.get())
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.run.get().is_some_and(|run| run.is_stopped())
    }
}
