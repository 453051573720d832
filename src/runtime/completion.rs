//! Where the event loop puts the end of a call, and where its caller waits for it: by blocking, or with a task's waker.
#![allow(clippy::disallowed_methods, reason = "a caller waits by the clock of its own thread")]

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::chain::RootReply;
use crate::wire::{Failure, Report};

/// A call that did not fail.
#[derive(Debug)]
pub(super) struct Success {
    /// None if none was asked for.
    pub(super) reply: Option<RootReply>,
    /// Of a partial call.
    pub(super) report: Option<Box<Report>>,
}

/// How a call ended, as the event loop says it; `None` when the node ended first.
pub(super) type Ended = Option<Result<Success, Box<Failure>>>;

/// The end of one call.
#[derive(Debug, Default)]
pub(super) struct Completion {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    ended: Option<Ended>,
    waker: Option<Waker>,
    /// Whether a thread sleeps until the end: to wake nobody is a call of the system, too.
    awaited: bool,
}

impl Completion {
    /// The call has ended.
    pub(super) fn complete(&self, ended: Ended) {
        let mut state = self.state();
        state.ended = Some(ended);
        let (waker, awaited) = (state.waker.take(), state.awaited);
        drop(state);
        if awaited {
            self.changed.notify_all();
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The end, if it has come; it is given once.
    pub(super) fn take(&self) -> Option<Ended> {
        self.state().ended.take()
    }

    /// The end, if it has come; else `waker` is woken when it does.
    pub(super) fn take_or_wake(&self, waker: &Waker) -> Option<Ended> {
        let mut state = self.state();
        let ended = state.ended.take();
        if ended.is_none() {
            state.waker = Some(waker.clone());
        }
        ended
    }

    /// Waits for the end, at most `limit`.
    pub(super) fn wait(&self, limit: Option<Duration>) -> Option<Ended> {
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut state = self.state();
        while state.ended.is_none() {
            state.awaited = true;
            state = match until {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return None;
                    }
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        state.ended.take()
    }

    /// The state is plain data, valid after any panic.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
