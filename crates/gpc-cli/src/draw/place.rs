//! Places the ids of a tree in a picture: in layers, by a tidy-tree algorithm.
//!
//! The algorithm is that of Reingold and Tilford. Every subtree keeps the outline of its two sides. Neighbouring
//! subtrees are pushed together until their outlines touch, and a parent is centred over its children. Outlines begin
//! with the deepest level and are merged into the taller of the two, so the time is linear in the number of ids. No
//! function recurses.
//!
//! A long run of leaf siblings, or a long chain that ends in a leaf, would make a picture too wide or too tall. It is
//! folded into a block of rows, which the algorithm places like one wide id. If there is no room for all ids, a subtree
//! or a long run of subtrees becomes a box with the number of its ids, placed in the same way.

use super::Sketch;

/// Shortest run that is folded; fewer ids fit in a line.
const FOLDED_MIN: u32 = 24;

/// Columns per row of a block, so that it is wider than tall.
const BLOCK_ASPECT: f64 = 1.8;

/// Width of a character of a box's label, and of the margins of the label, in cells.
const LETTER: f64 = 0.22;
const LABEL_MARGIN: f64 = 0.5;

/// An id, or a block or box that represents many.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Item {
    /// Place in preorder of its first id; its other ids follow.
    pub(super) first: u32,
    /// Number of ids.
    pub(super) count: u32,
    pub(super) kind: Kind,
    /// Number of columns of its ids.
    pub(super) columns: u32,
    /// Half of its width, in cells; a block or box includes a margin.
    pub(super) half_width: f64,
    /// Index of its parent; the root has itself.
    pub(super) parent: usize,
    /// Levels below the root.
    pub(super) depth: u32,
    /// Its centre, in cells.
    pub(super) x: f64,
}

/// Kind of an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// One id.
    One,
    /// A block of leaves with the same parent.
    Siblings,
    /// A block of ids, each of which is the only child of the one before it.
    Chain,
    /// A box for this number of whole subtrees of the same parent.
    Subtrees(u32),
}

impl Item {
    /// Whether each of its ids is drawn.
    pub(super) fn is_drawn(&self) -> bool {
        !matches!(self.kind, Kind::Subtrees(_))
    }

    /// Whether its ids are drawn in rows.
    pub(super) fn is_block(&self) -> bool {
        matches!(self.kind, Kind::Siblings | Kind::Chain)
    }

    /// Number of rows.
    pub(super) fn rows(&self) -> u32 {
        match self.kind {
            Kind::Subtrees(_) => 1,
            _ => self.count.div_ceil(self.columns),
        }
    }

    /// Returns the label of a box.
    pub(super) fn label(&self) -> String {
        let ids = if self.count == 1 { "id" } else { "ids" };
        match self.kind {
            Kind::Subtrees(many @ 2..) => format!("{many} subtrees, {} {ids}", self.count),
            _ => format!("{} {ids}", self.count),
        }
    }
}

/// Which parts of a tree are drawn as boxes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Boxes {
    /// Maximum number of ids of a subtree in a box; a subtree of one id is never in a box.
    pub(super) most: u32,
    /// Whether many neighbouring subtrees share one box.
    pub(super) merged: bool,
}

impl Boxes {
    /// No boxes: every id is drawn.
    pub(super) const NONE: Boxes = Boxes { most: 1, merged: false };
}

/// All ids, placed.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Placed {
    /// In preorder.
    pub(super) items: Vec<Item>,
    /// Total width, in cells; the leftmost item begins at 0.
    pub(super) width: f64,
    /// By depth: number of rows of the tallest block.
    pub(super) rows: Vec<u32>,
}

/// Places the ids of a tree.
pub(super) fn place(sketch: &Sketch, boxes: Boxes) -> Placed {
    let mut items = fold(sketch, boxes);
    let offsets = push_together(&items);
    // Children come after their parents.
    for index in 1..items.len() {
        items[index].x = items[items[index].parent].x + offsets[index];
    }
    let left = items.iter().map(|item| item.x - item.half_width).fold(0.0, f64::min);
    let right = items.iter().map(|item| item.x + item.half_width).fold(0.0, f64::max);
    let mut rows = Vec::new();
    for item in &mut items {
        item.x -= left;
        let depth = item.depth as usize;
        if rows.len() <= depth {
            rows.resize(depth + 1, 1);
        }
        rows[depth] = item.rows().max(rows[depth]);
    }
    Placed { items, width: right - left, rows }
}

