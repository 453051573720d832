//! Orders at this node that the state machine has not answered yet.

use std::collections::BTreeMap;

use chained_gpc::Deferred;

use crate::domain::{CallNumber, Token};

/// Receiver of the reply to an order.
pub(super) enum ReplyTarget {
    Deferred(Deferred),
    /// A call of this node to itself alone.
    Own(CallNumber),
}

/// The unanswered orders.
#[derive(Default)]
pub(super) struct PendingOrders {
    pending: BTreeMap<Token, ReplyTarget>,
    next: Token,
}

impl PendingOrders {
    /// A new token.
    pub(super) fn token(&mut self) -> Token {
        let token = self.next;
        self.next += 1;
        token
    }

    pub(super) fn insert(&mut self, token: Token, target: ReplyTarget) {
        self.pending.insert(token, target);
    }

    pub(super) fn remove(&mut self, token: Token) -> Option<ReplyTarget> {
        self.pending.remove(&token)
    }

    #[cfg(feature = "snapshot")]
    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    /// Drops the orders of a call of this node to itself.
    pub(super) fn cancel_own(&mut self, call: CallNumber) {
        self.pending.retain(|_, target| !matches!(target, ReplyTarget::Own(number) if *number == call));
    }
}
