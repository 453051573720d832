//! The budget of a turn of the event loop: all work that is ready, or about as much as the driver allows.
//!
//! The system reports readiness only once, so a turn records the work that it leaves: links are noted, and the next
//! turn checks rings and queues again.

use super::event_loop::{EventLoop, MAIL_BUDGET};

/// Length of a short message, bytes: a request or a reply with almost no data.
const SHORT_MESSAGE: usize = 64;

/// Minimum number of bytes that a turn with a budget reads, about ten short messages, so that long messages are not
/// read in tiny pieces.
const READ_MIN: usize = 1 << 10;

impl EventLoop {
    /// Whether this turn has exhausted its budget.
    #[inline(always)]
    pub(super) fn has_done_enough(&self) -> bool {
        self.done >= self.budget
    }

    /// Maximum number of items of one kind in this turn: at least one, so that no kind starves.
    pub(super) fn share(&self) -> usize {
        MAIL_BUDGET.min(self.budget.saturating_sub(self.done)).max(1)
    }

    /// Begins a turn with a budget: the links that the last turn has left come first. If mail waits, half of the budget
    /// is reserved for it.
    #[cold]
    pub(super) fn begin_bounded(&mut self) {
        let budget = self.budget;
        if self.has_mail() || !self.started.is_empty() {
            self.budget = budget.div_ceil(2);
        }
        self.read_more();
    }

    /// Resumes reading the links that had more data than their last turn has read.
    #[inline(never)]
    pub(super) fn read_more(&mut self) {
        let mut keys = std::mem::take(&mut self.links.unread);
        let mut read = 0;
        while let Some(key) = keys.get(read).copied().filter(|_| !self.has_done_enough()) {
            read += 1;
            self.links.takes_up(key);
            self.read_link(key, true);
        }
        // Links that had no turn yet precede those that have more data.
        keys.drain(..read);
        keys.append(&mut self.links.unread);
        self.links.unread = keys;
    }

    /// Number of bytes that hold about as many short messages as the rest of the budget.
    #[cold]
    pub(super) fn bytes_within_budget(&self) -> usize {
        self.budget.saturating_sub(self.done).saturating_mul(SHORT_MESSAGE).max(READ_MIN)
    }
}

#[cfg(test)]
mod tests {
    use crate::peering::LinkKey;
    use crate::runtime::Node;

    #[test]
    fn a_turn_that_has_done_its_budget_leaves_links_in_their_order() {
        let mut node = Node::builder(0).polled().unwrap();
        let node = node.event_loop_mut();
        let keys = vec![LinkKey(100), LinkKey(200)];
        for (done, budget, left) in [(5, 5, 2), (6, 5, 2), (4, 5, 0)] {
            (node.done, node.budget, node.links.unread) = (done, budget, keys.clone());
            node.read_more();
            assert_eq!(node.links.unread, keys[..left]);
        }
        let mut share = |done, budget| {
            (node.done, node.budget) = (done, budget);
            (node.share(), node.bytes_within_budget())
        };
        assert_eq!(
            [share(0, 3), share(3, 3), share(9, 3)],
            [(3, 1024), (1, 1024), (1, 1024)],
            "no kind starves"
        );
        assert_eq!([share(0, 100), share(0, usize::MAX)], [(100, 6400), (1024, usize::MAX)]);
    }
}
