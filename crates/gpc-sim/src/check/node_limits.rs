//! Limits of nodes, as they apply at each id.

use gpc_trees::Id;

/// Limits of nodes, where a world sets them lower than usual.
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
    /// Children to which an id forwards a request.
    pub children_max: u32,
    /// Whether even ids are exempt from `children_max`.
    pub children_odd: bool,
    /// Bytes that a node may hold of calls, replies and retained answers together.
    pub memory_max: u64,
}

impl Limits {
    /// No limits.
    pub const NONE: Limits = Limits {
        calls_max: usize::MAX,
        data_max: u64::MAX,
        reply_max: u64::MAX,
        adopted_max: u32::MAX,
        children_max: u32::MAX,
        children_odd: false,
        memory_max: u64::MAX,
    };

    /// Largest number of children to which this id forwards a request.
    pub fn children_of(&self, id: Id) -> u32 {
        if self.children_odd && id.is_multiple_of(2) { u32::MAX } else { self.children_max }
    }
}
