//! The errors of a call, and the status of its ids after a failure.

use std::fmt;

use gpc_trees::{Id, IdList, IdsError};

use super::functions_error::FunctionsError;
use super::plan::Plan;
use super::status_table::StatusTable;
use crate::wire::frame::HEADER_MAX;
use crate::wire::{Cause, CauseKind, Coverage, Failure, Status};

/// Why a call has no outcome.
///
/// ```
/// use std::time::Duration;
///
/// use chained_gpc::{Call, CallError, CauseKind, Functions, LinkKind, LocalNodes};
///
/// let functions = Functions::new();
/// let slow = functions.func("slow", |request, _| match request.me() {
///     1 => Ok(std::thread::sleep(Duration::from_millis(300))),
///     _ => Ok(()),
/// })?;
/// let nodes = LocalNodes::start(2, LinkKind::Unix, &functions)?;
/// let call = Call::new(slow).ids(0..2).limit(Duration::from_millis(50));
/// match nodes.root().call(call)?.wait() {
///     Err(CallError::Failed(failed)) => match failed.cause().kind {
///         CauseKind::TimeLimit => assert_eq!(failed.cause().id, 1, "it was waited for"),
///         kind => panic!("{kind}"),
///     },
///     other => panic!("{other:?}"),
/// }
/// // An invalid call is rejected before anything is sent.
/// let refused = nodes.root().call(Call::new(slow).ids([0, 1, 1])).unwrap_err();
/// assert!(refused.is_refusal());
/// assert_eq!(refused.to_string(), "the list of ids is refused: id 1 is listed twice, at positions 1 and 2");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The call started, and failed at some id.
    #[error(transparent)]
    Failed(Box<CallFailure>),
    /// The function cannot be called; nothing was sent.
    #[error(transparent)]
    Function(#[from] FunctionsError),
    /// The tree is invalid; nothing was sent.
    #[error("the tree is refused: {0}")]
    Tree(#[from] gpc_trees::TreeError),
    /// The list of ids is invalid or empty; nothing was sent.
    #[error("the list of ids is refused: {0}")]
    Ids(#[from] IdsError),
    /// The caller only watches, but is one of the ids that execute; nothing was sent.
    #[error("the caller only watches, but stands in the list of ids")]
    WatcherListed,
    /// The header is too long; nothing was sent.
    #[error("a header of {0} bytes is over the limit of {HEADER_MAX}: send it as data")]
    Header(usize),
    /// A scatter call has another number of parts than ids; nothing was sent.
    #[error("{parts} parts for {ids} ids: a scatter call has one part for each id of its list")]
    Parts {
        /// Number of parts.
        parts: usize,
        /// Number of ids in the caller's list.
        ids: u32,
    },
    /// The node's queue of calls is full at present; nothing was sent.
    #[error("the node is busy: its queue of calls is full; a polled node makes room in progress()")]
    Busy,
    /// The node has ended.
    #[error("the node has been shut down")]
    Ended,
    /// The node is a polled one, and only its application drives it.
    #[error("this node runs only while its application calls progress(): wait with PolledNode::wait")]
    NotDriven,
    /// The wait could not end before the call's time limit, since the call needs the waiting thread or worker. It was
    /// rejected at once.
    #[error(transparent)]
    Deadlock(Deadlock),
    /// The outcome has been taken from this handle before.
    #[error("the outcome of this call was taken before")]
    Taken,
}

/// Why a wait for a call is rejected: the call cannot end while this thread waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Deadlock {
    /// The thread that drives a node, which runs inline functions and continuations, must never wait.
    #[error(
        "the thread that drives a node cannot wait for a call, which would wait for it: go on in `CallHandle::on_end`, answer later by a deferring function, or place the function on an executor"
    )]
    Driver,
    /// A function would wait on the last worker, or the only one, that the call needs at this node.
    #[error(
        "this function would wait for a call that needs the worker which waits: place one of the two on another executor, give this one more workers, go on in `CallHandle::on_end`, or answer later by a deferring function"
    )]
    Workers,
}

impl CallError {
    /// The failed call, with its cause and the status of each id; `None` if the call did not start.
    pub fn failed_call(&self) -> Option<&CallFailure> {
        match self {
            CallError::Failed(failed) => Some(failed),
            _ => None,
        }
    }

    /// The first cause and the coverage, if the call started and failed.
    pub fn failure(&self) -> Option<&Failure> {
        self.failed_call().map(CallFailure::failure)
    }

    /// The first cause, if the call started.
    pub fn cause(&self) -> Option<&Cause> {
        self.failed_call().map(CallFailure::cause)
    }

    /// The kind of the first cause, if the call started.
    pub fn kind(&self) -> Option<CauseKind> {
        self.cause().map(|cause| cause.kind)
    }

    /// The status of each id, if the call started.
    pub fn coverage(&self) -> Option<&Coverage> {
        self.failed_call().map(CallFailure::coverage)
    }

