//! One node of a domain as a state machine without I/O.
//!
//! Inputs are requests of local processes, orders of other nodes, ends of calls and of processes, and the time; outputs are answers, calls, and processes to start or kill. Drain all outputs after every input.

mod collecting;
mod group;
mod head;
mod launching;
mod life;
mod meeting;
mod node;
mod placement;
mod store;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use chained_gpc::trees::Id;

use crate::exit::{Death, Exit};
use crate::fault::Fault;
use crate::limits::Limits;
use crate::names::{GroupId, Member, Rank};
use crate::order::{Order, Report};
use crate::request::{Answer, Client, Request};
use crate::spec::Layout;

pub use node::Domain;

/// Which of a client's requests, by its own count.
pub type Serial = u64;

/// A call that this node makes.
pub type CallNumber = u64;

/// An order of another node that waits for its answer.
pub type Token = u64;

/// What a node is told at the beginning.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Its id.
    pub me: Id,
    /// All nodes of the domain, the head first.
    pub nodes: Vec<Id>,
    /// Whether the head runs processes, too.
    pub runs: bool,
    /// The name of the domain: databases that it names begin so.
    pub name: String,
    /// How much of everything there may be.
    pub limits: Limits,
}

/// What happens at a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// A client asks.
    Request {
        /// Who.
        client: Client,
        /// Which of its requests.
        serial: Serial,
        /// What.
        request: Request,
    },
    /// The link of a client has ended: it reads nothing more, and asks nothing.
    Gone(Client),
    /// Another node, or this one in a call of its own, orders.
    Order {
        /// By which the order is answered; never used twice.
        token: Token,
        /// Who has begun the call.
        root: Id,
        /// What.
        order: Order,
    },
    /// Nobody waits for the answer any more: the call has ended, or the way to its root is lost.
    Cancelled(Token),
    /// A call of this node has ended.
    Called {
        /// Which.
        call: CallNumber,
        /// What each node has said, in the order of the call's ids. Of those who have said nothing, why; whether the id may have taken the order is then unknown.
        reports: Vec<(Id, Result<Report, Fault>)>,
    },
    /// The processes of a group were started here, or not.
    Started {
        /// The group.
        group: GroupId,
        /// For each rank here: its process number, or the number of the system's error.
        ranks: Vec<(Rank, Result<u32, i32>)>,
    },
    /// A process has ended.
    Ended {
        /// Which.
        member: Member,
        /// How.
        exit: Exit,
    },
    /// No process of a group, and nothing that they have started, is left here after it was killed.
    Emptied(GroupId),
    /// Time has passed.
    Time,
}

/// What a node is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Answers a client.
    Answer {
        /// Whom.
        client: Client,
        /// To which of its requests.
        serial: Serial,
        /// What.
        answer: Result<Answer, Fault>,
    },
    /// Tells a client of a process that has ended.
    Notice {
        /// Whom.
        client: Client,
        /// What.
        death: Death,
    },
    /// Makes a call: the order to all these nodes, this one among them or not.
    Call {
        /// Which call.
        call: CallNumber,
        /// To whom.
        ids: Vec<Id>,
        /// What.
        order: Arc<Order>,
        /// Whether to go on without nodes that are lost.
        partial: bool,
        /// How long it may take.
        limit: Duration,
    },
    /// Ends a call of this node early: nobody needs its reports.
    Cancel(CallNumber),
    /// Answers an order.
    Report {
        /// Which.
        token: Token,
        /// What.
        report: Report,
    },
    /// Starts the processes of a group that are on this node.
    Start(Arc<Layout>),
    /// Kills what is left of a group here, in two steps; [`Input::Emptied`] says when it is done.
    Kill {
        /// The group.
        group: GroupId,
        /// How long after SIGTERM follows SIGKILL; none: SIGKILL at once.
        grace: Option<Duration>,
    },
    /// Sends a signal to the processes of a group here.
    Signal(GroupId, u8),
    /// A process has asked for the end of its job: what the job's exit status is to be, and why.
    Aborted {
        /// Who.
        member: Member,
        /// The status.
        code: u8,
        /// Why.
        message: String,
    },
    /// Something is wrong that whoever has begun the domain wants to know.
    Warning(String),
    /// The domain has ended, as far as this node is concerned: nothing of it is left here.
    End,
}
