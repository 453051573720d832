//! A group as the head sees it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::errno::IO;
use super::events::Output;
use super::pending::Requester;
use crate::names::{GroupId, Rank, Set};
use crate::request::{Client, GroupState, Pair, Request};
use crate::spec::{LEFT_OUT, Layout, Mpi, OnDeath, PmixNeed, Readers, Spec};

/// Most groups in one status answer.
pub(super) const SHOWN_MAX: usize = 4096;

/// A group.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) stage: Stage,
    pub(super) parent: Option<GroupId>,
    pub(super) plan: Plan,
    /// Present once the start has begun.
    pub(super) layout: Option<Arc<Layout>>,
    pub(super) start: Start,
    pub(super) kill: Kill,
    /// Requests that wait until the number of its processes is final.
    pub(super) waiting: Vec<(Requester, Client, Request)>,
    /// All its processes have ended.
    pub(super) over: bool,
    pub(super) freed: bool,
    pub(super) began: Duration,
}

/// State of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// The set that opened it; `None` if it is closed as soon as it is spawned.
    Open(Option<Set>),
    Starting,
    Running,
    Killed,
    /// It was made of members of other groups.
    Derived {
        /// Whether the nodes of its members know it.
        announced: bool,
    },
}

/// The processes to start. Specs and preputs move into the layout at the start.
#[derive(Default, Debug)]
pub(super) struct Plan {
    pub(super) specs: Vec<Spec>,
    /// Requested number of processes of each spec, before `soft` chose.
    pub(super) requested: Vec<u32>,
    pub(super) preputs: Vec<Pair>,
    pub(super) on_death: OnDeath,
    pub(super) input: Readers,
}

/// The progress and the result of a start.
#[derive(Default, Debug)]
pub(super) struct Start {
    /// Receiver of the result.
    pub(super) starter: Option<Requester>,
    /// Number of pending results of a check or start: one for this node, one for all others.
    pub(super) parts: usize,
    /// All nodes have checked that the processes can be started.
    pub(super) checked: bool,
    /// A free port of the node of rank 0.
    pub(super) port: Option<u16>,
    /// Whether a node has processes that need a PMIx server.
    pub(super) pmix: PmixNeed,
    /// The MPI of the first node that has programs of one.
    pub(super) mpi: Option<Mpi>,
    pub(super) pids: BTreeMap<Rank, u32>,
    pub(super) errors: BTreeMap<Rank, i32>,
    /// Whether the errors forbid that the others run.
    pub(super) failed: bool,
    /// Causes for not starting the group, which are reported unless fewer processes are started.
    pub(super) causes: Vec<Output>,
    /// Number of times that fewer processes were tried.
    pub(super) tries: usize,
    /// No client knows the number of the group before the starter is answered.
    pub(super) is_private: bool,
    /// The group has programs of two MPIs. The part with one of them is not what was requested.
    pub(super) is_mixed: bool,
}

/// The progress of a kill.
#[derive(Default, Debug)]
pub(super) struct Kill {
    /// Kill the group as soon as it is started.
    pub(super) doomed: bool,
    /// Number of pending kills: one for this node, one for all others.
    pub(super) parts: usize,
    pub(super) killers: Vec<Requester>,
}

impl Group {
    pub(super) fn new(stage: Stage, parent: Option<GroupId>, on_death: OnDeath, now: Duration) -> Group {
        Group {
            stage,
            parent,
            plan: Plan { on_death, ..Plan::default() },
            layout: None,
            start: Start::default(),
            kill: Kill::default(),
            waiting: Vec::new(),
            over: false,
            freed: false,
            began: now,
        }
    }

    /// Whether no operation on it is pending.
    pub(super) fn is_at_rest(&self) -> bool {
        self.start.parts == 0 && self.kill.parts == 0 && self.start.starter.is_none()
    }

    /// Whether fewer processes may be started than its layout has.
    pub(super) fn may_shrink(&self) -> bool {
        let is_soft = |layout: &Arc<Layout>| {
            layout.pmix.is_none() && layout.specs.iter().any(|spec| spec.hint("soft").is_some())
        };
        self.stage == Stage::Starting && !self.start.checked && self.layout.as_ref().is_some_and(is_soft)
    }

    /// For each requested process, 0 or the error that prevented its start. The processes that `soft` left out are the
    /// last of their spec.
    pub(super) fn errors_of_all(&self) -> Vec<i32> {
        let Some(layout) = &self.layout else { return Vec::new() };
        let mut ranks = 0..;
        let mut errors = Vec::new();
        for (spec, requested) in layout.specs.iter().zip(&self.plan.requested) {
            let own = ranks.by_ref().take(spec.count as usize);
            errors.extend(own.map(|rank| self.start.errors.get(&rank).copied().unwrap_or_default()));
            errors.extend((spec.count..*requested).map(|_| LEFT_OUT));
        }
        errors
    }

    pub(super) fn state(&self) -> GroupState {
        match self.stage {
            // Whether its members live or not: their deaths are those of the groups that they were started in.
            Stage::Derived { .. } => GroupState::Derived,
            Stage::Open(_) => GroupState::Open,
            Stage::Starting => GroupState::Starting,
            _ if self.over => GroupState::Ended,
            Stage::Running => GroupState::Running,
            Stage::Killed => GroupState::Killed,
        }
    }
}

impl Start {
    /// Records that a rank was not started. 0 would mean success, so it becomes `EIO`.
    pub(super) fn fails(&mut self, rank: Rank, errno: i32) {
        self.errors.insert(rank, if errno == 0 { IO } else { errno });
    }
}