    /// The status of an id: see [`CallFailure::status`]. `None` if the id is not of the call, or the call did not
    /// start.
    pub fn status(&self, id: Id) -> Option<Status> {
        self.failed_call()?.status(id)
    }

    /// The ids that the request surely never reached: see [`CallFailure::never_reached`]. `None` if the call did not
    /// start: a call that [was rejected here](Self::is_refusal) has reached no id, and all of its ids are safe to call.
    pub fn never_reached(&self) -> Option<IdList> {
        self.failed_call().map(CallFailure::never_reached)
    }

    /// The ids that may have executed: see [`CallFailure::unknown`]. `None` if the call did not start.
    pub fn unknown(&self) -> Option<IdList> {
        self.failed_call().map(CallFailure::unknown)
    }

    /// The ids that have reported a failure: see [`CallFailure::failed`]. `None` if the call did not start.
    pub fn failed(&self) -> Option<IdList> {
        self.failed_call().map(CallFailure::failed)
    }

    /// Whether the call was rejected here, and nothing was sent.
    pub fn is_refusal(&self) -> bool {
        match self {
            CallError::Function(_) | CallError::Tree(_) | CallError::Header(_) => true,
            CallError::Parts { .. } => true,
            CallError::Ids(_) | CallError::WatcherListed | CallError::Busy => true,
            CallError::Failed(_) | CallError::Ended | CallError::NotDriven => false,
            CallError::Deadlock(_) | CallError::Taken => false,
        }
    }
}

/// A call that started and failed: the first cause, and the status of each id.
///
/// If the ids are a range or a few, the time of a query does not grow with their number. It grows with the logarithm of
/// the number of status changes between neighbours. For a list of many ranges the first query builds a map.
///
/// ```
/// use chained_gpc::{Call, CauseKind, Functions, LinkKind, LocalNodes, Status, Tree};
///
/// let functions = Functions::new();
/// let store = functions.func("store", |request, _| match request.me() {
///     1 => panic!("the disk is gone"),
///     _ => Ok(()),
/// })?;
/// let nodes = LocalNodes::start(3, LinkKind::Unix, &functions)?;
/// let error = nodes.root().call(Call::new(store).ids(0..3).tree(Tree::Chain))?.wait().unwrap_err();
/// let failed = error.failed_call().expect("it got under way");
/// assert_eq!((failed.cause().id, failed.cause().kind), (1, CauseKind::Panicked));
/// assert_eq!(failed.status(0), Some(Status::Done));
/// // Id 2 gets the request from id 1, which had not sent it yet: it is safe to call again.
/// // The caller has executed, so it only watches.
/// let again = Call::new(store).ids(failed.never_reached()).watch();
/// nodes.root().call(again)?.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallFailure {
    failure: Failure,
    status_table: StatusTable,
}

impl CallFailure {
    pub(super) fn new(plan: Plan, failure: Failure) -> CallFailure {
        let status_table = StatusTable::new(plan.ids, plan.asked, failure.coverage.clone());
        CallFailure { failure, status_table }
    }

    /// The first cause, and the coverage.
    pub fn failure(&self) -> &Failure {
        &self.failure
    }

    /// The first cause.
    pub fn cause(&self) -> &Cause {
        &self.failure.cause
    }

    /// Replaces the first cause, for a caller that knows more than the call does, such as one that has seen a process
    /// end.
    pub fn with_cause(self, cause: Cause) -> CallFailure {
        CallFailure { failure: Failure { cause, ..self.failure }, ..self }
    }

    /// The status of each id, as runs over [`ids`](Self::ids).
    pub fn coverage(&self) -> &Coverage {
        &self.failure.coverage
    }

    /// The ids of the call, in tree order.
    pub fn ids(&self) -> &IdList {
        self.status_table.ids()
    }

    /// The status of an id; `None` if it is not of the call. [`Status`] documents which ids are safe to call again.
    pub fn status(&self, id: Id) -> Option<Status> {
        self.status_table.status(id)
    }

    /// The ids that have executed, in the caller's order. Their replies are lost with the call.
    pub fn done(&self) -> IdList {
        self.status_table.ids_with(Status::Done)
    }

    /// The ids that the request surely never reached, in the caller's order: safe to call again. If the caller is not
    /// among them, a new call adds it, and it executes, unless it [only watches](super::Call::watch).
    pub fn never_reached(&self) -> IdList {
        self.status_table.ids_with(Status::Unreached)
    }

    /// The ids that may have executed, in the caller's order. To call them again is safe only if executing twice is.
    pub fn unknown(&self) -> IdList {
        self.status_table.ids_with(Status::Unknown)
    }

    /// The ids that have reported a failure, in the caller's order.
    pub fn failed(&self) -> IdList {
        self.status_table.ids_with(Status::Failed)
    }
}

impl fmt::Display for CallFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.failure.fmt(f)
    }
}

impl std::error::Error for CallFailure {}
