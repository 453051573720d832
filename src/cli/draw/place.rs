//! Where the ids of a tree stand in a picture: in layers, by a tidy algorithm.
//!
//! After Reingold and Tilford: every subtree keeps the outline of its two sides, neighbouring subtrees are pushed together until their
//! outlines touch, and a parent stands over the middle of its children. Outlines are kept deepest level first and are merged into the taller
//! of the two, so the whole takes time in the order of the ids. Never recursive.
//!
//! A long run of children that have none themselves, or a long chain that ends in one, would make a picture too wide or too tall to look at:
//! it is folded into a block of rows, which takes part in the algorithm as one wide id.

use super::Sketch;

/// Shortest run that is folded: fewer stand well in a line.
const FOLDED_MIN: u32 = 24;

/// Columns of a block per row, so that it is wider than tall.
const BLOCK_ASPECT: f64 = 1.8;

/// One id, or a block of them.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Item {
    /// Place in preorder of its first id; the others follow.
    pub(super) first: u32,
    /// How many ids.
    pub(super) count: u32,
    /// In how many columns they stand.
    pub(super) columns: u32,
    /// Whether each is the child of the one before, and not of the parent of all.
    pub(super) chained: bool,
    /// Its parent's item; the root has itself.
    pub(super) parent: usize,
    /// Levels below the root.
    pub(super) depth: u32,
    /// Its middle, in cells.
    pub(super) x: f64,
}

impl Item {
    /// Whether it stands for many.
    pub(super) fn is_block(&self) -> bool {
        self.count > 1
    }

    /// How many rows it has.
    pub(super) fn rows(&self) -> u32 {
        self.count.div_ceil(self.columns)
    }

    /// Half of its width, in cells; a block has a margin.
    pub(super) fn half_width(&self) -> f64 {
        f64::from(self.columns) / 2.0 + if self.is_block() { 0.5 } else { 0.0 }
    }
}

/// All ids placed.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Placed {
    /// In preorder.
    pub(super) items: Vec<Item>,
    /// Width of the whole, in cells; the leftmost item begins at 0.
    pub(super) width: f64,
    /// By depth: how many rows the highest block there has.
    pub(super) rows: Vec<u32>,
}

