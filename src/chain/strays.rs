//! Leak checks: the number of entries in a node's tables. Only these counts show entries that an ended call left
//! behind.

use super::Node;

impl Node {
    /// Number of peers that the node considers linked.
    pub fn links(&self) -> usize {
        self.recent.links()
    }

    /// Bytes of the memory budget that retained answers use, if the budget is bounded.
    pub fn kept_bytes(&self) -> u64 {
        self.kept.bytes()
    }

    /// Number of leaked entries: those that belong to no call, answer, root or plan of the node. It must always be
    /// zero. Each table is compared with the one that it refers to.
    pub fn strays(&self) -> usize {
        let over = |entries: usize, of: usize| entries.saturating_sub(of);
        let short = self.spots.as_ref().map_or(0, |spots| spots.strays());
        over(self.tickets.len(), self.calls())
            + over(self.deadlines.len(), self.calls.len())
            + over(self.runs.waiting(), self.calls.len())
            + self.kept.strays()
            + self.recent.strays()
            + self.load.strays(self.calls())
            + if self.calls() == 0 { self.liveness.watched() } else { 0 }
            + short
    }
}
