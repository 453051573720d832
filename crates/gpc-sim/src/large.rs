//! Large worlds: where they begin, and how much less they simulate.

use gpc_trees::Id;

/// Worlds with more ids than this are large: they simulate less of what would dominate the run.
pub(super) const LARGE: u32 = 16_384;

/// In a large world, work that would dominate the run is simulated at one in this many ids.
pub(super) const FEW: Id = 16;
