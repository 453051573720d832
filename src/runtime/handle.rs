//! The handle of a call in flight.
//!
//! Source: the ARMCI design of chained GPC (2007), nbh: "nonblocking handle which also acts as a context for each
//! individual GPC".

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::call_error::{CallError, CallFailure};
use super::command::Command;
use super::completion::{CallEnd, Completion, NextReply};
use super::deadlock_check;
use super::mailbox::{CommandError, Mailbox};
use super::outcome::Outcome;
use super::plan::Plan;
use crate::chain::{Input, Progress, Start};
use crate::channel::channel;

/// How long the event loop may take to report what a call waits for: an inline function may keep it busy.
const PROGRESS_LIMIT: Duration = Duration::from_secs(5);

/// A call in flight.
///
/// It ends at most 1 % of its time limit and 100 ms after that limit, whether or not a thread waits for it. On a
/// [polled node](super::PolledNode) it ends when the node is driven next. Dropping the handle cancels the call: ids
/// that have not begun it will not execute it, but others may have executed it. Dropping never blocks, on any thread.
/// To let a call continue without its handle, [detach](Self::detach) it. A call [without
/// replies](super::Call::no_reply) is detached when its handle is dropped.
///
/// As a [`Future`] it works on any executor. After the outcome has been taken, the handle returns [`CallError::Taken`].
///
/// ```
/// use std::time::Duration;
///
/// use chained_gpc::{Call, Functions, LinkKind, LocalNodes};
///
/// let functions = Functions::new();
/// let hello = functions.func("hello", |_request, _reply| Ok(()))?;
/// let nodes = LocalNodes::start(2, LinkKind::Unix, &functions)?;
/// let mut handle = nodes.root().call(Call::new(hello).ids(0..2))?;
/// // Meanwhile the program can do other work.
/// match handle.wait_for(Duration::from_secs(5)) {
///     Some(outcome) => assert!(outcome?.is_complete()),
///     None => handle.cancel(),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "dropping a handle cancels its call: wait for it, or detach it"]
pub struct CallHandle {
    ticket: u64,
    pub(super) completion: Arc<Completion>,
    mailbox: Arc<Mailbox>,
    pub(super) plan: Option<Plan>,
    /// Whether the node is a polled one: only the thread that has started the call drives it.
    polled: bool,
}

impl CallHandle {
    /// Creates the command that starts a prepared call, and the handle of the call.
    pub(super) fn of(
        mailbox: &Arc<Mailbox>,
        start: Box<Start>,
        plan: Plan,
        polled: bool,
    ) -> (CallHandle, Command) {
        let ticket = mailbox.ticket();
        let completion = Arc::new(Completion::default());
        let command = Command::Start { ticket, start, completion: completion.clone() };
        (CallHandle { ticket, completion, mailbox: mailbox.clone(), plan: Some(plan), polled }, command)
    }

    /// Sends a prepared call to the event loop of another thread; waits up to `room` for a place in the queue.
    pub(super) fn submit(
        mailbox: &Arc<Mailbox>,
        start: Box<Start>,
        plan: Plan,
        room: Duration,
    ) -> Result<CallHandle, CallError> {
        let (handle, command) = CallHandle::of(mailbox, start, plan, false);
        match mailbox.command(command, room) {
            Ok(()) => Ok(handle),
            Err(unsent) => {
                handle.detach();
                Err(match unsent {
                    CommandError::Full => CallError::Busy,
                    CommandError::Ended => CallError::Ended,
                })
            }
        }
    }

    /// Waits until the call has ended.
    ///
    /// # Errors
    /// The error of the call. [`CallError::NotDriven`] on the thread that drives a polled node, and
    /// [`CallError::Deadlock`] if the wait would block the call at this node: both at once, and the call is cancelled.
    /// Functions that wait for each other over several nodes, or through a thread that they join, end by the time
    /// limit.
    pub fn wait(mut self) -> Result<Outcome, CallError> {
        self.wait_limited(None).unwrap_or(Err(CallError::Taken))
    }

    /// Waits until the call has ended, up to `limit`; `None` if it has not ended then.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait); after [`CallError::NotDriven`] and [`CallError::Deadlock`] the call continues.
    pub fn wait_for(&mut self, limit: Duration) -> Option<Result<Outcome, CallError>> {
        self.wait_limited(Some(limit))
    }

