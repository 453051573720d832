//! Why a session that is served has no good end.

use std::io;

use crate::server::{Failure, SettingsError, Waits};

/// Why a session that is served has no good end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// No session can have these settings.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The session has failed.
    #[error(transparent)]
    Session(#[from] Failure),
    /// It was [told to](super::Stopper::stop), and waited for these.
    #[error("the server was stopped before the session was over: {0}")]
    Stopped(Waits),
    /// The system does not tell what happens at the sockets.
    #[error("the server cannot wait for its clients: {0}")]
    System(#[source] io::Error),
}
