//! A call in flight, as its caller holds it.
//!
//! Source: chained-gpc.md, nbh: "nonblocking handle which also acts as a context for each individual GPC".

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::call::Plan;
use super::command::Command;
use super::mailbox::{Mailbox, Unsent};
use super::outcome::{CallError, Outcome};
use crate::chain::Start;
use crate::wire::Failure;
use crate::wire::message::SubtreeReply;

/// How a call ended, as the event loop says it; `None` when the node ended first.
type Ended = Option<Result<Option<SubtreeReply>, Failure>>;

/// Where the event loop puts the end of a call.
#[derive(Debug, Default)]
pub(super) struct Completion {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    ended: Option<Ended>,
    waker: Option<Waker>,
}

impl Completion {
    pub(super) fn complete(&self, ended: Ended) {
        let mut state = self.state();
        state.ended = Some(ended);
        let waker = state.waker.take();
        drop(state);
        self.ended.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The state is plain data, valid after any panic.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
    /// Hands a prepared call to the event loop.
    pub(super) fn submit(
        mailbox: &Arc<Mailbox>,
        start: Start,
        plan: Plan,
        polled: bool,
    ) -> Result<CallHandle, CallError> {
        let ticket = mailbox.ticket();
        let completion = Arc::new(Completion::default());
        let (limit, start) = (start.limit, Box::new(start));
        let sent = mailbox.command(Command::Start { ticket, start, completion: completion.clone() }, limit);
        match sent {
            Ok(()) => {
                Ok(CallHandle { ticket, completion, mailbox: mailbox.clone(), plan: Some(plan), polled })
            }
            Err(Unsent::Full) => Err(CallError::Busy),
            Err(Unsent::Ended) => Err(CallError::Ended),
        }
    }

    /// Waits until the call has ended.
    ///
    /// # Errors
    /// What made the call fail; on a node that the application drives itself, [`CallError::NotDriven`].
    pub fn wait(mut self) -> Result<Outcome, CallError> {
        if self.polled {
            return self.test().unwrap_or(Err(CallError::NotDriven));
        }
        let completion = self.completion.clone();
        let mut state = completion.state();
        while state.ended.is_none() {
            state = completion.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        self.test().unwrap_or(Err(CallError::Taken))
    }

    /// Waits until the call has ended, but at most `limit`; `None` if it has not.
    pub fn wait_for(&mut self, limit: Duration) -> Option<Result<Outcome, CallError>> {
        if self.polled {
            return Some(self.test().unwrap_or(Err(CallError::NotDriven)));
        }
        let until = Instant::now().checked_add(limit);
        let completion = self.completion.clone();
        let mut state = completion.state();
        while state.ended.is_none() && self.plan.is_some() {
            let left = until.map_or(limit, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return None;
            }
            state = completion.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        self.test()
    }

    /// The outcome, if the call has ended.
    pub fn test(&mut self) -> Option<Result<Outcome, CallError>> {
        if self.plan.is_none() {
            return Some(Err(CallError::Taken));
        }
        let ended = self.completion.state().ended.take()?;
        let plan = self.plan.take()?;
        Some(match ended {
            Some(Ok(reply)) => Ok(Outcome::new(plan, reply)),
            Some(Err(failure)) => Err(CallError::Failed(Box::new(failure))),
            None => Err(CallError::Ended),
        })
    }

    /// Gives the call up: it ends with a failure of stage `cancelled`, and the ids that work on it are told. The outcome is still to be waited for.
    pub fn cancel(&self) {
        // A node that has ended has no calls, and one that takes no more commands within a second ends the call by its limit.
        let _ = self.mailbox.command(Command::GiveUp { ticket: self.ticket }, Duration::from_secs(1));
    }
}

impl Future for CallHandle {
    type Output = Result<Outcome, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        {
            let mut state = self.completion.state();
            if state.ended.is_none() && self.plan.is_some() {
                state.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
        }
        self.test().map_or(Poll::Pending, Poll::Ready)
    }
}
