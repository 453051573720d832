//! Drawings of a tree: as text, for Graphviz, as a picture, as JSON.
//!
//! A [`Sketch`] is the tree to draw, complete and checked; each format is a pure function from it to text. This module
//! reads no file, and does not recurse along a tree.

mod dot;
mod json;
mod place;
mod sketch;
mod svg;
mod text;

pub use sketch::Sketch;
pub use svg::SVG_MAX;

use std::io::{self, Write};

use super::args::TreeFormat;

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
    use gpc_trees::{Layout, Limits, Tree, TreeError, TreeName};
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
