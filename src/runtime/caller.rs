//! Handles for making calls from any thread, which do not keep the node alive.
//!
//! Source: the ARMCI design of chained GPC (2007), "Send Request to Execute a chained GPC", from any thread and from
//! functions.
#![allow(
    clippy::disallowed_methods,
    reason = "what is left of a call's time is asked on whatever thread calls"
)]

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use gpc_trees::Id;

use super::call::Call;
use super::call_error::CallError;
use super::command::Command;
use super::deadlock_check;
use super::events::Events;
use super::handle::CallHandle;
use super::host::Host;
use super::mailbox::CommandError;
use super::membership_error::{CHANGE_LIMIT, MembershipError};

/// Maximum time that [`Caller::call`] waits for a place in the queue of calls: a busy node frees one in milliseconds.
pub const CALL_BLOCKS_MAX: Duration = Duration::from_secs(1);

/// Makes calls whose root is one node, from any thread and from inside functions.
///
/// Cloning is cheap. A caller does not keep the node alive: once the node has gone, a call fails with
/// [`CallError::Ended`].
///
/// Calls from [`Node::caller`](super::Node::caller) and [`PolledNode::caller`](super::PolledNode::caller) have the time
/// limit of [`Call::limit`], a minute by default. A call from [`Request::caller`](super::Request::caller) without a
/// limit of its own has the rest of the limit of the call that runs the function.
///
/// ```
/// use std::time::Duration;
///
/// use chained_gpc::{Call, Functions, LinkKind, LocalNodes, Placement};
///
/// let functions = Functions::new();
/// // A function that others call must not wait behind them: it has workers of its own.
/// let part = functions.at(Placement::Executor("parts".into())).func("part", |request, reply| {
///     reply.data = vec![request.me() as u8];
///     Ok(())
/// })?;
/// let sum = functions.func("sum", move |request, reply| {
///     let outcome = request.caller().call(Call::new(part).ids(0..4))?.wait()?;
///     let sum: u8 = outcome.replies()?.iter().map(|reply| reply.data[0]).sum();
///     reply.data = vec![sum];
///     Ok(())
/// })?;
/// let nodes = LocalNodes::start_with(4, LinkKind::Unix, &functions, |_, node| node.executor("parts", 1))?;
/// let caller = nodes.root().caller();
/// let outcome = caller.call(Call::new(sum).ids(0..1).limit(Duration::from_secs(10)))?.wait()?;
/// assert_eq!(outcome.replies()?[0].data, vec![6]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Caller {
    host: Weak<dyn Host>,
    /// When the call ends that runs the calling function.
    until: Option<Instant>,
}

impl Caller {
    pub(super) fn new(host: Weak<dyn Host>) -> Caller {
        Caller { host, until: None }
    }

    /// Creates a caller whose calls have `left` as their default time limit.
    pub(super) fn until(host: Weak<dyn Host>, left: Duration) -> Caller {
        Caller { host, until: Instant::now().checked_add(left) }
    }

    pub(super) fn host(&self) -> Option<Arc<dyn Host>> {
        self.host.upgrade()
    }

    /// The node's id; `None` if it has gone.
    pub fn id(&self) -> Option<Id> {
        self.host.upgrade().map(|host| host.id())
    }

    /// Starts a call. Returns at once if the node's queue of calls has a free place, which is nearly always so.
    /// Otherwise it waits up to [`CALL_BLOCKS_MAX`]; on the thread that drives the node it never waits.
    ///
    /// # Errors
    /// An invalid call, before anything is sent; [`CallError::Busy`] if the queue stays full, [`CallError::Ended`] if
    /// the node has gone.
    pub fn call(&self, call: Call) -> Result<CallHandle, CallError> {
        self.start(call, CALL_BLOCKS_MAX)
    }

    /// Like [`call`](Self::call), but never waits.
    ///
    /// # Errors
    /// As for [`call`](Self::call).
    pub fn try_call(&self, call: Call) -> Result<CallHandle, CallError> {
        self.start(call, Duration::ZERO)
    }