/// Places the ids of a tree.
pub(super) fn place(sketch: &Sketch) -> Placed {
    let mut items = fold(sketch);
    let offsets = push_together(&items);
    // Children come behind their parents.
    for index in 1..items.len() {
        items[index].x = items[items[index].parent].x + offsets[index];
    }
    let left = items.iter().map(|item| item.x - item.half_width()).fold(0.0, f64::min);
    let right = items.iter().map(|item| item.x + item.half_width()).fold(0.0, f64::max);
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

/// The items in preorder, without their middles.
fn fold(sketch: &Sketch) -> Vec<Item> {
    let n = sketch.nodes();
    let tails = tails(sketch);
    let mut items = Vec::new();
    let mut item_of_place = vec![0; n as usize];
    let mut place = 0;
    while place < n {
        let at = place as usize;
        let (run, tail) = (leaves_from(sketch, place), tails[at]);
        let folded = place > 0 && run.max(tail) >= FOLDED_MIN;
        let count = if folded { run.max(tail) } else { 1 };
        let columns = (f64::from(count) * BLOCK_ASPECT).sqrt().ceil() as u32;
        item_of_place[at] = items.len();
        items.push(Item {
            first: place,
            count,
            columns: if folded { columns } else { 1 },
            chained: tail > run,
            parent: item_of_place[sketch.parents[at] as usize],
            depth: sketch.depths[at],
            x: 0.0,
        });
        place += count;
    }
    items
}

/// How many siblings from this place on, one beside the other, have no children.
fn leaves_from(sketch: &Sketch, place: u32) -> u32 {
    let parent = sketch.parents[place as usize];
    let is_one = |&at: &u32| sketch.parents[at as usize] == parent && sketch.fan_outs[at as usize] == 0;
    let count = (place..sketch.nodes()).take_while(is_one).count();
    u32::try_from(count).expect("no more than ids")
}

/// By place: the length of the chain from there to its end, if there is nothing but a chain; else 0.
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

/// The two sides of a subtree, or of several beside each other.
struct Outline {
    /// Left and right side by level, the deepest first.
    rows: Vec<(f64, f64)>,
    /// What is to be added to all of them.
    shift: f64,
}

/// Subtrees of one parent from some child to the last, in the frame of the last child's middle.
struct Forest {
    outline: Outline,
    /// The middle of the first one.
    first_x: f64,
}

/// Each item's distance from its parent.
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
        let half = item.half_width();
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

/// Puts a subtree to the left of the others of its parent; returns its middle in their frame.
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

    /// No two items of a level overlap, and all lie within the width.
    fn check_room(placed: &Placed) {
        let mut right = vec![0.0; placed.rows.len()];
        for item in &placed.items {
            let edge: &mut f64 = &mut right[item.depth as usize];
            // Sums of halves round a little.
            assert!(item.x - item.half_width() >= *edge - 1e-6, "{item:?} overlaps its left neighbour");
            *edge = item.x + item.half_width();
            assert!(*edge <= placed.width + 1e-6, "{item:?} is outside");
        }
    }

    #[test]
    fn a_parent_stands_over_the_middle_of_its_children() {
        let placed = place(&sketch("binary", 7));
        let xs: Vec<f64> = placed.items.iter().map(|item| item.x).collect();
        assert_eq!(xs, [2.0, 1.0, 0.5, 1.5, 3.0, 2.5, 3.5]);
        assert_eq!((placed.width, &placed.rows[..]), (4.0, &[1, 1, 1][..]));
    }

    #[test]
    fn long_runs_are_folded_and_short_ones_are_not() {
        let flat = place(&sketch("flat", 101));
        assert_eq!(flat.items.len(), 2);
        let block = &flat.items[1];
        assert_eq!(
            (block.first, block.count, block.columns, block.rows(), block.chained),
            (1, 100, 14, 8, false)
        );
        assert_eq!(flat.rows, [1, 8]);
        let chain = place(&sketch("chain", 101));
        assert!(chain.items.len() == 2 && chain.items[1].chained && chain.items[1].count == 100);
        assert_eq!(place(&sketch("flat", FOLDED_MIN)).items.len(), FOLDED_MIN as usize);
        assert_eq!(place(&sketch("chain", FOLDED_MIN)).items.len(), FOLDED_MIN as usize);
        assert_eq!(place(&sketch("flat", FOLDED_MIN + 1)).items.len(), 2);
    }

    #[test]
    fn large_trees_of_every_kind_have_room() {
        for name in ["binary", "binomial", "kary:3", "kary:40", "knomial:4", "chain", "flat"] {
            for n in [1, 2, 3, 25, 64, 1000, 4096] {
                let placed = place(&sketch(name, n));
                check_room(&placed);
                assert_eq!(placed.items.iter().map(|item| item.count).sum::<u32>(), n, "{name} {n}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_tree_has_room(choices in prop::collection::vec(any::<prop::sample::Index>(), 0..200)) {
            let parent = |(before, choice): (usize, &prop::sample::Index)| Some(choice.index(before + 1) as u32);
            let parents: Vec<_> = [None].into_iter().chain(choices.iter().enumerate().map(parent)).collect();
            let sketch = sketch_of(&parents);
            let placed = place(&sketch);
            check_room(&placed);
            let count: u32 = placed.items.iter().map(|item| item.count).sum();
            prop_assert_eq!(count as usize, parents.len());
            for item in &placed.items[1..] {
                prop_assert_eq!(placed.items[item.parent].depth + 1, item.depth);
            }
        }
    }
}
