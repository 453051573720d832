//! Leak checks: the number of entries in a node's tables. Only these counts show entries that an ended call left
//! behind.

use super::Node;

impl Node {
    /// Number of peers that the node considers linked.
    pub fn links(&self) -> usize {
        self.completed.links()
    }

    /// Bytes of the memory budget that retained answers use, if the budget is bounded.
    pub fn retained_bytes(&self) -> u64 {
        self.retained.bytes()
    }

    /// Number of leaked entries: those that belong to no call, answer, root or plan of the node. It must always be
    /// zero. Each table is compared with the one that it refers to.
    pub fn leaks(&self) -> usize {
        let over = |entries: usize, of: usize| entries.saturating_sub(of);
        let short = self.spots.as_ref().map_or(0, |spots| spots.leaks());
        over(self.tickets.len(), self.calls())
            + over(self.deadlines.len(), self.calls.len())
            + over(self.run_queue.waiting(), self.calls.len())
            + self.retained.leaks()
            + self.completed.leaks()
            + self.load.leaks(self.calls())
            + if self.calls() == 0 { self.liveness.watched() } else { 0 }
            + short
    }
}