    /// The state of the call at this node, and since when it lasts: the children in the tree that have not answered,
    /// and those of them that have not answered a heartbeat request. It also has the id further down that the call
    /// waits for, as last reported with heartbeats. It sends nothing. `None` if the call has ended, on the thread that
    /// drives the node, and on a polled node, whose [`recorder`](super::PolledNode::recorder) has the same.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use chained_gpc::{Call, CallState, Functions, LinkKind, LocalNodes, Tree};
    ///
    /// let functions = Functions::new();
    /// let slow = functions.func("slow", |request, _| {
    ///     std::thread::sleep(Duration::from_millis(if request.me() == 2 { 300 } else { 0 }));
    ///     Ok(())
    /// })?;
    /// let nodes = LocalNodes::start(3, LinkKind::Unix, &functions)?;
    /// let handle = nodes.root().call(Call::new(slow).ids(0..3).tree(Tree::Flat))?;
    /// while let Some(progress) = handle.progress() {
    ///     // Seldom: the call has not begun.
    ///     if progress.call.state == CallState::Children {
    ///         assert!(progress.call.awaited.contains(&2));
    ///     }
    /// }
    /// assert!(handle.wait()?.is_complete());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn progress(&self) -> Option<Progress> {
        // The thread that drives the node would wait for itself.
        if self.polled || deadlock_check::is_driving() || self.mailbox.waiters.is_driver() {
            return None;
        }
        let ((answer, progress), ticket) = (channel(), self.ticket);
        self.mailbox.command(Command::Progress { ticket, answer }, PROGRESS_LIMIT).ok()?;
        progress.recv_timeout(PROGRESS_LIMIT).ok()?
    }

    /// Returns the outcome, if the call has ended.
    ///
    /// # Errors
    /// The error of the call.
    pub fn test(&mut self) -> Option<Result<Outcome, CallError>> {
        if self.plan.is_none() {
            return Some(Err(CallError::Taken));
        }
        let ended = self.completion.take()?;
        Some(self.outcome(ended))
    }

    fn wait_limited(&mut self, limit: Option<Duration>) -> Option<Result<Outcome, CallError>> {
        if let Some(ended) = self.test() {
            return Some(ended);
        }
        if self.polled {
            return Some(Err(CallError::NotDriven));
        }
        if limit.is_some_and(|limit| limit.is_zero()) {
            // The caller does not wait, so no check for a deadlock is needed.
            return None;
        }
        let (mailbox, plan) = (self.mailbox.clone(), self.plan.as_ref()?);
        let ended = match deadlock_check::begin_wait(&mailbox, self.ticket, plan, limit) {
            Ok(waits) => {
                let ended = self.completion.wait(limit);
                drop(waits);
                ended?
            }
            Err(error) => return Some(Err(error)),
        };
        Some(self.outcome(ended))
    }

    fn outcome(&mut self, ended: CallEnd) -> Result<Outcome, CallError> {
        outcome(self.plan.take(), ended)
    }

    /// Registers a continuation, which gets the outcome. If the call has ended, `then` runs at once, on this thread.
    /// Otherwise it runs on the thread that drives the node, so it must be short and never block; it may start calls.
    /// It should not take a lock that the caller holds. Never waits, so it can be called from anywhere. A panic in
    /// `then` is caught and logged.
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// use chained_gpc::{Call, Functions, LinkKind, LocalNodes};
    ///
    /// let functions = Functions::new();
    /// let hello = functions.func("hello", |_request, _reply| Ok(()))?;
    /// let nodes = LocalNodes::start(2, LinkKind::Unix, &functions)?;
    /// let (done, waits) = mpsc::channel();
    /// nodes.root().call(Call::new(hello).ids(0..2))?.on_end(move |outcome| drop(done.send(outcome)));
    /// assert!(waits.recv()??.is_complete());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_end(mut self, then: impl FnOnce(Result<Outcome, CallError>) + Send + 'static) {
        let plan = self.plan.take();
        if plan.is_none() {
            return then(Err(CallError::Taken));
        }
        self.completion.set_continuation(Box::new(move |ended| then(outcome(plan, ended))));
    }

    /// Lets the call continue without its handle; its outcome is dropped.
    pub fn detach(mut self) {
        self.plan = None;
    }

    /// Cancels the call: it ends with a failure of stage `cancelled`, and is cancelled at the other ids. The outcome
    /// can still be awaited. Never blocks.
    pub fn cancel(&self) {
        give_up(&self.completion, &self.mailbox, self.ticket);
    }

    /// Asks the event loop for the answers of the children as they arrive.
    pub(super) fn follow(&self) {
        if self.plan.as_ref().is_some_and(|plan| plan.replies && !plan.merged) && self.completion.follow() {
            self.mailbox.result(Input::Follow { ticket: self.ticket });
        }
    }

    /// Whether the outcome has not been taken.
    pub(super) fn is_open(&self) -> bool {
        self.plan.is_some()
    }

    /// Waits for the next answer of a child, or for the end of the call, up to `limit`.
    pub(super) fn wait_for_reply(&self, limit: Option<Duration>) -> Result<Option<NextReply>, CallError> {
        if let Some(next) = self.completion.next_reply() {
            return Ok(Some(next));
        }
        if self.polled {
            return Err(CallError::NotDriven);
        }
        let plan = self.plan.as_ref().ok_or(CallError::Taken)?;
        let waits = deadlock_check::begin_wait(&self.mailbox, self.ticket, plan, limit)?;
        let next = self.completion.wait_for_reply(limit);
        drop(waits);
        Ok(next)
    }

    /// Returns a value that cancels the call while another thread has its handle, for example to wait for it.
    ///
    /// ```
    /// use chained_gpc::{Call, CauseKind, Functions, LinkKind, LocalNodes};
    ///
    /// let functions = Functions::new();
    /// let never = functions.deferring("never", |_request, token| std::mem::forget(token))?;
    /// let nodes = LocalNodes::start(2, LinkKind::Unix, &functions)?;
    /// let handle = nodes.root().call(Call::new(never).ids(0..2))?;
    /// let canceller = handle.canceller();
    /// let waits = std::thread::spawn(move || handle.wait());
    /// canceller.cancel();
    /// let error = waits.join().expect("it does not panic").unwrap_err();
    /// assert_eq!(error.kind(), Some(CauseKind::Cancelled));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn canceller(&self) -> Canceller {
        let CallHandle { ticket, completion, mailbox, .. } = self;
        Canceller { ticket: *ticket, completion: completion.clone(), mailbox: mailbox.clone() }
    }
}

