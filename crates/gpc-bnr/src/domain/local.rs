//! Groups with processes on this node, and groups that must not be started here.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::database::Log;
use super::events::Token;
use super::ids::RecentGroups;
use crate::names::{GroupId, Member, Rank};
use crate::roster::Span;
use crate::spec::Layout;

/// All groups at this node.
#[derive(Default, Debug)]
pub(super) struct Local {
    /// Groups that are being checked here, and where each result goes.
    pub(super) checks: BTreeMap<GroupId, OrderOrigin>,
    /// Groups with processes here.
    pub(super) groups: BTreeMap<GroupId, LocalGroup>,
    /// Groups killed before their start order arrived here: a delayed start order is refused.
    pub(super) doomed: RecentGroups,
    /// Groups that were removed: delayed messages about them are ignored.
    pub(super) forgotten: RecentGroups,
    /// Groups whose databases were removed: what a fence brings late is dropped.
    pub(super) without_database: RecentGroups,
}

/// A group with processes here.
#[derive(Debug)]
pub(super) struct LocalGroup {
    pub(super) layout: Arc<Layout>,
    pub(super) processes: BTreeMap<Rank, Process>,
    /// Receiver of the result of the start, until all are started.
    pub(super) starting: Option<OrderOrigin>,
    /// Its processes, or what they have left behind, are being killed.
    pub(super) killing: bool,
    /// Nothing of the group is left.
    pub(super) emptied: bool,
    /// Receivers that wait for `emptied`.
    pub(super) waiting: Vec<OrderOrigin>,
}

/// A process of this node.
#[derive(Default, Debug)]
pub(super) struct Process {
    pub(super) pid: Option<u32>,
    /// It has initialized.
    pub(super) takes_part: bool,
    /// It has finalized.
    pub(super) finalized: bool,
    /// Its link has closed.
    pub(super) unlinked: bool,
    pub(super) ended: bool,
    pub(super) log: Log,
}

/// Origin of an order about the processes here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OrderOrigin {
    /// The head, if it is this node.
    Head,
    /// Another node.
    Order(Token),
}

impl Local {
    pub(super) fn process(&self, member: Member) -> Option<&Process> {
        self.groups.get(&member.group)?.processes.get(&member.rank)
    }

    pub(super) fn process_mut(&mut self, member: Member) -> Option<&mut Process> {
        self.groups.get_mut(&member.group)?.processes.get_mut(&member.rank)
    }

    /// Whether nothing of any group is left here.
    pub(super) fn is_empty(&self) -> bool {
        self.groups.values().all(|group| group.emptied)
    }
}

impl LocalGroup {
    /// Number of processes here whose ranks are in a span.
    pub(super) fn count_in(&self, span: &Span) -> usize {
        if span.first == 0 && span.count >= self.layout.size() {
            return self.processes.len();
        }
        self.processes.range(span.ranks()).count()
    }

    /// Whether its processes are being killed, or have been.
    pub(super) fn is_killed(&self) -> bool {
        self.killing || self.emptied
    }
}
