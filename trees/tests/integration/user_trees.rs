//! Tests of user trees against a simple model: children functions, parent tables and tree files.
//!
//! An accepted tree must equal its description. A rejection must carry a counter-example that holds for the
//! description.

use gpc_trees::{Group, IdList, Layout, Limits, Tree, TreeError, TreeFileError, edges};
use proptest::prelude::*;
use std::collections::BTreeSet;

type Children = Vec<Vec<u32>>;

/// Valid trees of up to 40 positions, numbered at random except for the root, with children in random order.
fn trees() -> impl Strategy<Value = Children> {
    (1..40usize)
        .prop_flat_map(|n| {
            let labels = Just((1..n as u32).collect::<Vec<_>>()).prop_shuffle();
            (labels, prop::collection::vec(any::<prop::sample::Index>(), n - 1))
        })
        .prop_map(|(labels, parents)| {
            let labels: Vec<u32> = [0].into_iter().chain(labels).collect();
            let mut children = vec![Vec::new(); labels.len()];
            for (place, parent) in (1..labels.len()).zip(parents) {
                children[labels[parent.index(place)] as usize].push(labels[place]);
            }
            children
        })
}

/// Trees in which a few children are moved, added, removed or put out of range; some remain trees.
fn near_trees() -> impl Strategy<Value = Children> {
    let change = (0..4u8, any::<prop::sample::Index>(), any::<prop::sample::Index>());
    (trees(), prop::collection::vec(change, 0..4)).prop_map(|(mut children, changes)| {
        let n = children.len();
        for (kind, one, other) in changes {
            let (one, other) = (one.index(n), other.index(n + usize::from(kind == 0)) as u32);
            match kind {
                0 | 1 => children[one].push(other),
                2 => drop(children[one].pop()),
                _ => {
                    if let Some(child) = children[one].pop() {
                        children[other as usize].push(child);
                    }
                }
            }
        }
        children
    })
}

/// Arbitrary children over few positions.
fn wild() -> impl Strategy<Value = Children> {
    (1..8usize).prop_flat_map(|n| prop::collection::vec(prop::collection::vec(0..=n as u32, 0..3), n))
}

fn described() -> impl Strategy<Value = Children> {
    prop_oneof![trees(), near_trees(), wild()]
}

fn from_children(children: &Children) -> Result<Layout, TreeError> {
    let answer = |position: u32, out: &mut Vec<u32>| out.extend(&children[position as usize]);
    Layout::from_children(children.len() as u32, answer, &Limits::default())
}

/// Returns the positions that a walk from the root visits, each as often as there are paths to it; `None` if the walk
/// never ends.
fn met(children: &Children) -> Option<Vec<u32>> {
    let mut met = Vec::new();
    let mut pending = vec![0];
    while let Some(position) = pending.pop() {
        met.push(position);
        if met.len() > children.len() {
            return None;
        }
        pending.extend(children.get(position as usize)?.iter().rev());
    }
    Some(met)
}

/// Whether the children form a tree: a walk from the root visits each position once, and all children are positions.
fn is_tree(children: &Children) -> bool {
    met(children).is_some_and(|met| met.iter().collect::<BTreeSet<_>>().len() == children.len())
}

/// Returns the children of each position, read back from a layout's splits.
fn read_back(layout: &Layout) -> Children {
    let order = layout.order();
    let mut children = vec![Vec::new(); order.len()];
    for edge in edges(&layout.tree(), layout.len()) {
        let (parent, child) = edge.unwrap();
        children[order[parent as usize] as usize].push(order[child as usize]);
    }
    children
}

fn assert_laid_out(layout: &Layout, children: &Children) {
    assert_eq!(layout.order(), met(children).unwrap(), "the order is preorder");
    assert_eq!(&read_back(layout), children);
    let ids: IdList = IdList::range(100..100 + layout.len());
    let applied = layout.apply(&ids).unwrap();
    assert!(applied.iter().eq(layout.order().iter().map(|position| 100 + position)));
}

fn parents_of(children: &Children, child: u32) -> Vec<u32> {
    let mut parents = Vec::new();
    for (parent, listed) in (0..).zip(children) {
        parents.extend(listed.iter().filter(|&&listed| listed == child).map(|_| parent));
    }
    parents
}

