//! What the receiving side of a link asks of the node that it serves.

use std::cell::RefCell;

use gpc_trees::{Id, Tree};

use crate::check::takes_as_they_come;
use chained_gpc::chain::Node;
use chained_gpc::link::Context;
use chained_gpc::wire::CallId;

/// A node, as the link to a peer sees it.
pub(super) struct Receiver<'a> {
    pub(super) node: &'a Node,
    pub(super) from: Id,
    /// Calls of which an answer was not awaited.
    pub(super) unawaited: RefCell<Vec<CallId>>,
}

impl Context for Receiver<'_> {
    fn tree(&self, _: u64) -> Option<Tree> {
        None
    }

    fn awaits(&self, call: CallId) -> bool {
        let awaits = self.node.awaits(self.from, call);
        if !awaits {
            self.unawaited.borrow_mut().push(call);
        }
        awaits
    }

    fn reply_max(&self) -> u64 {
        self.node.config().reply_max
    }

    fn streams(&self, func: u64) -> bool {
        takes_as_they_come(func)
    }

    fn passes_on(&self, call: CallId) -> bool {
        self.node.passes_on(self.from, call)
    }
}
