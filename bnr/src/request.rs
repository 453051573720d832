//! What a process asks its node for, and what the node answers. The Rust interface, PMI-1 and PMI-2 all become these.
//!
//! Source: BNR's interface; the values are those of its functions' arguments.

use std::time::Duration;

use chained_gpc::trees::Id;

use crate::exit::Death;
use crate::limits::Limits;
use crate::names::{GroupId, Member, Rank, Set};
use crate::spec::{OnDeath, Spec};

/// Who asks a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Client {
    /// A process that the node has started.
    Process(Member),
    /// A command or an application that is no process of a group.
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

/// What is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Request {
    /// Who am I? From now on the process takes part: if it ends without [`Finalize`](Request::Finalize), others are told. Answered by [`Answer::Identity`].
    Init,
    /// The process takes part no longer.
    Finalize,
    /// How many processes a group has. Waits until it is closed. Answered by [`Answer::Number`].
    Size(GroupId),
    /// Opens a group. Collective over the set. Answered by [`Answer::Group`].
    Open {
        /// Who opens it.
        over: Set,
        /// How long to wait for the others.
        limit: Option<Duration>,
    },
    /// Adds processes to an open group. They are started when it is closed.
    Spawn {
        /// The group.
        group: GroupId,
        /// The processes, of the next ranks.
        specs: Vec<Spec>,
        /// What is put into the group's database before they start.
        preputs: Vec<Pair>,
        /// What a death means for the group: the last spawn that says so counts.
        on_death: Option<OnDeath>,
    },
    /// Closes a group: its processes are started. Collective over those who opened it. Answered by [`Answer::Spawned`].
    Close {
        /// Who closes it: the set that has opened it.
        over: Set,
        /// The group.
        group: GroupId,
        /// How long to wait for the others.
        limit: Option<Duration>,
    },
    /// Opens a group, spawns into it and closes it, for the caller alone. Answered by [`Answer::Spawned`].
    SpawnMultiple {
        /// The processes.
        specs: Vec<Spec>,
        /// What is put into the group's database before they start.
        preputs: Vec<Pair>,
        /// What a death means for the group.
        on_death: OnDeath,
        /// Whether rank 0 reads the head's standard input. Of tools at the head alone.
        input: bool,
    },
    /// Makes a group of all processes of two groups, those of the one with the lower number in front, whichever a caller counts as its own. Collective over both. Answered by [`Answer::Group`].
    Merge {
        /// The group that the caller counts as its own.
        first: GroupId,
        /// The other one.
        second: GroupId,
        /// How long to wait for the others.
        limit: Option<Duration>,
    },
    /// The number of a group is needed no longer: of one that is open or merged, it is gone; of one that runs, when its processes have ended.
    Free(GroupId),
    /// Kills all processes of a group. Answered when none is left.
    Kill(GroupId),
    /// What became of the processes of a group. Answered by [`Answer::Groups`] with one element.
    Status(GroupId),
    /// All groups, of which the first 4,096 are told. Answered by [`Answer::Groups`].
    Groups,
    /// Tells of each process of a group that ends, once, also of those that have ended already: the notices come after the answer, [`Answer::Groups`], which names the groups whose deaths they are. Those of a merged group are the groups that it is made of.
    Subscribe(GroupId),
    /// Makes a database: of this name, or of one that the domain gives. Answered by [`Answer::Name`].
    Create(Option<String>),
    /// Removes a database, everywhere.
    Destroy(String),
    /// All databases. Answered by [`Answer::Names`].
    Databases,
    /// Puts a value under a key. It is in the node's copy when this is answered, and in those of all nodes of a set when its members have fenced.
    Put {
        /// The database.
        database: String,
        /// What is put.
        pair: Pair,
        /// Which rank will read it, if one does: advice, and nothing depends on it.
        advice: Option<Rank>,
    },
    /// The value of a key: of the node's own copy, or else of another node's. Answered by [`Answer::Value`].
    Get {
        /// The database.
        database: String,
        /// The key.
        key: Vec<u8>,
    },
    /// All that is in a database, on whatever node, in the order of the keys. Answered by [`Answer::Pairs`].
    Iterate(String),
    /// Makes a global name known.
    Deposit(Pair),
    /// Takes it back.
    Withdraw(Vec<u8>),
    /// What was deposited under a name. Answered by [`Answer::Value`].
    Lookup(Vec<u8>),
    /// Waits for all members of a set, and brings what they have put to the nodes of all.
    Fence {
        /// Who takes part; who asks among them.
        over: Set,
        /// How long to wait for the others.
        limit: Option<Duration>,
        /// Which of the fences that are on at a time, of those with the same members. PMI 1.2 names its barriers.
        tag: Vec<u8>,
    },
    /// Ends the job: the group of who asks, and says why. Not answered.
    Abort {
        /// The exit status of the job.
        code: u8,
        /// Why.
        message: String,
    },
    /// How much of everything there may be in the domain. Answered by [`Answer::Limits`].
    Limits,
}

/// What became of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberStatus {
    /// Its rank.
    pub rank: Rank,
    /// Its node.
    pub node: Id,
    /// Its process number there, once it is known.
    pub pid: Option<u32>,
    /// How it has ended, if it has.
    pub death: Option<Death>,
}

/// In which part of its life a group is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum GroupState {
    /// Processes can be spawned into it.
    Open,
    /// Its processes are being started.
    Starting,
    /// They run.
    Running,
    /// They are being killed.
    Killed,
    /// All have ended.
    Ended,
    /// It has no processes of its own: two groups were merged.
    Merged,
}

/// A group, and its processes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupStatus {
    /// Its number.
    pub group: GroupId,
    /// The group of who has spawned it.
    pub parent: Option<GroupId>,
    /// In which part of its life it is.
    pub state: GroupState,
    /// The name of its database.
    pub database: String,
    /// The first of its programs.
    pub program: Vec<u8>,
    /// Since when it is there.
    pub age: Duration,
    /// Its processes, by their ranks.
    pub members: Vec<MemberStatus>,
}

/// Who a process is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Its group and rank.
    pub member: Member,
    /// How many processes its group has.
    pub size: u32,
    /// The group that has spawned its group.
    pub parent: Option<GroupId>,
    /// The name of its group's database.
    pub database: String,
    /// By which of its group's specs it was started.
    pub spec: u32,
    /// The ranks of its group on its node, in order.
    pub neighbours: Vec<Rank>,
}

/// What is answered.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Answer {
    /// It is done.
    Done,
    /// Who the process is.
    Identity(Identity),
    /// A number.
    Number(u64),
    /// A group.
    Group(GroupId),
    /// A group was started.
    Spawned {
        /// Its number.
        group: GroupId,
        /// For each rank whether it was started: 0, or the number of the system's error. Where one is not 0, the others were killed.
        errors: Vec<i32>,
        /// Whether it is in the domain of who asked: always.
        same_domain: bool,
    },
    /// A name.
    Name(String),
    /// Names, in order.
    Names(Vec<String>),
    /// A value.
    Value(Vec<u8>),
    /// Pairs, in the order of their keys.
    Pairs(Vec<Pair>),
    /// Groups.
    Groups(Vec<GroupStatus>),
    /// How much of everything there may be.
    Limits(Limits),
}
