//! Reasons why a process could not be started: what failed, on which host, and the system's error.

use std::collections::BTreeMap;
use std::io;

use chained_gpc::trees::Id;

use crate::names::{GroupId, Rank};

/// Why a process could not be started.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct StartError {
    /// The system's error number.
    pub errno: i32,
    /// Exit status that a shell shows: 127 for a missing program, 126 for one that cannot be executed, otherwise 1.
    pub status: u8,
    /// Host name; empty if unknown.
    pub host: String,
    /// What failed and why, for people.
    pub why: String,
}

impl StartError {
    /// An error of the system, prefixed with what failed.
    pub fn new(errno: i32, status: u8, what: &str) -> StartError {
        let text = io::Error::from_raw_os_error(errno).to_string();
        let text = text.split(" (os error").next().unwrap_or_default();
        StartError { errno, status, host: String::new(), why: format!("{what}: {text}") }
    }

    /// A shell's exit status for a missing program.
    pub const NOT_FOUND: u8 = 127;

    /// A shell's exit status for a program that exists and cannot be executed.
    pub const NOT_EXECUTED: u8 = 126;

    /// Exit status for a program that this launcher refuses.
    pub const REFUSED: u8 = 1;
}

/// The ranks that could not be started, grouped by reason.
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

/// Ranks of a group that could not be started on one node, for the same reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartFailure {
    /// The group.
    pub group: GroupId,
    /// The node.
    pub node: Id,
    /// The ranks, in ascending order; at least one.
    pub ranks: Vec<Rank>,
    /// The program.
    pub program: Vec<u8>,
    /// The reason.
    pub error: StartError,
}
