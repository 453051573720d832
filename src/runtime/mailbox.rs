//! The mailbox of the event loop: a bounded queue of commands, the results of functions, and one waker.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Mutex, PoisonError};
use std::task::Waker as Task;
use std::time::Duration;

use crossbeam::channel::{Receiver, SendTimeoutError, Sender, TrySendError, bounded, unbounded};
use mio::Waker;
use tracing::error;

use super::command::Command;
use super::completion::wake;
use super::waiters::Waiters;
use crate::chain::Input;

/// Capacity of the queue of commands: a burst of calls. If it is full, the application waits.
pub(super) const COMMANDS: usize = 4096;

/// The senders' end.
#[derive(Debug)]
pub(super) struct Mailbox {
    commands: Sender<Command>,
    /// At most a few for each running job, each deferred reply and each cancelled call: bounded by the calls in flight.
    results: Sender<Input>,
    waker: Waker,
    /// Whether the loop checks the queues before it sleeps, or has been woken.
    awake: AtomicBool,
    /// Whether the queues may be non-empty: the loop checks one flag instead of four queues.
    full: AtomicBool,
    /// Whether the loop has made its last check.
    closed: AtomicBool,
    tickets: AtomicU64,
    /// Tasks that wait for a place in the queue of commands: as many as the application has.
    waiting_tasks: Mutex<Vec<Task>>,
    /// Whether there may be such tasks.
    has_waiting_tasks: AtomicBool,
    /// The thread that drives the node, and its functions that wait for calls.
    pub(super) waiters: Waiters,
}

/// The event loop's end.
#[derive(Debug)]
pub(super) struct Slots {
    pub(super) commands: Receiver<Command>,
    pub(super) results: Receiver<Input>,
}

/// Why a command was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CommandError {
    /// The queue stayed full.
    Full,
    /// The node has ended.
    Ended,
}

impl Mailbox {
    /// Creates a mailbox with a queue of `commands` places, for a node with this number of workers of each class.
    pub(super) fn new(waker: Waker, commands: usize, workers: Vec<usize>) -> (Mailbox, Slots) {
        let (commands, commands_out) = bounded(commands);
        let (results, results_out) = unbounded();
        let (awake, full) = (AtomicBool::new(true), AtomicBool::new(false));
        let (closed, tickets) = (AtomicBool::new(false), AtomicU64::new(0));
        let (waiting_tasks, has_waiting_tasks, waiters) =
            (Mutex::default(), AtomicBool::new(false), Waiters::new(workers));
        let mailbox = Mailbox {
            commands,
            results,
            waker,
            awake,
            full,
            closed,
            tickets,
            waiting_tasks,
            has_waiting_tasks,
            waiters,
        };
        (mailbox, Slots { commands: commands_out, results: results_out })
    }

