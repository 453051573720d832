//! Why a session has failed: the first cause, with the client and the stage.

use std::time::Duration;

use super::{Rank, Stage};

/// Why a session has failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// Not all clients were done in time.
    #[error("the session was not over within {limit:?}: {}", Waited(.joined, .missing, *.stage))]
    Late {
        /// How long it might take.
        limit: Duration,
        /// Whom the session waits for.
        missing: Vec<Rank>,
        /// Whether all have joined: then the missing ones have not gone on.
        joined: bool,
        /// Where the session stands.
        stage: Stage,
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
}

/// Whom a session waited for in vain.
struct Waited<'a>(&'a bool, &'a [Rank], Stage);

impl std::fmt::Display for Waited<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Waited(joined, missing, stage) = self;
        let ranks: Vec<String> = missing.iter().map(Rank::to_string).collect();
        let ranks = ranks.join(", ");
        match joined {
            false => write!(
                f,
                "of the clients, {ranks} did not join; are they started, with this address and rank?"
            ),
            true => write!(f, "it waits {stage} for what clients {ranks} have not sent"),
        }
    }
}
