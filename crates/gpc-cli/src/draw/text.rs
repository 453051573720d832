//! Draws a tree as indented lines, and a summary.

use std::io::{self, Write};

use super::Sketch;

/// Maximum number of lines unless all are requested: a few screens.
const LINES_MAX: usize = 200;

/// Deepest level with its own indentation. Deeper lines show their depth as a number, so that the size of a chain's
/// drawing is linear in its length.
const INDENTED_MAX: u32 = 64;

pub(super) fn write(sketch: &Sketch, all: bool, out: &mut dyn Write) -> io::Result<()> {
    // By place in preorder: whether it is the last child of its parent.
    let last = last_children(sketch);
    let shown = if all { sketch.parents.len() } else { LINES_MAX };
    // By depth: whether the branch at that depth continues below the current line.
    let mut goes_on: Vec<bool> = Vec::new();
    for ((depth, label, _), is_last) in sketch.nodes_in_preorder().zip(&last).take(shown) {
        goes_on.truncate(depth as usize);
        goes_on.push(!is_last);
        write_line(depth, label, &goes_on, out)?;
    }
    let left = sketch.parents.len().saturating_sub(shown);
    if left > 0 {
        writeln!(out, "... {left} more ids; --all draws them all")?;
    }
    writeln!(out, "{}", sketch.summary())
}

fn write_line(depth: u32, label: u32, goes_on: &[bool], out: &mut dyn Write) -> io::Result<()> {
    if depth == 0 {
        return writeln!(out, "{label}");
    }
    // The root has no branch of its own.
    let indented = depth.min(INDENTED_MAX) as usize;
    for &on in &goes_on[1..indented] {
        out.write_all(if on { "│  " } else { "   " }.as_bytes())?;
    }
    let branch = if goes_on[depth as usize] { "├─ " } else { "└─ " };
    match depth > INDENTED_MAX {
        true => writeln!(out, "{branch}(depth {depth}) {label}"),
        false => writeln!(out, "{branch}{label}"),
    }
}

fn last_children(sketch: &Sketch) -> Vec<bool> {
    let mut seen = vec![false; sketch.parents.len()];
    let mut last = vec![false; sketch.parents.len()];
    for place in (0..sketch.parents.len()).rev() {
        let parent = sketch.parents[place] as usize;
        last[place] = !std::mem::replace(&mut seen[parent], true);
    }
    last
}

#[cfg(test)]
mod tests {
    use super::super::tests::{drawn, sketch};
    use super::*;
    use crate::args::TreeFormat;

    #[test]
    fn a_tree_is_drawn_with_its_branches() {
        let expected = "\
0
├─ 1
├─ 2
│  └─ 3
└─ 4
   ├─ 5
   └─ 6
      └─ 7
binomial over 8 ids: depth 3, fan-out 3; ids per level 1 3 3 1
";
        assert_eq!(drawn(&sketch("binomial", 8), TreeFormat::Text), expected);
        let one = "0\nflat over 1 id: depth 0, fan-out 0; ids per level 1\n";
        assert_eq!(drawn(&sketch("flat", 1), TreeFormat::Text), one);
    }

    #[test]
    fn a_large_tree_is_cut_and_says_so() {
        let flat = sketch("flat", 203);
        let text = drawn(&flat, TreeFormat::Text);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!((lines.len(), lines[199]), (202, "├─ 199"));
        assert_eq!(lines[200], "... 3 more ids; --all draws them all");
        let mut all = Vec::new();
        write(&flat, true, &mut all).unwrap();
        let all = String::from_utf8(all).unwrap();
        assert_eq!((all.lines().count(), all.lines().nth(202)), (204, Some("└─ 202")));
        let whole = drawn(&sketch("flat", 200), TreeFormat::Text);
        assert_eq!(whole.lines().count(), 201, "exactly the limit is not cut");
    }

    #[test]
    fn a_deep_tree_costs_no_more_than_its_length() {
        let mut out = Vec::new();
        write(&sketch("chain", 5000), true, &mut out).unwrap();
        assert!(out.len() < 5000 * (3 * 64 + 40));
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.contains("\n                                                   ")
                && text.contains("└─ (depth 4999) 4999")
        );
    }
}
