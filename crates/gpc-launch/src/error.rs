//! The errors of a launch on this machine.

use std::io;

use gpc_trees::Id;

use super::limits::{PROCESSES_MAX, advice};

/// Why node processes could not be started. No process is left running then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// More than [`PROCESSES_MAX`] processes.
    #[error("{count} processes are too many for one machine: start at most {PROCESSES_MAX}")]
    TooMany {
        /// The requested number of processes.
        count: usize,
    },
    /// The limit of file descriptors of this process is too low.
    #[error(
        "{count} processes need {needed} file descriptors, the limit is {limit}: raise it with `ulimit -n {needed}`, or start fewer"
    )]
    Files {
        /// The requested number of processes.
        count: usize,
        /// Number of descriptors that they need in this process.
        needed: u64,
        /// The maximum that the system allows.
        limit: u64,
    },
    /// The system offers no means to detect their ends.
    #[error("cannot watch over processes: {0}")]
    Watch(#[source] io::Error),
    /// The system has no randomness.
    #[error("cannot draw a secret for the processes: {0}")]
    Secret(#[source] io::Error),
    /// The observer of the start has given up.
    #[error("starting the processes was interrupted")]
    Stopped,
    /// One process could not be started.
    #[error("cannot {doing} the process of id {id} (of {count}): {error}{advice}")]
    Start {
        /// Its id.
        id: Id,
        /// Number of processes of the launch.
        count: usize,
        /// The failed operation, a verb.
        doing: &'static str,
        /// The system's error.
        error: io::Error,
        /// The [advice](super::advice) on it, from the moment of the error: the other processes have ended since then.
        advice: String,
    },
}

impl LaunchError {
    /// The error of starting one process, with the [advice](super::advice) on it.
    pub(super) fn start(id: Id, count: usize, doing: &'static str, error: io::Error) -> LaunchError {
        let advice = advice(&error);
        LaunchError::Start { id, count, doing, error, advice }
    }
}
