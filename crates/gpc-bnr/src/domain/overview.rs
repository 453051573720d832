//! Queries of the head over all groups and nodes.

use std::collections::BTreeMap;

use chained_gpc::trees::Id;

use super::group::{Group, Stage};
use super::known_deaths::GroupDeaths;
use super::{Domain, Output};
use crate::exit::Death;
use crate::names::GroupId;
use crate::request::Client;

impl Domain {
    /// Nodes with their host names.
    pub(super) fn hosts_of(&self, nodes: Vec<Id>) -> Vec<(Id, &str)> {
        let hosts = self.head.as_ref().map(|head| &head.hosts);
        let host = |id: Id| match id == self.settings.me {
            true => self.settings.host.as_str(),
            false => hosts.and_then(|hosts| hosts.get(&id)).map_or("", String::as_str),
        };
        nodes.into_iter().map(|id| (id, host(id))).collect()
    }

    /// Number of processes on each node.
    pub(super) fn loads(&self) -> BTreeMap<Id, u64> {
        let mut loads = BTreeMap::new();
        let groups = self.head.iter().flat_map(|head| head.groups.values()).filter(|group| !group.over);
        for block in groups.filter_map(|group| group.layout.as_ref()).flat_map(|layout| &layout.blocks) {
            *loads.entry(block.node).or_default() += u64::from(block.count);
        }
        loads
    }

    /// The groups that have processes.
    pub(super) fn running_groups(&self) -> Vec<GroupId> {
        let groups = self.head.iter().flat_map(|head| &head.groups);
        groups.filter(|(_, group)| group.layout.is_some() && !group.over).map(|(number, _)| *number).collect()
    }

    /// The deaths of all processes on lost nodes.
    pub(super) fn deaths_of_lost(&self, lost: &[Id]) -> Vec<Death> {
        let groups = self.head.iter().flat_map(|head| head.groups.values()).filter(|group| !group.over);
        // The ranks of a group that may shrink are not final, and none of its processes has been started.
        let layouts = groups.filter(|group| !group.may_shrink()).filter_map(|group| group.layout.as_ref());
        layouts.flat_map(|layout| self.deaths_with_nodes(layout, |id| lost.contains(&id))).collect()
    }

    /// Reports that a process kills a group, or the groups of its members.
    pub(super) fn report_kill(&mut self, client: Client, group: GroupId) {
        let Client::Process(by) = client else { return };
        for group in self.bases(group) {
            let runs = |known: &Group| matches!(known.stage, Stage::Starting | Stage::Running) && !known.over;
            if self.group(group).is_ok_and(runs) {
                let dead = self.deaths.known.get(&group).map_or(0, GroupDeaths::len);
                self.outputs.push_back(Output::Killed { group, by, dead });
            }
        }
    }
}
