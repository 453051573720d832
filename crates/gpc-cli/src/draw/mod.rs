//! Drawings of a tree: as text, for Graphviz, as a picture, as JSON.
//!
//! A [`Sketch`] is the tree to draw, complete and checked; each format is a pure function from it to text. This module
//! reads no file, and does not recurse along a tree.

mod dot;
mod json;
mod place;
mod svg;
mod text;

pub use svg::SVG_MAX;

use std::io::{self, Write};

use gpc_trees::{Layout, Limits, Tree, TreeError, edges};

use super::args::TreeFormat;

/// A tree to draw: its positions in preorder, each with its parent, depth and label.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sketch {
    name: String,
    /// By place in preorder: the place of its parent, which comes before it. The root, at 0, has itself.
    parents: Vec<u32>,
    /// By place: levels below the root.
    depths: Vec<u32>,
    /// By place: number of children.
    fan_outs: Vec<u32>,
    /// By place: its label. The labels are the numbers from 0 to n-1, each once.
    labels: Vec<u32>,
    /// By depth: number of places.
    levels: Vec<u32>,
}

impl Sketch {
    /// Returns a tree over `n` ids, labelled by their places.
    ///
    /// # Errors
    /// If it is not a tree over that many ids.
    pub fn of_tree(name: impl Into<String>, tree: &Tree, n: u32) -> Result<Sketch, TreeError> {
        Sketch::new(name.into(), tree, n, (0..n).collect())
    }

    /// Returns a user tree, labelled by the positions of its author.
    ///
    /// # Errors
    /// If it is not a tree, which a layout always is.
    pub fn of_layout(name: impl Into<String>, layout: &Layout) -> Result<Sketch, TreeError> {
        Sketch::new(name.into(), &layout.tree(), layout.len(), layout.order().to_vec())
    }

    fn new(name: String, tree: &Tree, n: u32, labels: Vec<u32>) -> Result<Sketch, TreeError> {
        tree.check(n, &Limits::default())?;
        let all = n as usize;
        let mut sketch = Sketch {
            name,
            parents: vec![0; all],
            depths: vec![0; all],
            fan_outs: vec![0; all],
            labels,
            levels: vec![1],
        };
        for edge in edges(tree, n) {
            let (parent, child) = edge?;
            let depth = sketch.depths[parent as usize] + 1;
            sketch.parents[child as usize] = parent;
            sketch.depths[child as usize] = depth;
            sketch.fan_outs[parent as usize] += 1;
            match sketch.levels.get_mut(depth as usize) {
                Some(count) => *count += 1,
                // Children come after their parents, so a level begins right after the level above it.
                None => sketch.levels.push(1),
            }
        }
        Ok(sketch)
    }

    /// Number of ids, at least 1.
    pub fn nodes(&self) -> u32 {
        u32::try_from(self.parents.len()).expect("made of a number of 32 bits")
    }

    /// Levels below the root.
    pub fn depth(&self) -> u32 {
        u32::try_from(self.levels.len() - 1).expect("no more levels than ids")
    }

    /// Maximum number of children of one id.
    pub fn fan_out(&self) -> u32 {
        self.fan_outs.iter().copied().max().unwrap_or_default()
    }

    /// Number of ids at each depth, that of the root first.
    pub fn levels(&self) -> &[u32] {
        &self.levels
    }

    /// Name of the tree, as given to the constructor.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a summary in one line: `binary over 7 ids: depth 2, fan-out 2; ids per level 1 2 4`.
    pub fn summary(&self) -> String {
        let n = self.nodes();
        let (ids, depth, fan_out) = (if n == 1 { "id" } else { "ids" }, self.depth(), self.fan_out());
        let name = &self.name;
        format!(
            "{name} over {n} {ids}: depth {depth}, fan-out {fan_out}; ids per level {}",
            self.shown_levels()
        )
    }

    /// Returns the ids per level; of many levels, the middle is omitted.
    fn shown_levels(&self) -> String {
        let words = |levels: &[u32]| levels.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        match self.levels.len() {
            0..=SHOWN_LEVELS => words(&self.levels),
            many => {
                let (first, last) =
                    (&self.levels[..SHOWN_LEVELS / 2], &self.levels[many - SHOWN_LEVELS / 2..]);
                format!("{} ... {}", words(first), words(last))
            }
        }
    }

