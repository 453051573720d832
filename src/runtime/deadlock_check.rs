//! Detects waits for a call that cannot end: on the thread that drives the node, or in a function on the last worker
//! that the call needs. Such a wait fails at once instead of lasting until the time limit.
//!
//! A thread remembers the function that it runs; each node records which of its functions wait, and for which call. A
//! cycle over several nodes cannot be detected at one of them. It ends by the time limit that a call inherits, and its
//! cause names the functions that wait.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use super::call_error::{CallError, Deadlock};
use super::command::Command;
use super::host::Host;
use super::mailbox::Mailbox;
use super::plan::Plan;
use super::waiters::Waiter;
use crate::chain::Input;
use crate::channel::channel;
use crate::wire::CallId;

/// How long the event loop may take to report which calls still need a worker; after that, all of them count as needing
/// it.
const ASK_LIMIT: Duration = Duration::from_secs(1);

/// A function that this thread runs on a worker of a node.
struct Running {
    host: Arc<dyn Host>,
    class: u8,
    call: CallId,
    name: Option<Arc<str>>,
}

thread_local! {
    /// Whether this thread is inside the event loop of a node.
    static IS_DRIVER: Cell<bool> = const { Cell::new(false) };
    static RUNNING: RefCell<Option<Running>> = const { RefCell::new(None) };
    /// The event loop that this thread has left.
    static LEFT: RefCell<Option<Arc<dyn ReleasedLoop>>> = const { RefCell::new(None) };
}

/// An event loop that its thread has left to run a function.
pub(super) trait ReleasedLoop {
    /// Makes another thread take the loop over.
    fn hand_over(self: Arc<Self>);
}

/// Runs a function on a thread that has left its event loop for it.
pub(super) fn with_released_loop<T>(left: Arc<dyn ReleasedLoop>, run: impl FnOnce() -> T) -> T {
    let before = LEFT.replace(Some(left));
    let result = run();
    LEFT.set(before);
    result
}

/// Precedes a wait of this thread: if it has left an event loop, another thread takes that loop over.
pub(super) fn hand_over() {
    if let Some(left) = LEFT.with_borrow(Clone::clone) {
        left.hand_over();
    }
}

/// Runs a closure as the event loop of a node.
#[inline(always)]
pub(super) fn as_driver<T>(run: impl FnOnce() -> T) -> T {
    // A panic in the closure ends the node, and perhaps the thread: no other event loop runs on it afterwards.
    let before = IS_DRIVER.replace(true);
    let result = run();
    IS_DRIVER.set(before);
    result
}

/// Whether this thread is inside the event loop of a node.
pub(super) fn is_driving() -> bool {
    IS_DRIVER.get()
}

/// Runs a function of a call on a worker of this class.
pub(super) fn as_function<T>(
    host: Arc<dyn Host>,
    class: u8,
    call: CallId,
    name: Option<Arc<str>>,
    run: impl FnOnce() -> T,
) -> T {
    let before = RUNNING.replace(Some(Running { host, class, call, name }));
    let result = run();
    // A pool may run another function inside one that waits for its own tasks.
    RUNNING.set(before);
    result
}

/// A permitted wait, registered as long as it lasts.
pub(super) struct WaitRegistration<'a> {
    mailbox: &'a Mailbox,
    ticket: u64,
    /// The call of the function that waits.
    caller: Option<CallId>,
}

impl Drop for WaitRegistration<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.caller {
            self.mailbox.waiters.waiting().retain(|waiter| waiter.ticket != self.ticket);
            with_running(|running| running.host.mailbox().result(Input::Waits { call, what: None }));
        }
    }
}

fn with_running<T>(what: impl FnOnce(&Running) -> T) -> Option<T> {
    RUNNING.with_borrow(|running| running.as_ref().map(what))
}

