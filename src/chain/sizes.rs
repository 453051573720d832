//! Limits of what a node remembers about past calls, and of its work at one time. Beyond a limit the node still works,
//! by a slower path: no guarantee depends on a limit.

/// Limits of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Number of roots whose ended calls are remembered as bits: those of a large machine that all call at once. Half a
    /// KiB for each.
    pub windows: u16,
    /// Maximum number of plans; 0 counts as 1. On a large machine, one for each root that calls over the same group.
    pub plans: u16,
    /// Maximum number of suspects' descendants that are sent a heartbeat request at a time; 0 counts as 1. Each takes a
    /// link, which may not exist yet.
    pub descendants: u16,
    /// Number of children that requests of peers may be forwarded to at one time, some milliseconds of work; 0 counts
    /// as 1.
    pub work: u16,
    /// Number of children that a peer's request is forwarded to at once; 0 counts as 1. The rest follow after other
    /// inputs.
    pub batch: u16,
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes { windows: 64, plans: 64, descendants: 64, work: 4096, batch: 64 }
    }
}
