//! The completion of a call: the event loop stores the result here, and the caller waits for it, by blocking or with a
//! task's waker.
#![allow(clippy::disallowed_methods, reason = "a caller waits by the clock of its own thread")]

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use gpc_trees::Group;
use tracing::error;

use crate::chain::RootReply;
use crate::wire::message::SubtreeReply;
use crate::wire::{Failure, Report};

/// A call that has not failed.
#[derive(Clone, Debug)]
pub(super) struct Success {
    /// `None` if no reply was requested.
    pub(super) reply: Option<RootReply>,
    /// Of a partial call.
    pub(super) report: Option<Box<Report>>,
}

/// The result of a call; `None` if the node ended first.
pub(super) type CallEnd = Option<Result<Success, Box<Failure>>>;

/// What a child of the root has answered.
#[derive(Debug)]
pub(super) struct SubtreeAnswer {
    /// Its place among the ids that execute, in tree order.
    pub(super) group: Group,
    pub(super) reply: SubtreeReply,
    /// Of a partial call.
    pub(super) report: Option<Box<Report>>,
}

/// The next event for a caller that takes the replies as they arrive.
#[derive(Debug)]
pub(super) enum NextReply {
    Child(SubtreeAnswer),
    /// The call has ended; its result is left for the handle.
    End(CallEnd),
}

/// The completion of one call.
#[derive(Debug, Default)]
pub(super) struct Completion {
    state: Mutex<State>,
    changed: Condvar,
    /// Whether the caller has cancelled the call: then a call that has not begun never begins.
    given_up: AtomicBool,
    /// Whether the caller takes the replies as they arrive.
    followed: AtomicBool,
}

/// A continuation of a call.
pub(super) type Continuation = Box<dyn FnOnce(CallEnd) + Send>;

#[derive(Default)]
struct State {
    ended: Option<CallEnd>,
    /// Answers of children, of a call whose replies are taken as they arrive: at most one of each child.
    answers: VecDeque<SubtreeAnswer>,
    waker: Option<Waker>,
    /// Whether a thread waits: a wake-up without a waiting thread would still be a system call.
    awaited: bool,
    continuation: Option<Continuation>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("ended", &self.ended).field("awaited", &self.awaited).finish()
    }
}

impl State {
    fn next_reply(&mut self) -> Option<NextReply> {
        match self.answers.pop_front() {
            Some(answer) => Some(NextReply::Child(answer)),
            None => self.ended.clone().map(NextReply::End),
        }
    }
}

impl Completion {
    /// Stores the answer of a child.
    pub(super) fn child_answered(&self, answer: SubtreeAnswer) {
        let mut state = self.state();
        state.answers.push_back(answer);
        self.notify(state);
    }

    /// Completes the call.
    pub(super) fn complete(&self, ended: CallEnd) {
        let mut state = self.state();
        if let Some(continuation) = state.continuation.take() {
            drop(state);
            return run_continuation(continuation, ended);
        }
        state.ended = Some(ended);
        self.notify(state);
    }

    /// Wakes the caller, however it waits.
    fn notify(&self, mut state: MutexGuard<'_, State>) {
        let (waker, awaited) = (state.waker.take(), state.awaited);
        drop(state);
        if awaited {
            self.changed.notify_all();
        }
        if let Some(waker) = waker {
            wake(waker);
        }
    }

    /// Sets the continuation; runs it at once if the call has ended.
    pub(super) fn set_continuation(&self, continuation: Continuation) {
        let mut state = self.state();
        match state.ended.take() {
            None => state.continuation = Some(continuation),
            Some(ended) => {
                drop(state);
                run_continuation(continuation, ended);
            }
        }
    }

    /// Whether the call has ended and its result has not been taken.
    pub(super) fn has_ended(&self) -> bool {
        self.state().ended.is_some()
    }

    /// Records that the caller has cancelled the call; returns true the first time.
    pub(super) fn give_up(&self) -> bool {
        !self.given_up.swap(true, Ordering::SeqCst)
    }

