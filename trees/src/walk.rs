//! Whole trees, for drawing and for summaries: the number of ids at each depth, and all edges.
//!
//! No call needs this module. Nothing recurses.

use crate::error::TreeError;
use crate::limits::{Limits, MAX_DEPTH};
use crate::split::Group;
use crate::tree::Tree;
use std::collections::BTreeMap;

/// Returns the number of ids at each depth of a tree over `n` ids, the root's depth first. The numbers add up to `n`.
///
/// A length that occurs several times at a depth is split once, so a built-in tree over millions of ids takes few
/// steps.
///
/// # Errors
/// The errors of [`Tree::split`] anywhere in the tree, and a tree deeper than [`MAX_DEPTH`].
pub fn levels(tree: &Tree, n: u32) -> Result<Vec<u32>, TreeError> {
    let mut counts = Vec::new();
    if let Tree::Explicit(shape) = tree {
        tree.check(n, &Limits::default())?;
        shape.walk(&Limits::default(), |depth| {
            if depth as usize == counts.len() {
                counts.push(0);
            }
            counts[depth as usize] += 1;
        })?;
        return Ok(counts);
    }
    // Length -> number of slices of that length at this depth, and the start of the first one.
    let mut here = BTreeMap::from([(n, (1u32, 0u32))]);
    while let Some((_, &(_, position))) = here.first_key_value() {
        if counts.len() > MAX_DEPTH as usize {
            return Err(TreeError::Depth { position, limit: MAX_DEPTH });
        }
        counts.push(here.values().map(|(count, _)| count).sum());
        let mut below = BTreeMap::new();
        for (len, (count, position)) in here {
            for Group { start, len } in tree.split(len)? {
                below.entry(len).or_insert((0, position + start)).0 += count;
            }
        }
        here = below;
    }
    Ok(counts)
}

/// Returns the n - 1 edges of a tree over `n` ids as (parent position, child position), the children in preorder.
///
/// The iterator ends after an error. It stores the positions that are still to come, at most n.
pub fn edges(tree: &Tree, n: u32) -> Edges<'_> {
    let mut edges = Edges { tree, pending: Vec::new(), error: None };
    edges.push_children(0, n);
    edges
}

/// The edges of a tree; see [`edges`].
#[derive(Clone, Debug)]
pub struct Edges<'a> {
    tree: &'a Tree,
    /// Parent position, and the child's group in positions of the whole list; the next one is last.
    pending: Vec<(u32, Group)>,
    error: Option<TreeError>,
}

impl Edges<'_> {
    fn push_children(&mut self, position: u32, len: u32) {
        let subtree =
            if position == 0 { self.tree.clone() } else { self.tree.subtree(Group { start: position, len }) };
        match subtree.split(len) {
            Ok(groups) => {
                let placed =
                    |group: &Group| (position, Group { start: position + group.start, len: group.len });
                self.pending.extend(groups.iter().rev().map(placed));
            }
            Err(error) => {
                self.pending.clear();
                self.error = Some(error);
            }
        }
    }
}

impl Iterator for Edges<'_> {
    type Item = Result<(u32, u32), TreeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.error.take() {
            return Some(Err(error));
        }
        let (parent, child) = self.pending.pop()?;
        self.push_children(child.start, child.len);
        Some(Ok((parent, child.start)))
    }
}

impl std::iter::FusedIterator for Edges<'_> {}