/// Begins to wait for a call of a node on this thread.
///
/// # Errors
/// If the wait cannot end before the call's time limit.
pub(super) fn begin_wait<'a>(
    mailbox: &'a Arc<Mailbox>,
    ticket: u64,
    plan: &Plan,
    limit: Option<Duration>,
) -> Result<WaitRegistration<'a>, CallError> {
    if is_driving() {
        return Err(CallError::Deadlock(Deadlock::Driver));
    }
    if mailbox.waiters.is_driver() {
        return Err(CallError::NotDriven);
    }
    // If this thread has left a loop, another thread takes it over.
    hand_over();
    let caller = with_running(|running| running.call);
    let waits = WaitRegistration { mailbox, ticket, caller };
    // Functions of other nodes are not registered here.
    let here = with_running(|running| Arc::ptr_eq(running.host.mailbox(), mailbox).then_some(running.class));
    if let Some(Some(class)) = here {
        mailbox.waiters.waiting().push(Waiter {
            ticket,
            class,
            needs: plan.workers,
            limited: limit.is_some(),
        });
        if is_deadlocked(mailbox, class, ticket, limit) {
            return Err(CallError::Deadlock(Deadlock::Workers));
        }
    }
    with_running(|running| {
        let callee = running.host.name(plan.func);
        let what = Some(plan.awaited_in_words(running.name.as_deref(), callee));
        running.host.mailbox().result(Input::Waits { call: running.call, what });
    });
    Ok(waits)
}

