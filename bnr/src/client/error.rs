//! Why there is no link to a node.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use crate::fault::{Fault, FaultKind};

/// Why a process, or a command, cannot take part.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Nothing has started this process that it could speak to.
    #[error("no node has started this process, GPC_BNR_FD is not set: start it by `gpc run`")]
    NotStarted,
    /// Another launcher has.
    #[error(
        "another launcher than `gpc run` has started this process: PMI_FD is set, GPC_BNR_FD is not; start it by `gpc run`"
    )]
    OtherLauncher,
    /// The socket that the node has handed over cannot be taken.
    #[error("the socket of GPC_BNR_FD={}: {error}; it is there for the process itself that `gpc run` has started, once", .number.display())]
    Socket {
        /// What the variable says.
        number: OsString,
        /// What is wrong with it.
        error: io::Error,
    },
    /// Nobody can be reached at this path.
    #[error("{}: {error}; is the `gpc run` that listens there still running?", .path.display())]
    Connect {
        /// Where.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The system gives no thread that reads, or takes no settings of the socket.
    #[error("the link to the node cannot be set up: {0}")]
    System(#[from] io::Error),
    /// The node does not answer, or not as it must.
    #[error("the node that has started this process: {0}")]
    Refused(#[from] Fault),
}

impl ClientError {
    /// For programs, and other languages.
    pub fn kind(&self) -> FaultKind {
        match self {
            ClientError::NotStarted | ClientError::OtherLauncher => FaultKind::Unsupported,
            ClientError::Socket { .. } | ClientError::Connect { .. } => FaultKind::Link,
            ClientError::System(_) => FaultKind::System,
            ClientError::Refused(fault) => fault.kind,
        }
    }
}
