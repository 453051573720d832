//! State that all domains at a node share: the functions and limits of the node, and the loops of its domains.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use chained_gpc::{Caller, Clock};

use super::calls::Handles;
use super::mailbox::Mailbox;
use super::supervisor::SupervisorCommand;
use crate::limits::Limits;

/// The shared state.
#[derive(Debug)]
pub(super) struct Shared {
    /// The supervisor's command.
    pub(super) command: SupervisorCommand,
    /// The most that a domain may have here.
    pub(super) limits: Limits,
    /// Whether this node begins domains for other nodes, and so runs their programs.
    pub(super) begins: bool,
    /// The clock of the domains that other nodes begin here, and of queries.
    pub(super) clock: Clock,
    /// Time of silence after which this node takes a peer for lost, if it is not the default.
    pub(super) dead_after: OnceLock<Duration>,
    pub(super) caller: OnceLock<Caller>,
    pub(super) handles: OnceLock<Handles>,
    domains: Mutex<BTreeMap<String, Mailbox>>,
}

impl Shared {
    pub(super) fn new(command: SupervisorCommand, limits: Limits) -> Shared {
        Shared {
            command,
            limits,
            begins: true,
            clock: Clock::system(),
            dead_after: OnceLock::new(),
            caller: OnceLock::new(),
            handles: OnceLock::new(),
            domains: Mutex::default(),
        }
    }

    /// The names of the domains that this node serves.
    pub(super) fn names(&self) -> Vec<String> {
        self.domains.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    pub(super) fn find(&self, name: &[u8]) -> Option<Mailbox> {
        let domains = self.domains.lock().unwrap_or_else(PoisonError::into_inner);
        domains.get(str::from_utf8(name).ok()?).cloned()
    }

    /// Adds the loop of a domain.
    pub(super) fn insert(&self, name: &str, mailbox: Mailbox) {
        self.domains.lock().unwrap_or_else(PoisonError::into_inner).insert(name.into(), mailbox);
    }

    /// Removes the loop of a domain that has ended.
    pub(super) fn remove(&self, name: &str) {
        self.domains.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// Number of the domains that this node serves.
    pub(super) fn count(&self) -> usize {
        self.domains.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}
