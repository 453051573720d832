//! Options of a client.

use std::path::PathBuf;
use std::time::Duration;

use crate::token::ServiceToken;

/// Options of a client.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientOptions {
    /// Token of the services. Only a service that is configured to be insecure admits requests without it.
    pub token: Option<ServiceToken>,
    /// File with the certificates (PEM) of the only authority whose signature is accepted for `https` services.
    pub ca: Option<PathBuf>,
    /// Time to retry while a service does not answer. Waits for a completion have their own limits.
    pub limit: Duration,
    /// Longest data of a completion, bytes.
    pub data_max: u64,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions { token: None, ca: None, limit: Duration::from_secs(10), data_max: 2 << 30 }
    }
}
