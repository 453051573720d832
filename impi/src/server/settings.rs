//! What a server is started with.

use std::time::Duration;

use super::{Check, RelaySettings};
use crate::wire::{CLIENTS_MAX, Methods, VALUES_MAX};

/// Longer than the bytes of a client that does not wait for answers are apart: a lost packet is sent again after 200 ms at the earliest. Clients that wait, and leave labels out, take so long for each of these.
const PATIENCE: Duration = Duration::from_millis(500);

/// What a server is started with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many clients there will be, 1 to 32.
    pub clients: u32,
    /// How clients prove that they may take part.
    pub methods: Methods,
    /// What is done about values that cannot be.
    pub check: Check,
    /// How long it may take from the start until all clients are done.
    pub limit: Duration,
    /// How long a connection may take until it has named its rank.
    pub greeting: Duration,
    /// How long all clients may wait, with no byte under way, until the lowest label is broadcast without those that have not sent it.
    pub patience: Duration,
    /// Most bytes that one client may send in all, before all are done.
    pub bytes_max: usize,
    /// Most bytes of all clients' values under one label; never more than [`VALUES_MAX`].
    pub broadcast_max: usize,
    /// How broadcasts go through the clients' own nodes, where they all have that; by default they do not.
    pub relay: Option<RelaySettings>,
}

/// Settings that no session can have.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The mask of clients has 32 bits.
    #[error("a session has 1 to {CLIENTS_MAX} clients, not {0}")]
    Clients(u32),
    /// Nobody could take part.
    #[error("no method of proof is enabled, so that no client could take part")]
    Methods,
    /// It would be over before anybody could join.
    #[error("a session has more time than 0 s")]
    Limit,
    /// Broadcasts go along trees that each client knows.
    #[error("`{0}` is no tree that is built in; it is binary, binomial, kary:K, knomial:K, chain or flat")]
    Tree(String),
}

impl Settings {
    /// For so many clients, with the time limits that are the default: 10 minutes for all, 10 s for one to say who it is. 256 MiB from each, and as many bytes under one label as a length can say.
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
            relay: None,
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
