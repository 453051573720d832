//! Why node processes could not be started.

use std::io;

use gpc_trees::Id;

use super::limits::{PROCESSES_MAX, advice};

/// Why node processes could not be started. None of them is left running then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// More than [`PROCESSES_MAX`].
    #[error("{count} processes are too many for one machine: start at most {PROCESSES_MAX}")]
    TooMany {
        /// How many were asked for.
        count: usize,
    },
    /// The system gives this process too few file descriptors.
    #[error(
        "{count} processes need {needed} file descriptors, the limit is {limit}: raise it with `ulimit -n {needed}`, or start fewer"
    )]
    Files {
        /// How many processes.
        count: usize,
        /// How many descriptors they need here.
        needed: u64,
        /// The most that the system allows.
        limit: u64,
    },
    /// The system gives no way to see them end.
    #[error("cannot watch over processes: {0}")]
    Watch(#[source] io::Error),
    /// The system has no randomness.
    #[error("cannot draw a secret for the processes: {0}")]
    Secret(#[source] io::Error),
    /// Whoever started them wants them no more.
    #[error("starting the processes was interrupted")]
    Stopped,
    /// One process could not be started.
    #[error("cannot {doing} the process of id {id} (of {count}): {error}{}", advice(.error))]
    Start {
        /// Its id.
        id: Id,
        /// How many there were to be.
        count: usize,
        /// What could not be done, a verb.
        doing: &'static str,
        /// What the system says.
        error: io::Error,
    },
}