    /// Returns a new ticket, which identifies a call.
    pub(super) fn ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Ordering::Relaxed)
    }

    /// Queues a command; waits up to `limit` for a place.
    pub(super) fn command(&self, command: Command, limit: Duration) -> Result<(), CommandError> {
        match self.commands.send_timeout(command, limit) {
            Ok(()) => self.sent(),
            Err(SendTimeoutError::Timeout(_)) => Err(CommandError::Full),
            Err(SendTimeoutError::Disconnected(_)) => Err(CommandError::Ended),
        }
    }

    /// Queues a command if there is a place; otherwise the task is woken when there is one.
    pub(super) fn command_or_wake(&self, command: Command, task: &Task) -> Result<(), CommandError> {
        let command = match self.commands.try_send(command) {
            Ok(()) => return self.sent(),
            Err(TrySendError::Disconnected(_)) => return Err(CommandError::Ended),
            Err(TrySendError::Full(command)) => command,
        };
        let mut waiting_tasks = self.waiting_tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiting_tasks.iter().any(|waits| waits.will_wake(task)) {
            waiting_tasks.push(task.clone());
        }
        // Either the loop sees this flag, or the attempt below sees the place that the loop has freed since.
        self.has_waiting_tasks.store(true, Ordering::SeqCst);
        drop(waiting_tasks);
        match self.commands.try_send(command) {
            Ok(()) => self.sent(),
            Err(TrySendError::Disconnected(_)) => Err(CommandError::Ended),
            // The loop sets `closed` before its last check, and wakes no task after it. This load follows the store of
            // `has_waiting_tasks`, so no task waits for ever.
            Err(TrySendError::Full(_)) if self.closed.load(Ordering::SeqCst) => Err(CommandError::Ended),
            Err(TrySendError::Full(_)) => Err(CommandError::Full),
        }
    }

    fn sent(&self) -> Result<(), CommandError> {
        // The command came after the last check, or the last check answered it: for the sender both mean that the node
        // has ended.
        if self.closed.load(Ordering::SeqCst) {
            return Err(CommandError::Ended);
        }
        self.deliver();
        Ok(())
    }

    /// Wakes the tasks that wait, after the loop has freed places for commands.
    pub(super) fn wake_waiting_tasks(&self) {
        if self.has_waiting_tasks.load(Ordering::SeqCst)
            && self.has_waiting_tasks.swap(false, Ordering::SeqCst)
        {
            let waiting_tasks =
                std::mem::take(&mut *self.waiting_tasks.lock().unwrap_or_else(PoisonError::into_inner));
            waiting_tasks.into_iter().for_each(wake);
        }
    }

    /// Number of tasks that wait for a place.
    #[cfg(feature = "snapshot")]
    pub(super) fn waiting_tasks(&self) -> usize {
        self.waiting_tasks.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Number of queued commands and results.
    pub(super) fn queued(&self) -> (usize, usize) {
        (self.commands.len(), self.results.len())
    }

    /// Sends the result of a function. If the node has ended, the result is dropped.
    pub(super) fn result(&self, input: Input) {
        if self.results.send(input).is_ok() {
            self.deliver();
        }
    }

    /// Records that there is something for the loop beside the queues.
    pub(super) fn notify(&self) {
        self.deliver();
    }

    /// Marks the queues as non-empty, and wakes the loop.
    fn deliver(&self) {
        self.full.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Whether the queues may be non-empty.
    pub(super) fn may_have_items(&self) -> bool {
        self.full.load(Ordering::SeqCst)
    }

    /// Begins a check of the queues by the loop; returns whether they may be non-empty. Later sends set the flag again.
    pub(super) fn open(&self) -> bool {
        self.may_have_items() && self.full.swap(false, Ordering::SeqCst)
    }

    /// Records that the loop has left items in the queues.
    pub(super) fn keep(&self) {
        self.full.store(true, Ordering::SeqCst);
    }

    /// Precedes the last check of the loop: from now on commands are rejected, including those that the loop can no
    /// longer see.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.wake_waiting_tasks();
    }

    /// Precedes a sleep of the loop: from now on a send must wake it. The loop must check the queues once more for
    /// earlier sends.
    pub(super) fn prepare_sleep(&self) {
        self.awake.store(false, Ordering::Relaxed);
        // Either a sender sees that the loop sleeps, or the loop sees the send: both write first, and then read what
        // the other has written.
        fence(Ordering::SeqCst);
    }

    /// Records that the loop is awake, and checks before it sleeps again. A sender that does not see this yet makes a
    /// needless wake-up.
    pub(super) fn set_awake(&self) {
        self.awake.store(true, Ordering::Relaxed);
    }

    /// Wakes the loop: one system call for any number of sends while the loop sleeps, and none while it is awake.
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
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use mio::{Events, Poll, Token};

    use super::*;
    use crate::wire::CallId;

    fn with_places(places: usize) -> (Poll, Mailbox, Slots) {
        let poll = Poll::new().unwrap();
        let waker = Waker::new(poll.registry(), Token(0)).unwrap();
        let (mailbox, slots) = Mailbox::new(waker, places, vec![1]);
        (poll, mailbox, slots)
    }

    fn command() -> Command {
        Command::Shutdown { limit: Duration::ZERO }
    }

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn each_task_that_waits_for_a_place_is_woken_once_when_there_is_one() {
        let (_poll, mailbox, slots) = with_places(1);
        let wakes = [Arc::<Wakes>::default(), Arc::default()];
        let tasks = wakes.clone().map(Task::from);
        let woken = || wakes.each_ref().map(|wakes| wakes.0.load(Ordering::SeqCst));
        assert_eq!(mailbox.command_or_wake(command(), &tasks[0]), Ok(()));
        for task in [&tasks[0], &tasks[1], &tasks[0]] {
            assert_eq!(mailbox.command_or_wake(command(), task), Err(CommandError::Full));
        }
        assert_eq!(mailbox.command(command(), Duration::ZERO), Err(CommandError::Full));
        assert_eq!(woken(), [0, 0]);
        assert!(slots.commands.try_recv().is_ok());
        mailbox.wake_waiting_tasks();
        assert_eq!(woken(), [1, 1]);
        mailbox.wake_waiting_tasks();
        assert_eq!(woken(), [1, 1], "no task waits");
        assert_eq!(mailbox.command_or_wake(command(), &tasks[0]), Ok(()));
        assert_eq!(mailbox.command_or_wake(command(), &tasks[1]), Err(CommandError::Full));
        mailbox.close();
        assert_eq!(
            (woken(), mailbox.command_or_wake(command(), &tasks[1])),
            ([1, 2], Err(CommandError::Ended))
        );
    }

    /// The waker costs a system call, so only a sleeping loop is woken, and only once.
    #[test]
    fn commands_and_results_wake_a_loop_that_sleeps_and_no_other() {
        let (mut poll, mailbox, slots) = with_places(2);
        let mut events = Events::with_capacity(8);
        let mut wakes = || {
            poll.poll(&mut events, Some(Duration::ZERO)).unwrap();
            events.iter().count()
        };
        let result = || Input::DataArrived(CallId { root: 1, sequence: 1 });
        assert!(!mailbox.may_have_items());
        mailbox.result(result());
        assert!(mailbox.may_have_items() && mailbox.open() && !mailbox.open() && !mailbox.may_have_items());
        assert_eq!(wakes(), 0, "it is awake");
        mailbox.prepare_sleep();
        assert_eq!(mailbox.command(command(), Duration::ZERO), Ok(()));
        mailbox.result(result());
        assert_eq!((wakes(), wakes(), mailbox.open()), (1, 0, true));
        mailbox.prepare_sleep();
        mailbox.result(result());
        assert_eq!((wakes(), mailbox.open()), (1, true));
        mailbox.keep();
        assert!(mailbox.open(), "what was left is found again");
        mailbox.prepare_sleep();
        mailbox.set_awake();
        mailbox.wake();
        assert_eq!((wakes(), slots.results.len(), slots.commands.len()), (0, 3, 1));
    }

    /// The loop made its last check of the queue while its receiver still existed. A command that arrived afterwards
    /// was accepted, and never processed.
    #[test]
    fn a_command_after_the_last_check_is_rejected() {
        let (_poll, mailbox, slots) = with_places(COMMANDS);
        let command = || mailbox.command(command(), Duration::ZERO);
        assert_eq!(command(), Ok(()));
        mailbox.close();
        assert_eq!(command(), Err(CommandError::Ended));
        drop(slots);
        assert_eq!(command(), Err(CommandError::Ended));
    }
}
