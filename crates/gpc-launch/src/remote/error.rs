//! The errors of a launch over hosts.

use std::fmt;
use std::io;

use gpc_trees::Id;

use super::share::{NAME_MAX, REMOTE_PROCESSES_MAX};

/// Maximum number of losses that an error lists; of the rest it has the number.
const NAMED_MAX: usize = 8;

/// Ids whose processes do not run, with the host and the reason.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LostProcesses {
    /// The first of consecutive ids.
    pub first: Id,
    /// Number of ids.
    pub count: u32,
    /// In words: the host, what happened, and its output. One line, escaped for a terminal.
    pub why: String,
}

impl LostProcesses {
    /// Whether an id is among them.
    pub(super) fn has(&self, id: Id) -> bool {
        id >= self.first && id - self.first < self.count
    }
}

/// Why processes on other hosts could not be started. No process is left running then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The plan has no host.
    #[error("no host is named")]
    NoHost,
    /// A name that is not valid in a command.
    #[error(
        "`{0}` is no name of a host: it has 1 to {NAME_MAX} printing characters and does not begin with `-`"
    )]
    Name(String),
    /// The same host twice. The plan has the number of slots of each host instead.
    #[error("host {0} is named twice: name it once, with its number of slots")]
    Twice(String),
    /// A host without a slot.
    #[error("host {0} has no slot: leave it out, or give it at least one")]
    NoSlot(String),
    /// More than [`REMOTE_PROCESSES_MAX`] processes.
    #[error("{0} processes are too many: start at most {REMOTE_PROCESSES_MAX}")]
    TooMany(u64),
    /// The command that reaches other hosts is empty.
    #[error("the command that runs another one on a host is empty")]
    NoShell,
    /// Hosts that have not reported, or have sent invalid lines.
    #[error("{}", LossList(.0))]
    Hosts(Vec<LostProcesses>),
    /// A system call has failed: for a secret, a thread, or a wait.
    #[error("cannot {0}: {1}")]
    System(&'static str, #[source] io::Error),
    /// The observer of the start has given up.
    #[error("starting the processes was interrupted")]
    Stopped,
}

/// Displays the hosts that were not started.
struct LossList<'a>(&'a [LostProcesses]);

impl fmt::Display for LossList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: u32 = self.0.iter().map(|lost| lost.count).sum();
        write!(f, "{ids} {} could not be started", if ids == 1 { "process" } else { "processes" })?;
        for lost in self.0.iter().take(NAMED_MAX) {
            write!(f, "\n{lost}")?;
        }
        match self.0.len().saturating_sub(NAMED_MAX) {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

/// Displays the ids and the reason: `id 3, host b: ...`.
impl fmt::Display for LostProcesses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            1 => write!(f, "id {}, {}", self.first, self.why),
            count => write!(f, "ids {}-{}, {}", self.first, self.first + (count - 1), self.why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_named_up_to_a_number() {
        let lost = |first| LostProcesses { first, count: 2, why: format!("host h{first}: exit status 255") };
        let text = RemoteError::Hosts((1..=20).map(|place| lost(2 * place)).collect()).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "40 processes could not be started");
        assert_eq!(lines[1], "ids 2-3, host h2: exit status 255");
        assert_eq!((lines.len(), lines[9]), (10, "and 12 more"));
        let one = RemoteError::Hosts(vec![LostProcesses { count: 1, ..lost(7) }]).to_string();
        assert_eq!(one, "1 process could not be started\nid 7, host h7: exit status 255");
    }
}
