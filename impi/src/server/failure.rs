//! Why a session has failed: the first cause, with the client and the stage.

use std::fmt;
use std::time::Duration;

use super::{Rank, Stage};
use crate::wire::Label;

/// Why a session has failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// Not all clients were done in time.
    #[error("the session was not over within {limit:?}: {waits}")]
    Late {
        /// How long it might take.
        limit: Duration,
        /// Whom the session waits for.
        waits: Waits,
    },
    /// A client's connection has ended.
    #[error("client {rank} was lost {stage}: {why}")]
    Lost {
        /// The client.
        rank: Rank,
        /// Where the client stood.
        stage: Stage,
        /// What the connection ended with.
        why: String,
    },
    /// A client has said what it must not.
    #[error("client {rank} broke the protocol {stage}: {why}")]
    Wrong {
        /// The client.
        rank: Rank,
        /// Where the client stood.
        stage: Stage,
        /// What it said.
        why: String,
    },
    /// The values of all clients under one label are too long to be broadcast.
    #[error(
        "the values of label {label} are {len} bytes in all, of which client {most} sent {most_len}; a broadcast has {limit} at most"
    )]
    TooLong {
        /// The label.
        label: Label,
        /// How many bytes all have sent.
        len: u64,
        /// Who has sent most of them.
        most: Rank,
        /// How many bytes that client has sent.
        most_len: usize,
        /// How many a broadcast may have.
        limit: usize,
    },
}

/// Whom a session waits for, and where it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waits {
    /// Whom the session waits for.
    pub missing: Vec<Rank>,
    /// Those of the missing ones who had joined and were lost before all others had, and why.
    pub lost: Vec<(Rank, String)>,
    /// Whether all have joined: then the missing ones have not gone on.
    pub joined: bool,
    /// Where the session stands.
    pub stage: Stage,
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Waits { missing, lost, joined, stage } = self;
        let ranks: Vec<String> = missing.iter().map(Rank::to_string).collect();
        let (clients, have) = if ranks.len() == 1 { ("client", "has") } else { ("clients", "have") };
        let who = format!("{clients} {}", ranks.join(", "));
        match stage {
            _ if !joined => {
                write!(f, "{who} did not join; is each started, with this address and its rank?")?;
                lost.iter()
                    .try_for_each(|(rank, why)| write!(f, " Client {rank} had joined and was lost: {why}."))
            }
            Stage::Nodes => write!(f, "it waits for {who} to say where their nodes listen (NODE)"),
            Stage::Reached(label) => {
                write!(
                    f,
                    "it waits for {who}, which passes label {label} on, to say whom that has reached (REACHED)"
                )
            }
            Stage::Joined => write!(f, "all have joined, and {who} {have} sent neither a label nor DONE"),
            Stage::At(label) => write!(f, "it waits for {who} to come to label {label}"),
            Stage::Over => write!(f, "all are done, and {who} {have} not sent FINI"),
            stage => write!(f, "{stage}, {who} {have} sent neither another label nor DONE"),
        }
    }
}
