//! Deaths that wait for the functions of the application, which run in calls of BNR alone, one after the other.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use gpc_bnr::{Death, FaultKind};

use super::faults::fault;
use crate::abi::bnr_types::BNR_Notify_fn;
use crate::error::Result;

/// A death, and the function that receives it.
pub(crate) struct Notice {
    pub(crate) function: BNR_Notify_fn,
    pub(crate) death: Death,
}

/// The deaths of a process's groups.
#[derive(Default)]
pub(crate) struct Notices {
    state: Mutex<State>,
    /// A notice has arrived or was received, or the process has called `BNR_Finalize`.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Notices that no function has received yet. Bounded by the processes of the groups.
    waiting: VecDeque<Notice>,
    /// The thread that calls functions.
    caller: Option<ThreadId>,
    /// Number of notices that functions have received.
    received: u64,
    /// Whether the process has called `BNR_Finalize`.
    is_over: bool,
}

impl State {
    /// Whether a thread that waits since `received` notices were received has something to return for.
    fn has_news(&self, received: u64) -> bool {
        self.is_over || self.received > received || (self.caller.is_none() && !self.waiting.is_empty())
    }
}

impl Notices {
    /// No code panics while it holds the lock.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a notice. Called on the thread that reads the messages of the node.
    pub(super) fn add(&self, notice: Notice) {
        let mut state = self.state();
        if !state.is_over {
            state.waiting.push_back(notice);
            self.changed.notify_all();
        }
    }

    /// Drops the waiting notices and all later ones. No function is called from now on.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.is_over = true;
        state.waiting.clear();
        self.changed.notify_all();
    }

    /// Calls `run` with each notice, unless a thread does so already. `run` does not panic.
    pub(super) fn deliver(&self, run: impl Fn(Notice)) {
        self.drain(self.state(), run);
    }

    fn drain<'n>(&'n self, mut state: MutexGuard<'n, State>, run: impl Fn(Notice)) {
        if state.caller.is_some() {
            return;
        }
        // Ends: each death is a notice once.
        while let Some(notice) = state.waiting.pop_front() {
            state.caller = Some(thread::current().id());
            drop(state);
            run(notice);
            state = self.state();
            state.received += 1;
            self.changed.notify_all();
        }
        state.caller = None;
    }

    /// Waits until a function receives a death, on this thread or on another one, and calls `run` with the notices that
    /// are there by then.
    ///
    /// # Errors
    /// No death was reported within the limit; or the process has called `BNR_Finalize`; or `run` waits.
    pub(super) fn wait(&self, limit: Duration, run: impl Fn(Notice)) -> Result<()> {
        let state = self.state();
        if state.caller == Some(thread::current().id()) {
            let message = "a function that receives deaths runs: it cannot wait for the next one";
            return Err(fault(FaultKind::BadRequest, message));
        }
        let received = state.received;
        let waited = self.changed.wait_timeout_while(state, limit, |state| !state.has_news(received));
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if state.is_over {
            return Err(fault(FaultKind::Link, "this process has called BNR_Finalize during the wait"));
        }
        if !state.has_news(received) {
            let message = format!("no death was reported within {} ms", limit.as_millis());
            return Err(fault(FaultKind::TimedOut, message));
        }
        self.drain(state, run);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc::channel;

    use gpc_bnr::Exit;
    use gpc_bnr::names::{GroupId, Member};

    use super::*;
    use crate::bnr::as_fault;

    /// Long enough for a busy machine.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn notice(rank: u32) -> Notice {
        let death =
            Death { member: Member { group: GroupId(1), rank }, exit: Exit::Code(0), finalized: true };
        Notice { function: None, death }
    }

    /// The number of the fault.
    fn kind(result: Result<()>) -> Option<u16> {
        result.err().map(|error| as_fault(error).1)
    }

    /// `BNR_Wait` was `BNR_ERR_BAD_REQUEST` while another thread was in any function of BNR.
    #[test]
    fn a_wait_beside_a_thread_that_calls_functions_is_no_error() {
        let notices = &Notices::default();
        notices.add(notice(0));
        let (began, begins) = channel();
        let (go, goes) = channel();
        thread::scope(|scope| {
            scope.spawn(move || {
                notices.deliver(|_| {
                    began.send(()).unwrap();
                    goes.recv().unwrap();
                });
            });
            begins.recv().unwrap();
            notices.add(notice(1));
            let ran = Cell::new(false);
            let waited = kind(notices.wait(Duration::from_millis(1), |_| ran.set(true)));
            // The thread ends in any case: a failure would wait for it otherwise.
            let _ = (go.send(()), go.send(()));
            assert_eq!((waited, ran.get()), (Some(15), false));
        });
    }

    #[test]
    fn threads_that_wait_receive_each_death_once() {
        let notices = &Notices::default();
        let received = &AtomicU32::new(0);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let count = |_| {
                        received.fetch_add(1, Ordering::SeqCst);
                    };
                    // Ends: all are received, or the process has ended its part.
                    while received.load(Ordering::SeqCst) < 100
                        && kind(notices.wait(PATIENCE, count)) != Some(20)
                    {}
                });
            }
            for rank in 0..100 {
                notices.add(notice(rank));
            }
            let count = |_| {
                received.fetch_add(1, Ordering::SeqCst);
            };
            while received.load(Ordering::SeqCst) < 100 {
                notices.deliver(count);
                thread::yield_now();
            }
            notices.end();
        });
        assert_eq!(received.load(Ordering::SeqCst), 100);
    }

    #[test]
    fn a_thread_that_waits_returns_when_another_one_has_received() {
        let idle = State { received: 3, ..State::default() };
        assert!(!idle.has_news(3) && idle.has_news(2));
        let waiting = VecDeque::from([notice(0)]);
        assert!(State { waiting, ..State::default() }.has_news(0));
        let waiting = VecDeque::from([notice(0)]);
        let caller = Some(thread::current().id());
        assert!(!State { waiting, caller, ..State::default() }.has_news(0));
    }

    #[test]
    fn a_function_may_not_wait_and_is_not_interrupted() {
        let notices = Notices::default();
        notices.add(notice(0));
        notices.add(notice(1));
        let (said, order) = channel();
        let waited = notices.wait(PATIENCE, |notice| {
            let rank = notice.death.member.rank;
            said.send((rank, "begins")).unwrap();
            notices.deliver(|_| panic!("within a function"));
            assert_eq!(kind(notices.wait(PATIENCE, |_| panic!("within a function"))), Some(1));
            said.send((rank, "ends")).unwrap();
        });
        assert_eq!(kind(waited), None);
        drop(said);
        let order: Vec<_> = order.iter().collect();
        assert_eq!(order, [(0, "begins"), (0, "ends"), (1, "begins"), (1, "ends")]);
    }

    #[test]
    fn the_end_wakes_those_that_wait_and_no_function_runs_any_more() {
        let notices = Notices::default();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| kind(notices.wait(PATIENCE, |_| panic!("no death"))));
            notices.end();
            assert_eq!(waiter.join().unwrap(), Some(20));
        });
        // A function that ends the part of its process is the last one.
        let (notices, mut ran) = (Notices::default(), 0);
        notices.add(notice(0));
        notices.add(notice(1));
        let count = RefCell::new(&mut ran);
        notices.deliver(|_| {
            **count.borrow_mut() += 1;
            notices.end();
        });
        assert_eq!(ran, 1);
    }
}