/// Cancels a call without its handle: see [`CallHandle::canceller`]. Its drop does nothing.
#[derive(Clone, Debug)]
pub struct Canceller {
    ticket: u64,
    completion: Arc<Completion>,
    mailbox: Arc<Mailbox>,
}

impl Canceller {
    /// Cancels the call: see [`CallHandle::cancel`]. If the call has ended, this has no effect.
    pub fn cancel(&self) {
        give_up(&self.completion, &self.mailbox, self.ticket);
    }
}

/// Cancels a call once, so that repeated cancels take only one place among the results.
fn give_up(completion: &Completion, mailbox: &Mailbox, ticket: u64) {
    if completion.give_up() {
        mailbox.result(Input::GiveUp { ticket });
    }
}

impl Drop for CallHandle {
    fn drop(&mut self) {
        // After the outcome was taken, there is no call to cancel.
        if self.plan.as_ref().is_some_and(|plan| plan.replies) && !self.completion.has_ended() {
            self.cancel();
        }
    }
}

/// Converts the result of a call for its caller.
fn outcome(plan: Option<Plan>, ended: CallEnd) -> Result<Outcome, CallError> {
    let plan = plan.ok_or(CallError::Taken)?;
    match ended {
        Some(Ok(success)) => Ok(Outcome::new(plan, success)),
        Some(Err(failure)) => Err(CallError::Failed(Box::new(CallFailure::new(plan, *failure)))),
        None => Err(CallError::Ended),
    }
}

impl Future for CallHandle {
    type Output = Result<Outcome, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.plan.is_none() {
            return Poll::Ready(Err(CallError::Taken));
        }
        match self.completion.take_or_wake(context.waker()) {
            Some(ended) => Poll::Ready(self.outcome(ended)),
            None => Poll::Pending,
        }
    }
}
