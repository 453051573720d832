//! Orders at this node that the state machine has not answered yet.

use std::collections::BTreeMap;

use chained_gpc::Deferred;

use crate::domain::{CallNumber, Token};

/// Receiver of the reply to an order.
pub(super) enum Asked {
    Deferred(Deferred),
    /// A call of this node to itself alone.
    Own(CallNumber),
}

/// The unanswered orders.
#[derive(Default)]
pub(super) struct Orders {
    asked: BTreeMap<Token, Asked>,
    next: Token,
}

impl Orders {
    /// A new token.
    pub(super) fn token(&mut self) -> Token {
        let token = self.next;
        self.next += 1;
        token
    }

    pub(super) fn insert(&mut self, token: Token, asked: Asked) {
        self.asked.insert(token, asked);
    }

    pub(super) fn remove(&mut self, token: Token) -> Option<Asked> {
        self.asked.remove(&token)
    }

    /// Drops the orders of a call of this node to itself.
    pub(super) fn cancel_own(&mut self, call: CallNumber) {
        self.asked.retain(|_, asked| !matches!(asked, Asked::Own(number) if *number == call));
    }
}
