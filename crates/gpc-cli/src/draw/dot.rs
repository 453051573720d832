//! Draws a tree in the language of Graphviz.

use std::io::{self, Write};

use super::Sketch;

pub(super) fn write(sketch: &Sketch, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "digraph gpc {{")?;
    writeln!(out, "  label={};", quoted(&sketch.summary()))?;
    writeln!(out, "  labelloc=t; node [shape=circle, fontname=\"sans-serif\"]; edge [arrowhead=none];")?;
    for (_, label, parent) in sketch.nodes_in_preorder() {
        match parent {
            Some(parent) => writeln!(out, "  {parent} -> {label};")?,
            None => writeln!(out, "  {label} [penwidth=2];")?,
        }
    }
    writeln!(out, "}}")
}

/// Returns a string of the language, with quotes and backslashes escaped.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " "))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{drawn, sketch};
    use super::*;
    use crate::args::TreeFormat;

    #[test]
    fn a_tree_is_a_digraph_of_its_edges() {
        let dot = drawn(&sketch("binary", 4), TreeFormat::Dot);
        let edges: Vec<_> = dot.lines().filter(|line| line.contains("->")).collect();
        assert_eq!(edges, ["  0 -> 1;", "  1 -> 2;", "  0 -> 3;"]);
        assert!(dot.starts_with("digraph gpc {\n") && dot.ends_with("}\n"));
        assert!(dot.contains("label=\"binary over 4 ids: depth 2"), "{dot}");
    }

    #[test]
    fn names_are_quoted() {
        assert_eq!(quoted(r#"a"b\c"#), r#""a\"b\\c""#);
    }
}
