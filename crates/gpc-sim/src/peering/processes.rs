//! A process of a world of peers: its machine, and its ends of connections.

use std::collections::{BTreeMap, BTreeSet};

use gpc_trees::Id;

use super::check::Who;
use chained_gpc::link::peering::{Book, LinkKey, Peering, PublicKey, Session, Strictness};

/// A process of a world.
#[derive(Debug)]
pub(super) struct RunningProcess {
    pub(super) who: Who,
    /// Its private key.
    pub(super) private: u64,
    pub(super) peering: Peering<KnownKeys>,
    pub(super) strictness: Strictness,
    /// Whether it is an intruder, to be ended after the faults.
    pub(super) odd: bool,
    /// Whether it runs on another host as another user.
    pub(super) afar: bool,
    /// Whether it has no room for ids that are not peers.
    pub(super) full: bool,
    pub(super) locals: BTreeMap<LinkKey, LocalEnd>,
    pub(super) next_key: usize,
    pub(super) alive: bool,
    /// It has ended, and its host does not answer.
    pub(super) silent: bool,
    /// End of its pause, until which its answers may be late.
    pub(super) paused: u64,
    /// End of the pauses that peers have announced.
    pub(super) pauses: BTreeMap<Id, u64>,
    pub(super) tick_at: Option<u64>,
}

/// A process's end of a connection.
#[derive(Debug)]
pub(super) struct LocalEnd {
    pub(super) pipe: usize,
    pub(super) side: usize,
    pub(super) phase: Phase,
    /// Bytes that have arrived and are not read.
    pub(super) buffer: Vec<u8>,
    pub(super) session: Option<Box<dyn Session>>,
    /// Time of a PING without an answer.
    pub(super) asked: Option<u64>,
}

/// Phase of a connection, for the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Greeting,
    Up(Id),
}

/// Peers and keys that one process knows.
#[derive(Clone, Default, Debug)]
pub(super) struct KnownKeys {
    pub(super) peers: BTreeSet<Id>,
    pub(super) keys: BTreeMap<Id, PublicKey>,
}

impl Book for KnownKeys {
    fn contains(&self, id: Id) -> bool {
        self.peers.contains(&id)
    }

    fn key(&self, id: Id) -> Option<PublicKey> {
        self.keys.get(&id).copied()
    }
}
