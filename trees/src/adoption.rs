//! Adoption: the parent of a lost id takes over the children of the lost id.
//!
//! The parent splits the lost id's slice by the same rule and adopts its children, each with its original slice. So
//! subtrees never change, and work that the orphans have already done stays valid. A lost id among the adopted children
//! is treated the same way, down to the leaves.

use crate::{Group, Groups, Tree, TreeError};

/// Returns the groups of a lost child's children, in positions of its parent's slice.
///
/// `tree` is the parent's tree, `lost` the group of the lost child. The returned groups cover all of `lost` except its
/// first position, in list order. The tree of each is [`Tree::subtree`] of the parent's tree and that group.
///
/// # Errors
/// The errors of [`Tree::split`] for an invalid registered function or shape.
pub fn adopted(tree: &Tree, lost: Group) -> Result<Groups, TreeError> {
    let groups = tree.subtree(lost).split(lost.len)?;
    Ok(groups.iter().map(|group| Group { start: lost.start + group.start, len: group.len }).collect())
}
