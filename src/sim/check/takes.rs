//! What nodes take at most: the limits of a world as they stand at each id.

use gpc_trees::Id;

/// What nodes take at most, where a world gives them less than usual.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Calls in flight at a node.
    pub calls_max: usize,
    /// Bytes of a request's data.
    pub data_max: u64,
    /// Bytes of a subtree's reply, header and data together.
    pub reply_max: u64,
    /// Children of lost ids that one call adopts at an id.
    pub adopted_max: u32,
    /// Children that an id sends a request on to.
    pub children_max: u32,
    /// Whether those with even ids have no such limit, and send it on to as many as the tree gives them.
    pub children_odd: bool,
    /// Bytes that a node may hold of calls, replies and kept answers together.
    pub memory_max: u64,
}

impl Limits {
    /// No limits at all.
    pub const NONE: Limits = Limits {
        calls_max: usize::MAX,
        data_max: u64::MAX,
        reply_max: u64::MAX,
        adopted_max: u32::MAX,
        children_max: u32::MAX,
        children_odd: false,
        memory_max: u64::MAX,
    };

    /// The most children that this id sends a request on to.
    pub fn children_of(&self, id: Id) -> u32 {
        if self.children_odd && id.is_multiple_of(2) { u32::MAX } else { self.children_max }
    }
}
