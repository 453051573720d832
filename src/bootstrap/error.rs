//! The errors of bootstrap.

use std::io;
use std::time::Duration;

use gpc_trees::Id;

use super::variables::HOST_ADDRESS;
use super::{SecretFileError, SpaceError};
use crate::runtime::{Address, CallError, FunctionsError, MembershipError};

/// Why bootstrap has failed, or a member's operation: what failed, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BootstrapError {
    /// The variables of a launcher are incomplete or invalid.
    #[error("{launcher} seems to have started this process, but {why}")]
    Variables {
        /// The launcher.
        launcher: &'static str,
        /// What is wrong, and what to do.
        why: String,
    },
    /// The launcher's server cannot be reached, refuses a request, or sends an invalid response.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// A system call has failed.
    #[error("{doing}: {error}")]
    System {
        /// The operation.
        doing: &'static str,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// Listening for the others has failed.
    #[error("cannot listen for the others at {address}: {error}")]
    Listen {
        /// The address.
        address: Address,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The processes are on several hosts, and this one has no address that the others reach.
    #[error(
        "this host has no address that others reach, as far as its routes and its name tell: name one with {HOST_ADDRESS}"
    )]
    NoAddress,
    /// The look-up of this host's own name has taken all of the time limit.
    #[error(
        "this host has no default route, so its address is that of its name, and the time limit is over: {0}; name the address with {HOST_ADDRESS}"
    )]
    OwnName(#[source] io::Error),
    /// Another process cannot be reached from here.
    #[error("{0}")]
    Unreachable(String),
    /// The entry of another process is invalid.
    #[error("what id {of} says of itself is of no use: {why}")]
    Entry {
        /// The id of that process.
        of: Id,
        /// What is wrong with the entry.
        why: String,
    },
    /// A value does not fit into the launcher's space, even in parts.
    #[error("{launcher} takes values of {max} bytes: too short for what this process has to say")]
    Room {
        /// The launcher.
        launcher: &'static str,
        /// Its maximum length of a value, bytes.
        max: usize,
    },
    /// The functions of the exchange could not be registered beside the program's.
    #[error("a function of the exchange: {0}; each member needs functions of its own")]
    Functions(#[from] FunctionsError),
    /// A call of the exchange has failed.
    #[error("the exchange of addresses: {0}")]
    Call(#[from] CallError),
    /// The node has rejected the addresses.
    #[error("the node does not learn where the others are: {0}")]
    Membership(#[from] MembershipError),
    /// The id that sends the addresses has gone.
    #[error("id {0}, from which the addresses of the others should have come, has gone")]
    Gone(Id),
    /// The addresses have not arrived within the limit.
    #[error("the addresses of the others did not come from id {from} within {limit:?}")]
    Late {
        /// The id that sends them.
        from: Id,
        /// The time that this process has waited.
        limit: Duration,
    },
    /// Id 0 has given up the exchange, with its reason.
    #[error("id 0 has given up: {0}")]
    GivenUp(String),
    /// The embedder's own exchange has failed.
    #[error("the exchange of this program's own: {0}")]
    Allgather(String),
    /// The meeting has failed, or its result is invalid.
    #[error("the processes have not met: {0}")]
    Meeting(String),
    /// The farewell could not be sent.
    #[error("the farewell of this process: {0}")]
    Farewell(String),
    /// Host names could not be resolved.
    #[error(
        "no address was found for {count} hosts within {limit:?}: {hosts} ({why}); are they started, and do others know their names?"
    )]
    Unresolved {
        /// Number of unresolved names.
        count: usize,
        /// The names, compressed and bounded.
        hosts: String,
        /// The time limit of the look-ups.
        limit: Duration,
        /// The error of the last look-up.
        why: String,
    },
    /// Neighbours do not listen at the addresses that the rule defines.
    #[error(
        "nobody listens for ids {ids} within {limit:?}, the first of them at {address}: are they started, do they run the same program, and can this host reach them?"
    )]
    Absent {
        /// The missing ids.
        ids: String,
        /// The address of the first of them.
        address: Address,
        /// The time that this process has waited.
        limit: Duration,
    },
    /// The secret of the job cannot be read.
    #[error("the secret of the job: {0}")]
    Secret(#[from] SecretFileError),
}
