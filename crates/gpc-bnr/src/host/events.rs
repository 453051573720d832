//! Events in a domain, for the application that began it.

use std::io;

use chained_gpc::trees::Id;

use crate::exit::Death;
use crate::names::{GroupId, Member};
use crate::start_error::StartFailure;

/// An event in a domain, for the application that began it.
#[derive(Debug)]
#[non_exhaustive]
pub enum HostEvent {
    /// The other nodes have begun, except those that a warning has named before: their ids and host names. A domain of
    /// one node has no such event.
    Begun(Vec<(Id, String)>),
    /// A process has ended, in a group that the application has [subscribed](crate::request::Request::Subscribe) to.
    Death(Death),
    /// A process has aborted its group.
    Aborted {
        /// The process.
        member: Member,
        /// The requested exit status.
        code: u8,
        /// The reason.
        message: String,
    },
    /// Processes of a group could not be started. All such events of a group precede the answer to its start.
    NotStarted(StartFailure),
    /// A group that a process has spawned was started.
    Spawned {
        /// The group.
        group: GroupId,
        /// Number of its processes.
        count: u32,
    },
    /// A process has requested the kill of a group, which explains the group's later deaths.
    Killed {
        /// The group.
        group: GroupId,
        /// The process.
        by: Member,
        /// Number of the group's processes that had ended before; theirs are the first deaths that are reported.
        dead: usize,
    },
    /// A problem that a person may want to see.
    Warning(String),
    /// Output could not be written.
    Output(io::Error),
    /// The domain has ended.
    Ended,
}
