//! State of the head alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use chained_gpc::trees::Id;

use super::awaited_names::AwaitedNames;
use super::group::{Group, Stage};
use super::pending::Requester;
use crate::names::GroupId;
use crate::roster::Roster;
use crate::spec::{Layout, Readers};

/// State of the head.
#[derive(Default, Debug)]
pub(super) struct Head {
    pub(super) groups: BTreeMap<GroupId, Group>,
    /// Host names of the other nodes, as they reported them.
    pub(super) hosts: BTreeMap<Id, String>,
    /// For each group whose processes belong to derived groups: the number of these.
    pub(super) listed: BTreeMap<GroupId, usize>,
    /// The last number assigned to a group.
    pub(super) last_group: u32,
    /// Groups to start when the nodes have begun.
    pub(super) queued: Vec<GroupId>,
    /// Created databases; each list has the receivers that wait for its removal.
    pub(super) databases: BTreeMap<String, Vec<Requester>>,
    /// The last number assigned to a database.
    pub(super) last_database: u64,
    /// Global names, and the requests that wait for others.
    pub(super) names: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(super) awaited: AwaitedNames,
    /// Waits for several groups: the receiver, and the number of groups left.
    pub(super) joined: BTreeMap<u64, (Requester, usize)>,
    pub(super) next_joined: u64,
}

impl Head {
    /// The layout of a group, once its ranks are final.
    pub(super) fn layout(&self, group: GroupId) -> Option<&Arc<Layout>> {
        self.groups.get(&group).filter(|group| !group.may_shrink())?.layout.as_ref()
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

    /// A derived group was made: the groups that its members were started in are needed until it is removed.
    pub(super) fn list(&mut self, roster: &Roster) {
        roster.bases().into_iter().for_each(|base| *self.listed.entry(base).or_default() += 1);
    }

    /// A derived group was removed.
    pub(super) fn unlist(&mut self, roster: &Roster) {
        for base in roster.bases() {
            match self.listed.get_mut(&base) {
                Some(times @ 2..) => *times -= 1,
                _ => drop(self.listed.remove(&base)),
            }
        }
    }

    /// The first group that can be forgotten to make room: one that has ended, and that no derived group needs.
    pub(super) fn first_ended(&self) -> Option<GroupId> {
        let mut groups = self.groups.iter();
        let ended = groups
            .find(|(number, group)| group.over && group.is_at_rest() && !self.listed.contains_key(number));
        ended.map(|(number, _)| *number)
    }

    /// The nodes of the processes that read standard input.
    pub(super) fn readers(&self) -> Vec<Id> {
        let layouts = self.groups.values().filter_map(|group| group.layout.as_ref());
        let reads = layouts.into_iter().find(|layout| layout.input != Readers::None);
        let Some(layout) = reads else { return Vec::new() };
        layout.nodes().into_iter().filter(|node| layout.reads_on(*node)).collect()
    }
}
