//! Members of a set, their nodes, and their coordinator.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chained_gpc::trees::Id;

use super::Domain;
use super::faults::{fault_of, group_open, no_group};
use crate::exit::Death;
use crate::fault::{Fault, FaultKind};
use crate::names::{GroupId, Member, Set};
use crate::order::Purpose;
use crate::roster::{Roster, Span, joined, spans_of};
use crate::spec::Layout;

/// The tag of the collective request that splits a group. Tags of fences cannot begin with a zero byte.
pub(super) const SPLIT: &[u8] = b"\0split";

/// The tag of the collective request that merges two groups.
pub(super) fn merge_tag(low: GroupId, high: GroupId) -> Vec<u8> {
    let mut tag = b"\0merge".to_vec();
    tag.extend_from_slice(&low.0.to_be_bytes());
    tag.extend_from_slice(&high.0.to_be_bytes());
    tag
}

/// The purpose of a collective request, if its tag determines it.
pub(super) fn purpose_in(tag: &[u8]) -> Option<Purpose> {
    if tag == SPLIT {
        return Some(Purpose::Split);
    }
    let groups = tag.strip_prefix(b"\0merge")?;
    let (low, high) = groups.split_first_chunk::<4>()?;
    let group = |bytes: &[u8; 4]| GroupId(u32::from_be_bytes(*bytes));
    Some(Purpose::Merge(group(low), group(high.first_chunk::<4>()?)))
}

/// The groups that a collective request names.
fn named(set: &Set, purpose: &Purpose) -> Vec<GroupId> {
    match (set, purpose) {
        (_, Purpose::Merge(first, second)) => vec![*first, *second],
        (Set::Group(group), _) => vec![*group],
        (Set::Members(_), _) => Vec::new(),
    }
}

/// Whether all members of a set were started in a group. A group that is unknown here, because it was removed, counts
/// as such a set.
pub(super) fn is_within(rosters: &BTreeMap<GroupId, Roster>, set: &Set, group: GroupId) -> bool {
    match set {
        Set::Members(members) => members.iter().all(|member| member.group == group),
        Set::Group(of) => {
            let roster = rosters.get(of);
            roster.is_none_or(|roster| roster.spans.iter().all(|span| span.group == group))
        }
    }
}

