//! Calls in flight, and their outcomes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use chained_gpc::runtime::Canceller;
use chained_gpc::{
    CallError, CallFailure, CallHandle, Cause, Coverage, Id, IdList, IdReply, Outcome, Replies, RepliesError,
    Status,
};

use crate::abi::exclusive::{Exclusive, Use};
use crate::context::{Arrived, Context, Waited};
use crate::error::{Error, Result};
use crate::handles::{Handle, Kind, Object};
use crate::status::{CGPC_ERR_BUSY, CGPC_ERR_STATE};

/// A call in flight.
pub(crate) struct InFlight {
    context: Arc<Context>,
    state: Exclusive<State>,
    /// Whether the outcome was asked for after replies: the other replies are in it alone.
    has_left_replies: AtomicBool,
}

impl Object for InFlight {
    const KIND: Kind = Kind::Call;
    /// Without its outcome, which is taken or abandoned before its handle is freed.
    const IS_KEPT: bool = true;
}

/// The result of a call that started.
pub(crate) type Finished = std::result::Result<Outcome, CallError>;

enum State {
    /// No thread waits for it.
    Idle(CallHandle),
    /// Its replies are taken as they arrive. The last one is lent to the application.
    Followed { replies: Box<Replies>, _last: Option<IdReply> },
    /// A thread waits for it, and has the handle.
    Awaited(Canceller),
    /// Its outcome was taken, or it was detached.
    Taken,
}

impl InFlight {
    pub(crate) fn new(context: Arc<Context>, call: CallHandle) -> InFlight {
        InFlight {
            context,
            state: Exclusive::new(State::Idle(call)),
            has_left_replies: AtomicBool::new(false),
        }
    }

    /// The handle of its context.
    pub(crate) fn context(&self) -> Handle {
        self.context.handle()
    }

    /// Waits up to `limit`; `None` if the call has not ended then.
    ///
    /// # Errors
    /// If this thread cannot wait, another one waits, or the outcome was taken.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> Result<Option<Finished>> {
        let call = self.take(|call| State::Awaited(call.canceller()))?;
        let (state, result) = match self.context.wait(call, limit) {
            Waited::Ended(ended) => (State::Taken, Ok(Some(ended))),
            Waited::Not(call, None) => (State::Idle(call), Ok(None)),
            Waited::Not(call, Some(error)) => (State::Idle(call), Err(error)),
        };
        self.end_wait(state);
        result
    }

    /// Waits up to `limit` for the next reply, which `take` gets: `None` at the end. Returns `None` if none has arrived
    /// then. The bytes of a reply stay until the next use of the call.
    ///
    /// # Errors
    /// If this thread cannot wait, another one waits, or the outcome was taken; and those of `take`.
    pub(crate) fn next_reply<T>(
        &self,
        limit: Option<Duration>,
        take: impl FnOnce(Option<&Arrived>) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut replies = {
            let mut state = self.state();
            if matches!(*state, State::Idle(_)) && self.has_left_replies.load(Ordering::Relaxed) {
                drop(state);
                return take(None).map(Some);
            }
            let canceller = match &*state {
                State::Idle(call) => call.canceller(),
                State::Followed { replies, .. } => replies.canceller(),
                other => return Err(unavailable(other)),
            };
            match std::mem::replace(&mut *state, State::Awaited(canceller)) {
                State::Idle(call) => Box::new(call.replies()),
                State::Followed { replies, .. } => replies,
                other => return Err(unavailable(&other)),
            }
        };
        let waited = self.context.next_reply(&mut replies, limit);
        let taken = match &waited {
            Ok(Poll::Ready(next)) => take(next.as_ref()).map(Some),
            Ok(Poll::Pending) => Ok(None),
            Err(error) => Err(error.clone()),
        };
        let last = match waited {
            Ok(Poll::Ready(Some(Ok(reply)))) => Some(reply),
            _ => None,
        };
        self.end_wait(State::Followed { replies, _last: last });
        taken
    }

    /// Passes the outcome to `take`, if the call has ended. It is large, so it is not moved more than needed.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait), and those of `take`.
    pub(crate) fn test<T>(&self, take: impl FnOnce(Finished) -> Result<T>) -> Result<Option<T>> {
        let mut state = self.state();
        self.leave_replies(&mut state);
        let State::Idle(call) = &mut *state else { return Err(unavailable(&state)) };
        match call.test() {
            Some(ended) => {
                *state = State::Taken;
                drop(state);
                take(ended).map(Some)
            }
            None => Ok(None),
        }
    }

    /// Takes the handle, for a continuation or to detach the call.
    ///
    /// # Errors
    /// If a thread waits for the call, or the outcome was taken.
    pub(crate) fn take_handle(&self) -> Result<CallHandle> {
        self.take(|_| State::Taken)
    }

    /// Cancels the call, whether or not a thread waits for it.
    pub(crate) fn cancel(&self) {
        match &*self.state() {
            State::Idle(call) => call.canceller().cancel(),
            State::Followed { replies, .. } => replies.cancel(),
            State::Awaited(canceller) => canceller.cancel(),
            State::Taken => {}
        }
    }

    /// Drops the handle. If another thread waits for the call, the call is cancelled.
    pub(crate) fn abandon(&self) {
        let mut state = self.state();
        match &*state {
            State::Awaited(canceller) => canceller.cancel(),
            State::Idle(_) | State::Followed { .. } | State::Taken => {}
        }
        *state = State::Taken;
    }

    /// A wait has ended, and leaves the call in this state, unless the call was abandoned meanwhile.
    fn end_wait(&self, next: State) {
        let mut state = self.state();
        if matches!(*state, State::Awaited(_)) {
            *state = next;
        }
    }

    /// The outcome has all replies: those that have not been taken are in it alone from now on.
    fn leave_replies(&self, state: &mut State) {
        if matches!(state, State::Followed { .. })
            && let State::Followed { replies, .. } = std::mem::replace(state, State::Taken)
        {
            *state = State::Idle(replies.into_handle());
            self.has_left_replies.store(true, Ordering::Relaxed);
        }
    }

    fn take(&self, next: impl FnOnce(&CallHandle) -> State) -> Result<CallHandle> {
        let mut state = self.state();
        self.leave_replies(&mut state);
        let State::Idle(call) = &*state else { return Err(unavailable(&state)) };
        let next = next(call);
        match std::mem::replace(&mut *state, next) {
            State::Idle(call) => Ok(call),
            other => Err(unavailable(&other)),
        }
    }

    /// The state, for a few instructions. It is replaced as a whole, so it is valid after any panic.
    fn state(&self) -> Use<'_, State> {
        self.state.use_soon()
    }
}

