//! Handlers that make calls: how deep they nest, and that one of them runs at a time.
//!
//! A handler may wait for a call, whose handler at another process waits for a call back. If all handlers of a process
//! had one worker, two processes would block each other. So calls have levels: those of the application have level 0,
//! those of a handler the level above its own. Each level has a worker, so a handler waits for higher levels only, and
//! handlers of the highest level make no calls. The workers start when they are first needed: a program whose handlers
//! make no calls has one.

use std::cell::Cell;
use std::sync::{Condvar, Mutex, PoisonError};

use super::mutex::lock;
use crate::error::{Error, Result};
use crate::status::CGPC_ERR_DEADLOCK;

/// Number of levels. A handler that asks its caller needs two, and one on whose behalf the caller asks a third process
/// three; deeper nesting is recursion.
pub(super) const LEVELS: usize = 4;

thread_local! {
    /// The level of calls that this thread makes: 0 outside handlers.
    static LEVEL: Cell<usize> = const { Cell::new(0) };
}

/// The executor of a level.
pub(super) fn executor(level: usize) -> String {
    format!("armci-{level}")
}

/// Whether this thread runs a handler.
pub(super) fn is_in_handler() -> bool {
    LEVEL.get() > 0
}

/// The level of a call that this thread makes.
///
/// # Errors
/// If this thread runs a handler of the highest level.
pub(super) fn of_call() -> Result<usize> {
    Some(LEVEL.get()).filter(|level| *level < LEVELS).ok_or_else(|| {
        let message = format!(
            "handlers call handlers {LEVELS} deep: reply first, and go on in the process that has called"
        );
        Error::new(CGPC_ERR_DEADLOCK, message)
    })
}

/// An operation of all processes is the application's.
///
/// # Errors
/// If this thread runs a handler.
pub(super) fn outside_handlers(operation: &str) -> Result<()> {
    match is_in_handler() {
        false => Ok(()),
        true => Err(Error::new(CGPC_ERR_DEADLOCK, format!("a handler cannot take part in {operation}"))),
    }
}

/// What the running handler has, so that handlers run one at a time.
#[derive(Default)]
pub(super) struct Turn {
    taken: Mutex<bool>,
    free: Condvar,
}

impl Turn {
    fn take(&self) {
        let mut taken = lock(&self.taken);
        // Terminates: the handler that has the turn returns, or waits for a call.
        while *taken {
            taken = self.free.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
        *taken = true;
    }

    fn give(&self) {
        *lock(&self.taken) = false;
        self.free.notify_one();
    }
}

/// Runs a handler of a level when it has the turn.
pub(super) fn run<T>(turn: &Turn, level: usize, handler: impl FnOnce() -> T) -> T {
    let before = LEVEL.replace(level + 1);
    turn.take();
    let result = handler();
    turn.give();
    LEVEL.set(before);
    result
}

/// Lets other handlers run while this thread waits, if it runs a handler.
pub(super) fn while_waiting<T>(turn: &Turn, wait: impl FnOnce() -> T) -> T {
    if !is_in_handler() {
        return wait();
    }
    turn.give();
    let result = wait();
    turn.take();
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_as_deep_as_the_handlers_that_it_runs() {
        let turn = Turn::default();
        assert_eq!((is_in_handler(), of_call().unwrap()), (false, 0));
        outside_handlers("a barrier").unwrap();
        let deep = run(&turn, LEVELS - 2, || {
            assert_eq!((is_in_handler(), of_call().unwrap()), (true, LEVELS - 1));
            assert_eq!(outside_handlers("a barrier").unwrap_err().status, CGPC_ERR_DEADLOCK);
            while_waiting(&turn, || {
                assert!(!*lock(&turn.taken), "another handler may run");
                run(&turn, LEVELS - 1, || of_call().unwrap_err().status)
            })
        });
        assert_eq!((deep, of_call().unwrap()), (CGPC_ERR_DEADLOCK, 0));
    }

    /// Handlers of two levels ran at the same time, on data that the application took for theirs alone.
    #[test]
    fn one_handler_runs_at_a_time_and_one_that_waits_gives_the_turn() {
        let (turn, running) = (Turn::default(), Mutex::new(()));
        std::thread::scope(|scope| {
            for level in 0..LEVELS {
                let (turn, running) = (&turn, &running);
                scope.spawn(move || {
                    for _ in 0..200 {
                        run(turn, level, || {
                            let alone = running.try_lock().expect("no other handler runs");
                            drop(alone);
                            while_waiting(turn, std::thread::yield_now);
                            let alone = running.try_lock().expect("no other handler runs");
                            std::thread::yield_now();
                            drop(alone);
                        });
                    }
                });
            }
        });
    }
}
