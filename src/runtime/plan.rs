//! What the caller's side keeps of a call while it is under way: enough to tell whose parts come back.

use gpc_trees::{Id, IdList};

/// What the caller's side remembers of a call.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) root: Id,
    /// The ids that execute, in tree order.
    pub(super) ids: IdList,
    /// The same in the caller's order.
    pub(super) asked: IdList,
    /// Whether a callback makes one reply of all.
    pub(super) merged: bool,
}
