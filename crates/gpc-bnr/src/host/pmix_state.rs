//! The state of a node's PMIx server: its helper, and the groups whose processes wait for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::helper::{Helper, PmixCommand};
use crate::names::{GroupId, Member, Rank};
use crate::pmix::{Translation, Variables};
use crate::spec::Layout;

/// The server of a node in one domain.
pub(super) struct PmixState {
    pub(super) command: Option<PmixCommand>,
    pub(super) helper: Option<Helper>,
    pub(super) translation: Translation,
    /// Groups that are being prepared, and their time limits.
    pub(super) preparing: BTreeMap<GroupId, (Arc<Layout>, Duration)>,
    /// The variables of groups that are prepared and not started yet, and their time limits.
    pub(super) ready: BTreeMap<GroupId, (BTreeMap<Rank, Variables>, Duration)>,
    /// Why the last helper could not serve: programs that may do without it are no longer kept waiting.
    pub(super) unavailable: Option<String>,
    /// Processes that have closed the socket for PMI: they speak PMIx.
    pub(super) unlinked: BTreeSet<Member>,
}

impl PmixState {
    pub(super) fn new(command: Option<PmixCommand>, me: chained_gpc::trees::Id, domain: &str) -> PmixState {
        PmixState {
            command,
            helper: None,
            translation: Translation::new(me, domain),
            preparing: BTreeMap::new(),
            ready: BTreeMap::new(),
            unavailable: None,
            unlinked: BTreeSet::new(),
        }
    }

    /// Whether this node can serve.
    pub(super) fn is_available(&self) -> bool {
        self.command.is_some()
    }

    pub(super) fn translation(&mut self) -> &mut Translation {
        &mut self.translation
    }

    /// Whether the processes of a group here are served.
    pub(super) fn serves(&self, group: GroupId) -> bool {
        self.translation.serves(group)
    }

    /// A process has closed the socket for PMI. Returns whether that is no loss, since it speaks PMIx.
    pub(super) fn unlink(&mut self, member: Member, alive: bool) -> bool {
        let only = alive && self.translation.speaks(member);
        if only {
            self.unlinked.insert(member);
        }
        only
    }

    /// When the loop must look again.
    pub(super) fn deadline(&self) -> Option<Duration> {
        let preparing = self.preparing.values().map(|(_, until)| *until);
        let ready = self.ready.values().map(|(_, until)| *until);
        preparing.chain(ready).min()
    }

    #[cfg(feature = "snapshot")]
    pub(super) fn len(&self) -> usize {
        self.preparing.len() + self.ready.len() + self.unlinked.len()
    }
}
