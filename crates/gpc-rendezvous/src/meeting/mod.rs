//! Meetings: the tasks of a job exchange data with those of other jobs, upward through resources and downward by one
//! chained call.
//!
//! Every task of a job [registers](Tasks::register) three functions, and joins the [meeting](Tasks::meet) with its
//! data. The data of the job's tasks are gathered, either at a resource of level 1 or by one chained call
//! ([`Gathering`]). If there is a parent resource, the *controlling task* registers the gathered data there and waits
//! for the completion of the top. Then it *announces* the completion, or the fault in its place, by one chained call
//! along a tree to all tasks of its job. So every task ends with the same [`Completion`], or the same [`Fault`].
//!
//! The resources may be anywhere: [`Resource`] is the interface that a meeting needs, and [`ClientResource`] implements
//! it with a client.
//!
//! A waiting task also asks the controlling task from time to time. So a task that the announcement did not reach gets
//! it by the question, and a silent controlling task is detected. If the link with the controlling task is lost, the
//! wait ends with the fault [controller-lost](crate::FaultKind::ControllerLost), which names it.
//!
//! The tasks trust each other and all members of their job. An announcement arrives along a tree, and only the members
//! on its way vouch that the controlling task made it. A malicious member could announce a completion of its own, or
//! ask for the announced one. Links without proof are rejected.
//!
//! Source: WS Rendezvous, "Flow of control", and "Application to MPI jobs": where the tasks of a job have a gather of
//! their own, "there is no need for a subjob-level rendezvous". MPICH's device for Globus sent the whole down a
//! binomial tree.
//!
//! ```
//! use std::time::Duration;
//!
//! use chained_gpc::{Functions, LinkKind, LocalNodes};
//! use gpc_rendezvous::meeting::{Plan, Tasks};
//!
//! // Each task has functions of its own; these are three in one process.
//! let tasks: Vec<(Functions, Tasks)> = (0..3)
//!     .map(|_| {
//!         let functions = Functions::new();
//!         let tasks = Tasks::register(&functions, 0)?;
//!         Ok::<_, chained_gpc::FunctionsError>((functions, tasks))
//!     })
//!     .collect::<Result<_, _>>()?;
//! let nodes = LocalNodes::start_with(3, LinkKind::Unix, &Functions::new(), |id, node| {
//!     node.functions(&tasks[id as usize].0)
//! })?;
//! std::thread::scope(|scope| {
//!     for (id, (_, tasks)) in (0..).zip(&tasks) {
//!         let node = nodes.node(id);
//!         scope.spawn(move || {
//!             let plan = Plan::new(0..3, format!("task {id}"), Duration::from_secs(10));
//!             let completion = tasks.meet(node, plan).expect("all have come");
//!             assert_eq!(completion.data, "3 6 task 06 task 16 task 2");
//!         });
//!     }
//! });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod follow;
mod lead;
mod message;
mod resource;
mod shared;
mod tasks;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chained_gpc::{CallError, Id, IdList, MembershipError};

use crate::machine::{Completion, Fault, RankChoice};

pub(crate) use resource::wait_within;
pub use resource::{ClientResource, Resource};
pub use tasks::Tasks;

/// Parameters of a task for a meeting. All tasks of a job have the same ids and the same way of gathering.
#[derive(Clone)]
pub struct Plan {
    /// Tasks of the job, in the order of their ranks.
    pub ids: IdList,
    /// Data of this task.
    pub data: Bytes,
    /// How the data of the job's tasks are gathered.
    pub gathering: Gathering,
    /// Where the controlling task registers the job's data; the other tasks may leave it out. If it is `None`, the
    /// job's own data are the outcome.
    pub above: Option<ParentResource>,
    /// Time limit of the meeting.
    pub limit: Duration,
    /// Time for the other tasks to start. If an address does not answer for longer, and its task has sent nothing, the
    /// task counts as lost. The default is [`START`]; use 0 if all tasks are known to run, as after a bootstrap.
    pub start: Duration,
}

/// Default time for tasks to start: the tasks of one job are started together.
pub const START: Duration = Duration::from_secs(10);

/// How the data of a job's tasks are gathered into level-1 data, by rank.
#[derive(Clone)]
pub enum Gathering {
    /// By one chained call of the controlling task. If a task is lost before it has joined, the meeting fails.
    Call,
    /// At a resource of level 1, where each task registers. Without a parent resource, the job and secret of this
    /// resource are part of the completion.
    Resource(Arc<dyn Resource>),
}

/// The parent resource of a job.
#[derive(Clone)]
pub struct ParentResource {
    /// The resource.
    pub resource: Arc<dyn Resource>,
    /// The job's rank there.
    pub rank: RankChoice,
}

impl Plan {
    /// A plan that gathers by a call, without a parent resource. Invalid ids give an empty list, which [`Tasks::meet`]
    /// rejects.
    pub fn new(ids: impl Into<chained_gpc::Ids>, data: impl Into<Bytes>, limit: Duration) -> Plan {
        let ids = IdList::try_from(ids.into()).unwrap_or_default();
        Plan { ids, data: data.into(), gathering: Gathering::Call, above: None, limit, start: START }
    }

    /// Sets the time for tasks to start.
    #[must_use]
    pub fn start(self, start: Duration) -> Plan {
        Plan { start, ..self }
    }

    /// Gathers at a resource of level 1.
    #[must_use]
    pub fn at(self, resource: Arc<dyn Resource>) -> Plan {
        Plan { gathering: Gathering::Resource(resource), ..self }
    }

    /// Sets the parent resource.
    #[must_use]
    pub fn below(self, resource: Arc<dyn Resource>, rank: RankChoice) -> Plan {
        Plan { above: Some(ParentResource { resource, rank }), ..self }
    }
}

/// Why a meeting has failed for a task.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeetError {
    /// The rendezvous has failed, with the same fault for all tasks of the job; or this task's registration was
    /// rejected.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The controlling task has announced nothing in time.
    #[error(
        "the controlling task, id {from}, has not announced anything within {limit:?}: does it run, and has it come to this meeting?"
    )]
    Late {
        /// The controlling task.
        from: Id,
        /// The time limit.
        limit: Duration,
    },
    /// This task, or the controlling task, is not in the list of ids.
    #[error("id {0} is not among the ids of the meeting")]
    NotAmong(Id),
    /// This task is not the controlling task, which alone announces.
    #[error("id {0} is not the controlling task, which alone announces")]
    NotControlling(Id),
    /// The call of the announcement was rejected before anything was sent.
    #[error("the announcement: {0}")]
    Call(#[from] CallError),
    /// The node does not report events of its links.
    #[error("the node does not tell of its links: {0}")]
    Membership(#[from] MembershipError),
    /// The system has no randomness.
    #[error("cannot draw a token: {0}")]
    System(#[from] io::Error),
}

/// Outcome of a meeting, the same for all tasks of the job.
type MeetingOutcome = Result<Completion, Fault>;
