//! Faults of time in effect: processes that pause, are slow or refuse connections, and partitions.

use std::collections::{BTreeMap, BTreeSet};

use gpc_trees::Id;

use crate::ranked::IdSet;

/// The faults of time in effect.
#[derive(Default, Debug)]
pub(crate) struct Timing {
    paused: BTreeMap<Id, u64>,
    /// Ids that have ever paused or refused: a quick test, made at every event.
    struck: IdSet,
    /// Paused ids that have announced the pause to their peers.
    announced: BTreeSet<Id>,
    slow: BTreeMap<Id, (u64, u64)>,
    cut: Option<(IdSet, u64)>,
    /// Ids that refuse connections: from which id (all if `None`), and until when. Bounded by the plan.
    refused: BTreeMap<Id, Vec<(Option<Id>, u64)>>,
}

impl Timing {
    /// Pauses a process that is not paused: an earlier end of a pause would change the order of waiting events.
    pub(crate) fn pause(&mut self, id: Id, until: u64) {
        self.paused.insert(id, until);
        self.struck.insert(id);
    }

    /// Pauses a process that has announced it to its peers.
    pub(crate) fn announce(&mut self, id: Id, until: u64) {
        self.pause(id, until);
        self.announced.insert(id);
    }

    /// Continues a process; returns whether it had announced its pause.
    pub(crate) fn goes_on(&mut self, id: Id) -> bool {
        self.announced.remove(&id)
    }

    pub(crate) fn slow_down(&mut self, id: Id, factor: u64, until: u64) {
        self.slow.insert(id, (factor, until));
    }

    /// Cuts some ids off. There is one cut at a time, and messages that wait for its end keep their order.
    pub(crate) fn cut(&mut self, ids: IdSet, until: u64) {
        self.cut = Some((ids, until));
    }

    /// Whether a partition is active.
    pub(crate) fn is_cut(&self, now: u64) -> bool {
        self.cut.as_ref().is_some_and(|(_, until)| *until > now)
    }

    pub(crate) fn refuse(&mut self, id: Id, from: Option<Id>, until: u64) {
        self.struck.insert(id);
        self.refused.entry(id).or_default().push((from, until));
    }

    /// Whether a live id refuses a connection from another.
    pub(crate) fn refuses(&self, from: Id, to: Id, now: u64) -> bool {
        let refuses = |by: &(Option<Id>, u64)| by.0.is_none_or(|it| it == from) && by.1 > now;
        self.struck.contains(to) && self.refused.get(&to).is_some_and(|all| all.iter().any(refuses))
    }

    /// End of an id's pause, if it is paused.
    pub(crate) fn paused_until(&self, id: Id, now: u64) -> Option<u64> {
        self.struck.contains(id).then(|| self.paused.get(&id).copied()).flatten().filter(|&until| until > now)
    }

    /// End of the last pause of a process, also if it is over.
    pub(crate) fn back_at(&self, id: Id) -> Option<u64> {
        self.paused.get(&id).copied()
    }

    /// Ends the faults of a process that ends.
    pub(crate) fn forget(&mut self, id: Id) {
        self.paused.remove(&id);
        self.announced.remove(&id);
        self.slow.remove(&id);
    }

    /// Factor by which an id is slow.
    pub(crate) fn slowness(&self, id: Id, now: u64) -> u64 {
        self.slow.get(&id).filter(|(_, until)| *until > now).map_or(1, |(factor, _)| *factor)
    }

    /// End of the partition between two ids, if there is one.
    pub(crate) fn cut_until(&self, a: Id, b: Id, now: u64) -> Option<u64> {
        let apart = |(ids, until): &&(IdSet, u64)| *until > now && ids.contains(a) != ids.contains(b);
        self.cut.as_ref().filter(apart).map(|(_, until)| *until)
    }
}
