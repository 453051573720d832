//! Leak checks: the number of entries in a node's tables. Only these counts show entries that an ended call left
//! behind.

use super::Node;
#[cfg(feature = "snapshot")]
use crate::snapshot::Snapshot;

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
        let short = self.fast_calls.as_ref().map_or(0, |fast_calls| fast_calls.leaks());
        over(self.tickets.len(), self.calls())
            + over(self.deadlines.len(), self.calls.len())
            + over(self.run_queue.waiting(), self.calls.len())
            + self.retained.leaks()
            + self.completed.leaks()
            + self.load.leaks(self.calls())
            + if self.calls() == 0 { self.liveness.watched() } else { 0 }
            + short
    }

    /// What the node holds: a function of its state.
    #[cfg(feature = "snapshot")]
    #[doc(hidden)]
    pub fn snapshot(&self) -> Snapshot {
        let reserved = self.config.memory.used().saturating_sub(self.retained.bytes());
        Snapshot::new([
            ("calls", self.calls()),
            ("tickets", self.tickets.len()),
            ("call deadlines", self.deadlines.len()),
            ("run queue", self.run_queue.waiting()),
            ("running jobs", self.run_queue.running()),
            ("delayed requests", self.load.delayed()),
            ("watched peers", self.liveness.watched()),
            ("outstanding pings", self.liveness.questions()),
            ("reserved bytes", reserved as usize),
            ("leaks", self.leaks()),
            ("retained answers", self.retained_answers()),
            ("retained bytes", self.retained.bytes() as usize),
        ])
    }
}