/// Returns the items in preorder, without their centres.
fn fold(sketch: &Sketch, boxes: Boxes) -> Vec<Item> {
    let n = sketch.nodes();
    let (tails, sizes) = (tails(sketch), sizes(sketch));
    let mut items: Vec<Item> = Vec::new();
    let mut item_of_place = vec![0; n as usize];
    let mut place = 0;
    while place < n {
        let at = place as usize;
        let (kind, count) = kind_at(sketch, place, &tails, &sizes, boxes);
        let columns = match kind {
            Kind::Siblings | Kind::Chain => (f64::from(count) * BLOCK_ASPECT).sqrt().ceil() as u32,
            Kind::One | Kind::Subtrees(_) => 1,
        };
        item_of_place[at] = items.len();
        let (parent, depth) = (item_of_place[sketch.parents[at] as usize], sketch.depths[at]);
        let mut item = Item { first: place, count, kind, columns, half_width: 0.5, parent, depth, x: 0.0 };
        item.half_width = match kind {
            Kind::One => 0.5,
            Kind::Siblings | Kind::Chain => f64::from(columns) / 2.0 + 0.5,
            Kind::Subtrees(_) => item.label().chars().count() as f64 * LETTER / 2.0 + LABEL_MARGIN,
        };
        items.push(item);
        place += count;
    }
    items
}

/// Returns the kind of the item that begins at a place, and its number of ids.
fn kind_at(sketch: &Sketch, place: u32, tails: &[u32], sizes: &[u32], boxes: Boxes) -> (Kind, u32) {
    let at = place as usize;
    let (run, tail, size) = (leaves_from(sketch, place), tails[at], sizes[at]);
    let folded = place > 0 && run.max(tail) >= FOLDED_MIN;
    if folded {
        return if tail > run { (Kind::Chain, tail) } else { (Kind::Siblings, run) };
    }
    if place == 0 || size > boxes.most {
        return (Kind::One, 1);
    }
    if boxes.merged
        && let (subtrees @ FOLDED_MIN.., ids) = subtrees_from(sketch, place, sizes, boxes.most)
    {
        return (Kind::Subtrees(subtrees), ids);
    }
    if size > 1 { (Kind::Subtrees(1), size) } else { (Kind::One, 1) }
}

/// Returns the number of neighbouring subtrees from this place on that have at most `most` ids each, and their ids in
/// all.
fn subtrees_from(sketch: &Sketch, place: u32, sizes: &[u32], most: u32) -> (u32, u32) {
    let parent = sketch.parents[place as usize];
    let (mut subtrees, mut end) = (0, place);
    while end < sketch.nodes() && sketch.parents[end as usize] == parent && sizes[end as usize] <= most {
        subtrees += 1;
        end += sizes[end as usize];
    }
    (subtrees, end - place)
}

/// By place: number of ids in its subtree.
fn sizes(sketch: &Sketch) -> Vec<u32> {
    let mut sizes = vec![1; sketch.parents.len()];
    for place in (1..sizes.len()).rev() {
        sizes[sketch.parents[place] as usize] += sizes[place];
    }
    sizes
}

/// Returns the number of neighbouring siblings from this place on that have no children.
fn leaves_from(sketch: &Sketch, place: u32) -> u32 {
    let parent = sketch.parents[place as usize];
    let is_one = |&at: &u32| sketch.parents[at as usize] == parent && sketch.fan_outs[at as usize] == 0;
    let count = (place..sketch.nodes()).take_while(is_one).count();
    u32::try_from(count).expect("no more than ids")
}

