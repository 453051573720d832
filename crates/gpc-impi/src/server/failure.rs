//! Failure of a session: the first cause, with the client and the stage.

use std::fmt;
use std::time::Duration;

use super::{Rank, Stage};
use crate::wire::Label;

/// Why a session has failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// Some clients were not done within the time limit.
    #[error("the session was not over within {limit:?}: {waits}")]
    Late {
        /// The time limit.
        limit: Duration,
        /// The clients that the session waits for.
        waits: WaitingFor,
    },
    /// The connection of a client was lost.
    #[error("client {rank} was lost {stage}: {why}")]
    Lost {
        /// The client.
        rank: Rank,
        /// Stage of the client.
        stage: Stage,
        /// Why the connection ended.
        why: String,
    },
    /// A client has violated the protocol.
    #[error("client {rank} broke the protocol {stage}: {why}")]
    Violation {
        /// The client.
        rank: Rank,
        /// Stage of the client.
        stage: Stage,
        /// The violation.
        why: String,
    },
    /// The values of all clients under one label are too long for a broadcast.
    #[error(
        "the values of label {label} are {len} bytes in all, of which client {most} sent {most_len}; a broadcast has {limit} at most"
    )]
    TooLong {
        /// The label.
        label: Label,
        /// Bytes that all clients have sent.
        len: u64,
        /// The client that has sent most.
        most: Rank,
        /// Bytes that this client has sent.
        most_len: usize,
        /// Longest broadcast, bytes.
        limit: usize,
    },
}

/// The clients that a session waits for, and its stage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitingFor {
    /// The clients that the session waits for.
    pub missing: Vec<Rank>,
    /// Missing clients that had joined, but were lost before all others had joined, and why.
    pub lost: Vec<(Rank, String)>,
    /// Whether all clients have joined: the missing ones have then stopped at a later stage.
    pub joined: bool,
    /// Stage of the session.
    pub stage: Stage,
}

impl fmt::Display for WaitingFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WaitingFor { missing, lost, joined, stage } = self;
        let ranks: Vec<String> = missing.iter().map(Rank::to_string).collect();
        let (clients, have) = if ranks.len() == 1 { ("client", "has") } else { ("clients", "have") };
        let who = format!("{clients} {}", ranks.join(", "));
        match stage {
            _ if !joined => {
                write!(f, "{who} did not join; is each started, with this address and its rank?")?;
                lost.iter()
                    .try_for_each(|(rank, why)| write!(f, " Client {rank} had joined and was lost: {why}."))
            }
            Stage::Joined => write!(f, "all have joined, and {who} {have} sent neither a label nor DONE"),
            Stage::At(label) => write!(f, "it waits for {who} to come to label {label}"),
            Stage::Over => write!(f, "all are done, and {who} {have} not sent FINI"),
            stage => write!(f, "{stage}, {who} {have} sent neither another label nor DONE"),
        }
    }
}
