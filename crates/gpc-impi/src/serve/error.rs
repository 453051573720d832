//! Errors of a served session.

use std::io;

use crate::server::{Failure, SettingsError, WaitingFor};

/// Why a served session has failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The settings are invalid.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The session has failed.
    #[error(transparent)]
    Session(#[from] Failure),
    /// The session was [stopped](super::Stopper::stop) while it waited for these clients.
    #[error("the server was stopped before the session was over: {0}")]
    Stopped(WaitingFor),
    /// The system cannot report socket events.
    #[error("the server cannot wait for its clients: {0}")]
    System(#[source] io::Error),
}
