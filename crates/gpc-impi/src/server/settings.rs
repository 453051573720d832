//! Settings of a server.

use std::time::Duration;

use super::Check;
use crate::wire::{CLIENTS_MAX, Methods, VALUES_MAX};

/// Longer than the gaps between the bytes of a client that does not wait for broadcasts: TCP retransmits a lost packet
/// after 200 ms at the earliest. Clients that do wait, and leave labels out, take this time for each left-out label.
const PATIENCE: Duration = Duration::from_millis(500);

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Number of clients, 1 to 32.
    pub clients: u32,
    /// Authentication methods.
    pub methods: Methods,
    /// What to do about implausible values.
    pub check: Check,
    /// Time limit from the start until all clients are done.
    pub limit: Duration,
    /// Time limit for a connection to name its rank.
    pub greeting: Duration,
    /// Time that all clients may wait, with no bytes in progress, until the lowest label is broadcast without the
    /// clients that have not sent it.
    pub patience: Duration,
    /// Most bytes that one client may send before all are done.
    pub bytes_max: usize,
    /// Most bytes of all clients' values under one label; capped at [`VALUES_MAX`].
    pub broadcast_max: usize,
}

/// The settings are invalid.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The mask of clients has 32 bits.
    #[error("a session has 1 to {CLIENTS_MAX} clients, not {0}")]
    Clients(u32),
    /// No authentication method is enabled, so no client could join.
    #[error("no method of proof is enabled, so that no client could take part")]
    Methods,
    /// The time limit is 0, so no client could join.
    #[error("a session has more time than 0 s")]
    Limit,
}

impl Settings {
    /// Settings for this number of clients, with defaults: 10 minutes for the session, 10 s for a connection to name
    /// its rank, 256 MiB from each client. The values under one label are limited only by the length field.
    pub fn new(clients: u32, methods: Methods) -> Settings {
        Settings {
            clients,
            methods,
            check: Check::Warn,
            limit: Duration::from_secs(600),
            greeting: Duration::from_secs(10),
            patience: PATIENCE,
            bytes_max: 256 << 20,
            broadcast_max: VALUES_MAX,
        }
    }

    pub(super) fn checked(mut self) -> Result<Settings, SettingsError> {
        self.broadcast_max = self.broadcast_max.min(VALUES_MAX);
        if self.limit.is_zero() {
            return Err(SettingsError::Limit);
        }
        match self.clients {
            1..=CLIENTS_MAX if self.methods.mask() != 0 => Ok(self),
            1..=CLIENTS_MAX => Err(SettingsError::Methods),
            clients => Err(SettingsError::Clients(clients)),
        }
    }
}
