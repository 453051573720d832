//! The trees that the arguments of a simulation name.

use gpc_trees::TreeName;

use super::costs::RunCosts;
use super::fastest;
use crate::args::SimArgs;
use crate::refused::Refused;

/// Returns the given tree, binary by default.
pub(super) fn tree_name(args: &SimArgs, costs: &RunCosts) -> Result<TreeName, Refused> {
    args.tree.as_ref().map_or(Ok(TreeName::Binary), |tree| fastest::named(tree, args, costs))
}

/// Returns the trees to compare.
pub(super) fn trees(args: &SimArgs, costs: &RunCosts) -> Result<Vec<TreeName>, Refused> {
    args.compare.iter().map(|tree| fastest::named(tree, args, costs)).collect()
}
