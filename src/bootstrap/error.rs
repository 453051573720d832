//! Why a process does not get to know those that it was started with.

use std::io;
use std::time::Duration;

use gpc_trees::Id;

use super::place::HOST_ADDRESS;
use super::{SecretFileError, SpaceError};
use crate::runtime::{Address, CallError, FunctionsError, MembershipError};

/// Why there is no [`Member`](super::Member): what failed, where, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BootstrapError {
    /// The variables of a launcher are incomplete or wrong.
    #[error("{launcher} seems to have started this process, but {why}")]
    Variables {
        /// Which launcher.
        launcher: &'static str,
        /// What is wrong, and what to do.
        why: String,
    },
    /// The launcher's server is not there, refuses something, or says nonsense.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// The system fails.
    #[error("{doing}: {error}")]
    System {
        /// What was to be done.
        doing: &'static str,
        /// What it says.
        #[source]
        error: io::Error,
    },
    /// It cannot listen for the others.
    #[error("cannot listen for the others at {address}: {error}")]
    Listen {
        /// Where.
        address: Address,
        /// What the system says.
        #[source]
        error: io::Error,
    },
    /// The processes are on several hosts, and this one has no address that the others reach.
    #[error(
        "this host has no address that others reach, as far as its routes and its name tell: name one with {HOST_ADDRESS}"
    )]
    NoAddress,
    /// Another process cannot be reached from here.
    #[error("{0}")]
    Unreachable(String),
    /// What another process has put for this one to read is not what it should be.
    #[error("what id {of} says of itself is of no use: {why}")]
    Entry {
        /// Who has put it.
        of: Id,
        /// What is wrong.
        why: String,
    },
    /// A value is longer than the launcher's space can take, in however many parts.
    #[error("{launcher} takes values of {max} bytes: too short for what this process has to say")]
    Room {
        /// Which launcher.
        launcher: &'static str,
        /// Its longest value.
        max: usize,
    },
    /// The functions of the exchange could not be registered beside the program's.
    #[error("a function of the exchange: {0}; each member needs functions of its own")]
    Functions(#[from] FunctionsError),
    /// A call of the exchange failed.
    #[error("the exchange of addresses: {0}")]
    Call(#[from] CallError),
    /// The node took no addresses.
    #[error("the node does not learn where the others are: {0}")]
    Membership(#[from] MembershipError),
    /// The id from which the addresses were to come has gone.
    #[error("id {0}, from which the addresses of the others should have come, has gone")]
    Gone(Id),
    /// The addresses did not come in time.
    #[error("the addresses of the others did not come from id {from} within {limit:?}")]
    Late {
        /// From whom they should have come.
        from: Id,
        /// How long they were waited for.
        limit: Duration,
    },
    /// Id 0 has given the exchange up, and said why.
    #[error("id 0 has given up: {0}")]
    GivenUp(String),
    /// The embedder's own exchange failed.
    #[error("the exchange of this program's own: {0}")]
    Allgather(String),
    /// The processes have not met, or what they met with is of no use.
    #[error("the processes have not met: {0}")]
    Meeting(String),
    /// Whom a process has met the others by did not hear that it ends.
    #[error("the farewell of this process: {0}")]
    Farewell(String),
    /// Hosts that are known by their names alone have no address.
    #[error(
        "no address was found for {count} hosts within {limit:?}: {hosts} ({why}); are they started, and do others know their names?"
    )]
    Unresolved {
        /// How many.
        count: usize,
        /// Their names, in short and bounded.
        hosts: String,
        /// How long their addresses were looked for.
        limit: Duration,
        /// What was said of the last one.
        why: String,
    },
    /// Neighbours do not listen where the rule says.
    #[error(
        "nobody listens for ids {ids} within {limit:?}, the first of them at {address}: are they started, do they run the same program, and can this host reach them?"
    )]
    Absent {
        /// Who is missing.
        ids: String,
        /// Where the first of them should listen.
        address: Address,
        /// How long they were waited for.
        limit: Duration,
    },
    /// The secret of the job cannot be read.
    #[error("the secret of the job: {0}")]
    Secret(#[from] SecretFileError),
}
