//! A group as a node knows it: where its processes are, what has become of them, and of those here what they have said.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use chained_gpc::trees::Id;

use super::Token;
use super::meeting::Key;
use crate::exit::Death;
use crate::names::{GroupId, Member, Rank};
use crate::order::{Entry, Epoch};
use crate::request::Identity;
use crate::spec::Layout;

/// A process of this node.
#[derive(Debug, Default)]
pub(super) struct Process {
    pub(super) pid: Option<u32>,
    pub(super) inited: bool,
    pub(super) finalized: bool,
    /// What it has put since its last fence.
    pub(super) fresh: VecDeque<Entry>,
    /// Which of its meetings is next, of each set and tag.
    pub(super) epochs: BTreeMap<Key, Epoch>,
}

/// A group.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) layout: Arc<Layout>,
    /// Its processes here that have not ended.
    pub(super) here: BTreeMap<Rank, Process>,
    /// Those that have ended, wherever they were.
    pub(super) deaths: BTreeMap<Rank, Death>,
    /// Who waits until its processes here are started.
    pub(super) starting: Option<Token>,
    /// Whether they are being killed, or what they have left behind is.
    pub(super) killing: bool,
    /// Whether it is to be killed when it has been started.
    pub(super) doomed: bool,
    /// Whether nothing of it is left here.
    pub(super) empty: bool,
    /// Who waits for that.
    pub(super) waits: Vec<Token>,
}

impl Group {
    pub(super) fn new(layout: Arc<Layout>, me: Id) -> Group {
        let here = layout.ranks_on(me).map(|rank| (rank, Process::default())).collect();
        Group {
            layout,
            here,
            deaths: BTreeMap::new(),
            starting: None,
            killing: false,
            doomed: false,
            empty: false,
            waits: Vec::new(),
        }
    }

    /// Whether all its processes have ended, wherever they were.
    pub(super) fn is_over(&self) -> bool {
        self.deaths.len() == self.layout.size() as usize
    }

    /// Who a process of it is.
    pub(super) fn identity(&self, rank: Rank, me: Id) -> Identity {
        let layout = &self.layout;
        let block =
            layout.blocks.iter().find(|block| rank >= block.first && rank - block.first < block.count);
        Identity {
            member: Member { group: layout.group, rank },
            size: layout.size(),
            parent: layout.parent,
            database: layout.database.clone(),
            spec: block.map_or(0, |block| block.spec),
            neighbours: layout.ranks_on(me).collect(),
        }
    }
}

/// The name of a group's own database.
pub(super) fn database_of(domain: &str, group: GroupId) -> String {
    format!("kvs_{domain}_{}", group.0)
}
