//! Why a process could not be started: what failed, on which host, and what the system said.

use std::collections::BTreeMap;
use std::io;

use chained_gpc::trees::Id;

use crate::names::{GroupId, Rank};

/// Why a process could not be started.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct StartError {
    /// Number of the system's error.
    pub errno: i32,
    /// Exit status by which a shell would show it: 127 for a missing program, 126 for one that cannot be executed, 1 otherwise.
    pub status: u8,
    /// Name of the host; empty where it is unknown.
    pub host: String,
    /// What failed and why, for people.
    pub why: String,
}

impl StartError {
    /// An error of the system, behind what failed.
    pub fn new(errno: i32, status: u8, what: &str) -> StartError {
        let text = io::Error::from_raw_os_error(errno).to_string();
        let text = text.split(" (os error").next().unwrap_or_default();
        StartError { errno, status, host: String::new(), why: format!("{what}: {text}") }
    }

    /// Status of a shell: the program is missing.
    pub const NOT_FOUND: u8 = 127;

    /// Status of a shell: the program is there and cannot be executed.
    pub const NOT_EXECUTED: u8 = 126;

    /// Status of a program that this launcher refuses.
    pub const REFUSED: u8 = 1;
}

/// Those ranks that could not be started, grouped by the reason.
pub(crate) fn by_reason<T>(ranks: &[(Rank, Result<T, StartError>)]) -> Vec<(Vec<Rank>, StartError)> {
    let mut failed: BTreeMap<&StartError, Vec<Rank>> = BTreeMap::new();
    for (rank, result) in ranks {
        if let Err(error) = result {
            failed.entry(error).or_default().push(*rank);
        }
    }
    let mut failed: Vec<_> = failed.into_iter().map(|(error, ranks)| (ranks, error.clone())).collect();
    failed.sort();
    failed
}

/// Ranks of a group that could not be started on one node, for one reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartFailure {
    /// The group.
    pub group: GroupId,
    /// The node.
    pub node: Id,
    /// The ranks, in order; at least one.
    pub ranks: Vec<Rank>,
    /// The program.
    pub program: Vec<u8>,
    /// The reason.
    pub error: StartError,
}
