//! How the tasks of a job meet those of other jobs: up through resources, down by one chained call.
//!
//! Every task of a job [registers](Tasks::register) three functions, and comes to the [meeting](Tasks::meet) with its data. The data of all tasks of the job are gathered, either at a resource of level 1 or by one chained call ([`Gathering`]). The *controlling task*
//! registers the whole with the resource above, if there is one, and waits for the completion of the top. That, or why there will be none, it *announces*: one chained call along a tree to all tasks of its job. So every task ends with the same
//! [`Completion`], or the same [`Fault`].
//!
//! The resources may be anywhere: [`Resource`] is what a meeting needs of them, and [`Reached`] is one by means of a client.
//!
//! Who waits for the announcement also asks the controlling task now and then, so that a task which the call did not reach is told, and one that is silent is noticed; when its link is lost, the wait ends with the fault
//! [controller-lost](crate::FaultKind::ControllerLost), which names it.
//!
//! The tasks trust each other, and all members of their job: an announcement comes down a tree, and that the controlling task has made it is the word of the members on its way. A member that lies could announce a completion of its own, or ask for the one that was
//! announced. Links that prove nothing are refused.
//!
//! Source: WS Rendezvous, "Flow of control", and "Application to MPI jobs": where the tasks of a job have a gather of their own, "there is no need for a subjob-level rendezvous". MPICH's device for Globus sent the whole down a binomial tree.
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
mod resource;
mod tasks;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chained_gpc::{CallError, Id, IdList, MembershipError};

use crate::machine::{Completion, Fault, Wanted};

pub(crate) use resource::Until;
pub use resource::{Reached, Resource};
pub use tasks::Tasks;

/// What a task comes to a meeting with. All tasks of a job have the same ids and the same way of gathering.
#[derive(Clone)]
pub struct Plan {
    /// The tasks of the job, in the order of their ranks.
    pub ids: IdList,
    /// What this task brings.
    pub data: Bytes,
    /// How the data of the job's tasks are gathered.
    pub gathering: Gathering,
    /// Where the controlling task registers the job's data; the others need not know. Where there is nothing above, the job's own data are the whole.
    pub above: Option<Above>,
    /// How long the meeting may take.
    pub limit: Duration,
    /// How long the others may be on their way to being started: at whose address nobody answers for longer, and who has not been heard of, counts as lost. [`START`] by default; 0 where all are known to be there, as after a bootstrap.
    pub start: Duration,
}

/// How long tasks may be on their way by default: those of one job are started together.
pub const START: Duration = Duration::from_secs(10);

/// How the data of a job's tasks are gathered to level-1 data, by rank.
#[derive(Clone)]
pub enum Gathering {
    /// By one chained call of the controlling task. A task that is lost before it has come ends the meeting.
    Call,
    /// At a resource of level 1, where each task registers. What is drawn there, if there is nothing above, comes with the completion.
    Resource(Arc<dyn Resource>),
}

/// The resource above a job.
#[derive(Clone)]
pub struct Above {
    /// The resource.
    pub resource: Arc<dyn Resource>,
    /// The job's rank there.
    pub rank: Wanted,
}

impl Plan {
    /// Gathers by a call, with nothing above. Ids that are no list are as none, which [`Tasks::meet`] refuses.
    pub fn new(ids: impl Into<chained_gpc::Ids>, data: impl Into<Bytes>, limit: Duration) -> Plan {
        let ids = IdList::try_from(ids.into()).unwrap_or_default();
        Plan { ids, data: data.into(), gathering: Gathering::Call, above: None, limit, start: START }
    }

    /// The same, where tasks may be on their way for so long.
    #[must_use]
    pub fn start(self, start: Duration) -> Plan {
        Plan { start, ..self }
    }

    /// The same, with a resource of level 1.
    #[must_use]
    pub fn at(self, resource: Arc<dyn Resource>) -> Plan {
        Plan { gathering: Gathering::Resource(resource), ..self }
    }

    /// The same, with a resource above.
    #[must_use]
    pub fn below(self, resource: Arc<dyn Resource>, rank: Wanted) -> Plan {
        Plan { above: Some(Above { resource, rank }), ..self }
    }
}

/// Why a task does not have the data of all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeetError {
    /// The rendezvous has failed: all tasks of the job are told the same. Or this task was refused where it registered.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The controlling task has not said anything.
    #[error(
        "the controlling task, id {from}, has not announced anything within {limit:?}: does it run, and has it come to this meeting?"
    )]
    Late {
        /// The controlling task.
        from: Id,
        /// How long it was waited for.
        limit: Duration,
    },
    /// This task, or the controlling one, is not in the list of ids.
    #[error("id {0} is not among the ids of the meeting")]
    NotAmong(Id),
    /// Only the controlling task announces.
    #[error("id {0} is not the controlling task, which alone announces")]
    NotControlling(Id),
    /// The call of the announcement was refused before anything was sent.
    #[error("the announcement: {0}")]
    Call(#[from] CallError),
    /// The node tells nothing of its links.
    #[error("the node does not tell of its links: {0}")]
    Membership(#[from] MembershipError),
    /// The system fails.
    #[error("cannot draw a token: {0}")]
    System(#[from] io::Error),
}

/// What a meeting comes to, for all tasks of the job.
type Ended = Result<Completion, Fault>;
