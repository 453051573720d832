//! Tests of adoption: whichever ids are lost, every living id keeps its original slice.

use std::collections::{BTreeMap, BTreeSet};

use gpc_trees::{Group, Layout, Limits, Tree, TreeName, adopted};
use proptest::prelude::*;

/// Returns the slice length of every position according to the tree.
fn slices(tree: &Tree, n: u32) -> BTreeMap<u32, u32> {
    let mut slices = BTreeMap::from([(0, n)]);
    let mut pending = vec![Group { start: 0, len: n }];
    while let Some(group) = pending.pop() {
        let own = if group.start == 0 { tree.clone() } else { tree.subtree(group) };
        for child in own.split(group.len).unwrap() {
            let child = Group { start: group.start + child.start, len: child.len };
            slices.insert(child.start, child.len);
            pending.push(child);
        }
    }
    slices
}

/// Returns the slice length and the parent of every living id after all adoptions.
fn repaired(tree: &Tree, n: u32, lost: &BTreeSet<u32>) -> BTreeMap<u32, (u32, Option<u32>)> {
    let mut found = BTreeMap::from([(0, (n, None))]);
    let mut pending = vec![(0, Group { start: 0, len: n })];
    while let Some((parent, group)) = pending.pop() {
        let own = if group.start == 0 { tree.clone() } else { tree.subtree(group) };
        let groups = match lost.contains(&group.start) {
            // The parent acts for the lost id, in positions of the whole list.
            true => adopted(tree, group).unwrap(),
            false => {
                let groups = own.split(group.len).unwrap();
                groups
                    .iter()
                    .map(|child| Group { start: group.start + child.start, len: child.len })
                    .collect()
            }
        };
        let adopter = if lost.contains(&group.start) { parent } else { group.start };
        for child in groups {
            if !lost.contains(&child.start) {
                assert!(found.insert(child.start, (child.len, Some(adopter))).is_none(), "two parents");
            }
            pending.push((adopter, child));
        }
    }
    found
}

fn trees(n: u32) -> Vec<Tree> {
    let names = ["binary", "binomial", "kary:3", "knomial:4", "loggp:3.5", "chain", "flat"];
    let built_in = names.map(|name| name.parse::<TreeName>().unwrap().built_in().unwrap());
    let parents: Vec<Option<u32>> =
        (0..n).map(|place| place.checked_sub(1).map(|before| before / 3)).collect();
    let layout = Layout::from_parents(&parents, &Limits::default()).unwrap();
    built_in.into_iter().chain([layout.tree()]).collect()
}

proptest! {
    #[test]
    fn the_living_keep_their_slices_and_hang_on_the_living(n in 1u32..200, seeds in prop::collection::vec(1u32..200, 0..60)) {
        let lost: BTreeSet<u32> = seeds.into_iter().filter(|place| *place < n).collect();
        for tree in trees(n) {
            let before = slices(&tree, n);
            let after = repaired(&tree, n, &lost);
            prop_assert_eq!(after.len() as u32 + lost.len() as u32, n);
            for (place, (len, parent)) in after {
                prop_assert_eq!(before[&place], len);
                prop_assert!(parent.is_none_or(|parent| !lost.contains(&parent)));
            }
        }
    }
}
