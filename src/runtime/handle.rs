//! A call in flight, as its caller holds it.
//!
//! Source: chained-gpc.md, nbh: "nonblocking handle which also acts as a context for each individual GPC".

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::call_error::{CallError, CallFailure};
use super::command::Command;
use super::completion::{Completion, Ended};
use super::mailbox::{Mailbox, Unsent};
use super::outcome::Outcome;
use super::plan::Plan;
use crate::chain::Start;

/// How long giving a call up waits for room in the command queue: a busy loop makes room in milliseconds.
const CANCEL_LIMIT: Duration = Duration::from_secs(1);

/// A call in flight.
///
/// It ends by its time limit at the latest, whether anybody waits or not. Dropping the handle lets the call go on; its outcome is dropped.
/// As a [`Future`] it works on any executor. After an outcome has been taken, the handle says [`CallError::Taken`].
#[derive(Debug)]
pub struct CallHandle {
    ticket: u64,
    completion: Arc<Completion>,
    mailbox: Arc<Mailbox>,
    plan: Option<Plan>,
    /// Nobody drives the node but the holder of a polled one: blocking here would never end.
    polled: bool,
}

impl CallHandle {
    /// What a prepared call has the event loop do, and how its caller holds it.
    pub(super) fn of(
        mailbox: &Arc<Mailbox>,
        start: Start,
        plan: Plan,
        polled: bool,
    ) -> (CallHandle, Command) {
        let ticket = mailbox.ticket();
        let completion = Arc::new(Completion::default());
        let command = Command::Start { ticket, start: Box::new(start), completion: completion.clone() };
        (CallHandle { ticket, completion, mailbox: mailbox.clone(), plan: Some(plan), polled }, command)
    }

    /// Hands a prepared call to the event loop of another thread.
    pub(super) fn submit(mailbox: &Arc<Mailbox>, start: Start, plan: Plan) -> Result<CallHandle, CallError> {
        let limit = start.limit;
        let (handle, command) = CallHandle::of(mailbox, start, plan, false);
        match mailbox.command(command, limit) {
            Ok(()) => Ok(handle),
            Err(Unsent::Full) => Err(CallError::Busy),
            Err(Unsent::Ended) => Err(CallError::Ended),
        }
    }

    /// Waits until the call has ended.
    ///
    /// # Errors
    /// What made the call fail; on a node that the application drives itself, [`CallError::NotDriven`].
    pub fn wait(mut self) -> Result<Outcome, CallError> {
        self.wait_limited(None).unwrap_or(Err(CallError::Taken))
    }

    /// Waits until the call has ended, but at most `limit`; `None` if it has not.
    pub fn wait_for(&mut self, limit: Duration) -> Option<Result<Outcome, CallError>> {
        self.wait_limited(Some(limit))
    }

    /// The outcome, if the call has ended.
    pub fn test(&mut self) -> Option<Result<Outcome, CallError>> {
        if self.plan.is_none() {
            return Some(Err(CallError::Taken));
        }
        let ended = self.completion.take()?;
        Some(self.outcome(ended))
    }

    fn wait_limited(&mut self, limit: Option<Duration>) -> Option<Result<Outcome, CallError>> {
        if self.polled || self.plan.is_none() {
            return Some(self.test().unwrap_or(Err(CallError::NotDriven)));
        }
        let ended = self.completion.wait(limit)?;
        Some(self.outcome(ended))
    }

    fn outcome(&mut self, ended: Ended) -> Result<Outcome, CallError> {
        let plan = self.plan.take().ok_or(CallError::Taken)?;
        match ended {
            Some(Ok(success)) => Ok(Outcome::new(plan, success)),
            Some(Err(failure)) => Err(CallError::Failed(Box::new(CallFailure::new(plan, *failure)))),
            None => Err(CallError::Ended),
        }
    }

    /// Gives the call up: it ends with a failure of stage `cancelled`, and the ids that work on it are told. The outcome is still to be waited for.
    pub fn cancel(&self) {
        let limit = if self.polled { Duration::ZERO } else { CANCEL_LIMIT };
        // A node that has ended has no calls, and one that takes no more commands ends the call by its time limit.
        let _ = self.mailbox.command(Command::GiveUp { ticket: self.ticket }, limit);
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
