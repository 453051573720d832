//! A group that the helper of a node knows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::exit::Exit;
use crate::names::Rank;
use crate::spec::{Layout, OnDeath};

/// Environment variables.
pub(crate) type Variables = Vec<(Vec<u8>, Vec<u8>)>;

/// A group that the helper knows.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) layout: Arc<Layout>,
    /// The processes here that have not ended.
    pub(super) alive: BTreeSet<Rank>,
    /// Those of them that have connected.
    pub(super) connected: BTreeSet<Rank>,
    /// A process here that has ended without having connected.
    pub(super) absent: Option<Rank>,
    /// Whether processes of the group were placed here.
    pub(super) local: bool,
    /// Variables of the processes so far; `None` once the group is prepared.
    pub(super) prepared: Option<BTreeMap<Rank, Variables>>,
    /// The server has registered the job.
    pub(super) registered: bool,
}

impl Known {
    pub(super) fn is_local(&self) -> bool {
        self.local
    }

    pub(super) fn runs(&self, rank: Rank) -> bool {
        self.alive.contains(&rank)
    }

    pub(super) fn alive(&self) -> impl Iterator<Item = Rank> + '_ {
        self.alive.iter().copied()
    }

    pub(super) fn first_alive(&self) -> Option<Rank> {
        self.alive.first().copied()
    }

    pub(super) fn connects(&mut self, rank: Rank) {
        self.connected.insert(rank);
    }

    /// A process that has connected and one that never will: libpmix counts the second in each fence.
    pub(super) fn waits_in_vain(&self) -> Option<(Rank, Rank)> {
        Some((self.connected.first().copied()?, self.absent?))
    }

    pub(super) fn has_connected(&self, rank: Rank) -> bool {
        self.connected.contains(&rank)
    }

    /// A process has ended. Returns whether that is new.
    pub(super) fn ends(&mut self, rank: Rank, exit: Exit) -> bool {
        // Any other end takes the job along.
        let goes_on = exit == Exit::Code(0) || self.layout.on_death == OnDeath::Notify;
        if self.alive.contains(&rank) && !self.connected.remove(&rank) && goes_on {
            self.absent = self.absent.or(Some(rank));
        }
        self.alive.remove(&rank)
    }

    pub(super) fn is_being_prepared(&self) -> bool {
        self.prepared.is_some()
    }
}
