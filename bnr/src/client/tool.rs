//! A command that looks into a domain from outside.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::link::Link;
use super::{ClientError, Snapshot, Waits, answers};
use crate::fault::Fault;
use crate::names::GroupId;
use crate::request::{Answer, GroupStatus, Request};

/// A link to the head of a domain, at the socket where that listens for commands of its user. What is no process of a group has no rank, and takes part in nothing collective.
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
    /// Connects to a head; each request may take so long.
    ///
    /// # Errors
    /// When nobody listens there, or the system's.
    pub fn connect(path: &Path, limit: Duration) -> Result<Tool, ClientError> {
        let stream = UnixStream::connect(path)
            .map_err(|error| ClientError::Connect { path: path.to_owned(), error })?;
        Ok(Tool { link: Link::begin(stream.into(), Waits::default().margin)?, limit })
    }

    /// Asks for anything that a tool may.
    ///
    /// # Errors
    /// Those of the request; [`Link`](crate::FaultKind::Link) when the domain has ended.
    pub fn ask(&self, request: &Request) -> Result<Answer, Fault> {
        self.link.ask(request, self.limit)
    }

    /// All groups, of which the first 4,096 are told.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn groups(&self) -> Result<Vec<GroupStatus>, Fault> {
        self.ask(&Request::Groups).and_then(answers::groups)
    }

    /// What became of the processes of a group.
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

    /// All that is in a database, on whatever node.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn iterate(&self, database: &str) -> Result<Snapshot, Fault> {
        self.ask(&Request::Iterate(database.into())).and_then(answers::pairs).map(Snapshot::from)
    }
}
