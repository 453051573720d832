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

#[cfg(test)]
mod tests {
    use super::*;

    /// The order of a cancelled call of a node to itself has no other end.
    #[test]
    fn the_order_of_a_cancelled_call_is_dropped() {
        let mut orders = PendingOrders::default();
        let [one, two] = [1, 2].map(|call| {
            let token = orders.token();
            orders.insert(token, ReplyTarget::Own(call));
            token
        });
        orders.cancel_own(1);
        assert!(orders.remove(one).is_none());
        assert!(matches!(orders.remove(two), Some(ReplyTarget::Own(2))));
    }
}
