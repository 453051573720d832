//! State that all domains at a node share: the functions and limits of the node, and the loops of its domains.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use chained_gpc::trees::Id;
use chained_gpc::{Caller, Clock};

use super::calls::Handles;
use super::helper::PmixCommand;
use super::mailbox::Mailbox;
use super::programs::SharedPrograms;
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
    /// The command of the PMIx server.
    pub(super) pmix: OnceLock<PmixCommand>,
    pub(super) handles: OnceLock<Handles>,
    domains: Mutex<BTreeMap<String, Part>>,
}

/// The part of this node in a domain.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) mailbox: Mailbox,
    /// The node that leads the domain.
    pub(super) head: Id,
    pub(super) programs: SharedPrograms,
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
            pmix: OnceLock::new(),
            handles: OnceLock::new(),
            domains: Mutex::default(),
        }
    }

    /// The names of the domains that this node serves.
    pub(super) fn names(&self) -> Vec<String> {
        self.domains.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// The queue of a domain's loop.
    pub(super) fn find(&self, name: &[u8]) -> Option<Mailbox> {
        Some(self.part(name)?.mailbox)
    }

    pub(super) fn part(&self, name: &[u8]) -> Option<Part> {
        let domains = self.domains.lock().unwrap_or_else(PoisonError::into_inner);
        domains.get(str::from_utf8(name).ok()?).cloned()
    }

    /// Adds a domain.
    pub(super) fn insert(&self, name: &str, part: Part) {
        self.domains.lock().unwrap_or_else(PoisonError::into_inner).insert(name.into(), part);
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
