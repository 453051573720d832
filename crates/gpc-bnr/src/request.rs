//! Requests of a process to its node, and the node's answers. The Rust interface, PMI-1 and PMI-2 are all translated to
//! these.
//!
//! Source: BNR's interface; the fields are the arguments of its functions.

use std::sync::Arc;
use std::time::Duration;

use chained_gpc::trees::Id;

use crate::exit::Death;
use crate::limits::Limits;
use crate::names::{GroupId, Member, Rank, Set};
use crate::roster::Roster;
use crate::spec::{Layout, OnDeath, Readers, Spec};

/// The sender of a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Client {
    /// A process that the node started.
    Process(Member),
    /// A command, or an application outside all groups.
    Tool(u64),
}

/// A key and its value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Pair {
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
}

/// A request to a node.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Request {
    /// Registers the process and returns its identity. From now on its end without [`Finalize`](Request::Finalize)
    /// counts as abnormal. Answered by [`Answer::Identity`].
    Init,
    /// Deregisters the process: its end is no failure from now on.
    Finalize,
    /// Number of processes of a group. Waits until the group is closed. Answered by [`Answer::Number`].
    Size(GroupId),
    /// Opens a group. Collective over the set. Answered by [`Answer::Group`].
    Open {
        /// The members that open it.
        over: Set,
        /// Time limit of the collective request; the domain's default if `None`.
        limit: Option<Duration>,
    },
    /// Adds processes to an open group. They start when the group is closed.
    Spawn {
        /// The group.
        group: GroupId,
        /// The processes, which get the next ranks.
        specs: Vec<Spec>,
        /// Pairs put into the group's database before it starts.
        preputs: Vec<Pair>,
        /// The effect of an abnormal death. The last spawn with a value wins.
        on_death: Option<OnDeath>,
    },
    /// Closes a group, which starts its processes. Collective over the members that opened it. Answered by
    /// [`Answer::Spawned`].
    Close {
        /// The set that opened the group.
        over: Set,
        /// The group.
        group: GroupId,
        /// Time limit of the collective request; the domain's default if `None`.
        limit: Option<Duration>,
    },
    /// Opens a group, spawns into it and closes it, without other members. Answered by [`Answer::Spawned`].
    SpawnMultiple {
        /// The processes.
        specs: Vec<Spec>,
        /// Pairs put into the group's database before it starts.
        preputs: Vec<Pair>,
        /// The effect of an abnormal death on the rest of the group.
        on_death: OnDeath,
        /// The processes that read the head's standard input. Allowed only for tools at the head.
        input: Readers,
    },
    /// Makes a group of all processes of two groups without a common one. The processes of the group with the lower
    /// number come first, whichever group a caller belongs to. Collective over both. Answered by [`Answer::Group`].
    Merge {
        /// The group that the caller belongs to.
        first: GroupId,
        /// The other group.
        second: GroupId,
        /// Time limit of the collective request; the domain's default if `None`.
        limit: Option<Duration>,
    },
    /// Makes a group of the callers with the same color. Collective over the group. Answered by [`Answer::Group`], or
    /// by [`Answer::Done`] if the caller has no color.
    Split {
        /// The group to split, which the caller belongs to.
        group: GroupId,
        /// The new group of the caller; `None` if it takes part without becoming a member.
        color: Option<u32>,
        /// Ranks in the new group are in the order of the keys; of equal keys, in that of the old ranks.
        key: i32,
        /// Time limit of the collective request; the domain's default if `None`.
        limit: Option<Duration>,
    },
    /// The processes of a group by rank, and its database. Answered by [`Answer::Rosters`] with one element.
    Members(GroupId),
    /// Releases a group's number. An open group is removed now, and so is one that was made of members of others, with
    /// its database; any other one when its processes have ended.
    Free(GroupId),
    /// Kills all processes of a group. Answered when none is left.
    Kill(GroupId),
    /// The status of a group's processes. Answered by [`Answer::Groups`] with one element.
    Status(GroupId),
    /// The status of all groups; at most the first 4,096 are returned. Answered by [`Answer::Groups`].
    Groups,
    /// Subscribes to the deaths in a group: one notice for each process, including those that have already ended. The
    /// notices follow the answer, [`Answer::Rosters`] with one element, which has the names that processes have in
    /// notices. The ranks of a group that is still open have no end there.
    Subscribe(GroupId),
    /// Creates a database with this name, or with one that the domain chooses. Answered by [`Answer::Name`].
    Create(Option<String>),
    /// Removes a database at all nodes.
    Destroy(String),
    /// The names of all databases. Answered by [`Answer::Names`].
    Databases,
    /// Puts a value under a key. When answered, the value is in the node's own copy. When the members of a set have
    /// fenced, it is in the copies of all their nodes.
    Put {
        /// The database.
        database: String,
        /// The key and its value.
        pair: Pair,
        /// The rank that will read the value. A hint without effect on results.
        advice: Option<Rank>,
    },
    /// The value of a key, from the node's own copy or else from another node. Answered by [`Answer::Value`].
    Get {
        /// The database.
        database: String,
        /// The key.
        key: Vec<u8>,
    },
    /// All pairs of a database at all nodes, in key order. Answered by [`Answer::Pairs`].
    Iterate(String),
    /// Publishes a global name.
    Deposit(Pair),
    /// Withdraws a global name.
    Withdraw(Vec<u8>),
    /// The value deposited under a global name. Answered by [`Answer::Value`].
    Lookup {
        /// The name.
        name: Vec<u8>,
        /// The longest wait for the deposit; `None` for none.
        wait: Option<Duration>,
    },
    /// Waits for all members of a set, and distributes their puts to the nodes of all.
    Fence {
        /// The members, including the caller.
        over: Set,
        /// Time limit of the collective request; the domain's default if `None`.
        limit: Option<Duration>,
        /// Distinguishes concurrent fences of the same members. PMI 1.2 names its barriers.
        tag: Vec<u8>,
    },
    /// A fence that also gathers data: those of all members that carry some, one after another, nodes in the order of
    /// their first members. A node may carry the data of all its members with one of them; the others fence with the
    /// same tag. Answered by [`Answer::Value`].
    Exchange {
        /// The members, including the caller.
        over: Set,
        /// Time limit of the collective request; the domain's default if `None`. With 0 the request
        /// fails at all members.
        limit: Option<Duration>,
        /// As for a fence.
        tag: Vec<u8>,
        /// The data.
        data: Vec<u8>,
    },
    /// The data that a process elsewhere has committed for others, as its node's PMIx server has them. Answered by
    /// [`Answer::Value`], perhaps late: the process may not have committed yet.
    Fetch(Member),
    /// The layout of a group that was started. Answered by [`Answer::Layout`].
    Layout(GroupId),
    /// Ends the job: kills the caller's group, and reports the reason. Has no answer.
    Abort {
        /// The exit status of the job.
        code: u8,
        /// The reason.
        message: String,
    },
    /// The bounds of the domain. Answered by [`Answer::Limits`].
    Limits,
}