/// Checks that the counter-example of an error holds for the description.
fn assert_true_of(error: &TreeError, children: &Children) {
    let n = children.len() as u32;
    match *error {
        TreeError::OutOfRange { parent, child, n: told } => {
            assert!(told == n && child >= n && children[parent as usize].contains(&child));
        }
        TreeError::OwnChild { position } => assert!(children[position as usize].contains(&position)),
        TreeError::TwoParents { child, first, second } => {
            let parents = parents_of(children, child);
            assert!(parents.contains(&first) && parents.contains(&second) && parents.len() > 1);
            assert!(first != second || parents.iter().filter(|&&parent| parent == first).count() > 1);
        }
        TreeError::RootHasParent { parent } => assert!(children[parent as usize].contains(&0)),
        TreeError::Cycle { ref path } => {
            assert!(path.len() > 1);
            assert_eq!(path.iter().min(), path.first(), "the lowest comes first");
            for (index, &position) in path.iter().enumerate() {
                let next = path[(index + 1) % path.len()];
                assert!(children[position as usize].contains(&next), "{next} is no child of {position}");
            }
        }
        TreeError::Unreachable { first, count } => {
            let orphans = (1..n).filter(|&position| parents_of(children, position).is_empty());
            assert_eq!(orphans.min(), Some(first));
            assert_eq!(count as usize, children.len() - met(children).unwrap().len());
        }
        ref other => panic!("{other} of {children:?}"),
    }
}

/// Writes a tree file in the style of a person.
fn write_file(children: &Children, seed: u32) -> String {
    let mut text = String::from("# a tree\n\n");
    let mut parents: Vec<u32> = (0..children.len() as u32).collect();
    parents.sort_by_key(|parent| (parent + 1).wrapping_mul(seed | 1));
    for parent in parents {
        let listed = &children[parent as usize];
        let is_leaf = listed.is_empty() && parent + 1 < children.len() as u32;
        if !is_leaf || seed.wrapping_add(parent).is_multiple_of(2) {
            let words: Vec<String> = listed.iter().map(u32::to_string).collect();
            let space = if seed.is_multiple_of(3) { "\t " } else { " " };
            text += &format!(" {parent} :{space}{} # children of {parent}: 99\r\n", words.join(space));
        }
    }
    text
}