fn unavailable(state: &State) -> Error {
    match state {
        State::Awaited(_) => Error::new(CGPC_ERR_BUSY, "another thread waits for this call"),
        _ => Error::new(CGPC_ERR_STATE, "the outcome of this call was taken before"),
    }
}

/// The outcome of a call that started: it succeeded, in part or as a whole, or it failed.
pub(crate) enum Ended {
    /// With its replies in the caller's order, once they have been asked for.
    Done(Outcome, OnceLock<std::result::Result<Vec<IdReply>, RepliesError>>),
    Failed(Box<CallFailure>),
}

impl Object for Ended {
    const KIND: Kind = Kind::Outcome;
}

impl Ended {
    /// The result of a call that started, and why it failed.
    ///
    /// # Errors
    /// If the call has no outcome.
    pub(crate) fn new(result: Finished) -> Result<(Arc<Ended>, Option<Error>)> {
        match result {
            Ok(outcome) => Ok((Arc::new(Ended::Done(outcome, OnceLock::new())), None)),
            Err(CallError::Failed(failure)) => {
                let error = Error::from(&*failure);
                Ok((Arc::new(Ended::Failed(failure)), Some(error)))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The outcome of a call that did not fail as a whole.
    ///
    /// # Errors
    /// The failure of the call.
    pub(crate) fn outcome(&self) -> Result<&Outcome> {
        match self {
            Ended::Done(outcome, _) => Ok(outcome),
            Ended::Failed(failure) => Err(Error::from(&**failure)),
        }
    }

    /// The replies, in the caller's order.
    ///
    /// # Errors
    /// The failure of the call, or invalid replies.
    pub(crate) fn replies(&self) -> Result<&[IdReply]> {
        match self {
            Ended::Done(outcome, replies) => match replies.get_or_init(|| outcome.replies()) {
                Ok(replies) => Ok(replies),
                Err(error) => Err(error.clone().into()),
            },
            Ended::Failed(failure) => Err(Error::from(&**failure)),
        }
    }

    pub(crate) fn coverage(&self) -> &Coverage {
        match self {
            Ended::Done(outcome, _) => outcome.coverage(),
            Ended::Failed(failure) => failure.coverage(),
        }
    }

    pub(crate) fn status(&self, id: Id) -> Option<Status> {
        match self {
            Ended::Done(outcome, _) => outcome.status(id),
            Ended::Failed(failure) => failure.status(id),
        }
    }

    /// Why an id failed or was left out, as far as it is known.
    pub(crate) fn cause(&self, id: Id) -> Option<&Cause> {
        match self {
            Ended::Done(outcome, _) => outcome.cause(id),
            Ended::Failed(failure) => Some(failure.cause()).filter(|cause| cause.id == id),
        }
    }

    /// The ids with a status, in the caller's order.
    pub(crate) fn ids_with(&self, status: Status) -> IdList {
        match (self, status) {
            (Ended::Done(outcome, _), Status::Done) => outcome.done(),
            (Ended::Done(outcome, _), Status::Failed) => outcome.failed(),
            (Ended::Done(outcome, _), Status::Unreached) => outcome.never_reached(),
            (Ended::Done(outcome, _), Status::Unknown) => outcome.unknown(),
            (Ended::Failed(failure), Status::Done) => failure.done(),
            (Ended::Failed(failure), Status::Failed) => failure.failed(),
            (Ended::Failed(failure), Status::Unreached) => failure.never_reached(),
            (Ended::Failed(failure), Status::Unknown) => failure.unknown(),
        }
    }

    /// Whether every id is done, in time.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self, Ended::Done(outcome, _) if outcome.is_complete())
    }
}
