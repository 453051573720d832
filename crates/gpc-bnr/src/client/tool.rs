//! A command that inspects a domain from outside.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use chained_gpc::Clock;

use super::link::Link;
use super::{ClientError, Snapshot, TimeLimits, answers};
use crate::fault::Fault;
use crate::names::GroupId;
use crate::request::{Answer, GroupStatus, Request};

/// A link to the head of a domain, at the socket where the head listens for commands of its user. A tool is no process
/// of a group: it has no rank, and takes part in no collective request.
pub struct Tool {
    link: Link,
    limit: Duration,
}

impl std::fmt::Debug for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tool").finish_non_exhaustive()
    }
}

impl Tool {
    /// Connects to a head. `limit` is the time limit of each request.
    ///
    /// # Errors
    /// No head listens at this path, or a system error.
    pub fn connect(path: &Path, limit: Duration) -> Result<Tool, ClientError> {
        let stream = UnixStream::connect(path)
            .map_err(|error| ClientError::Connect { path: path.to_owned(), error })?;
        let link = Link::begin(stream.into(), TimeLimits::default().margin, Clock::system())?;
        Ok(Tool { link, limit })
    }

    /// Sends a request that tools are allowed to make.
    ///
    /// # Errors
    /// Those of the request; [`Link`](crate::FaultKind::Link) if the domain has ended.
    pub fn ask(&self, request: &Request) -> Result<Answer, Fault> {
        self.link.ask(request, self.limit)
    }

    /// The status of all groups; at most the first 4,096 are returned.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn groups(&self) -> Result<Vec<GroupStatus>, Fault> {
        self.ask(&Request::Groups).and_then(answers::groups)
    }

    /// The status of a group's processes.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn status(&self, group: GroupId) -> Result<GroupStatus, Fault> {
        self.ask(&Request::Status(group)).and_then(answers::one_group)
    }

    /// Kills all processes of a group, and waits until none is left.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn kill(&self, group: GroupId) -> Result<(), Fault> {
        self.ask(&Request::Kill(group)).and_then(answers::done)
    }

    /// The names of all databases.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn databases(&self) -> Result<Vec<String>, Fault> {
        self.ask(&Request::Databases).and_then(answers::names)
    }

    /// All pairs of a database at all nodes.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn iterate(&self, database: &str) -> Result<Snapshot, Fault> {
        self.ask(&Request::Iterate(database.into())).and_then(answers::pairs).map(Snapshot::from)
    }
}
