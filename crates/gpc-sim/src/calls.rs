//! The calls of a world and their state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpc_trees::Id;

use super::by_call::ByCall;
use super::check::{Outcome, Plan};
use super::faults::Act;
use chained_gpc::wire::CallId;

/// All calls of a world.
#[derive(Default, Debug)]
pub(super) struct Calls {
    /// In the order in which they were planned.
    pub(super) all: Vec<CallState>,
    /// Place of each started call in that list.
    pub(super) names: ByCall<usize>,
}

impl Calls {
    /// Adds a call; returns its place.
    pub(super) fn add(&mut self, plan: Plan, probe: bool) -> usize {
        self.all.push(CallState {
            plan: Arc::new(plan),
            acts: BTreeMap::new(),
            callbacks_fail: BTreeSet::new(),
            callbacks_later: BTreeSet::new(),
            merged_well: BTreeMap::new(),
            probe,
            name: None,
            started: 0,
            ended: None,
        });
        self.all.len() - 1
    }

    /// The started call of this name.
    pub(super) fn named(&self, call: CallId) -> Option<&CallState> {
        self.all.get(*self.names.get(&call)?)
    }
}

/// A call and its state in this world.
#[derive(Debug)]
pub(super) struct CallState {
    pub(super) plan: Arc<Plan>,
    pub(super) acts: BTreeMap<Id, Act>,
    pub(super) callbacks_fail: BTreeSet<Id>,
    /// Ids whose callback defers its reply.
    pub(super) callbacks_later: BTreeSet<Id>,
    /// For each id whose callback is to fail: the replies that it has merged so far.
    pub(super) merged_well: BTreeMap<Id, u32>,
    /// The call starts after all faults, and must reach every id.
    pub(super) probe: bool,
    pub(super) name: Option<CallId>,
    pub(super) started: u64,
    pub(super) ended: Option<(u64, Outcome)>,
}
