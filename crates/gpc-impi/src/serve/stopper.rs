//! Ends a served session early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mio::Waker;

/// Ends a [served session](super::Listener::serve), from another thread.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Stopping>);

#[derive(Debug)]
struct Stopping {
    stopped: AtomicBool,
    waker: Waker,
}

impl Stopper {
    pub(super) fn new(waker: Waker) -> Stopper {
        Stopper(Arc::new(Stopping { stopped: AtomicBool::new(false), waker }))
    }

    /// Ends the session with [`ServeError::Stopped`](super::ServeError::Stopped). A session that has not begun ends
    /// when it begins.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::Release);
        // Fails if the session has ended already.
        let _ = self.0.waker.wake();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::Acquire)
    }
}
