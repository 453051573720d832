//! Why a request is refused or fails.

use std::fmt;

use chained_gpc::trees::Id;

use crate::exit::Death;
use crate::names::Member;

/// Kinds of faults, for programs. Their numbers never change their meaning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
#[repr(u32)]
pub enum FaultKind {
    /// The request makes no sense.
    BadRequest = 1,
    /// There is no such group, or it has been freed.
    NoGroup = 2,
    /// There is no such process.
    NoMember = 3,
    /// The group is still open: nobody can fence on it before it is closed.
    GroupOpen = 4,
    /// The group is closed: nothing more can be spawned into it.
    GroupClosed = 5,
    /// There is no database of this name.
    NoDatabase = 6,
    /// There is a database of this name.
    DatabaseExists = 7,
    /// There is no such key, or no such global name.
    NotFound = 8,
    /// There is such a global name already.
    NameExists = 9,
    /// Something is longer, or there is more of it, than a limit allows.
    TooLarge = 10,
    /// Who asks is not among the members that it names.
    NotMember = 11,
    /// Others of the set ask for something else at this point.
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
    /// What was asked cannot be done here.
    Unsupported = 19,
    /// The link of a process and its node has failed.
    Link = 20,
    /// Something of the system, or a call between nodes, has failed.
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

    /// The number by which other languages know it.
    pub fn number(self) -> u32 {
        self as u32
    }

    /// The kind of a number.
    pub fn of_number(number: u32) -> Option<FaultKind> {
        FaultKind::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

/// Why a request was refused, or has failed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Fault {
    /// For programs.
    pub kind: FaultKind,
    /// For people: what, where, and what to do.
    pub message: String,
    /// The deaths because of which it has failed, at most 16: the first one is the cause.
    pub deaths: Vec<Death>,
    /// Which node is the cause.
    pub node: Option<Id>,
    /// The members that had not come to a collective request when its time limit passed, at most 64.
    pub missing: Vec<Member>,
}

impl Fault {
    /// A fault that no death and no node has caused.
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Fault {
        Fault { kind, message: message.into(), deaths: Vec::new(), node: None, missing: Vec::new() }
    }

    /// A fault that a node has caused.
    pub fn at(node: Id, kind: FaultKind, message: impl Into<String>) -> Fault {
        Fault { node: Some(node), ..Fault::new(kind, message) }
    }

    /// The death of these members, of which there is one at least.
    pub fn died(deaths: Vec<Death>) -> Fault {
        let mut message = String::new();
        // A terminal's line, and no more, however many have died.
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