impl Domain {
    /// The processes of a group by rank. A group that is unknown here, or has not started, is taken as one that is
    /// started as a whole.
    pub(super) fn spans(&self, group: GroupId) -> Cow<'_, [Span]> {
        match self.rosters.get(&group) {
            Some(roster) => Cow::Borrowed(&roster.spans),
            None => Cow::Owned(vec![Span::whole(group)]),
        }
    }

    /// The members of a collective request.
    pub(super) fn members_of(&self, set: &Set, purpose: &Purpose) -> Cow<'_, [Span]> {
        match (set, purpose) {
            (_, Purpose::Merge(first, second)) => {
                let (first, second) = (self.spans(*first), self.spans(*second));
                Cow::Owned(joined(first.iter().chain(&*second).copied()))
            }
            (Set::Group(group), _) => self.spans(*group),
            (Set::Members(members), _) => Cow::Owned(spans_of(members.iter().copied())),
        }
    }

    /// Whether a process belongs to a group.
    pub(super) fn is_member(&self, member: Member, group: GroupId) -> bool {
        self.spans(group).iter().any(|span| span.contains(member))
    }

    /// The groups in which the processes of a group were started: the group itself, or those of its members.
    pub(super) fn bases(&self, group: GroupId) -> BTreeSet<GroupId> {
        self.spans(group).iter().map(|span| span.group).collect()
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
        let contained = match (set, purpose) {
            (_, Purpose::Merge(first, second)) => {
                self.is_member(member, *first) || self.is_member(member, *second)
            }
            (Set::Group(group), _) => self.is_member(member, *group),
            (Set::Members(members), _) => {
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

    /// The coordinator: the node of the first member, or the head. `None` while the group is unknown here.
    pub(super) fn coordinator(&self, set: &Set, purpose: &Purpose) -> Option<Id> {
        match self.leader(set, purpose) {
            _ if matches!(set, Set::Members(members) if members.is_empty()) => None,
            Some(first) => self.layout(first.group)?.node_of(first.rank),
            None => Some(self.head_id()),
        }
    }

    /// The member at whose node a collective request is coordinated. `None` for the head: it creates groups, and alone
    /// knows the members of all.
    pub(super) fn leader(&self, set: &Set, purpose: &Purpose) -> Option<Member> {
        match (set, purpose) {
            (_, Purpose::Merge(..) | Purpose::Split) => None,
            (Set::Group(group), _) => {
                (!self.rosters.contains_key(group)).then_some(Member { group: *group, rank: 0 })
            }
            (Set::Members(members), _) => {
                let (first, last) = (members.first()?, members.last()?);
                (first.group == last.group).then_some(*first)
            }
        }
    }

    /// The layout of a started group; known at its nodes and at the head.
    pub(super) fn layout(&self, group: GroupId) -> Option<&Arc<Layout>> {
        let here = self.local.groups.get(&group).map(|here| &here.layout);
        here.or_else(|| self.head.as_ref()?.layout(group))
    }

    /// Number of members here, including those that have ended; `None` if it is still unknown.
    pub(super) fn members_here(&self, set: &Set, purpose: &Purpose) -> Option<usize> {
        let members = self.members_of(set, purpose);
        let of = |span: &Span| self.local.groups.get(&span.group).map_or(0, |here| here.count_in(span));
        let count = members.iter().map(of).sum();
        // A node that collects has at least one member, so 0 means that the group has not started here yet.
        (count > 0).then_some(count)
    }

    /// The living members of a collective request on this node; empty if the group is unknown here.
    pub(super) fn living_here(&self, set: &Set, purpose: &Purpose) -> Vec<Member> {
        let mut living = Vec::new();
        for span in self.members_of(set, purpose).iter() {
            let Some(here) = self.local.groups.get(&span.group) else { continue };
            let ranks = here.processes.range(span.ranks()).filter(|(_, process)| !process.ended);
            living.extend(ranks.map(|(rank, _)| Member { group: span.group, rank: *rank }));
        }
        living
    }

    /// At the coordinator: the nodes of the members, ordered by their first members. A group that is being checked may
    /// lose some of them until it is announced.
    ///
    /// # Errors
    /// A group or a member does not exist, a group is still open, or two groups to merge have a common member.
    pub(super) fn nodes_of(&self, set: &Set, purpose: &Purpose) -> Result<Vec<Id>, Fault> {
        if let Purpose::Merge(first, second) = purpose
            && let Some(both) = Roster::common(&self.spans(*first), &self.spans(*second))
        {
            let message =
                format!("{both} is of {first} and of {second}: groups to merge have no common process");
            return Err(Fault::new(FaultKind::BadRequest, message));
        }
        let mut nodes = Vec::new();
        let mut seen = BTreeSet::new();
        for span in self.members_of(set, purpose).iter() {
            let layout = self.known_layout(span.group)?;
            let (size, end) = (layout.size(), span.ranks().end);
            if *span != Span::whole(span.group) && end > size {
                let beyond = Member { group: span.group, rank: span.first.max(size) };
                let message = format!("there is no {beyond}: the group has {size} processes");
                return Err(Fault::new(FaultKind::NoMember, message));
            }
            let new =
                layout.blocks_of(span.ranks()).map(|block| block.node).filter(|node| seen.insert(*node));
            nodes.extend(new);
        }
        Ok(nodes)
    }

    fn known_layout(&self, group: GroupId) -> Result<&Arc<Layout>, Fault> {
        let head = self.head.as_ref();
        let open = || head.is_some_and(|head| head.is_open(group));
        let layout = self.layout(group).or_else(|| head?.groups.get(&group)?.layout.as_ref());
        layout.ok_or_else(|| if open() { group_open(group) } else { no_group(group) })
    }

    /// At the coordinator: whether all nodes involved know the groups of a collective request.
    pub(super) fn is_known_there(&self, set: &Set, purpose: &Purpose) -> bool {
        let Some(head) = &self.head else { return true };
        let members = self.members_of(set, purpose);
        named(set, purpose)
            .into_iter()
            .chain(members.iter().map(|span| span.group))
            .all(|group| head.is_announced(group))
    }

    /// The dead members of a collective request, in the order in which this node learned of them, and the fault that
    /// they cause. `None` if no member is dead.
    pub(super) fn broken(&self, set: &Set, purpose: &Purpose) -> Option<(Vec<Death>, Fault)> {
        let mut deaths: Vec<(u64, Death)> = Vec::new();
        for span in self.members_of(set, purpose).iter() {
            let known = self.deaths.known.get(&span.group);
            deaths.extend(known.into_iter().flat_map(|known| known.numbered_in(span)));
        }
        // Orders deaths by arrival, across groups and ranks: the first one is the cause.
        deaths.sort_unstable_by_key(|(number, _)| *number);
        let deaths: Vec<Death> = deaths.into_iter().map(|(_, death)| death).collect();
        (!deaths.is_empty()).then(|| (deaths.clone(), fault_of(deaths)))
    }
}
