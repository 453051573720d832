//! Members of a set, their nodes, and their coordinator.

use std::collections::BTreeSet;
use std::sync::Arc;

use chained_gpc::trees::Id;

use super::Domain;
use super::faults::{fault_of, group_open, no_group};
use crate::exit::Death;
use crate::fault::{Fault, FaultKind};
use crate::names::{GroupId, Member, Set};
use crate::order::Purpose;
use crate::spec::Layout;

/// The tag of the collective request that merges two groups. Tags of fences cannot begin with a zero byte.
pub(super) fn merge_tag(low: GroupId, high: GroupId) -> Vec<u8> {
    let mut tag = b"\0merge".to_vec();
    tag.extend_from_slice(&low.0.to_be_bytes());
    tag.extend_from_slice(&high.0.to_be_bytes());
    tag
}

/// The purpose of a collective request, if its tag determines it.
pub(super) fn purpose_in(tag: &[u8]) -> Option<Purpose> {
    let groups = tag.strip_prefix(b"\0merge")?;
    let (low, high) = groups.split_first_chunk::<4>()?;
    let group = |bytes: &[u8; 4]| GroupId(u32::from_be_bytes(*bytes));
    Some(Purpose::Merge(group(low), group(high.first_chunk::<4>()?)))
}

/// The groups of a collective request, including merged ones; `Err` with the members if the set lists them one by one.
fn named<'a>(set: &'a Set, purpose: &'a Purpose) -> Result<Vec<GroupId>, &'a BTreeSet<Member>> {
    match (set, purpose) {
        (_, Purpose::Merge(first, second)) => Ok(vec![*first, *second]),
        (Set::Group(group), _) => Ok(vec![*group]),
        (Set::Members(members), _) => Err(members),
    }
}

impl Domain {
    /// The base groups of a group in process order: the group itself, or the groups that were merged into it.
    pub(super) fn bases(&self, group: GroupId) -> Vec<GroupId> {
        let mut bases = Vec::new();
        let mut left = vec![group];
        // Terminates: a merged group has a higher number than its parts.
        while let Some(group) = left.pop() {
            match self.merged.get(&group) {
                Some((first, second)) if first < &group && second < &group => left.extend([*second, *first]),
                _ => bases.push(group),
            }
        }
        bases
    }

    fn all_bases(&self, groups: &[GroupId]) -> Vec<GroupId> {
        groups.iter().flat_map(|group| self.bases(*group)).collect()
    }

    /// The form of a set that all of its members use: the whole group if the set lists all of its processes.
    pub(super) fn canonical(&self, member: Member, set: Set) -> Set {
        match set {
            Set::Members(members) => {
                let size = self.local.groups.get(&member.group).map_or(0, |here| here.layout.size());
                let whole = members.len() as u64 == u64::from(size)
                    && members.iter().all(|other| other.group == member.group && other.rank < size);
                if whole { Set::Group(member.group) } else { Set::Members(members) }
            }
            Set::Group(group) => Set::Group(group),
        }
    }

    /// Checks that a member may enter a collective request.
    ///
    /// # Errors
    /// The member is not in the set, or the set is invalid.
    pub(super) fn check_set(&self, member: Member, set: &Set, purpose: &Purpose) -> Result<(), Fault> {
        let contained = match named(set, purpose) {
            Ok(groups) => self.all_bases(&groups).contains(&member.group),
            Err(members) => {
                let size = self.local.groups.get(&member.group).map_or(0, |here| here.layout.size());
                let beyond = members.iter().find(|other| other.group == member.group && other.rank >= size);
                if let Some(beyond) = beyond {
                    let message = format!("there is no {beyond}: the group has {size} processes");
                    return Err(Fault::new(FaultKind::NoMember, message));
                }
                members.contains(&member)
            }
        };
        if contained {
            return Ok(());
        }
        let whom = match set {
            Set::Group(group) => format!("group {group}"),
            Set::Members(members) => format!("the {} members that it names", members.len()),
        };
        Err(Fault::new(FaultKind::NotMember, format!("{member} is not of {whom}")))
    }

    /// The coordinator: the node of the first member, or the head if the set has several groups. `None` while the group
    /// is unknown here.
    pub(super) fn coordinator(&self, set: &Set, purpose: &Purpose) -> Option<Id> {
        let first = match named(set, purpose) {
            Ok(groups) => match groups[..] {
                [group] if !self.merged.contains_key(&group) => Some(Member { group, rank: 0 }),
                _ => None,
            },
            Err(members) => {
                let (first, last) = (members.first()?, members.last()?);
                (first.group == last.group).then_some(*first)
            }
        };
        match first {
            None => Some(self.head_id()),
            Some(first) => self.layout(first.group)?.node_of(first.rank),
        }
    }

