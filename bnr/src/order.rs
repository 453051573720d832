//! What nodes of a domain say to each other: each order is the request of a chained call, each report one node's reply.

use std::sync::Arc;

use std::collections::BTreeSet;

use chained_gpc::trees::Id;

use crate::exit::Death;
use crate::fault::Fault;
use crate::limits::Limits;
use crate::names::{GroupId, Member, Rank, Set};
use crate::request::{Answer, Client, GroupStatus, Pair, Request};
use crate::spec::Layout;
use crate::start_error::StartError;

/// Which of the collective requests of a set this is: each member counts its own, from 0, for each tag.
pub type Epoch = u64;

/// A collective request.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Meeting {
    /// Who takes part.
    pub set: Set,
    /// Its tag; empty for all but fences that have one.
    pub tag: Vec<u8>,
    /// Which one.
    pub epoch: Epoch,
}

/// What is done when all are there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// Nothing more: what they have put goes to all.
    Fence,
    /// A group is opened.
    Open,
    /// A group is closed, and started.
    Close(GroupId),
    /// Two groups are merged.
    Merge(GroupId, GroupId),
}

/// Which of two values of a key counts: the one with the greater stamp, at all nodes, in whatever order they come there.
///
/// A put that has seen what a fence brought has a greater clock than all of that. Of puts that have not seen each other the last in the order of the members and of their puts counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Stamp {
    /// How much the putting node had seen: more than the clock of each entry that was brought there.
    pub clock: u64,
    /// Who has put it.
    pub member: Member,
    /// Which of its puts.
    pub number: u64,
}

/// What was put into a database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The database.
    pub database: String,
    /// The key and the value.
    pub pair: Pair,
    /// When.
    pub stamp: Stamp,
}

/// What a meeting brings.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Brought {
    /// What was put.
    pub entries: Vec<Entry>,
    /// Meetings of other tags, or of other sets, that have brought what was put before: a member that still waits in one of them is released from that one first.
    pub after: BTreeSet<Meeting>,
}

/// What one node says to others.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Order {
    /// Begins a domain at every other node. Answered by [`Report::Host`], also by a node that has begun it already.
    Begin {
        /// All nodes, the head first.
        nodes: Vec<Id>,
        /// How much of everything there may be in it. A node that allows less has no part in it.
        limits: Limits,
    },
    /// Stands as long as the domain: whoever does not answer it is there. Never answered.
    Watch,
    /// A member has come to a meeting whose first member is elsewhere: its coordinator begins to collect.
    Enter {
        /// The meeting.
        meeting: Meeting,
        /// What for.
        purpose: Purpose,
    },
    /// Collects who has come. Deferred until the local members are in. Answered by [`Report::Entries`].
    Collect {
        /// The meeting.
        meeting: Meeting,
        /// What for.
        purpose: Purpose,
    },
    /// Releases those who have come.
    Release {
        /// The meeting.
        meeting: Meeting,
        /// Who is known to have died: told before the meeting fails.
        deaths: Vec<Death>,
        /// What was put, and what those who wait are answered; or why there is nothing.
        outcome: Result<(Brought, Answer), Fault>,
    },
    /// A meeting cannot be: a time limit has passed at a member, or one wants something else. To its coordinator, which releases the others.
    Fail {
        /// The meeting.
        meeting: Meeting,
        /// Why it fails.
        fault: Fault,
    },
    /// Starts the processes of a group at each node that has some. Answered by [`Report::Started`], or [`Report::NotStarted`].
    Start(Arc<Layout>),
    /// Looks at each node whether its processes of a group can be started, before any is. Answered by [`Report::Done`], or [`Report::NotStarted`].
    Check(Arc<Layout>),
    /// Kills the processes of a group. Answered by [`Report::Groups`] when none is left: how the group's processes there have ended.
    Kill(GroupId),
    /// Sends a signal to the processes of a group.
    Signal(GroupId, u8),
    /// A group is gone: its database, and all that is known of it.
    Forget(GroupId),
    /// Processes have ended.
    Died(Vec<Death>),
    /// Nodes are lost, and their processes with them. From the head.
    Lost(Vec<Id>),
    /// The value of a key. Answered by [`Report::Found`].
    Find {
        /// The database.
        database: String,
        /// The key.
        key: Vec<u8>,
    },
    /// All that a node has put into a database. Answered by [`Report::Pairs`].
    List(String),
    /// A database is gone.
    Destroyed(String),
    /// What a client asks of the head. Answered by [`Report::Answer`].
    AtHead {
        /// Who asks.
        client: Client,
        /// What.
        request: Request,
    },
    /// Which processes a node has. Answered by [`Report::Groups`].
    Status(Option<GroupId>),
    /// The domain ends: nothing of it is left when this is answered.
    End,
    /// The time limit of a meeting has passed: its coordinator asks which members have not come. Answered by [`Report::Missing`].
    Missing {
        /// The meeting.
        meeting: Meeting,
        /// What for.
        purpose: Purpose,
    },
}

/// What a node answers to an order.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Report {
    /// It is done.
    Done,
    /// To [`Order::Collect`]: what the members here have put, in the order of their ranks and of their puts.
    Entries(Brought),
    /// To [`Order::Start`]: rank, and its process number or the number of the system's error.
    Started(Vec<(Rank, Result<u32, i32>)>),
    /// To [`Order::Start`] and [`Order::Check`]: ranks that cannot be started, and why; the node has started all others.
    NotStarted(Vec<(Vec<Rank>, StartError)>),
    /// To [`Order::Find`].
    Found(Option<Vec<u8>>),
    /// To [`Order::List`].
    Pairs(Vec<Pair>),
    /// To [`Order::AtHead`].
    Answer(Result<Answer, Fault>),
    /// To [`Order::Status`] and [`Order::Kill`].
    Groups(Vec<GroupStatus>),
    /// To [`Order::Missing`]: some of the node's members that have not come, and how many more there are.
    Missing(Vec<Member>, u64),
    /// To [`Order::Begin`]: the name of the node's host.
    Host(String),
}
