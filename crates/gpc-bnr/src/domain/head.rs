//! State of the head alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use chained_gpc::trees::Id;

use super::group::{Group, Stage};
use super::pending::Requester;
use crate::names::GroupId;
use crate::spec::{Layout, Readers};

/// State of the head.
#[derive(Default, Debug)]
pub(super) struct Head {
    pub(super) groups: BTreeMap<GroupId, Group>,
    /// Host names of the other nodes, as they reported them.
    pub(super) hosts: BTreeMap<Id, String>,
    /// The last number assigned to a group.
    pub(super) last_group: u32,
    /// Groups to start when the nodes have begun.
    pub(super) queued: Vec<GroupId>,
    /// Created databases; each list has the receivers that wait for its removal.
    pub(super) databases: BTreeMap<String, Vec<Requester>>,
    /// The last number assigned to a database.
    pub(super) last_database: u64,
    /// Global names.
    pub(super) names: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Waits for several groups: the receiver, and the number of groups left.
    pub(super) joined: BTreeMap<u64, (Requester, usize)>,
    pub(super) next_joined: u64,
}

impl Head {
    pub(super) fn layout(&self, group: GroupId) -> Option<&Arc<Layout>> {
        self.groups.get(&group)?.layout.as_ref()
    }

    pub(super) fn is_open(&self, group: GroupId) -> bool {
        self.groups.get(&group).is_some_and(|group| matches!(group.stage, Stage::Open(_)))
    }

    /// Whether all nodes of a group's processes know it.
    pub(super) fn is_announced(&self, group: GroupId) -> bool {
        self.groups.get(&group).is_none_or(|group| {
            !matches!(group.stage, Stage::Open(_) | Stage::Starting | Stage::Derived { announced: false })
        })
    }

    /// The nodes of the processes that read standard input.
    pub(super) fn readers(&self) -> Vec<Id> {
        let layouts = self.groups.values().filter_map(|group| group.layout.as_ref());
        let reads = layouts.into_iter().find(|layout| layout.input != Readers::None);
        let Some(layout) = reads else { return Vec::new() };
        layout.nodes().into_iter().filter(|node| layout.reads_on(*node)).collect()
    }
}