    /// Whether the caller has cancelled the call.
    pub(super) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::SeqCst)
    }

    /// Records that the caller takes the replies as they arrive; returns true the first time.
    pub(super) fn follow(&self) -> bool {
        !self.followed.swap(true, Ordering::SeqCst)
    }

    /// Whether the caller takes the replies as they arrive.
    pub(super) fn is_followed(&self) -> bool {
        self.followed.load(Ordering::SeqCst)
    }

    /// Takes the next answer of a child; after them the result, which stays.
    pub(super) fn next_reply(&self) -> Option<NextReply> {
        self.state().next_reply()
    }

    /// Like [`next_reply`](Self::next_reply); registers `waker` if there is nothing yet.
    pub(super) fn next_reply_or_wake(&self, waker: &Waker) -> Option<NextReply> {
        self.take_from(waker, State::next_reply)
    }

    /// Waits for the next answer of a child, or the result, at most `limit`. It ends with the call, which has a time
    /// limit.
    pub(super) fn wait_for_reply(&self, limit: Option<Duration>) -> Option<NextReply> {
        self.wait_until(limit, State::next_reply)
    }

    /// Takes the result, if there is one; it can be taken once.
    pub(super) fn take(&self) -> Option<CallEnd> {
        self.state().ended.take()
    }

    /// Takes the result, if there is one; otherwise registers `waker`.
    pub(super) fn take_or_wake(&self, waker: &Waker) -> Option<CallEnd> {
        self.take_from(waker, |state| state.ended.take())
    }

    fn take_from<T>(&self, waker: &Waker, take: impl FnOnce(&mut State) -> Option<T>) -> Option<T> {
        let mut state = self.state();
        let taken = take(&mut state);
        if taken.is_none() {
            state.waker = Some(waker.clone());
        }
        taken
    }

    /// Waits for the result, at most `limit`.
    pub(super) fn wait(&self, limit: Option<Duration>) -> Option<CallEnd> {
        self.wait_until(limit, |state| state.ended.take())
    }

    fn wait_until<T>(&self, limit: Option<Duration>, take: impl Fn(&mut State) -> Option<T>) -> Option<T> {
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut state = self.state();
        loop {
            if let Some(taken) = take(&mut state) {
                return Some(taken);
            }
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
    }

    /// The state is plain data, valid after any panic.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes a task, whose executor may panic, from a thread that must go on.
pub(super) fn wake(task: Waker) {
    if catch_unwind(AssertUnwindSafe(|| task.wake())).is_err() {
        error!("the waker of a task that waits for a call panicked");
    }
}

/// Runs the caller's code, which may panic, on a thread that must go on.
fn run_continuation(continuation: Continuation, ended: CallEnd) {
    if catch_unwind(AssertUnwindSafe(|| continuation(ended))).is_err() {
        error!("the continuation of a call panicked");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn task() -> (Arc<Wakes>, Waker) {
        let wakes = Arc::<Wakes>::default();
        (wakes.clone(), Waker::from(wakes))
    }

    fn is_end(ended: Option<CallEnd>) -> bool {
        matches!(ended, Some(None))
    }

    #[test]
    fn the_task_that_asked_last_is_woken_once() {
        let completion = Completion::default();
        let ((first, of_first), (last, of_last)) = (task(), task());
        assert!(completion.take_or_wake(&of_first).is_none() && completion.take_or_wake(&of_last).is_none());
        completion.complete(None);
        assert_eq!([first, last].map(|wakes| wakes.0.load(Ordering::SeqCst)), [0, 1]);
        assert!(completion.has_ended() && is_end(completion.take_or_wake(&of_last)));
        assert!(completion.take().is_none(), "a result is taken once");
    }

    #[test]
    fn a_continuation_gets_the_result_before_or_after_the_end() {
        for ends_first in [false, true] {
            let (completion, ran) = (Completion::default(), Arc::new(AtomicUsize::new(0)));
            let counts = ran.clone();
            let then: Continuation = Box::new(move |ended| {
                assert!(ended.is_none());
                counts.fetch_add(1, Ordering::SeqCst);
            });
            if ends_first {
                completion.complete(None);
                completion.set_continuation(then);
            } else {
                completion.set_continuation(then);
                assert_eq!(ran.load(Ordering::SeqCst), 0);
                completion.complete(None);
            }
            assert_eq!(ran.load(Ordering::SeqCst), 1);
            assert!(completion.take().is_none(), "it is taken once");
        }
    }

    #[test]
    fn a_panic_at_the_end_of_a_call_ends_nothing_else() {
        struct Panics;
        impl Wake for Panics {
            fn wake(self: Arc<Self>) {
                panic!("an executor");
            }
        }
        let completion = Completion::default();
        completion.set_continuation(Box::new(|_| panic!("a continuation")));
        completion.complete(None);
        let completion = Completion::default();
        assert!(completion.take_or_wake(&Arc::new(Panics).into()).is_none());
        completion.complete(None);
        assert!(is_end(completion.take()));
    }

    #[test]
    fn a_call_is_given_up_once() {
        let completion = Completion::default();
        assert!(!completion.is_given_up() && completion.give_up() && !completion.give_up());
        assert!(completion.is_given_up());
    }

    #[test]
    fn a_thread_waits_for_the_end_or_its_limit() {
        let completion = Completion::default();
        assert!(completion.wait(Some(Duration::ZERO)).is_none());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| is_end(completion.wait(None)));
            completion.complete(None);
            assert!(waits.join().unwrap());
        });
        assert!(completion.wait(Some(Duration::ZERO)).is_none(), "it was taken");
    }
}
