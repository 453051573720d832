//! The value of `PMI_process_mapping`, by which PMI programs learn which ranks share a node.
//!
//! Source: PMI-1's `(vector,(start_node,nnodes,procs_per_node),...)`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::spec::Layout;

/// The key.
pub(super) const KEY: &[u8] = b"PMI_process_mapping";

/// Programs reserve 1,024 bytes for a value. Without the mapping they compare host names, which works as well.
const LENGTH_MAX: usize = 1000;

/// The value; `None` if it is too long.
pub(super) fn process_mapping(layout: &Layout) -> Option<Vec<u8>> {
    let mut numbers = BTreeMap::new();
    // First node, number of nodes, processes on each.
    let mut triples: Vec<(usize, usize, u32)> = Vec::new();
    let mut runs: Vec<(usize, u32)> = Vec::new();
    for block in &layout.blocks {
        let next = numbers.len();
        let node = *numbers.entry(block.node).or_insert(next);
        match runs.last_mut() {
            Some((last, count)) if *last == node => *count += block.count,
            _ => runs.push((node, block.count)),
        }
    }
    for (node, count) in runs {
        match triples.last_mut() {
            Some((first, nodes, each)) if *each == count && *first + *nodes == node => *nodes += 1,
            _ => triples.push((node, 1, count)),
        }
    }
    let mut text = String::from("(vector");
    for (first, nodes, each) in triples {
        // Writing to a String cannot fail.
        let _ = write!(text, ",({first},{nodes},{each})");
        if text.len() >= LENGTH_MAX {
            return None;
        }
    }
    text.push(')');
    Some(text.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::GroupId;
    use crate::spec::{Block, OnDeath, Readers};

    fn mapping(blocks: &[(u32, u32)]) -> Option<String> {
        let mut first = 0;
        let blocks = blocks
            .iter()
            .map(|&(node, count)| {
                first += count;
                Block { node, spec: 0, first: first - count, count }
            })
            .collect();
        let layout = Layout {
            group: GroupId(1),
            parent: None,
            database: String::new(),
            specs: Vec::new(),
            blocks,
            on_death: OnDeath::Kill,
            preputs: Vec::new(),
            input: Readers::None,
            pmix: None,
        };
        process_mapping(&layout).map(|text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn nodes_with_as_many_processes_are_one_triple() {
        assert_eq!(mapping(&[(7, 4)]).as_deref(), Some("(vector,(0,1,4))"));
        assert_eq!(mapping(&[(7, 2), (3, 2), (5, 1)]).as_deref(), Some("(vector,(0,2,2),(2,1,1))"));
        // The same node twice in a row, by two specs, is one run; a later block is another run.
        assert_eq!(mapping(&[(7, 2), (7, 1), (3, 3), (7, 3)]).as_deref(), Some("(vector,(0,2,3),(0,1,3))"));
    }

    #[test]
    fn a_mapping_that_programs_have_no_room_for_is_left_out() {
        let jagged: Vec<(u32, u32)> = (0..400).map(|node| (node, 1 + node % 2)).collect();
        assert_eq!(mapping(&jagged), None);
    }
}
