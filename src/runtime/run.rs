//! The state of a function that runs, or that holds a token for a later reply: whether its call has ended.

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::error;

/// Code of the application that runs when the call ends.
type StopHook = Box<dyn FnOnce() + Send>;

/// The state of a running function, shared with the event loop.
#[derive(Default)]
pub(super) struct Run {
    stopped: AtomicBool,
    /// Hooks for the end of the call.
    hooks: Mutex<Vec<StopHook>>,
}

/// Maximum number of hooks: a function needs one, a program that shares its token a few.
const STOP_HOOKS_MAX: usize = 64;

impl Run {
    /// Records that its call has ended here: its result will be ignored. Runs the hooks.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        let hooks = std::mem::take(&mut *self.hooks.lock().unwrap_or_else(PoisonError::into_inner));
        hooks.into_iter().for_each(call);
    }

    /// Whether its call has ended.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Registers a hook for the end of the call. Runs it at once if the call has ended, or if there are too many
    /// hooks.
    pub(super) fn on_stop(&self, hook: StopHook) {
        let mut hooks = self.hooks.lock().unwrap_or_else(PoisonError::into_inner);
        if hooks.len() < STOP_HOOKS_MAX && !self.is_stopped() {
            return hooks.push(hook);
        }
        drop(hooks);
        call(hook);
    }
}

/// Runs code of the application, which may panic, on a thread that must go on.
fn call(hook: StopHook) {
    if catch_unwind(AssertUnwindSafe(hook)).is_err() {
        error!("a callback for the end of a call panicked");
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Run(stopped: {})", self.is_stopped())
    }
}

/// The run of a job, created on demand: a function that ends at once needs none.
pub(super) struct LazyRun {
    run: OnceCell<Arc<Run>>,
    /// Whether the function may request a token for a later reply.
    pub(super) may_defer: Cell<bool>,
    deferred: Cell<bool>,
}

impl LazyRun {
    /// Creates the run of a job; `run` is `None` if it does not exist yet.
    pub(super) fn new(run: Option<Arc<Run>>, may_defer: bool) -> LazyRun {
        let run = run.map_or_else(OnceCell::new, OnceCell::from);
        LazyRun { run, may_defer: Cell::new(may_defer), deferred: Cell::new(false) }
    }

    /// Records that a token is given out.
    pub(super) fn defer(&self) -> Arc<Run> {
        self.deferred.set(true);
        self.run.get_or_init(Arc::default).clone()
    }

    /// Whether a token was given out.
    pub(super) fn is_deferred(&self) -> bool {
        self.deferred.get()
    }

    /// The run, if a token was given out.
    pub(super) fn into_deferred(self) -> Option<Arc<Run>> {
        self.run.into_inner().filter(|_| self.deferred.get())
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.run.get().is_some_and(|run| run.is_stopped())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// A hook that counts.
    fn counts(count: &Arc<AtomicUsize>) -> StopHook {
        let count = count.clone();
        Box::new(move || {
            count.fetch_add(1, Ordering::SeqCst);
        })
    }

    #[test]
    fn hooks_run_once_when_the_call_ends_and_at_once_when_it_has() {
        let (run, ran) = (Run::default(), Arc::default());
        run.on_stop(counts(&ran));
        run.on_stop(Box::new(|| panic!("a hook of the application")));
        run.on_stop(counts(&ran));
        assert_eq!((run.is_stopped(), ran.load(Ordering::SeqCst)), (false, 0));
        run.stop();
        assert_eq!((run.is_stopped(), ran.load(Ordering::SeqCst)), (true, 2));
        run.on_stop(counts(&ran));
        assert_eq!(ran.load(Ordering::SeqCst), 3, "it has ended");
        run.stop();
        assert_eq!(ran.load(Ordering::SeqCst), 3);
    }

    #[test]
    fn hooks_have_a_bound_and_those_beyond_it_run_at_once() {
        let (run, ran) = (Run::default(), Arc::default());
        (0..STOP_HOOKS_MAX).for_each(|_| run.on_stop(counts(&ran)));
        assert_eq!(ran.load(Ordering::SeqCst), 0);
        run.on_stop(counts(&ran));
        assert_eq!(ran.load(Ordering::SeqCst), 1);
        run.stop();
        assert_eq!(ran.load(Ordering::SeqCst), STOP_HOOKS_MAX + 1);
    }

    #[test]
    fn the_run_of_a_job_is_made_for_its_token_and_shared_with_it() {
        let run = LazyRun::new(None, true);
        assert!(!run.is_deferred() && !run.is_stopped());
        let token = run.defer();
        token.stop();
        assert!(run.is_deferred() && run.is_stopped());
        assert!(run.into_deferred().is_some_and(|run| Arc::ptr_eq(&run, &token)));
        // A function on a worker has its run before, and needs none without a token.
        let run = LazyRun::new(Some(token), false);
        assert!(run.is_stopped() && !run.is_deferred() && run.into_deferred().is_none());
    }
}
