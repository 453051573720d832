//! The memory that one call reserves.

use crate::wire::budget::{Budget, Share};
use crate::wire::message::SubtreeReply;

/// The reservation of a call.
#[derive(Debug, Default)]
pub(super) struct Reservation {
    pub(super) share: Share,
    /// The part for the node's own reply, in bytes.
    pub(super) own: u64,
}

impl Reservation {
    /// Returns an empty reservation within a budget.
    pub(super) fn of(budget: &Budget) -> Reservation {
        Reservation { share: budget.share(), own: 0 }
    }

    /// Sets the size of the node's own reply; returns false if it is over the budget.
    pub(super) fn own(&mut self, bytes: u64) -> bool {
        let rest = self.share.bytes().saturating_sub(self.own);
        let fits = self.share.resize(rest.saturating_add(bytes));
        if fits {
            self.own = bytes;
        }
        fits
    }

    /// Subtracts a reply that has been merged and dropped.
    pub(super) fn merged(&mut self, reply: &SubtreeReply) {
        let _ = self.share.resize(self.share.bytes().saturating_sub(reply.len()));
    }
}
