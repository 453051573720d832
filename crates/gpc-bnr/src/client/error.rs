//! Errors of connecting to a node.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use crate::fault::{Fault, FaultKind};

/// The reason why a process or a command cannot connect to a node.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No node has started this process.
    #[error("no node has started this process, GPC_BNR_FD is not set: start it by `gpc run`")]
    NotStarted,
    /// Another launcher has started this process.
    #[error(
        "another launcher than `gpc run` has started this process: PMI_FD is set, GPC_BNR_FD is not; start it by `gpc run`"
    )]
    OtherLauncher,
    /// The inherited socket cannot be used.
    #[error("the socket of GPC_BNR_FD={}: {error}; it is there for the process itself that `gpc run` has started, once", .number.display())]
    Socket {
        /// The value of the variable.
        number: OsString,
        /// The error.
        error: io::Error,
    },
    /// No head listens at this path.
    #[error("{}: {error}; is the `gpc run` that listens there still running?", .path.display())]
    Connect {
        /// The path.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// The system cannot start the reader thread or configure the socket.
    #[error("the link to the node cannot be set up: {0}")]
    System(#[from] io::Error),
    /// The node does not answer, or refuses the process.
    #[error("the node that has started this process: {}{}", .0, hint(.0))]
    Refused(#[from] Fault),
}

/// What else a closed socket means: a shell may run several programs in the place of one process.
fn hint(fault: &Fault) -> &'static str {
    match fault.kind {
        FaultKind::Link => {
            "; or an earlier program of this process has used the link: each process of `gpc run` takes part once"
        }
        _ => "",
    }
}

impl ClientError {
    /// The kind of the error, for programs and other languages.
    pub fn kind(&self) -> FaultKind {
        match self {
            ClientError::NotStarted | ClientError::OtherLauncher => FaultKind::Unsupported,
            ClientError::Socket { .. } | ClientError::Connect { .. } => FaultKind::Link,
            ClientError::System(_) => FaultKind::System,
            ClientError::Refused(fault) => fault.kind,
        }
    }
}
