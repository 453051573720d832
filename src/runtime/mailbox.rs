//! How other threads reach the event loop: a bounded queue of commands, the results of functions, and one waker.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Mutex, PoisonError};
use std::task::Waker as Task;
use std::time::Duration;

use crossbeam::channel::{Receiver, SendTimeoutError, Sender, TrySendError, bounded, unbounded};
use mio::Waker;
use tracing::error;

use super::command::Command;
use super::completion::wake;
use super::waiting::Waiters;
use crate::chain::Input;

/// Commands of the application that wait for the event loop: a burst of calls; above it the application waits.
pub(super) const COMMANDS: usize = 4096;

/// The senders' end.
#[derive(Debug)]
pub(super) struct Mailbox {
    commands: Sender<Command>,
    /// At most a few for each job that runs, each deferred reply and each call that is given up: bounded by the calls in flight.
    results: Sender<Input>,
    waker: Waker,
    /// Whether the loop looks by itself before it sleeps, or has been woken.
    awake: AtomicBool,
    /// Whether something may lie in the queues: one look of the loop instead of four.
    full: AtomicBool,
    /// Whether the loop has looked for the last time.
    closed: AtomicBool,
    tickets: AtomicU64,
    /// Tasks that wait for room in the queue of commands: as many as the application has.
    crowd: Mutex<Vec<Task>>,
    /// Whether there may be any.
    crowded: AtomicBool,
    /// Who drives the node, and who of its functions waits.
    pub(super) waiters: Waiters,
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
    /// With room for so many commands, of a node with so many workers of each class.
    pub(super) fn new(waker: Waker, commands: usize, workers: Vec<usize>) -> (Mailbox, Slots) {
        let (commands, commands_out) = bounded(commands);
        let (results, results_out) = unbounded();
        let (awake, full) = (AtomicBool::new(true), AtomicBool::new(false));
        let (closed, tickets) = (AtomicBool::new(false), AtomicU64::new(0));
        let (crowd, crowded, waiters) = (Mutex::default(), AtomicBool::new(false), Waiters::new(workers));
        let mailbox =
            Mailbox { commands, results, waker, awake, full, closed, tickets, crowd, crowded, waiters };
        (mailbox, Slots { commands: commands_out, results: results_out })
    }

    /// A new name for a call.
    pub(super) fn ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Ordering::Relaxed)
    }

    /// Queues a command; waits at most `limit` for room.
    pub(super) fn command(&self, command: Command, limit: Duration) -> Result<(), Unsent> {
        match self.commands.send_timeout(command, limit) {
            Ok(()) => self.sent(),
            Err(SendTimeoutError::Timeout(_)) => Err(Unsent::Full),
            Err(SendTimeoutError::Disconnected(_)) => Err(Unsent::Ended),
        }
    }

    /// Queues a command if there is room; else the task is woken when there is.
    pub(super) fn command_or_wake(&self, command: Command, task: &Task) -> Result<(), Unsent> {
        let command = match self.commands.try_send(command) {
            Ok(()) => return self.sent(),
            Err(TrySendError::Disconnected(_)) => return Err(Unsent::Ended),
            Err(TrySendError::Full(command)) => command,
        };
        let mut crowd = self.crowd.lock().unwrap_or_else(PoisonError::into_inner);
        if !crowd.iter().any(|waits| waits.will_wake(task)) {
            crowd.push(task.clone());
        }
        // Either the loop sees this, or room that it has made since is seen here.
        self.crowded.store(true, Ordering::SeqCst);
        drop(crowd);
        match self.commands.try_send(command) {
            Ok(()) => self.sent(),
            Err(TrySendError::Disconnected(_)) => Err(Unsent::Ended),
            // The loop wakes nobody after its last look; it says that it is closed before that, and this is asked after the task has said that it waits.
            Err(TrySendError::Full(_)) if self.closed.load(Ordering::SeqCst) => Err(Unsent::Ended),
            Err(TrySendError::Full(_)) => Err(Unsent::Full),
        }
    }

    fn sent(&self) -> Result<(), Unsent> {
        // It came after the last look, or was answered by it: to the sender it is the same.
        if self.closed.load(Ordering::SeqCst) {
            return Err(Unsent::Ended);
        }
        self.deliver();
        Ok(())
    }

    /// The loop has made room for commands.
    pub(super) fn made_room(&self) {
        if self.crowded.load(Ordering::SeqCst) && self.crowded.swap(false, Ordering::SeqCst) {
            let crowd = std::mem::take(&mut *self.crowd.lock().unwrap_or_else(PoisonError::into_inner));
            crowd.into_iter().for_each(wake);
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
        self.made_room();
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
        let (mailbox, slots) =
            Mailbox::new(Waker::new(poll.registry(), Token(0)).unwrap(), COMMANDS, vec![1]);
        let command = || mailbox.command(Command::Shutdown { limit: Duration::ZERO }, Duration::ZERO);
        assert_eq!(command(), Ok(()));
        mailbox.close();
        assert_eq!(command(), Err(Unsent::Ended));
        drop(slots);
        assert_eq!(command(), Err(Unsent::Ended));
    }
}
