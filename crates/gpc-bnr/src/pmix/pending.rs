//! Upcalls that are not answered yet, and the parts of the requests that answer them.

use std::collections::BTreeSet;
use std::time::Duration;

use gpc_pmix::server::{Answer as Reply, Info, Process};

use crate::names::GroupId;

/// Part of an upcall that a request answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// Nothing waits for the answer.
    Ignored,
    /// One member of a collective request.
    Member,
    /// The data of a process.
    Fetch,
    /// One of several requests that are answered together.
    One,
    /// The same for a key that is published until the process withdraws it.
    Published(Process, String),
    /// The value of a key.
    Key(String),
    /// A spawn.
    Spawn,
    /// The layout of a group.
    Layout(GroupId),
}

/// An upcall that is not answered yet.
#[derive(Debug)]
pub(super) enum Pending {
    Meeting(Meeting),
    Fetch,
    Several(Several),
    Lookup(Lookup),
    Spawn,
    /// Groups must be registered before this step.
    Groups(BTreeSet<GroupId>, Next),
}

/// The step that follows when groups are registered.
#[derive(Clone, Debug)]
pub(super) enum Next {
    /// This answer.
    Answer(Reply),
    /// The members here enter a collective request.
    Enter(Entry),
}

/// A collective request, as the server has called up.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) kind: Kind,
    /// The name of a group of PMIx.
    pub(super) name: String,
    pub(super) processes: Vec<Process>,
    pub(super) data: Vec<u8>,
    pub(super) info: Vec<Info>,
    /// Whether all required directives are supported.
    pub(super) supported: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Fence,
    Connect,
    Disconnect,
    /// A group of PMIx begins.
    Construct,
    /// It ends.
    Destruct,
}

/// A collective request that the members here have entered.
#[derive(Debug)]
pub(super) struct Meeting {
    /// Number of members that are not answered yet.
    pub(super) open: usize,
    /// The data of all nodes, or the first error.
    pub(super) outcome: Result<Vec<u8>, i32>,
    /// Groups that are to be known here afterwards.
    pub(super) connects: BTreeSet<GroupId>,
    /// How the upcall is answered.
    pub(super) answer: MeetingAnswer,
}

/// The answer to a collective request that has succeeded.
#[derive(Debug)]
pub(super) enum MeetingAnswer {
    Done,
    /// The data of all nodes.
    Data,
    /// The members of a group of PMIx, their data, and the identifier if one was requested.
    Group {
        members: Vec<Process>,
        has_id: bool,
    },
}

/// Requests that are answered together.
#[derive(Debug)]
pub(super) struct Several {
    pub(super) open: usize,
    pub(super) error: Option<i32>,
}

/// A lookup.
#[derive(Debug)]
pub(super) struct Lookup {
    /// The process that asks, and whose bound of unanswered requests counts.
    pub(super) process: Process,
    /// Keys that are asked for at the moment.
    pub(super) open: usize,
    pub(super) found: Vec<(Process, Info)>,
    pub(super) missing: BTreeSet<String>,
    pub(super) error: Option<i32>,
    /// Number of keys that the process waits for, and how long.
    pub(super) wait: Option<(usize, Duration)>,
    /// Whether it waits already.
    pub(super) waits: bool,
}
