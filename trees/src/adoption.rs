//! Adoption: who takes over the children of an id that was lost.
//!
//! The parent of the lost id splits the lost one's slice by the same rule and adopts its children, each with the slice that it always had. So who is in
//! whose subtree never changes, and what the orphans have already done stays good. A lost one among them is treated the same way, down to the leaves.

use crate::{Group, Groups, Tree, TreeError};

/// The groups of a lost child's children, in positions of its parent's slice.
///
/// `tree` is the parent's, `lost` the group that the lost child headed. The groups cover all of `lost` but its first position, in list order; the tree of each is
/// [`Tree::subtree`] of the parent's tree and that group.
///
/// # Errors
/// What [`Tree::split`] says of a registered function or a shape that is wrong.
pub fn adopted(tree: &Tree, lost: Group) -> Result<Groups, TreeError> {
    let groups = tree.subtree(lost).split(lost.len)?;
    Ok(groups.iter().map(|group| Group { start: lost.start + group.start, len: group.len }).collect())
}
