//! Errors of the bootstrap.

use std::io;
use std::time::Duration;

use chained_gpc::Shown;
use chained_gpc::wire::level::LevelError;

use super::Origin;
use crate::machine::Fault;

/// Why the processes have not formed one set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// A service rejects a request, or the rendezvous has failed.
    #[error("{}", Shown(&.0.message))]
    Fault(#[from] Fault),
    /// Some processes have not registered in time.
    #[error("the rendezvous {at} was not complete within {limit:?}; {missing}")]
    Late {
        /// The level concerned.
        at: &'static str,
        /// The time limit.
        limit: Duration,
        /// The missing processes.
        missing: String,
    },
    /// The completion has no job and secret.
    #[error(
        "the completion of the rendezvous has no job and secret, so its processes cannot form one set: create the resource at the top with --joint (`\"joint\": true`)"
    )]
    NoJoint,
    /// The data are not level-n data.
    #[error("what the rendezvous was completed with is no level-{level} data: {error}")]
    Level {
        /// The expected level.
        level: u16,
        /// What is wrong.
        #[source]
        error: LevelError,
    },
    /// There are more processes than ids.
    #[error("the rendezvous has more processes than there are ids")]
    TooMany,
    /// The entry of a process is malformed.
    #[error(
        "{who} has registered what no process of this version says of itself, `{}`: have all run the same program, with the same version of this library",
        Shown(text)
    )]
    Registrant {
        /// The process.
        who: Origin,
        /// Its entry, truncated if it is long.
        text: String,
    },
    /// Two processes claim the same key or address.
    #[error("{one} and {other} have both registered {what}: one of them has copied it from the other")]
    Twice {
        /// The first process.
        one: Origin,
        /// The second process.
        other: Origin,
        /// What they share.
        what: String,
    },
    /// The completion lacks the entry of this process.
    #[error(
        "what this process has registered is not among what the rendezvous was completed with: are the handles of one rendezvous?"
    )]
    NotThere,
    /// The system has no randomness.
    #[error("cannot draw a token: {0}")]
    System(#[from] io::Error),
}
