//! User trees over positions `0..n`, laid out once at the root.
//!
//! A children function or a parent table becomes a preorder and a shape, which are sent with the call, so other nodes
//! need no registration. A description that is not a tree is rejected with a counter-example that names positions; it
//! never causes an endless loop or recursion. Source: *Trees* in the design, user trees.

use crate::error::TreeError;
use crate::ids::IdList;
use crate::limits::{Limits, MAX_POSITIONS};
use crate::shape::Shape;
use crate::tree::Tree;

/// "No parent" in the tables below; no position has this number, see [`MAX_POSITIONS`].
const NONE: u32 = u32::MAX;

/// A user tree: the preorder of its positions, and its shape.
///
/// It is built and checked once, where the call is made, and sent with the call, so the other nodes need not know it. A
/// call takes it as its tree, and its ids in the order of your positions.
///
/// ```
/// use gpc_trees::{Layout, Limits, TreeError};
///
/// // Position 0 has the children 1 and 2, position 2 has 3 and 4.
/// let layout = Layout::from_parents(&[None, Some(0), Some(0), Some(2), Some(2)], &Limits::default())?;
/// assert_eq!((layout.len(), layout.order()), (5, &[0, 1, 2, 3, 4][..]));
/// // The same as a tree file, and as a function.
/// assert_eq!(Layout::parse("0: 1 2\n2: 3 4\n", &Limits::default()), Ok(layout.clone()));
/// let children = |position: u32, children: &mut Vec<u32>| match position {
///     0 => children.extend([1, 2]),
///     2 => children.extend([3, 4]),
///     _ => {}
/// };
/// assert_eq!(Layout::from_children(5, children, &Limits::default())?, layout);
/// # Ok::<(), TreeError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    order: Box<[u32]>,
    shape: Shape,
}

impl Layout {
    /// Lays out the tree of a children function: given a position, it appends the positions of its children in tree
    /// order. Position 0 is the root.
    ///
    /// The function is called twice for every position, and rejected if the answers differ. The reported error is the
    /// first one in the order of positions: out of range, its own child, two parents, fan-out. Then follow the errors
    /// of the whole: a cycle, the root as a child, unreachable positions, depth.
    pub fn from_children(
        n: u32,
        children: impl Fn(u32, &mut Vec<u32>),
        limits: &Limits,
    ) -> Result<Layout, TreeError> {
        let mut links = Links::new(n.into())?;
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for position in 0..n {
            first.clear();
            second.clear();
            children(position, &mut first);
            children(position, &mut second);
            if first != second {
                return Err(TreeError::ChildrenNotDeterministic { position, first, second });
            }
            links.add(position, &first, limits)?;
        }
        links.lay_out(limits)
    }

    /// Lays out the tree of a parent table: `parents[i]` is the parent of position i, `None` for position 0, the root.
    /// Children are in ascending order.
    ///
    /// The reported error is the first one in the order of positions: out of range, its own child, no parent; then a
    /// cycle, fan-out and depth.
    pub fn from_parents(parents: &[Option<u32>], limits: &Limits) -> Result<Layout, TreeError> {
        let n = links_bound(parents.len() as u64)?;
        for (child, &parent) in (0..n).zip(parents) {
            match parent {
                Some(parent) if parent >= n => return Err(TreeError::OutOfRange { parent, child, n }),
                Some(parent) if parent == child => return Err(TreeError::OwnChild { position: child }),
                None if child > 0 => return Err(TreeError::Parentless { position: child }),
                _ => {}
            }
        }
        Links::from_parents(parents, n).lay_out(limits)
    }

    /// The caller's positions in preorder: place i of the list is the caller's position `order()[i]`. The root comes
    /// first: `order()[0]` is 0.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// The tree over the list in preorder: [`Tree::Explicit`].
    pub fn tree(&self) -> Tree {
        Tree::Explicit(self.shape.clone())
    }

    /// Number of positions, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a layout has at least its root")]
    pub fn len(&self) -> u32 {
        self.shape.len()
    }

    /// Returns the ids of the caller's positions in preorder: the list that [`tree`](Self::tree) splits.
    ///
    /// # Errors
    /// [`SizeMismatch`](TreeError::SizeMismatch) if the list is not as long as the tree.
    pub fn apply(&self, ids: &IdList) -> Result<IdList, TreeError> {
        if ids.len() != self.len() {
            return Err(TreeError::SizeMismatch { tree: self.len(), list: ids.len() });
        }
        Ok(ids.permuted(&self.order))
    }
}

/// Returns the number of positions, if it is within the limits of a layout.
fn links_bound(n: u64) -> Result<u32, TreeError> {
    match u32::try_from(n) {
        Ok(0) => Err(TreeError::Empty),
        Ok(n) if n <= MAX_POSITIONS => Ok(n),
        _ => Err(TreeError::TooMany { n, limit: MAX_POSITIONS }),
    }
}

/// Parents and children by position. Every position has at most one parent, and no position is its own parent; laying
/// the links out shows whether they form a tree.
pub(crate) struct Links {
    /// The parent of each position, or `NONE`.
    parents: Vec<u32>,
    /// The children of all positions, concatenated in the order of their parents.
    children: Vec<u32>,
    /// The end of each position's children in `children`.
    ends: Vec<u32>,
}

impl Links {
    pub(crate) fn new(n: u64) -> Result<Links, TreeError> {
        let n = links_bound(n)? as usize;
        Ok(Links { parents: vec![NONE; n], children: Vec::with_capacity(n - 1), ends: Vec::with_capacity(n) })
    }

