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
    pub(super) fn has_spent_budget(&self) -> bool {
        self.turn.done >= self.turn.budget
    }

    /// Maximum number of items of one kind in this turn: at least one, so that no kind starves.
    pub(super) fn share(&self) -> usize {
        MAIL_BUDGET.min(self.turn.budget.saturating_sub(self.turn.done)).max(1)
    }

    /// Begins a turn with a budget: the links that the last turn has left come first. If mail waits, half of the budget
    /// is reserved for it.
    #[cold]
    pub(super) fn begin_bounded(&mut self) {
        let budget = self.turn.budget;
        if self.has_mail() || !self.calls.started.is_empty() {
            self.turn.budget = budget.div_ceil(2);
        }
        self.read_more();
    }

    /// Resumes reading the links that had more data than their last turn has read.
    #[inline(never)]
    pub(super) fn read_more(&mut self) {
        let mut keys = std::mem::take(&mut self.connections.unread);
        let mut read = 0;
        while let Some(key) = keys.get(read).copied().filter(|_| !self.has_spent_budget()) {
            read += 1;
            self.connections.clear_unread(key);
            self.read_link(key, true);
        }
        // Links that had no turn yet precede those that have more data.
        keys.drain(..read);
        keys.append(&mut self.connections.unread);
        self.connections.unread = keys;
    }

    /// Number of bytes that hold about as many short messages as the rest of the budget.
    #[cold]
    pub(super) fn bytes_within_budget(&self) -> usize {
        self.turn.budget.saturating_sub(self.turn.done).saturating_mul(SHORT_MESSAGE).max(READ_MIN)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use crate::link::peering::LinkKey;
    use crate::runtime::{Call, CallHandle, Functions, LinkKind, Listener, Node, Placement};

    #[test]
    fn a_turn_that_has_done_its_budget_leaves_links_in_their_order() {
        let mut node = Node::builder(0).polled().unwrap();
        let node = node.event_loop_mut();
        let keys = vec![LinkKey(100), LinkKey(200)];
        for (done, budget, left) in [(5, 5, 2), (6, 5, 2), (4, 5, 0)] {
            (node.turn.done, node.turn.budget, node.connections.unread) = (done, budget, keys.clone());
            node.read_more();
            assert_eq!(node.connections.unread, keys[..left]);
        }
        let mut share = |done, budget| {
            (node.turn.done, node.turn.budget) = (done, budget);
            (node.share(), node.bytes_within_budget())
        };
        assert_eq!(
            [share(0, 3), share(3, 3), share(9, 3)],
            [(3, 1024), (1, 1024), (1, 1024)],
            "no kind starves"
        );
        assert_eq!([share(0, 100), share(0, usize::MAX)], [(100, 6400), (1024, usize::MAX)]);
    }

    /// A link with more data than a turn reads had the next turn as well. The others waited until it had nothing.
    #[test]
    fn links_take_turns_if_each_has_more_than_the_budget() {
        let functions = Functions::new();
        let executed: Arc<[AtomicU64; 4]> = Arc::default();
        let counts = executed.clone();
        let count = functions.at(Placement::Inline).func("count", move |request, _| {
            counts[request.root() as usize].fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        let count = count.unwrap();
        let listener = Listener::bind(&LinkKind::Unix.fresh_address(0)).unwrap();
        let address = listener.address().unwrap();
        let builder = |id| Node::builder(id).link(LinkKind::Unix).functions(&functions);
        let mut node = builder(0).listener(listener).polled().unwrap();
        let call = || Call::new(count).ids([0]).watch().data(vec![7; 300]);
        let mut others = Vec::new();
        for id in 1..4 {
            let peers = [(0, address.clone())].into_iter().collect();
            let mut other = builder(id).peers(peers).polled().unwrap();
            let mut first = other.call(call()).unwrap();
            let ended = (0..10_000).any(|_| {
                node.progress(Duration::ZERO).unwrap();
                other.progress(Duration::ZERO).unwrap();
                first.test().is_some()
            });
            assert!(ended, "id {id} is not linked");
            others.push(other);
        }
        let mut flying: Vec<CallHandle> = Vec::new();
        for other in &mut others {
            // More than three turns read of a link.
            flying.extend((0..16).map(|_| other.call(call()).unwrap()));
            other.progress(Duration::ZERO).unwrap();
        }
        let executed = || [1, 2, 3].map(|id: usize| executed[id].load(Ordering::Relaxed));
        assert_eq!(executed(), [1; 3]);
        // One turn sees that all have something, and each has one of the next ones.
        for _ in 0..4 {
            node.progress_at_most(1).unwrap();
        }
        let after = executed();
        assert!(after.iter().all(|count| (2..17).contains(count)), "{after:?}");
    }
}
