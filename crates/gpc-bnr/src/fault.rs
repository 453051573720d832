//! Reasons why a request is refused or fails.

use std::fmt;

use chained_gpc::trees::Id;

use crate::exit::Death;
use crate::names::Member;

/// Kinds of faults, for programs. The meaning of a number never changes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
#[repr(u32)]
pub enum FaultKind {
    /// The request is invalid.
    BadRequest = 1,
    /// There is no such group, or it has been freed.
    NoGroup = 2,
    /// There is no such process.
    NoMember = 3,
    /// The group is still open: it takes part in collective requests once it is closed.
    GroupOpen = 4,
    /// The group is closed, so nothing can be spawned into it.
    GroupClosed = 5,
    /// There is no database with this name.
    NoDatabase = 6,
    /// There is already a database with this name.
    DatabaseExists = 7,
    /// There is no such key, or no such global name.
    NotFound = 8,
    /// The global name is already deposited.
    NameExists = 9,
    /// A size or a count exceeds a limit.
    TooLarge = 10,
    /// The caller is not among the members that it names.
    NotMember = 11,
    /// Other members of the set have another purpose at this point.
    Mismatch = 12,
    /// A member of the set has died.
    MemberDied = 13,
    /// A node has been lost, and its processes with it.
    NodeLost = 14,
    /// A time limit has passed.
    TimedOut = 15,
    /// Processes could not be started.
    NotStarted = 16,
    /// The group is being killed.
    Killed = 17,
    /// The domain has ended, or ends.
    DomainEnded = 18,
    /// The request is not supported here.
    Unsupported = 19,
    /// The link between a process and its node has failed.
    Link = 20,
    /// The system, or a call between nodes, has failed.
    System = 21,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: [FaultKind; 21] = [
        FaultKind::BadRequest,
        FaultKind::NoGroup,
        FaultKind::NoMember,
        FaultKind::GroupOpen,
        FaultKind::GroupClosed,
        FaultKind::NoDatabase,
        FaultKind::DatabaseExists,
        FaultKind::NotFound,
        FaultKind::NameExists,
        FaultKind::TooLarge,
        FaultKind::NotMember,
        FaultKind::Mismatch,
        FaultKind::MemberDied,
        FaultKind::NodeLost,
        FaultKind::TimedOut,
        FaultKind::NotStarted,
        FaultKind::Killed,
        FaultKind::DomainEnded,
        FaultKind::Unsupported,
        FaultKind::Link,
        FaultKind::System,
    ];

    /// Its number in other languages and on the wire.
    pub fn number(self) -> u32 {
        self as u32
    }

    /// The kind of a number.
    pub fn of_number(number: u32) -> Option<FaultKind> {
        FaultKind::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

/// The reason why a request was refused or failed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Fault {
    /// The kind, for programs.
    pub kind: FaultKind,
    /// The message, for people: what failed, where, and what to do.
    pub message: String,
    /// The deaths that caused the failure, at most 16; the first one is the cause.
    pub deaths: Vec<Death>,
    /// The node that caused it.
    pub node: Option<Id>,
    /// Members that had not arrived at a collective request when its time limit passed, at most 64.
    pub missing: Vec<Member>,
}

impl Fault {
    /// A fault without a death or a node as its cause.
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Fault {
        Fault { kind, message: message.into(), deaths: Vec::new(), node: None, missing: Vec::new() }
    }

    /// A fault caused by a node.
    pub fn at(node: Id, kind: FaultKind, message: impl Into<String>) -> Fault {
        Fault { node: Some(node), ..Fault::new(kind, message) }
    }

    /// A fault caused by these deaths. Expects at least one.
    pub fn died(deaths: Vec<Death>) -> Fault {
        let mut message = String::new();
        // Names at most three, so that the message fits into a line of a terminal.
        for (index, death) in deaths.iter().take(3).enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            let abrupt = if death.exit == crate::Exit::Code(0) && !death.finalized {
                " without finalizing"
            } else {
                ""
            };
            message += &format!("{comma}{} {}{abrupt}", death.member, death.exit);
        }
        if deaths.len() > 3 {
            message += &format!(" and {} more", deaths.len() - 3);
        }
        Fault { deaths, ..Fault::new(FaultKind::MemberDied, message) }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}
