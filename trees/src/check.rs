//! Checks a whole tree before a call is sent.
//!
//! Built-in trees are checked by their closed forms, a registered split once per length (it is a function of the length
//! alone), an explicit shape position by position. The check never recurses: depth is bounded by memory, not by the
//! stack. Source: *Trees* in the design, "a bad tree is refused at the root before anything is sent".

use crate::error::TreeError;
use crate::limits::{Limits, Summary};
use crate::registered::Registered;
use crate::split::{Group, Groups};
use crate::tree::Tree;
use std::collections::BTreeMap;

impl Tree {
    /// Checks the whole tree over `n` ids before anything is sent, and returns its depth and fan-out.
    ///
    /// A built-in tree takes a few steps at any size; a registered split is called twice for every length that occurs;
    /// a shape is walked once.
    ///
    /// # Errors
    /// All errors of [`split`](Self::split) anywhere in the tree, depth or fan-out over the limits, and
    /// [`SplitNotDeterministic`](TreeError::SplitNotDeterministic). Positions are those of the list.
    pub fn check(&self, n: u32, limits: &Limits) -> Result<Summary, TreeError> {
        let limits = limits.bounded();
        if n == 0 {
            return Err(TreeError::Empty);
        }
        match self {
            Tree::Registered(split) => check_registered(split, n, &limits),
            Tree::Explicit(shape) if shape.len() != n => {
                Err(TreeError::SizeMismatch { tree: shape.len(), list: n })
            }
            Tree::Explicit(shape) => shape.walk(&limits, |_| {}),
            built_in => check_built_in(built_in, n, &limits),
        }
    }
}

fn check_built_in(tree: &Tree, n: u32, limits: &Limits) -> Result<Summary, TreeError> {
    let closed = "a built-in tree has closed forms";
    let summary = Summary { depth: tree.depth(n).expect(closed), fan_out: tree.fan_out(n).expect(closed) };
    if summary.fan_out > limits.fan_out {
        return Err(TreeError::FanOut { position: 0, fan_out: summary.fan_out, limit: limits.fan_out });
    }
    if summary.depth > limits.depth {
        return Err(TreeError::Depth { position: too_deep(tree, n, limits.depth)?, limit: limits.depth });
    }
    Ok(summary)
}

/// Returns a position one level below the limit, found by descending into the first of the deepest groups.
fn too_deep(tree: &Tree, n: u32, limit: u32) -> Result<u32, TreeError> {
    let (mut position, mut len) = (0, n);
    for _ in 0..=limit {
        let groups = tree.split(len)?;
        let deepest = groups.iter().rev().max_by_key(|group| tree.depth(group.len));
        let group = deepest.expect("a tree that is deeper has a child here");
        position += group.start;
        len = group.len;
    }
    Ok(position)
}

/// Splits every length that occurs once, the longest first. A group is shorter than the slice that it is cut from, so
/// when a length is taken, its deepest level is known.
fn check_registered(split: &Registered, n: u32, limits: &Limits) -> Result<Summary, TreeError> {
    let mut summary = Summary::default();
    // Length -> the deepest level at which it occurs, and a position there. Holds at most the lengths below n.
    let mut pending = BTreeMap::from([(n, (0u32, 0u32))]);
    while let Some((len, (level, position))) = pending.pop_last() {
        if level > limits.depth {
            return Err(TreeError::Depth { position, limit: limits.depth });
        }
        let groups = split_twice(split, len)?;
        let fan_out = u32::try_from(groups.len()).expect("a checked split has fewer groups than ids");
        if fan_out > limits.fan_out {
            return Err(TreeError::FanOut { position, fan_out, limit: limits.fan_out });
        }
        summary = Summary { depth: summary.depth.max(level), fan_out: summary.fan_out.max(fan_out) };
        for Group { start, len } in groups {
            let found = (level + 1, position + start);
            let known = pending.entry(len).or_insert(found);
            if known.0 < found.0 {
                *known = found;
            }
        }
    }
    Ok(summary)
}

fn split_twice(split: &Registered, n: u32) -> Result<Groups, TreeError> {
    let (first, second) = (split.answer(n)?, split.answer(n)?);
    if first != second {
        return Err(TreeError::SplitNotDeterministic { n, first: first.to_vec(), second: second.to_vec() });
    }
    crate::registered::check_groups(n, &first)?;
    Ok(first)
}
