//! Errors of a client's session.

use std::io;

use crate::client::{ClientFault, ClientSettingsError};

/// Why a session has failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The settings are invalid.
    #[error(transparent)]
    Settings(#[from] ClientSettingsError),
    /// The server's address is malformed, or its name cannot be resolved.
    #[error("the address of the IMPI server, `{}`, cannot be looked up: {cause}; it is HOST:PORT, which the server prints when it listens", chained_gpc::Shown(.server))]
    Address {
        /// The address as given.
        server: String,
        /// The reason.
        cause: io::Error,
    },
    /// The connection attempt has failed.
    #[error("no connection to the IMPI server `{}`: {cause}; has it been started, and is it reachable from here?", chained_gpc::Shown(.server))]
    Connect {
        /// The address as given.
        server: String,
        /// The reason.
        cause: io::Error,
    },
    /// The session has failed.
    #[error(transparent)]
    Fault(#[from] ClientFault),
    /// The system cannot report socket events.
    #[error("the client cannot wait for the server: {0}")]
    Socket(#[source] io::Error),
    /// `goes_on` returned false.
    #[error("the session was given up before all were done")]
    GivenUp,
    /// FINI could not be sent.
    #[error("FINI could not be sent: {0}")]
    Fini(io::Error),
}