    /// Adds the children of the next position; positions are added in order, each once.
    pub(crate) fn add(&mut self, parent: u32, children: &[u32], limits: &Limits) -> Result<(), TreeError> {
        debug_assert_eq!(parent as usize, self.ends.len(), "positions come in order");
        for &child in children {
            let Some(place) = self.parents.get_mut(child as usize) else {
                let n = u32::try_from(self.parents.len()).expect("bounded when it was made");
                return Err(TreeError::OutOfRange { parent, child, n });
            };
            if child == parent {
                return Err(TreeError::OwnChild { position: child });
            }
            if *place != NONE {
                return Err(TreeError::TwoParents { child, first: *place, second: parent });
            }
            *place = parent;
            self.children.push(child);
        }
        check_fan_out(parent, children.len(), limits)?;
        self.ends.push(u32::try_from(self.children.len()).expect("each position is a child once at most"));
        Ok(())
    }

    /// Builds the links of a table whose parents are in range and not their own children.
    fn from_parents(parents: &[Option<u32>], n: u32) -> Links {
        let parents: Vec<u32> = parents.iter().map(|parent| parent.unwrap_or(NONE)).collect();
        let with_parent = || (0..n).zip(&parents).filter(|&(_, &parent)| parent != NONE);
        let mut ends = vec![0u32; n as usize];
        with_parent().for_each(|(_, &parent)| ends[parent as usize] += 1);
        let mut total = 0;
        for end in &mut ends {
            // First the start of the position's children; filling in the children moves it to their end.
            total += std::mem::replace(end, total);
        }
        let mut children = vec![0; total as usize];
        for (child, &parent) in with_parent() {
            let place = &mut ends[parent as usize];
            children[*place as usize] = child;
            *place += 1;
        }
        Links { parents, children, ends }
    }

    fn children(&self, position: u32) -> &[u32] {
        let position = position as usize;
        let start = position.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.children[start as usize..self.ends[position] as usize]
    }

    /// Computes the preorder of the positions, or returns why they do not form a tree.
    pub(crate) fn lay_out(self, limits: &Limits) -> Result<Layout, TreeError> {
        let limits = limits.bounded();
        let n = self.parents.len();
        if self.parents[0] != NONE {
            // Every position has at most one parent, so a walk from a root without a parent reaches each position at
            // most once.
            return Err(self.fault(&[]));
        }
        let mut order = Vec::with_capacity(n);
        let mut parent_places: Vec<u32> = Vec::with_capacity(n);
        let mut depths: Vec<u32> = Vec::with_capacity(n);
        // Position and its parent's place; holds each position at most once.
        let mut pending = vec![(0u32, NONE)];
        while let Some((position, parent_place)) = pending.pop() {
            let place = u32::try_from(order.len()).expect("no more places than positions");
            let depth = depths.get(parent_place as usize).map_or(0, |depth| depth + 1);
            if depth > limits.depth {
                return Err(TreeError::Depth { position, limit: limits.depth });
            }
            check_fan_out(position, self.children(position).len(), &limits)?;
            order.push(position);
            parent_places.push(parent_place);
            depths.push(depth);
            pending.extend(self.children(position).iter().rev().map(|&child| (child, place)));
        }
        if order.len() < n {
            return Err(self.fault(&order));
        }
        let mut sizes = vec![1u32; n];
        for place in (1..n).rev() {
            sizes[parent_places[place] as usize] += sizes[place];
        }
        Ok(Layout { order: order.into(), shape: Shape::from_sizes(sizes)? })
    }

    /// Returns why the root does not reach every position: a cycle if there is one, else positions without a parent.
    fn fault(&self, reached: &[u32]) -> TreeError {
        if let Some(path) = self.cycle() {
            return TreeError::Cycle { path };
        }
        if self.parents[0] != NONE {
            return TreeError::RootHasParent { parent: self.parents[0] };
        }
        let first = (0..).zip(&self.parents).skip(1).find(|&(_, &parent)| parent == NONE);
        let (first, _) = first.expect("without a cycle, each way up ends at a position without a parent");
        let count = u32::try_from(self.parents.len() - reached.len()).expect("no more than positions");
        TreeError::Unreachable { first, count }
    }

    /// Returns the first cycle, from parent to child, its lowest position first. Each position is visited once.
    fn cycle(&self) -> Option<Vec<u32>> {
        // The start of the upward walk that first visited each position.
        let mut passed = vec![NONE; self.parents.len()];
        for from in (0..).take(self.parents.len()) {
            let mut at = from;
            while at != NONE && passed[at as usize] == NONE {
                passed[at as usize] = from;
                at = self.parents[at as usize];
            }
            if at != NONE && passed[at as usize] == from {
                return Some(self.cycle_through(at));
            }
        }
        None
    }

    fn cycle_through(&self, position: u32) -> Vec<u32> {
        let mut path = vec![position];
        let mut at = self.parents[position as usize];
        while at != position {
            path.push(at);
            at = self.parents[at as usize];
        }
        path.reverse();
        let lowest = (0..path.len()).min_by_key(|&index| path[index]).unwrap_or_default();
        path.rotate_left(lowest);
        path
    }
}

fn check_fan_out(position: u32, fan_out: usize, limits: &Limits) -> Result<(), TreeError> {
    let limit = limits.bounded().fan_out;
    let fan_out = u32::try_from(fan_out).unwrap_or(u32::MAX);
    if fan_out > limit { Err(TreeError::FanOut { position, fan_out, limit }) } else { Ok(()) }
}