    /// Returns depth, label and the parent's label (`None` for the root) of each place, in preorder.
    fn nodes_in_preorder(&self) -> impl Iterator<Item = (u32, u32, Option<u32>)> + '_ {
        let label = |place: u32| self.labels[place as usize];
        (0..).zip(&self.parents).map(move |(place, &parent)| {
            (self.depths[place as usize], label(place), (place > 0).then(|| label(parent)))
        })
    }
}

/// Maximum number of levels in a summary: a line or two of a terminal.
const SHOWN_LEVELS: usize = 32;

/// Checks that a tree can be drawn in this format.
///
/// # Errors
/// If a picture would have more than [`SVG_MAX`] ids.
pub fn check(sketch: &Sketch, format: TreeFormat) -> Result<(), String> {
    let n = sketch.nodes();
    match format {
        TreeFormat::Svg if n > SVG_MAX => Err(format!(
            "a picture of {n} ids would be too large: draw at most {SVG_MAX}, or use --format text, dot or json"
        )),
        _ => Ok(()),
    }
}

/// Draws a tree. `all` lifts the limit on the lines of text, and makes a picture show every id.
///
/// # Errors
/// If the output fails, or the tree does not pass [`check`].
pub fn draw(sketch: &Sketch, format: TreeFormat, all: bool, out: &mut dyn Write) -> io::Result<()> {
    check(sketch, format).map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
    match format {
        TreeFormat::Text => text::write(sketch, all, out),
        TreeFormat::Dot => dot::write(sketch, out),
        TreeFormat::Svg => svg::write(sketch, all, out),
        TreeFormat::Json => json::write(sketch, out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpc_trees::TreeName;
    use proptest::prelude::*;

    pub(super) fn sketch(name: &str, n: u32) -> Sketch {
        let tree = name.parse::<TreeName>().unwrap().built_in().unwrap();
        Sketch::of_tree(name, &tree, n).unwrap()
    }

    pub(super) fn drawn(sketch: &Sketch, format: TreeFormat) -> String {
        let mut out = Vec::new();
        draw(sketch, format, false, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_sketch_says_what_the_tree_is() {
        let binary = sketch("binary", 7);
        assert_eq!(binary.summary(), "binary over 7 ids: depth 2, fan-out 2; ids per level 1 2 4");
        assert_eq!(binary.parents, [0, 0, 1, 1, 0, 4, 4]);
        assert_eq!(sketch("flat", 1).summary(), "flat over 1 id: depth 0, fan-out 0; ids per level 1");
        let chain = sketch("chain", 40).summary();
        assert!(
            chain.ends_with(
                "ids per level 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 ... 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1"
            )
        );
    }

    #[test]
    fn a_user_tree_keeps_the_numbers_of_its_author() {
        let layout = Layout::parse("0: 2 1\n2: 3", &Limits::default()).unwrap();
        let sketch = Sketch::of_layout("file:x", &layout).unwrap();
        let nodes: Vec<_> = sketch.nodes_in_preorder().collect();
        assert_eq!(nodes, [(0, 0, None), (1, 2, Some(0)), (2, 3, Some(2)), (1, 1, Some(0))]);
        assert_eq!((sketch.levels(), sketch.fan_out()), (&[1, 2, 1][..], 2));
    }

    #[test]
    fn what_is_too_deep_is_refused() {
        assert!(matches!(Sketch::of_tree("chain", &Tree::Chain, 70_000), Err(TreeError::Depth { .. })));
        assert_eq!(Sketch::of_tree("flat", &Tree::Flat, 0), Err(TreeError::Empty));
    }

    #[test]
    fn a_picture_has_its_limit() {
        let large = sketch("flat", SVG_MAX + 1);
        let error = draw(&large, TreeFormat::Svg, false, &mut io::sink()).unwrap_err().to_string();
        assert!(error.contains("draw at most 65536"), "{error}");
        assert!(check(&large, TreeFormat::Dot).is_ok());
        assert!(check(&sketch("flat", SVG_MAX), TreeFormat::Svg).is_ok());
    }

    proptest! {
        #[test]
        fn levels_are_those_of_the_tree_crate(which in 0usize..6, n in 1u32..300) {
            let name = ["binary", "binomial", "kary:5", "knomial:3", "chain", "flat"][which];
            let sketch = sketch(name, n);
            let tree = name.parse::<TreeName>().unwrap().built_in().unwrap();
            prop_assert_eq!(sketch.levels(), gpc_trees::levels(&tree, n).unwrap());
            prop_assert_eq!(Some(sketch.depth()), tree.depth(n));
            prop_assert_eq!(Some(sketch.fan_out()), tree.fan_out(n));
        }
    }
}
