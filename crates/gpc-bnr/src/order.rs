//! Messages between the nodes of a domain: an order is the request of a chained call, a report is one node's reply.

use std::sync::Arc;

use std::collections::BTreeSet;

use chained_gpc::trees::Id;

use crate::exit::Death;
use crate::fault::Fault;
use crate::limits::Limits;
use crate::names::{GroupId, Member, Rank, Set};
use crate::request::{Answer, Client, GroupStatus, Pair, Request};
use crate::spec::{Layout, Mpi, PmixNeed};
use crate::start_error::StartError;

/// Sequence number of a collective request of a set. Each member counts its own requests from 0, separately for each
/// tag.
pub type Epoch = u64;

/// Identifies a collective request.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Meeting {
    /// The members that take part.
    pub set: Set,
    /// Tag of a fence, a merge or a split; otherwise empty. Fences may have an empty tag as well.
    pub tag: Vec<u8>,
    /// Its sequence number.
    pub epoch: Epoch,
}

/// What a collective request does when all members have arrived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// Distribute the puts of all members, nothing else.
    Fence,
    /// Open a group.
    Open,
    /// Close a group and start it.
    Close(GroupId),
    /// Merge two groups.
    Merge(GroupId, GroupId),
    /// Split a group by the colors of its members.
    Split,
}

/// Orders the values of a key: the value with the greater stamp wins at every node, in any order of arrival.
///
/// A put made after a fence has a greater clock than everything that the fence brought. Concurrent puts are ordered by
/// member, then by the member's put number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Stamp {
    /// Greater than the clock of every entry that had reached the putting node.
    pub clock: u64,
    /// The member that made the put.
    pub member: Member,
    /// Number of the put at its node.
    pub number: u64,
}

/// A put.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The database.
    pub database: String,
    /// The key and its value.
    pub pair: Pair,
    /// Its stamp.
    pub stamp: Stamp,
}

/// The puts that a collective request distributes.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Brought {
    /// The puts.
    pub entries: Vec<Entry>,
    /// Collective requests of other tags or sets that distributed earlier puts. A member that still waits in one of
    /// them is released from it first.
    pub after: BTreeSet<Meeting>,
    /// The data that members carry, one after another.
    pub data: Vec<u8>,
}

/// The part of a member in a split.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// The member.
    pub member: Member,
    /// The new group that it belongs to; `None` for no new group.
    pub color: Option<u32>,
    /// Members of a new group are ordered by it.
    pub key: i32,
}

/// A message from one node to others.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Order {
    /// Begins a domain at every other node. A node that has already begun it answers as well. Answered by
    /// [`Report::Host`].
    Begin {
        /// All nodes, the head first.
        nodes: Vec<Id>,
        /// Bounds of the domain. A node with lower limits takes no part in it.
        limits: Limits,
    },
    /// Stays unanswered as long as the domain lives: the call fails when a node is lost.
    Watch,
    /// A member has arrived, and its coordinator may be unaware of the request: the coordinator begins to collect.
    Enter {
        /// The collective request.
        meeting: Meeting,
        /// Its purpose.
        purpose: Purpose,
    },
    /// Collects the members. A node defers its reply until its own members have arrived. Answered by
    /// [`Report::Entries`].
    Collect {
        /// The collective request.
        meeting: Meeting,
        /// Its purpose.
        purpose: Purpose,
    },
    /// Ends a collective request and releases the members that wait.
    Release {
        /// The collective request.
        meeting: Meeting,
        /// Known deaths of members; subscribers are notified of them before the request fails.
        deaths: Vec<Death>,
        /// The distributed puts and the answer to the members, or the fault.
        outcome: Result<(Brought, Answer), Fault>,
    },
    /// A collective request fails: a member's time limit has passed, or a member has another purpose. Sent to the
    /// coordinator, which releases the other members.
    Fail {
        /// The collective request.
        meeting: Meeting,
        /// The reason.
        fault: Fault,
    },
    /// Starts the processes of a group, each at its node. Answered by [`Report::Started`] or [`Report::NotStarted`].
    Start(Arc<Layout>),
    /// Checks at each node whether its processes of a group can be started, before any is started. If the layout has
    /// a PMIx plan, prepares the server of the node for them, in a second check. Answered by
    /// [`Report::Checked`] or [`Report::NotStarted`]; [`Report::Done`] where nothing is to be started.
    Check(Arc<Layout>),
    /// Kills the processes of a group. Answered by [`Report::Groups`], the exits of the group's processes there, when
    /// none is left.
    Kill(GroupId),
    /// Sends a signal to the processes of a group.
    Signal(GroupId, u8),
    /// Removes a group, its database, and all state about it.
    Forget(GroupId),
    /// Processes have ended.
    Died(Vec<Death>),
    /// Nodes are lost, and their processes with them. Sent by the head.
    Lost(Vec<Id>),
    /// Requests the value of a key. Answered by [`Report::Found`].
    Find {
        /// The database.
        database: String,
        /// The key.
        key: Vec<u8>,
    },
    /// Requests all pairs of a node's copy of a database. Answered by [`Report::Pairs`].
    List(String),
    /// A database has been removed.
    Destroyed(String),
    /// Forwards a client's request to the head. Answered by [`Report::Answer`].
    AtHead {
        /// The client.
        client: Client,
        /// Its request.
        request: Request,
    },
    /// Requests the status of a node's processes, of one group or of all. Answered by [`Report::Groups`].
    Status(Option<GroupId>),
    /// Requests the data of a process on the receiving node. Answered by [`Report::Answer`], perhaps late.
    Fetch(Member),
    /// Ends the domain. Answered when nothing of it is left at the node.
    End,
    /// The time limit of a collective request has passed: its coordinator requests the members that have not arrived.
    /// Answered by [`Report::Missing`].
    Missing {
        /// The collective request.
        meeting: Meeting,
        /// Its purpose.
        purpose: Purpose,
    },
}

/// A node's reply to an order.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Report {
    /// The order has been carried out.
    Done,
    /// Replies to [`Order::Collect`]: the puts of the members here, ordered by rank, then by put, and their choices in
    /// a split.
    Entries(Brought, Vec<Choice>),
    /// Replies to [`Order::Start`]: each rank with its process id or the system's error number.
    Started(Vec<(Rank, Result<u32, i32>)>),
    /// Replies to [`Order::Start`] and [`Order::Check`]: the ranks that cannot be started, and the reason. After a
    /// start, all other ranks run.
    NotStarted(Vec<(Vec<Rank>, StartError)>),
    /// Replies to [`Order::Find`].
    Found(Option<Vec<u8>>),
    /// Replies to [`Order::List`].
    Pairs(Vec<Pair>),
    /// Replies to [`Order::AtHead`].
    Answer(Result<Answer, Fault>),
    /// Replies to [`Order::Status`] and [`Order::Kill`].
    Groups(Vec<GroupStatus>),
    /// Replies to [`Order::Missing`]: some of the node's members that have not arrived, and the number of further ones.
    Missing(Vec<Member>, u64),
    /// Replies to [`Order::Begin`]: the host name of the node.
    Host(String),
    /// Replies to [`Order::Check`]: the processes can be started.
    Checked {
        /// At the node of rank 0, if a spec needs a port there: one that is free.
        port: Option<u16>,
        /// Whether they need a PMIx server.
        pmix: PmixNeed,
        /// The MPI that they are linked with.
        mpi: Option<Mpi>,
    },
}
