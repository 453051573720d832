//! How full a node's tables are, for whoever watches that nothing stays there for as long as the process lives: what is left of a call that is over, nothing else shows.

use super::Node;

impl Node {
    /// With how many peers the node takes itself to be linked.
    pub fn links(&self) -> usize {
        self.recent.links()
    }

    /// Bytes that answers which are kept have taken of their part of the memory, where that is counted.
    pub fn kept_bytes(&self) -> u64 {
        self.kept.bytes()
    }

    /// How many entries there are that belong to no call, answer, root or plan which the node holds: none, whatever has happened. Each table is counted against the one that it leads to.
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
