//! Inputs and outputs of the state machine.

use std::sync::Arc;
use std::time::Duration;

use chained_gpc::trees::Id;

use crate::exit::{Death, Exit};
use crate::fault::Fault;
use crate::names::{GroupId, Member, Rank};
use crate::order::{Order, Report};
use crate::request::{Answer, Client, Request};
use crate::spec::{Layout, Mpi, PmixNeed};
use crate::start_error::{StartError, StartFailure};

/// Number of a request, chosen by its client.
pub type Serial = u64;

/// Number of a call that this node makes.
pub type CallNumber = u64;

/// Identifies an order that waits for its reply.
pub type Token = u64;

/// An event at a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// A client sends a request.
    Request {
        /// The client.
        client: Client,
        /// The number of the request.
        serial: Serial,
        /// The request.
        request: Request,
    },
    /// The link of a client has closed: the client sends no more requests and reads no more answers.
    Gone(Client),
    /// An order arrives from another node, or from this node in a call of its own.
    Order {
        /// Identifies the reply; never used twice.
        token: Token,
        /// The node that began the call.
        root: Id,
        /// The order.
        order: Order,
    },
    /// The reply is no longer needed: the call has ended, or the path to its root is lost.
    Cancelled(Token),
    /// A call of this node has ended.
    Called {
        /// The number of the call.
        call: CallNumber,
        /// The report of each node, in the order of the call's ids. A node without a report has a fault; such a node
        /// may have executed the order.
        reports: Vec<(Id, Result<Report, Fault>)>,
    },
    /// The driver has started the processes of a group here, or has failed to.
    Started {
        /// The group.
        group: GroupId,
        /// For each rank here, its process id or the reason why it was not started.
        ranks: Vec<(Rank, Result<u32, StartError>)>,
    },
    /// The driver has checked whether the processes of a group can be started here.
    Checked {
        /// The group.
        group: GroupId,
        /// Ranks that cannot be started, and the reason.
        failed: Vec<(Vec<Rank>, StartError)>,
        /// A free port, if this is the node of rank 0 and a spec needs one.
        port: Option<u16>,
        /// Whether the processes here need a PMIx server.
        pmix: PmixNeed,
        /// The MPI that they are linked with.
        mpi: Option<Mpi>,
    },
    /// The PMIx server of this node has the data of a process, or cannot get them.
    Fetched {
        /// The number of [`Output::Fetch`].
        number: u64,
        /// The data.
        data: Result<Vec<u8>, Fault>,
    },
    /// A process has ended.
    Ended {
        /// The process.
        member: Member,
        /// How it ended.
        exit: Exit,
    },
    /// A killed group has left nothing here: all its processes and their descendants have ended.
    Emptied(GroupId),
    /// Ends the domain at all nodes; for the head alone. [`Output::End`] follows when nothing of it is left.
    End,
    /// Time has passed.
    Time,
}

/// An action for the driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Answer a client.
    Answer {
        /// The client.
        client: Client,
        /// The number of the request.
        serial: Serial,
        /// The answer.
        answer: Result<Answer, Fault>,
    },
    /// Notify a client of a process that has ended.
    Notice {
        /// The client.
        client: Client,
        /// The death.
        death: Death,
    },
    /// Make a call that carries the order to all of these nodes. They may include this node.
    Call {
        /// The number of the call.
        call: CallNumber,
        /// The nodes.
        ids: Vec<Id>,
        /// The order.
        order: Arc<Order>,
        /// Whether the call continues without nodes that are lost.
        partial: bool,
        /// Time limit of the call.
        limit: Duration,
    },
    /// Cancel a call of this node: its reports are no longer needed.
    Cancel(CallNumber),
    /// Reply to an order.
    Report {
        /// Identifies the order.
        token: Token,
        /// The report.
        report: Report,
    },
    /// Check whether the processes of a group on this node can be started, or prepare the PMIx server for them if the
    /// layout has a plan; [`Input::Checked`] has the result.
    Check(Arc<Layout>),
    /// Ask the PMIx server of this node for the data of a process here; [`Input::Fetched`] has them.
    Fetch {
        /// The number of the question.
        number: u64,
        /// The process.
        member: Member,
    },
    /// Start the processes of a group on this node; [`Input::Started`] has the result.
    Start(Arc<Layout>),
    /// Kill the remaining processes of a group here, by SIGTERM, then by SIGKILL; [`Input::Emptied`] follows.
    Kill {
        /// The group.
        group: GroupId,
        /// Time between SIGTERM and SIGKILL; `None`: SIGKILL at once.
        grace: Option<Duration>,
    },
    /// Send a signal to the processes of a group here.
    Signal(GroupId, u8),
    /// A group is forgotten: it has ended, and its number was freed.
    Forgotten(GroupId),
    /// A process has aborted its job.
    Aborted {
        /// The process.
        member: Member,
        /// Exit status for the job.
        code: u8,
        /// The reason.
        message: String,
    },
    /// Processes of a group could not be started. Emitted at the head alone.
    NotStarted(StartFailure),
    /// A group that a process has spawned was started. Emitted at the head alone.
    Spawned {
        /// The group.
        group: GroupId,
        /// Number of its processes.
        count: u32,
    },
    /// A process has requested the kill of a running group, which explains its later deaths. Emitted at the head alone.
    Killed {
        /// The group.
        group: GroupId,
        /// The process.
        by: Member,
        /// Number of the group's processes that had ended before; theirs are the first deaths that are reported.
        dead: usize,
    },
    /// The other nodes have begun: their ids and host names. Emitted at the head alone.
    Begun(Vec<(Id, String)>),
    /// A problem to report to the application that began the domain.
    Warning(String),
    /// The domain has ended at this node: nothing of it is left here.
    End,
}