/// By place: length of the chain from there to its end, or 0 if the subtree is not a chain.
fn tails(sketch: &Sketch) -> Vec<u32> {
    let mut tails = vec![0; sketch.parents.len()];
    for place in (0..tails.len()).rev() {
        tails[place] = match sketch.fan_outs[place] {
            0 => 1,
            1 if tails[place + 1] > 0 => tails[place + 1] + 1,
            _ => 0,
        };
    }
    tails
}

/// The two sides of a subtree, or of several neighbouring ones.
struct Outline {
    /// Left and right side by level, the deepest first.
    rows: Vec<(f64, f64)>,
    /// Offset to add to all of them.
    shift: f64,
}

/// Subtrees of one parent from some child to the last, relative to the centre of the last child.
struct Forest {
    outline: Outline,
    /// Centre of the first one.
    first_x: f64,
}

/// Returns the distance of each item from its parent.
fn push_together(items: &[Item]) -> Vec<f64> {
    let mut offsets = vec![0.0; items.len()];
    let mut middles = vec![0.0; items.len()];
    let mut forests: Vec<Option<Forest>> = Vec::new();
    forests.resize_with(items.len(), || None);
    for (index, item) in items.iter().enumerate().rev() {
        let mut outline = Outline { rows: Vec::new(), shift: 0.0 };
        if let Some(forest) = forests[index].take() {
            middles[index] = forest.first_x / 2.0;
            outline = forest.outline;
            outline.shift -= middles[index];
        }
        let half = item.half_width;
        outline.rows.push((-half - outline.shift, half - outline.shift));
        if index > 0 {
            let (forest, x) = with_first(forests[item.parent].take(), outline);
            offsets[index] = x;
            forests[item.parent] = Some(forest);
        }
    }
    for (index, item) in items.iter().enumerate().skip(1) {
        offsets[index] -= middles[item.parent];
    }
    offsets
}

/// Adds a subtree to the left of the other subtrees of its parent; returns its centre relative to theirs.
fn with_first(forest: Option<Forest>, mut left: Outline) -> (Forest, f64) {
    let Some(Forest { outline: mut right, .. }) = forest else {
        return (Forest { outline: left, first_x: 0.0 }, 0.0);
    };
    let pairs = || right.rows.iter().rev().zip(left.rows.iter().rev());
    let room = pairs().map(|(right_row, left_row)| right_row.0 + right.shift - left_row.1 - left.shift);
    let x = room.fold(f64::INFINITY, f64::min);
    let outline = if right.rows.len() >= left.rows.len() {
        for (right_row, left_row) in right.rows.iter_mut().rev().zip(left.rows.iter().rev()) {
            right_row.0 = left_row.0 + left.shift + x - right.shift;
        }
        right
    } else {
        left.shift += x;
        for (right_row, left_row) in right.rows.iter().rev().zip(left.rows.iter_mut().rev()) {
            left_row.1 = right_row.1 + right.shift - left.shift;
        }
        left
    };
    (Forest { outline, first_x: x }, x)
}

#[cfg(test)]
mod tests {
    use super::super::tests::sketch;
    use super::*;
    use gpc_trees::{Layout, Limits};
    use proptest::prelude::*;

    fn sketch_of(parents: &[Option<u32>]) -> Sketch {
        Sketch::of_layout("user", &Layout::from_parents(parents, &Limits::default()).unwrap()).unwrap()
    }

    /// Checks that no two items of a level overlap, and that all are within the width.
    fn check_room(placed: &Placed) {
        let mut right = vec![0.0; placed.rows.len()];
        for item in &placed.items {
            let edge: &mut f64 = &mut right[item.depth as usize];
            // Sums of halves have a rounding error.
            assert!(item.x - item.half_width >= *edge - 1e-6, "{item:?} overlaps its left neighbour");
            *edge = item.x + item.half_width;
            assert!(*edge <= placed.width + 1e-6, "{item:?} is outside");
        }
    }

