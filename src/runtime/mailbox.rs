//! How other threads reach the event loop: a bounded queue of commands, the results of functions, and one waker.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::time::Duration;

use crossbeam::channel::{Receiver, SendTimeoutError, Sender, bounded, unbounded};
use mio::Waker;
use tracing::error;

use super::command::Command;
use crate::chain::Input;

/// Commands of the application that wait for the event loop: a burst of calls; above it the application waits.
pub(super) const COMMANDS: usize = 4096;

/// The senders' end.
#[derive(Debug)]
pub(super) struct Mailbox {
    commands: Sender<Command>,
    /// At most one result for each job that runs and each deferred reply: bounded by the calls in flight.
    results: Sender<Input>,
    waker: Waker,
    /// Whether the loop looks by itself before it sleeps, or has been woken.
    awake: AtomicBool,
    /// Whether something may lie in the queues: one look of the loop instead of four.
    full: AtomicBool,
    /// Whether the loop has looked for the last time.
    closed: AtomicBool,
    tickets: AtomicU64,
}

/// The event loop's end.
#[derive(Debug)]
pub(super) struct Slots {
    pub(super) commands: Receiver<Command>,
    pub(super) results: Receiver<Input>,
}

/// Why a command was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unsent {
    /// The queue stayed full.
    Full,
    /// The node has ended.
    Ended,
}

impl Mailbox {
    /// With room for so many commands.
    pub(super) fn new(waker: Waker, commands: usize) -> (Mailbox, Slots) {
        let (commands, commands_out) = bounded(commands);
        let (results, results_out) = unbounded();
        let (awake, full) = (AtomicBool::new(true), AtomicBool::new(false));
        let (closed, tickets) = (AtomicBool::new(false), AtomicU64::new(0));
        let mailbox = Mailbox { commands, results, waker, awake, full, closed, tickets };
        (mailbox, Slots { commands: commands_out, results: results_out })
    }

    /// A new name for a call.
    pub(super) fn ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Ordering::Relaxed)
    }

    /// Queues a command; waits at most `limit` for room.
    pub(super) fn command(&self, command: Command, limit: Duration) -> Result<(), Unsent> {
        match self.commands.send_timeout(command, limit) {
            // It came after the last look, or was answered by it: to the sender it is the same.
            Ok(()) if self.closed.load(Ordering::SeqCst) => Err(Unsent::Ended),
            Ok(()) => {
                self.deliver();
                Ok(())
            }
            Err(SendTimeoutError::Timeout(_)) => Err(Unsent::Full),
            Err(SendTimeoutError::Disconnected(_)) => Err(Unsent::Ended),
        }
    }

    /// Brings what a function gave. When the node has ended, nobody waits for it.
    pub(super) fn result(&self, input: Input) {
        if self.results.send(input).is_ok() {
            self.deliver();
        }
    }

    /// Something lies in a queue.
    fn deliver(&self) {
        self.full.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Whether something may lie in the queues.
    pub(super) fn has_come(&self) -> bool {
        self.full.load(Ordering::SeqCst)
    }

    /// The loop takes what lies in the queues; says whether anything may. What comes from here on says so anew.
    pub(super) fn open(&self) -> bool {
        self.has_come() && self.full.swap(false, Ordering::SeqCst)
    }

    /// The loop has left something.
    pub(super) fn keep(&self) {
        self.full.store(true, Ordering::SeqCst);
    }

    /// The loop is about to look for the last time: what comes from here on is refused, as is what it cannot see any more.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// The loop is about to sleep: what comes from here on must wake it. What came before it has to look for once more.
    pub(super) fn sleeping(&self) {
        self.awake.store(false, Ordering::Relaxed);
        // Either a sender sees that the loop sleeps, or the loop sees what was sent: both write first, and then read what the other has written.
        fence(Ordering::SeqCst);
    }

    /// The loop is awake, and looks before it sleeps again: a sender that does not see it yet wakes it for nothing.
    pub(super) fn awake(&self) {
        self.awake.store(true, Ordering::Relaxed);
    }

    /// One system call for any number of things that come while the loop sleeps, and none while it is awake.
    pub(super) fn wake(&self) {
        fence(Ordering::SeqCst);
        if !self.awake.swap(true, Ordering::SeqCst)
            && let Err(error) = self.waker.wake()
        {
            error!(%error, "cannot wake the event loop");
        }
    }
}

#[cfg(test)]
mod tests {
    use mio::{Poll, Token};

    use super::*;

    /// The loop took its last look at the queue while its receiver was still there: what came in between was taken, and nobody ever saw it.
    #[test]
    fn what_comes_after_the_last_look_is_refused() {
        let poll = Poll::new().unwrap();
        let (mailbox, slots) = Mailbox::new(Waker::new(poll.registry(), Token(0)).unwrap(), COMMANDS);
        let command = || mailbox.command(Command::GiveUp { ticket: 1 }, Duration::ZERO);
        assert_eq!(command(), Ok(()));
        mailbox.close();
        assert_eq!(command(), Err(Unsent::Ended));
        drop(slots);
        assert_eq!(command(), Err(Unsent::Ended));
    }
}
