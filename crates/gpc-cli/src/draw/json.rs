//! Writes a tree as one JSON object: `{"tree","nodes","depth","fan_out","levels","parents"}`.
//!
//! `parents` has the parent of each id, `null` for the root; `levels` has the number of ids at each depth.

use std::io::{self, Write};

use serde::Serialize;

use super::Sketch;

#[derive(Serialize)]
struct Object<'a> {
    tree: &'a str,
    nodes: u32,
    depth: u32,
    fan_out: u32,
    levels: &'a [u32],
    parents: Vec<Option<u32>>,
}

pub(super) fn write(sketch: &Sketch, out: &mut dyn Write) -> io::Result<()> {
    let mut parents = vec![None; sketch.parents.len()];
    for (_, label, parent) in sketch.nodes_in_preorder() {
        parents[label as usize] = parent;
    }
    let object = Object {
        tree: sketch.name(),
        nodes: sketch.nodes(),
        depth: sketch.depth(),
        fan_out: sketch.fan_out(),
        levels: sketch.levels(),
        parents,
    };
    serde_json::to_writer(&mut *out, &object)?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{drawn, sketch};
    use super::*;
    use crate::args::TreeFormat;
    use gpc_trees::{Layout, Limits};

    #[test]
    fn a_tree_is_one_object() {
        let json = drawn(&sketch("binary", 5), TreeFormat::Json);
        let expected =
            r#"{"tree":"binary","nodes":5,"depth":2,"fan_out":2,"levels":[1,2,2],"parents":[null,0,1,0,3]}"#;
        assert_eq!(json, format!("{expected}\n"));
    }

    #[test]
    fn parents_stand_under_the_numbers_of_the_file() {
        let layout = Layout::parse("0: 2 1\n2: 3", &Limits::default()).unwrap();
        let json = drawn(&Sketch::of_layout("file:\"x\"", &layout).unwrap(), TreeFormat::Json);
        assert!(
            json.contains(r#""tree":"file:\"x\"","#) && json.contains(r#""parents":[null,0,0,2]"#),
            "{json}"
        );
    }
}