    #[test]
    fn a_parent_stands_over_the_middle_of_its_children() {
        let placed = place(&sketch("binary", 7), Boxes::NONE);
        let xs: Vec<f64> = placed.items.iter().map(|item| item.x).collect();
        assert_eq!(xs, [2.0, 1.0, 0.5, 1.5, 3.0, 2.5, 3.5]);
        assert_eq!((placed.width, &placed.rows[..]), (4.0, &[1, 1, 1][..]));
    }

    #[test]
    fn long_runs_are_folded_and_short_ones_are_not() {
        let flat = place(&sketch("flat", 101), Boxes::NONE);
        assert_eq!(flat.items.len(), 2);
        let block = &flat.items[1];
        assert_eq!(
            (block.first, block.count, block.columns, block.rows(), block.kind),
            (1, 100, 14, 8, Kind::Siblings)
        );
        assert_eq!(flat.rows, [1, 8]);
        let chain = place(&sketch("chain", 101), Boxes::NONE);
        assert!(chain.items.len() == 2 && chain.items[1].kind == Kind::Chain && chain.items[1].count == 100);
        assert_eq!(place(&sketch("flat", FOLDED_MIN), Boxes::NONE).items.len(), FOLDED_MIN as usize);
        assert_eq!(place(&sketch("chain", FOLDED_MIN), Boxes::NONE).items.len(), FOLDED_MIN as usize);
        assert_eq!(place(&sketch("flat", FOLDED_MIN + 1), Boxes::NONE).items.len(), 2);
    }

    #[test]
    fn large_trees_of_every_kind_have_room() {
        for name in ["binary", "binomial", "kary:3", "kary:40", "knomial:4", "chain", "flat"] {
            for n in [1, 2, 3, 25, 64, 1000, 4096] {
                let placed = place(&sketch(name, n), Boxes::NONE);
                check_room(&placed);
                assert_eq!(placed.items.iter().map(|item| item.count).sum::<u32>(), n, "{name} {n}");
            }
        }
    }

    /// The picture of a binomial tree over 1,024 ids was 11,000 pixels wide. If there is no room for all ids, small
    /// subtrees share boxes.
    #[test]
    fn small_subtrees_become_boxes() {
        let boxed = |name, n, most, merged| place(&sketch(name, n), Boxes { most, merged });
        let binary = boxed("binary", 1023, 127, false);
        assert_eq!(binary.items.len(), 7 + 8);
        let counts = |placed: &Placed| {
            placed.items.iter().filter(|item| !item.is_drawn()).map(|item| item.count).collect::<Vec<_>>()
        };
        assert_eq!(counts(&binary), [127; 8]);
        assert_eq!(binary.items[3].label(), "127 ids");
        assert!(boxed("binary", 1023, 1, true).items.iter().all(Item::is_drawn));
        let wide = boxed("kary:32", 1025, 50, true);
        assert_eq!(
            (wide.items.len(), wide.items[1].kind, wide.items[1].label().as_str()),
            (2, Kind::Subtrees(32), "32 subtrees, 1024 ids")
        );
        assert_eq!(counts(&boxed("kary:32", 1025, 50, false)), [32; 32]);
        for name in ["binary", "binomial", "kary:3", "kary:40", "knomial:4", "chain", "flat"] {
            for (most, merged) in [(2, false), (16, false), (100, true), (4096, true)] {
                let placed = boxed(name, 4096, most, merged);
                check_room(&placed);
                assert_eq!(placed.items.iter().map(|item| item.count).sum::<u32>(), 4096, "{name} {most}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_tree_has_room(choices in prop::collection::vec(any::<prop::sample::Index>(), 0..200)) {
            let parent = |(before, choice): (usize, &prop::sample::Index)| Some(choice.index(before + 1) as u32);
            let parents: Vec<_> = [None].into_iter().chain(choices.iter().enumerate().map(parent)).collect();
            let sketch = sketch_of(&parents);
            let placed = place(&sketch, Boxes::NONE);
            check_room(&placed);
            let count: u32 = placed.items.iter().map(|item| item.count).sum();
            prop_assert_eq!(count as usize, parents.len());
            for item in &placed.items[1..] {
                prop_assert_eq!(placed.items[item.parent].depth + 1, item.depth);
            }
        }
    }
}