/// Whether a function that waits on a worker of this class waits for a call that needs that worker. In doubt the event
/// loop is asked: the call may have finished with its worker.
fn is_deadlocked(mailbox: &Mailbox, class: u8, ticket: u64, limit: Option<Duration>) -> bool {
    // Another wait with a time limit frees its worker by itself.
    let lasting = |waiter: &&Waiter| !waiter.limited || waiter.ticket == ticket;
    let suspects: Vec<Waiter> = mailbox.waiters.waiting().iter().filter(lasting).copied().collect();
    if !mailbox.waiters.is_stuck(&suspects, class) {
        return false;
    }
    let (answer, answered) = channel();
    let tickets = suspects.iter().map(|waiter| waiter.ticket).collect();
    let ask = ASK_LIMIT.min(limit.unwrap_or(ASK_LIMIT));
    if mailbox.command(Command::NeedsWorkers { tickets, answer }, ask).is_err() {
        return false;
    }
    let needs = match answered.recv_timeout(ask) {
        Ok(needs) => needs,
        // The node has ended; the wait itself detects that.
        Err(RecvTimeoutError::Disconnected) => return false,
        Err(RecvTimeoutError::Timeout) => return limit.is_none(),
    };
    let known = |(waiter, needs): (Waiter, u64)| Waiter { needs: waiter.needs & needs, ..waiter };
    let waiting: Vec<Waiter> = suspects.into_iter().zip(needs).map(known).collect();
    mailbox.waiters.is_stuck(&waiting, class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_drives_as_long_as_it_is_inside() {
        assert!(!is_driving());
        let inner = as_driver(|| {
            let inner = as_driver(is_driving);
            assert!(is_driving(), "the outer one goes on");
            inner
        });
        assert!(inner && !is_driving());
    }

    /// A mailbox of a node with one worker of each of two classes.
    fn mailbox() -> (Mailbox, crate::runtime::mailbox::Slots) {
        let poll = mio::Poll::new().unwrap();
        let waker = mio::Waker::new(poll.registry(), mio::Token(0)).unwrap();
        Mailbox::new(waker, 8, vec![1, 1])
    }

    fn waits(mailbox: &Mailbox, ticket: u64, class: u8, needs: u64, limited: bool) {
        mailbox.waiters.waiting().push(Waiter { ticket, class, needs, limited });
    }

    /// Whether a wait of a function of this class is refused, if the loop reports that calls need these classes.
    fn is_refused(class: u8, ticket: u64, waiting: &[(u64, u8, u64, bool)], needs: &[u64]) -> bool {
        let (mailbox, slots) = mailbox();
        waiting
            .iter()
            .for_each(|&(ticket, class, needs, limited)| waits(&mailbox, ticket, class, needs, limited));
        std::thread::scope(|scope| {
            let answers = scope.spawn(move || {
                // A wait that surely ends sends no command; then the sender is dropped.
                if let Ok(Command::NeedsWorkers { tickets, answer }) = slots.commands.recv() {
                    assert_eq!(tickets.len(), needs.len());
                    answer.send(needs.to_vec()).unwrap();
                }
            });
            let refused = is_deadlocked(&mailbox, class, ticket, None);
            drop(mailbox);
            answers.join().unwrap();
            refused
        })
    }

    #[test]
    fn a_wait_for_the_last_worker_is_refused_while_the_call_still_needs_it() {
        let own = [(1, 0, 1, false)];
        assert!(is_refused(0, 1, &own, &[1]));
        assert!(!is_refused(0, 1, &own, &[0]), "the call has had its worker");
        assert!(!is_refused(0, 1, &[(1, 0, 2, false)], &[]), "it needs another one");
    }

    #[test]
    fn a_wait_with_a_limit_frees_its_worker_by_itself() {
        let each_other = |limited| [(1, 0, 2, limited), (2, 1, 1, false)];
        assert!(is_refused(1, 2, &each_other(false), &[2, 1]));
        assert!(!is_refused(1, 2, &each_other(true), &[]));
        // Its own limit is no reason to wait in vain.
        assert!(is_refused(0, 1, &[(1, 0, 1, true)], &[1]));
    }

    /// A host that is a mailbox alone.
    #[derive(Debug)]
    struct MailboxHost(Arc<Mailbox>);

    impl Host for MailboxHost {
        fn id(&self) -> gpc_trees::Id {
            0
        }

        fn mailbox(&self) -> &Arc<Mailbox> {
            &self.0
        }

        fn left(&self, _: crate::chain::Time) -> Duration {
            Duration::ZERO
        }

        fn name(&self, _: u64) -> Option<Arc<str>> {
            None
        }

        fn metrics(&self) -> crate::runtime::Metrics {
            crate::runtime::Metrics::default()
        }

        fn prepared(
            &self,
            _: crate::runtime::Call,
            _: Option<Duration>,
        ) -> Result<(Box<crate::chain::Start>, Plan), CallError> {
            Err(CallError::Ended)
        }

        fn weak(&self) -> std::sync::Weak<dyn Host> {
            std::sync::Weak::<MailboxHost>::new()
        }
    }

    /// The cause of a late call names what its function waits for. A wait that had ended still counted as one.
    #[test]
    fn the_begin_and_the_end_of_a_wait_are_recorded() {
        let (mailbox, slots) = mailbox();
        let mailbox = Arc::new(mailbox);
        let call = CallId { root: 0, sequence: 5 };
        let ids = gpc_trees::IdList::range(0..1);
        let plan = Plan {
            root: 0,
            ids: ids.clone(),
            asked: ids,
            merged: false,
            func: 9,
            replies: true,
            workers: 2,
            traced: None,
        };
        let host = Arc::new(MailboxHost(mailbox.clone()));
        as_function(host, 0, call, Some("f".into()), || {
            let waits = begin_wait(&mailbox, 3, &plan, None).unwrap();
            assert_eq!(mailbox.waiters.waiting().len(), 1);
            drop(waits);
        });
        assert!(mailbox.waiters.waiting().is_empty());
        let recorded: Vec<Option<String>> = slots
            .results
            .try_iter()
            .map(|input| match input {
                Input::Waits { call: of, what } if of == call => what.map(String::from),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(recorded, [Some("`f` waits for a call of the function 0x9".to_owned()), None]);
    }

    #[test]
    fn a_node_that_has_ended_refuses_nothing() {
        let (mailbox, slots) = mailbox();
        waits(&mailbox, 1, 0, 1, false);
        drop(slots);
        assert!(!is_deadlocked(&mailbox, 0, 1, None));
    }
}
