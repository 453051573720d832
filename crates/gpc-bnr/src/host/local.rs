//! Groups and processes of this node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::foreign::SilentProcesses;
use super::private::PrivateFiles;
use super::processes::PendingStarts;
use super::programs::SharedPrograms;
use crate::names::{GroupId, Member};
use crate::spec::Layout;

/// The processes of this node.
#[derive(Default)]
pub(super) struct Local {
    /// Groups with processes here.
    pub(super) groups: BTreeMap<GroupId, Arc<Layout>>,
    /// Their private files, if they have some.
    pub(super) private: BTreeMap<GroupId, PrivateFiles>,
    pub(super) starting: PendingStarts,
    /// Processes here that have not ended.
    pub(super) alive: BTreeSet<Member>,
    pub(super) silent: SilentProcesses,
    /// Programs that were sent here.
    pub(super) programs: SharedPrograms,
}
