//! Explicit shapes: a tree as the subtree sizes of its positions, in preorder.
//!
//! A subtree is a window of the sizes, shared without a copy, and the wire carries only that window. Sizes may come
//! from a peer: the constructor checks each size by itself, and every split checks its own children. So an error is
//! found where it is, and never leads outside the shape. Source: *Trees* in the design, explicit shape.

use crate::error::{GroupFault, TreeError};
use crate::limits::{Limits, MAX_FAN_OUT, MAX_POSITIONS, Summary};
use crate::split::{Group, Groups};
use std::fmt;
use std::sync::Arc;

/// A tree as subtree sizes in preorder. A clone and a window share storage.
#[derive(Clone)]
pub struct Shape {
    sizes: Arc<[u32]>,
    start: u32,
    len: u32,
}

impl Shape {
    /// Returns the shape for the size of the subtree at each position, including the position itself, in preorder.
    ///
    /// It checks that the root's size is the length, and that each other size is at least 1 and at most the rest of the
    /// list. [`Tree::check`](crate::Tree::check) checks for the whole shape, and each split for its children, that
    /// subtrees lie within their parents'.
    pub fn from_sizes(sizes: Vec<u32>) -> Result<Shape, TreeError> {
        if sizes.len() > MAX_POSITIONS as usize {
            return Err(TreeError::TooMany { n: sizes.len() as u64, limit: MAX_POSITIONS });
        }
        let len = u32::try_from(sizes.len()).expect("checked against a smaller bound");
        if len == 0 {
            return Err(TreeError::Empty);
        }
        for (position, &size) in (0..len).zip(&sizes) {
            let most = len - position;
            let least = if position == 0 { len } else { 1 };
            if size < least || size > most {
                return Err(TreeError::BadSize { position, size, least, most });
            }
        }
        Ok(Shape { sizes: sizes.into(), start: 0, len })
    }

    /// Number of positions.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether it has no positions, which only the window of a group outside of its shape has not.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The subtree sizes in preorder, as on the wire: 4 bytes each.
    pub fn sizes(&self) -> &[u32] {
        &self.sizes[self.start as usize..][..self.len as usize]
    }

    /// Returns the window of a group, cut to this shape.
    pub(crate) fn window(&self, group: Group) -> Shape {
        let start = group.start.min(self.len);
        let len = group.len.min(self.len - start);
        Shape { sizes: Arc::clone(&self.sizes), start: self.start + start, len }
    }

    /// Appends the children: one at position 1, the next where its subtree ends, and so on.
    pub(crate) fn split(&self, n: u32, groups: &mut Groups) -> Result<(), TreeError> {
        let sizes = self.sizes();
        if self.len != n {
            return Err(TreeError::SizeMismatch { tree: self.len, list: n });
        }
        if sizes[0] != n {
            return Err(TreeError::BadSize { position: 0, size: sizes[0], least: n, most: n });
        }
        let mut start = 1;
        while start < n {
            let len = sizes[start as usize];
            if len > n - start {
                return Err(sum_fault(n, u64::from(start) + u64::from(len)));
            }
            if groups.len() >= MAX_FAN_OUT as usize {
                return Err(TreeError::FanOut { position: 0, fan_out: MAX_FAN_OUT + 1, limit: MAX_FAN_OUT });
            }
            groups.push(Group { start, len });
            start += len;
        }
        Ok(())
    }

    /// Walks the whole shape in preorder, checks it, and calls `visit` with the depth of each position.
    pub(crate) fn walk(&self, limits: &Limits, mut visit: impl FnMut(u32)) -> Result<Summary, TreeError> {
        let mut summary = Summary::default();
        // The positions from the root down to the current one; bounded by the depth limit.
        let mut path: Vec<Open> = Vec::new();
        for (position, &size) in (0..self.len).zip(self.sizes()) {
            while path.pop_if(|open| open.end <= position).is_some() {}
            let depth = u32::try_from(path.len()).expect("the path is within the limit of depth");
            if depth > limits.depth {
                return Err(TreeError::Depth { position, limit: limits.depth });
            }
            let end = u64::from(position) + u64::from(size);
            match path.last_mut() {
                Some(parent) => parent.adopt(end, limits, &mut summary)?,
                None if size != self.len => {
                    return Err(TreeError::BadSize { position, size, least: self.len, most: self.len });
                }
                None => {}
            }
            summary.depth = summary.depth.max(depth);
            visit(depth);
            path.push(Open { position, end: position + size, children: 0 });
        }
        Ok(summary)
    }
}

/// A position whose subtree is being walked.
struct Open {
    position: u32,
    end: u32,
    children: u32,
}

impl Open {
    fn adopt(&mut self, child_end: u64, limits: &Limits, summary: &mut Summary) -> Result<(), TreeError> {
        if child_end > u64::from(self.end) {
            return Err(sum_fault(self.end - self.position, child_end - u64::from(self.position)));
        }
        self.children += 1;
        if self.children > limits.fan_out {
            let (position, limit) = (self.position, limits.fan_out);
            return Err(TreeError::FanOut { position, fan_out: self.children, limit });
        }
        summary.fan_out = summary.fan_out.max(self.children);
        Ok(())
    }
}

/// The children of a slice of `n` positions extend to `end`, which is beyond it.
fn sum_fault(n: u32, end: u64) -> TreeError {
    TreeError::BadGroups { n, fault: GroupFault::Sum { covered: end - 1, rest: n - 1 } }
}

impl PartialEq for Shape {
    fn eq(&self, other: &Shape) -> bool {
        self.sizes() == other.sizes()
    }
}

impl Eq for Shape {}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shape").field(&self.sizes()).finish()
    }
}
