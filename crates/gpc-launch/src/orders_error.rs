//! Errors of a process's orders.

use chained_gpc::link::peering::SecretError;
use chained_gpc::runtime::{AddressRowError, LinkKindError, PeersError};

/// Text that is not valid orders. A line of the secret is never quoted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OrdersError {
    /// The row of addresses is invalid.
    #[error(transparent)]
    Row(#[from] AddressRowError),
    /// There is no row of addresses.
    #[error("there is no row of addresses")]
    NoRow,
    /// The other nodes are invalid.
    #[error("the other nodes: {0}")]
    Others(#[from] PeersError),
    /// The kind of links is invalid.
    #[error("link: {0}")]
    Link(#[from] LinkKindError),
    /// The secret of the job is invalid.
    #[error("the secret of the job: {0}")]
    Secret(#[from] SecretError),
    /// A duration is invalid.
    #[error("`{0}` is no length of time in ns")]
    Time(String),
    /// The number of processes that share the machine is invalid.
    #[error("`{0}` is no number of processes")]
    Count(String),
    /// An unknown line.
    #[error("`{0}` is no order")]
    Unknown(String),
}