/// The state of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberStatus {
    /// Its rank.
    pub rank: Rank,
    /// The node that runs it.
    pub node: Id,
    /// Its process id there, once known.
    pub pid: Option<u32>,
    /// Its death, if it has ended.
    pub death: Option<Death>,
}

/// The state of a group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum GroupState {
    /// Processes can be spawned into it.
    Open,
    /// Its processes are being started.
    Starting,
    /// Its processes run.
    Running,
    /// Its processes are being killed.
    Killed,
    /// All its processes have ended.
    Ended,
    /// It was made of members of other groups, which may have ended.
    Derived,
}

/// The status of a group and of its processes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupStatus {
    /// Its number.
    pub group: GroupId,
    /// The group of the process that spawned it.
    pub parent: Option<GroupId>,
    /// Its state.
    pub state: GroupState,
    /// The name of its database.
    pub database: String,
    /// The program of its first spec.
    pub program: Vec<u8>,
    /// Time since it was created.
    pub age: Duration,
    /// Its processes, by rank.
    pub members: Vec<MemberStatus>,
}

/// The identity of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The group and rank of the process.
    pub member: Member,
    /// Number of processes of its group.
    pub size: u32,
    /// The group that spawned its group.
    pub parent: Option<GroupId>,
    /// The name of its group's database.
    pub database: String,
    /// Index of the spec that started it.
    pub spec: u32,
    /// The ranks of its group on its node, in ascending order.
    pub neighbours: Vec<Rank>,
}

/// An answer to a request.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Answer {
    /// The request has been carried out.
    Done,
    /// The identity of the process.
    Identity(Identity),
    /// A number.
    Number(u64),
    /// A group.
    Group(GroupId),
    /// A group was started.
    Spawned {
        /// Its number.
        group: GroupId,
        /// For each rank 0, or the system's error number if it was not started. If any is a failure, all started
        /// processes were killed.
        errors: Vec<i32>,
        /// Whether the group is in the caller's domain: always true.
        same_domain: bool,
    },
    /// A name.
    Name(String),
    /// Names, in ascending order.
    Names(Vec<String>),
    /// A value.
    Value(Vec<u8>),
    /// Pairs, in key order.
    Pairs(Vec<Pair>),
    /// Groups.
    Groups(Vec<GroupStatus>),
    /// The bounds of the domain.
    Limits(Limits),
    /// The layout of a group, without the environments and arguments of its programs.
    Layout(Arc<Layout>),
    /// Groups with their processes.
    Rosters(Vec<Roster>),
}