proptest! {
    #[test]
    fn every_tree_is_laid_out(children in trees()) {
        prop_assert!(is_tree(&children));
        assert_laid_out(&from_children(&children).unwrap(), &children);
    }

    #[test]
    fn a_children_function_is_laid_out_or_truly_refused(children in described()) {
        match from_children(&children) {
            Ok(layout) => {
                prop_assert!(is_tree(&children));
                assert_laid_out(&layout, &children);
            }
            Err(error) => {
                prop_assert!(!is_tree(&children), "{} of {:?}", error, children);
                assert_true_of(&error, &children);
            }
        }
    }

    #[test]
    fn a_parent_table_is_laid_out_or_truly_refused(
        parents in prop::collection::vec(prop::option::weighted(0.9, 0..12u32), 1..12),
        root in prop::bool::weighted(0.9),
    ) {
        let mut parents = parents;
        if root {
            parents[0] = None;
        }
        let n = parents.len() as u32;
        let mut children = vec![Vec::new(); parents.len()];
        for (child, parent) in (0..n).zip(&parents) {
            if let Some(listed) = parent.and_then(|parent| children.get_mut(parent as usize)) {
                listed.push(child);
            }
        }
        match Layout::from_parents(&parents, &Limits::default()) {
            Ok(layout) => {
                prop_assert!(is_tree(&children) && parents[0].is_none());
                assert_laid_out(&layout, &children);
            }
            Err(TreeError::OutOfRange { parent, child, n: told }) => {
                prop_assert!(parent >= n && told == n && parents[child as usize] == Some(parent));
            }
            Err(TreeError::Parentless { position }) => {
                prop_assert!(position > 0 && parents[position as usize].is_none());
            }
            Err(error) => {
                prop_assert!(!is_tree(&children));
                assert_true_of(&error, &children);
            }
        }
    }

    #[test]
    fn the_parent_table_of_a_tree_is_the_tree_with_ascending_children(children in trees()) {
        let parents: Vec<Option<u32>> =
            (0..children.len() as u32).map(|child| parents_of(&children, child).first().copied()).collect();
        let mut ascending = children.clone();
        ascending.iter_mut().for_each(|listed| listed.sort_unstable());
        assert_laid_out(&Layout::from_parents(&parents, &Limits::default()).unwrap(), &ascending);
    }

    #[test]
    fn a_tree_file_says_what_the_function_says(children in described(), seed in any::<u32>()) {
        // The file has as many positions as it names.
        let highest = children.iter().flatten().copied().max().unwrap_or(0).max(children.len() as u32 - 1);
        let mut whole = children.clone();
        whole.resize(highest as usize + 1, Vec::new());
        match (Layout::parse(&write_file(&children, seed), &Limits::default()), from_children(&whole)) {
            (Ok(parsed), Ok(layout)) => prop_assert_eq!(parsed, layout),
            (Err(TreeFileError::Structure { error, .. }), Err(same)) => prop_assert_eq!(error, same),
            (parsed, layout) => prop_assert!(false, "{:?} and {:?}", parsed, layout),
        }
    }

    #[test]
    fn any_text_is_a_tree_or_an_error(text in "([0-9]{1,2}: ?([0-9]{1,2} ){0,3}\n){0,6}|[0-9: #\n-]{0,40}|\\PC{0,80}") {
        match Layout::parse(&text, &Limits::default()) {
            Ok(layout) => prop_assert!(is_tree(&read_back(&layout))),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}

#[test]
fn the_classic_children_function_is_a_heap() {
    let n = 1000;
    let heap = |i: u32, out: &mut Vec<u32>| out.extend([2 * i + 1, 2 * i + 2].into_iter().filter(|&c| c < n));
    let layout = Layout::from_children(n, heap, &Limits::default()).unwrap();
    let summary = layout.tree().check(n, &Limits::default()).unwrap();
    assert_eq!((summary.depth, summary.fan_out), (9, 2));
    assert_eq!(gpc_trees::levels(&layout.tree(), n).unwrap(), [1, 2, 4, 8, 16, 32, 64, 128, 256, 489]);
}

#[test]
fn every_subtree_of_a_shape_is_a_shape_of_its_own() {
    let parents = [None, Some(0), Some(1), Some(1), Some(3), Some(0), Some(5)];
    let layout = Layout::from_parents(&parents, &Limits::default()).unwrap();
    let Tree::Explicit(shape) = layout.tree() else { panic!("a layout's tree is explicit") };
    assert_eq!(shape.sizes(), [7, 4, 1, 2, 1, 2, 1]);
    let group = layout.tree().split(7).unwrap()[0];
    let Tree::Explicit(below) = layout.tree().subtree(group) else { panic!("so are its subtrees") };
    assert_eq!(below.sizes(), [4, 1, 2, 1]);
    let sent = gpc_trees::Shape::from_sizes(below.sizes().to_vec()).unwrap();
    assert_eq!(sent, below);
    assert_eq!(Tree::Explicit(sent).split(4), Tree::Explicit(below).split(4));
}

/// The subtree of a subtree is the one of the whole tree: a node splits the window that it has received.
#[test]
fn a_window_of_a_window_is_that_of_the_whole() {
    let layout = Layout::parse("0: 1 2\n2: 3 4\n4: 5 6 7\n6: 8\n", &Limits::default()).unwrap();
    let whole = layout.tree();
    let mut pending = vec![(whole.clone(), Group { start: 0, len: 9 })];
    let mut splits = 0;
    while let Some((tree, group)) = pending.pop() {
        let direct = if group.start == 0 { whole.clone() } else { whole.subtree(group) };
        assert_eq!(tree, direct);
        for below in tree.split(group.len).unwrap() {
            splits += 1;
            let placed = Group { start: group.start + below.start, len: below.len };
            pending.push((tree.subtree(below), placed));
        }
    }
    assert_eq!(splits, 8);
}

#[test]
fn a_comment_ends_with_its_line() {
    let plain = Layout::parse("0: 1 2\n", &Limits::default());
    assert!(plain.is_ok());
    assert_eq!(Layout::parse("# 7: 8 # 3: 4\n0: 1 2 # 3 # 4: 5\n", &Limits::default()), plain);
}

#[test]
fn a_tree_of_one_position_needs_a_line() {
    let one = Layout::parse("0:", &Limits::default()).unwrap();
    assert_eq!((one.len(), one.order()), (1, &[0][..]));
    assert!(one.tree().split(1).unwrap().is_empty());
    assert_eq!(Layout::parse("# none\n\n", &Limits::default()), Err(TreeFileError::NoPositions));
    assert_eq!(Layout::parse("", &Limits::default()), Err(TreeFileError::NoPositions));
}

#[test]
fn a_deep_chain_is_no_deeper_for_the_stack() {
    let n = 65_536;
    let parents: Vec<Option<u32>> = (0..n).map(|i: u32| i.checked_sub(1)).collect();
    let layout = Layout::from_parents(&parents, &Limits::default()).unwrap();
    assert_eq!(layout.tree().check(n, &Limits::default()).unwrap().depth, 65_535);
    assert_eq!(gpc_trees::levels(&layout.tree(), n).unwrap().len(), 65_536);
    let longer: Vec<Option<u32>> = (0..n + 1).map(|i: u32| i.checked_sub(1)).collect();
    let refused = Layout::from_parents(&longer, &Limits::default());
    assert_eq!(refused, Err(TreeError::Depth { position: 65_536, limit: 65_535 }));
}