    /// The layout of a started group; known at its nodes and at the head.
    pub(super) fn layout(&self, group: GroupId) -> Option<&Arc<Layout>> {
        let here = self.local.groups.get(&group).map(|here| &here.layout);
        here.or_else(|| self.head.as_ref()?.layout(group))
    }

    /// Number of members here, including those that have ended; `None` if it is still unknown.
    pub(super) fn members_here(&self, set: &Set, purpose: &Purpose) -> Option<usize> {
        let count = match named(set, purpose) {
            Ok(groups) => {
                let here =
                    self.all_bases(&groups).into_iter().filter_map(|group| self.local.groups.get(&group));
                here.map(|here| here.processes.len()).sum()
            }
            Err(members) => members.iter().filter(|member| self.local.process(**member).is_some()).count(),
        };
        // A node that collects has at least one member, so 0 means that the group has not started here yet.
        (count > 0).then_some(count)
    }

    /// The living members of a collective request on this node; empty if the group is unknown here.
    pub(super) fn living_here(&self, set: &Set, purpose: &Purpose) -> Vec<Member> {
        let of_group = |group: GroupId| {
            let here = self.local.groups.get(&group);
            here.into_iter().flat_map(move |here| {
                let living = here.processes.iter().filter(|(_, process)| !process.ended);
                living.map(move |(rank, _)| Member { group, rank: *rank })
            })
        };
        match named(set, purpose) {
            Ok(groups) => self.all_bases(&groups).into_iter().flat_map(of_group).collect(),
            Err(members) => members.iter().copied().filter(|member| self.is_alive_here(*member)).collect(),
        }
    }

    /// At the coordinator: the nodes of the members, ordered by their first members.
    ///
    /// # Errors
    /// A group or a member does not exist, or a group is still open.
    pub(super) fn nodes_of(&self, set: &Set, purpose: &Purpose) -> Result<Vec<Id>, Fault> {
        let mut nodes = Vec::new();
        let mut seen = BTreeSet::new();
        let mut add = |node: Id| {
            if seen.insert(node) {
                nodes.push(node);
            }
        };
        match named(set, purpose) {
            Ok(groups) => {
                for group in self.all_bases(&groups) {
                    self.known_layout(group)?.blocks.iter().for_each(|block| add(block.node));
                }
            }
            Err(members) => {
                for member in members {
                    let layout = self.known_layout(member.group)?;
                    let node = layout.node_of(member.rank).ok_or_else(|| {
                        let message =
                            format!("there is no {member}: the group has {} processes", layout.size());
                        Fault::new(FaultKind::NoMember, message)
                    })?;
                    add(node);
                }
            }
        }
        Ok(nodes)
    }

    fn known_layout(&self, group: GroupId) -> Result<&Arc<Layout>, Fault> {
        let open = || self.head.as_ref().is_some_and(|head| head.is_open(group));
        self.layout(group).ok_or_else(|| if open() { group_open(group) } else { no_group(group) })
    }

    /// At the coordinator: whether all nodes involved know the groups of a collective request.
    pub(super) fn is_known_there(&self, set: &Set, purpose: &Purpose) -> bool {
        let Some(head) = &self.head else { return true };
        match named(set, purpose) {
            Ok(groups) => {
                groups.iter().all(|group| head.is_announced(*group))
                    && self.all_bases(&groups).iter().all(|group| head.is_announced(*group))
            }
            Err(members) => members.iter().all(|member| head.is_announced(member.group)),
        }
    }

    /// The dead members of a collective request, in the order in which this node learned of them, and the fault that
    /// they cause. `None` if no member is dead.
    pub(super) fn broken(&self, set: &Set, purpose: &Purpose) -> Option<(Vec<Death>, Fault)> {
        let mut deaths: Vec<(u64, Death)> = match named(set, purpose) {
            Ok(groups) => {
                let groups = self.all_bases(&groups);
                let known = groups.iter().filter_map(|group| self.deaths.known.get(group));
                known.flat_map(|deaths| deaths.all_numbered().iter().copied()).collect()
            }
            Err(members) => {
                let death =
                    |member: &Member| self.deaths.known.get(&member.group)?.numbered(member.rank).copied();
                members.iter().filter_map(death).collect()
            }
        };
        // Orders deaths by arrival, across groups and ranks: the first one is the cause.
        deaths.sort_unstable_by_key(|(number, _)| *number);
        let deaths: Vec<Death> = deaths.into_iter().map(|(_, death)| death).collect();
        (!deaths.is_empty()).then(|| (deaths.clone(), fault_of(deaths)))
    }
}