    /// Like [`call`](Self::call), for tasks. The future is ready when the call is in the queue, and yields its handle,
    /// which is a future, too. It waits for a place as long as the node lives: set a time limit around it if your task
    /// has one.
    ///
    /// ```no_run
    /// # async fn example(caller: chained_gpc::Caller, call: chained_gpc::Call) -> Result<(), chained_gpc::CallError> {
    /// let outcome = caller.call_async(call).await?.await?;
    /// # let _ = outcome;
    /// # Ok(())
    /// # }
    /// ```
    pub fn call_async(&self, call: Call) -> Calling {
        Calling { caller: self.clone(), call: Some(call) }
    }

    /// Subscribes to the events of peers whose links come up or are lost, from now on: see
    /// [`Node::events`](super::Node::events). Waits up to five seconds for a place in the node's queue, so the thread
    /// that drives the node must not call it.
    ///
    /// # Errors
    /// [`MembershipError::Busy`] and [`MembershipError::Ended`].
    pub fn events(&self) -> Result<Events, MembershipError> {
        let host = self.host.upgrade().ok_or(MembershipError::Ended)?;
        let (events, listener) = Events::new();
        host.mailbox().command(Command::Listen(listener), CHANGE_LIMIT)?;
        Ok(events)
    }

    fn start(&self, call: Call, room: Duration) -> Result<CallHandle, CallError> {
        let host = self.host.upgrade().ok_or(CallError::Ended)?;
        start(&*host, call, self.left(), room)
    }

    /// The rest of the time limit, for calls that set none.
    fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }
}

/// Starts a call at a node. Waits up to `room` for a place in the queue, but never on the thread that drives the node.
pub(super) fn start(
    host: &(impl Host + ?Sized),
    call: Call,
    left: Option<Duration>,
    room: Duration,
) -> Result<CallHandle, CallError> {
    let (start, plan) = host.prepared(call, left)?;
    let drives = deadlock_check::is_driving() || host.mailbox().waiters.is_driver();
    CallHandle::submit(host.mailbox(), start, plan, if drives { Duration::ZERO } else { room })
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Caller({:?})", self.id())
    }
}

/// A call that waits for a place in its node's queue: see [`Caller::call_async`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Calling {
    caller: Caller,
    call: Option<Call>,
}

impl Future for Calling {
    type Output = Result<CallHandle, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(host) = self.caller.host.upgrade() else { return Poll::Ready(Err(CallError::Ended)) };
        let Some(call) = self.call.clone() else { return Poll::Ready(Err(CallError::Taken)) };
        let (start, plan) = match host.prepared(call, self.caller.left()) {
            Ok(prepared) => prepared,
            Err(error) => return Poll::Ready(Err(error)),
        };
        let (handle, command) = CallHandle::of(host.mailbox(), start, plan, false);
        let sent = host.mailbox().command_or_wake(command, context.waker());
        match sent {
            Ok(()) => {
                self.call = None;
                Poll::Ready(Ok(handle))
            }
            Err(unsent) => {
                handle.detach();
                match unsent {
                    CommandError::Full => Poll::Pending,
                    CommandError::Ended => Poll::Ready(Err(CallError::Ended)),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Node;

    #[test]
    fn a_caller_of_a_function_has_the_rest_of_its_time_limit() {
        let node = Node::builder(3).polled().unwrap();
        let host = || node.event_loop().shared.this.clone();
        let second = Duration::from_secs(1);
        assert_eq!(Caller::new(host()).left(), None);
        let left = Caller::until(host(), 60 * second).left().expect("its function has a limit");
        assert!(left <= 60 * second && left > second, "{left:?}");
        assert_eq!(Caller::until(host(), Duration::ZERO).left(), Some(Duration::ZERO));
        let caller = Caller::new(host());
        assert_eq!(caller.id(), Some(3));
        drop(node);
        assert_eq!(caller.id(), None);
    }
}
