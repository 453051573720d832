//! Faults that last for a while. Times are in microseconds.

use std::collections::{BTreeMap, BTreeSet};

use chained_gpc::trees::Id;

/// Lasting faults, each with its end time.
#[derive(Default)]
pub(super) struct Lasting {
    /// Nodes that cannot reach the others.
    pub(super) cut: Option<(BTreeSet<Id>, u64)>,
    /// Pairs of nodes, the lower id first, that cannot connect.
    pub(super) refused: BTreeMap<(Id, Id), u64>,
    /// Senders and receivers of slow messages.
    pub(super) late: BTreeMap<(Id, Id), u64>,
    /// Nodes that make no calls.
    pub(super) busy: BTreeMap<Id, u64>,
    /// Total time for which each node has not answered.
    pub(super) silent: BTreeMap<Id, u64>,
    /// Whether all faults are over.
    pub(super) calm: bool,
}

impl Lasting {
    /// The end time of a partition between two nodes.
    pub(super) fn apart_until(&self, from: Id, to: Id, now: u64) -> Option<u64> {
        let cut = self.cut.as_ref().filter(|(_, until)| *until > now);
        cut.filter(|(ids, _)| ids.contains(&from) != ids.contains(&to)).map(|(_, until)| *until)
    }

    pub(super) fn is_refused(&self, a: Id, b: Id, now: u64) -> bool {
        self.refused.get(&(a.min(b), a.max(b))).is_some_and(|until| *until > now)
    }

    pub(super) fn is_late(&self, from: Id, to: Id, now: u64) -> bool {
        self.late.get(&(from, to)).is_some_and(|until| *until > now)
    }

    pub(super) fn is_busy(&self, id: Id, now: u64) -> bool {
        self.busy.get(&id).is_some_and(|until| *until > now)
    }

    /// Adds to the total time for which a node has not answered, and returns the total.
    pub(super) fn add_silence(&mut self, id: Id, length: u64) -> u64 {
        let silent = self.silent.entry(id).or_default();
        *silent += length;
        *silent
    }

    /// Ends all lasting faults.
    pub(super) fn end(&mut self) {
        self.calm = true;
        self.cut = None;
        self.refused.clear();
        self.late.clear();
        self.busy.clear();
    }
}
