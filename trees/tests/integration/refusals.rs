//! Tests that a bad tree of every kind is rejected with its error, its counter-example, and a plain message.

use gpc_trees::{
    Group, GroupFault, Groups, IdList, Layout, Limits, MAX_FAN_OUT, MAX_POSITIONS, Registered, Shape, Tree,
    TreeError, TreeFileError, edges, levels,
};
use std::sync::atomic::{AtomicU32, Ordering};

fn children(n: u32, listed: &'static [&'static [u32]]) -> Result<Layout, TreeError> {
    let answer = |position: u32, out: &mut Vec<u32>| {
        out.extend(listed.get(position as usize).copied().unwrap_or_default());
    };
    Layout::from_children(n, answer, &Limits::default())
}

fn parents(parents: &[Option<u32>]) -> Result<Layout, TreeError> {
    Layout::from_parents(parents, &Limits::default())
}

fn file(text: &str) -> TreeFileError {
    Layout::parse(text, &Limits::default()).unwrap_err()
}

fn registered(split: impl Fn(u32, &mut Groups) + Send + Sync + 'static) -> Tree {
    Tree::Registered(Registered::new("mine", split).unwrap())
}

fn refused<T: PartialEq + std::fmt::Debug>(answer: Result<T, TreeError>, error: TreeError, words: &str) {
    assert_eq!(answer, Err(error.clone()));
    assert_eq!(error.to_string(), words);
}

#[test]
fn out_of_range() {
    let words = "position 5 is a child of position 1, but the positions are 0 to 2";
    refused(children(3, &[&[1, 2], &[5]]), TreeError::OutOfRange { parent: 1, child: 5, n: 3 }, words);
    let words = "position 2 is a child of position 3, but the positions are 0 to 2";
    let table = [None, Some(0), Some(3)];
    refused(parents(&table), TreeError::OutOfRange { parent: 3, child: 2, n: 3 }, words);
}

#[test]
fn own_child() {
    let words = "position 2 is its own child";
    refused(children(3, &[&[1], &[], &[2]]), TreeError::OwnChild { position: 2 }, words);
    refused(parents(&[None, Some(0), Some(2)]), TreeError::OwnChild { position: 2 }, words);
    refused(parents(&[Some(0)]), TreeError::OwnChild { position: 0 }, "position 0 is its own child");
}

#[test]
fn two_parents() {
    let words = "position 3 has two parents, positions 1 and 2";
    let error = TreeError::TwoParents { child: 3, first: 1, second: 2 };
    refused(children(4, &[&[1, 2], &[3], &[3]]), error, words);
    let words = "position 2 is listed twice as a child of position 0";
    let error = TreeError::TwoParents { child: 2, first: 0, second: 0 };
    refused(children(3, &[&[1, 2, 2]]), error, words);
}

#[test]
fn cycle() {
    let words = "positions form a cycle, each the parent of the next: 2 -> 4 -> 3 -> 2";
    let error = TreeError::Cycle { path: vec![2, 4, 3] };
    refused(children(6, &[&[1], &[], &[4, 5], &[2], &[3]]), error.clone(), words);
    refused(parents(&[None, Some(0), Some(3), Some(4), Some(2), Some(2)]), error, words);
    // A branch off a cycle, found before the cycle itself.
    let hanging = [None, Some(5), Some(0), Some(5), Some(3), Some(4)];
    assert_eq!(parents(&hanging), Err(TreeError::Cycle { path: vec![3, 4, 5] }));
    // There is also a position without a parent: the cycle is reported.
    assert_eq!(children(4, &[&[], &[], &[3], &[2]]), Err(TreeError::Cycle { path: vec![2, 3] }));
    let long: Vec<Option<u32>> = [None].into_iter().chain((1..100).map(|i| Some(i % 99 + 1))).collect();
    let told = parents(&long).unwrap_err().to_string();
    assert!(told.ends_with("... (87 more) -> 1") && told.len() < 200, "{told}");
}

#[test]
fn root_as_a_child() {
    let words = "positions form a cycle, each the parent of the next: 0 -> 1 -> 0";
    refused(children(2, &[&[1], &[0]]), TreeError::Cycle { path: vec![0, 1] }, words);
    refused(parents(&[Some(1), Some(0)]), TreeError::Cycle { path: vec![0, 1] }, words);
    let words = "position 0 is the root and cannot be a child of position 1";
    refused(children(2, &[&[], &[0]]), TreeError::RootHasParent { parent: 1 }, words);
}

#[test]
fn unreachable() {
    let words =
        "position 3 cannot be reached from position 0: it has no parent; 3 positions in all are not reached";
    let error = TreeError::Unreachable { first: 3, count: 3 };
    refused(children(6, &[&[1, 2], &[], &[], &[4, 5]]), error, words);
    let words = "position 1 cannot be reached from position 0: it has no parent";
    refused(children(2, &[]), TreeError::Unreachable { first: 1, count: 1 }, words);
}

#[test]
fn parentless() {
    let words = "position 2 has no parent; only position 0, the root, has none";
    refused(parents(&[None, Some(0), None]), TreeError::Parentless { position: 2 }, words);
}

#[test]
fn fan_out_over_the_limit() {
    let words = "position 1 has 3 children; the limit is 2";
    let limits = Limits { fan_out: 2, ..Limits::default() };
    let error = TreeError::FanOut { position: 1, fan_out: 3, limit: 2 };
    let table = [None, Some(0), Some(1), Some(1), Some(1)];
    refused(Layout::from_parents(&table, &limits), error.clone(), words);
    let answer = |position: u32, out: &mut Vec<u32>| {
        out.extend([&[1][..], &[2, 3, 4]].get(position as usize).copied().unwrap_or_default())
    };
    refused(Layout::from_children(5, answer, &limits), error.clone(), words);
    let tree = parents(&table).unwrap().tree();
    refused(tree.check(5, &limits), error, words);

    let flat = |len: u32| {
        registered(move |n, groups| {
            if n == len {
                groups.extend((1..n).map(|start| Group { start, len: 1 }));
            } else {
                groups.push(Group { start: 1, len: n - 1 });
            }
        })
    };
    refused(
        flat(4).check(6, &limits),
        TreeError::FanOut { position: 2, fan_out: 3, limit: 2 },
        "position 2 has 3 children; the limit is 2",
    );
}

#[test]
fn fan_out_over_the_bound_of_the_crate() {
    let wide = TreeError::FanOut { position: 0, fan_out: MAX_FAN_OUT + 1, limit: MAX_FAN_OUT };
    let n = MAX_FAN_OUT + 2;
    assert_eq!(Tree::Flat.split(n), Err(wide.clone()));
    let wider = Limits { depth: u32::MAX, fan_out: u32::MAX };
    assert_eq!(Tree::Flat.check(n, &wider), Err(wide.clone()));
    assert!(Tree::Flat.check(n - 1, &wider).is_ok());
    let flat = registered(|n, groups| groups.extend((1..n).map(|start| Group { start, len: 1 })));
    assert_eq!(flat.split(n), Err(wide.clone()));
    let mut sizes = vec![1; n as usize];
    sizes[0] = n;
    let shape = Tree::Explicit(Shape::from_sizes(sizes).unwrap());
    assert_eq!(shape.split(n), Err(wide.clone()));
    assert_eq!(shape.check(n, &wider), Err(wide));
}

#[test]
fn depth_over_the_limit() {
    let words = "position 4 lies more than 2 levels below the root, which is the limit";
    let limits = Limits { depth: 2, ..Limits::default() };
    let error = TreeError::Depth { position: 4, limit: 2 };
    let table = [None, Some(0), Some(0), Some(1), Some(3)];
    refused(Layout::from_parents(&table, &limits), error, words);
    let tree = parents(&table).unwrap().tree();
    assert_eq!(tree.check(5, &limits), Err(TreeError::Depth { position: 3, limit: 2 }));
    let chain = registered(|n, groups| groups.push(Group { start: 1, len: n - 1 }));
    assert_eq!(chain.check(100, &limits), Err(TreeError::Depth { position: 3, limit: 2 }));
    let deep = TreeError::Depth { position: 65_536, limit: 65_535 };
    let deeper = Limits { depth: u32::MAX, ..Limits::default() };
    for tree in [Tree::Chain, chain] {
        assert_eq!(tree.check(65_537, &deeper), Err(deep.clone()));
        assert_eq!(levels(&tree, 65_537), Err(deep.clone()));
        assert_eq!(tree.check(65_536, &deeper).unwrap().depth, 65_535);
    }
}

#[test]
fn children_not_deterministic() {
    let asked = AtomicU32::new(0);
    let answer = |position: u32, out: &mut Vec<u32>| match position {
        0 => out.extend([1, 2]),
        1 => out.extend((asked.fetch_add(1, Ordering::Relaxed) > 0).then_some(3)),
        _ => out.push(3),
    };
    let error = TreeError::ChildrenNotDeterministic { position: 1, first: vec![], second: vec![3] };
    let words = "asked twice for the children of position 1, the function answered [] and then [3]";
    refused(Layout::from_children(4, answer, &Limits::default()), error, words);
}

#[test]
fn split_not_deterministic() {
    let asked = AtomicU32::new(0);
    let tree = registered(move |n, groups| {
        let first = if n == 3 { 1 + asked.fetch_add(1, Ordering::Relaxed) % 2 } else { n - 1 };
        groups.push(Group { start: 1, len: first });
        if first < n - 1 {
            groups.push(Group { start: 1 + first, len: n - 1 - first });
        }
    });
    let (first, second) = (Group { start: 1, len: 1 }, Group { start: 2, len: 1 });
    let error = TreeError::SplitNotDeterministic {
        n: 3,
        first: vec![first, second],
        second: vec![Group { start: 1, len: 2 }],
    };
    let words = "asked twice to split 3 ids, the function answered [1 from 1, 1 from 2] and then [2 from 1]";
    refused(tree.check(5, &Limits::default()), error, words);
}

/// The (start, length) pairs of the groups that a split returns.
type Answer = &'static [(u32, u32)];

#[test]
fn bad_groups_of_a_split() {
    let cases: [(Answer, GroupFault, &str); 10] = [
        (
            &[],
            GroupFault::Sum { covered: 0, rest: 4 },
            "the groups hold 0 positions where 4 follow the receiver",
        ),
        (&[(1, 2), (3, 0)], GroupFault::Empty { group: 1 }, "group 1 is empty"),
        (&[(1, 4), (5, 0)], GroupFault::Empty { group: 1 }, "group 1 is empty"),
        (
            &[(1, 1), (3, 2)],
            GroupFault::Gap { group: 1, expected: 2, start: 3 },
            "group 1 begins at position 3 where it must begin at 2",
        ),
        (
            &[(1, 2), (2, 3)],
            GroupFault::Gap { group: 1, expected: 3, start: 2 },
            "group 1 begins at position 2 where it must begin at 3",
        ),
        (
            &[(0, 5)],
            GroupFault::Gap { group: 0, expected: 1, start: 0 },
            "group 0 begins at position 0 where it must begin at 1",
        ),
        (
            &[(1, 2)],
            GroupFault::Sum { covered: 2, rest: 4 },
            "the groups hold 2 positions where 4 follow the receiver",
        ),
        (
            &[(1, 4), (5, 1)],
            GroupFault::Sum { covered: 5, rest: 4 },
            "the groups hold 5 positions where 4 follow the receiver",
        ),
        (
            &[(1, 4), (7, 1)],
            GroupFault::Sum { covered: 5, rest: 4 },
            "the groups hold 5 positions where 4 follow the receiver",
        ),
        (
            &[(1, u32::MAX), (0, u32::MAX)],
            GroupFault::Sum { covered: 8_589_934_590, rest: 4 },
            "the groups hold 8589934590 positions where 4 follow the receiver",
        ),
    ];
    for (answer, fault, words) in cases {
        let tree = registered(move |n, groups| {
            if n == 5 {
                groups.extend(answer.iter().map(|&(start, len)| Group { start, len }));
            } else {
                groups.push(Group { start: 1, len: n - 1 });
            }
        });
        let error = TreeError::BadGroups { n: 5, fault };
        refused(tree.split(5), error.clone(), &format!("a split of 5 ids: {words}"));
        refused(tree.check(8, &Limits::default()), error.clone(), &format!("a split of 5 ids: {words}"));
        refused(levels(&tree, 8), error.clone(), &format!("a split of 5 ids: {words}"));
        let drawn: Vec<_> = edges(&tree, 8).collect();
        assert_eq!(drawn, [Ok((0, 1)), Ok((1, 2)), Ok((2, 3)), Err(error)]);
    }
}

#[test]
fn nothing_is_drawn_after_an_error() {
    let tree = registered(|n, groups| match n {
        7 => groups.extend([1, 4].map(|start| Group { start, len: 3 })),
        _ => groups.push(Group { start: 2, len: n - 1 }),
    });
    let fault = GroupFault::Gap { group: 0, expected: 1, start: 2 };
    let drawn: Vec<_> = edges(&tree, 7).collect();
    assert_eq!(drawn, [Ok((0, 1)), Err(TreeError::BadGroups { n: 3, fault })]);
}

#[test]
fn bad_sizes_of_a_shape() {
    let shape = |sizes: &[u32]| Shape::from_sizes(sizes.to_vec());
    let words = "position 0 has a subtree of 2 where it must be 3";
    let error = TreeError::BadSize { position: 0, size: 2, least: 3, most: 3 };
    refused(shape(&[2, 1, 1]), error, words);
    let words = "position 1 has a subtree of 3 where 1 to 2 are possible";
    let error = TreeError::BadSize { position: 1, size: 3, least: 1, most: 2 };
    refused(shape(&[3, 3, 1]), error, words);
    let error = TreeError::BadSize { position: 2, size: 0, least: 1, most: 1 };
    refused(shape(&[3, 1, 0]), error, "position 2 has a subtree of 0 where it must be 1");
    refused(shape(&[]), TreeError::Empty, "a tree has at least one position, its root");

    // Each size is possible, but position 2 extends beyond position 1's subtree.
    let tree = Tree::Explicit(shape(&[5, 2, 3, 1, 1]).unwrap());
    let error = TreeError::BadGroups { n: 2, fault: GroupFault::Sum { covered: 3, rest: 1 } };
    let words = "a split of 2 ids: the groups hold 3 positions where 1 follow the receiver";
    refused(tree.check(5, &Limits::default()), error.clone(), words);
    let groups = tree.split(5).unwrap();
    refused(tree.subtree(groups[0]).split(2), error, words);
}

#[test]
fn sizes_that_do_not_match() {
    let layout = parents(&[None, Some(0), Some(0)]).unwrap();
    let words = "the tree is for 3 ids and the list holds 4";
    let error = TreeError::SizeMismatch { tree: 3, list: 4 };
    refused(layout.apply(&IdList::range(0..4)), error.clone(), words);
    refused(layout.tree().split(4), error.clone(), words);
    refused(layout.tree().check(4, &Limits::default()), error.clone(), words);
    refused(levels(&layout.tree(), 4), error, words);
    // A group outside of this tree has no subtree.
    let outside = layout.tree().subtree(Group { start: 2, len: 5 });
    assert_eq!(outside.split(5), Err(TreeError::SizeMismatch { tree: 1, list: 5 }));
    let far = layout.tree().subtree(Group { start: u32::MAX, len: u32::MAX });
    assert_eq!(far.split(1), Err(TreeError::SizeMismatch { tree: 0, list: 1 }));
    // Nor has a group that is not one of its groups.
    let wrong = layout.tree().subtree(Group { start: 1, len: 2 });
    assert_eq!(wrong.split(2), Err(TreeError::BadSize { position: 0, size: 1, least: 2, most: 2 }));
    assert!(wrong.check(2, &Limits::default()).is_err());
}

#[test]
fn none_and_too_many() {
    refused(children(0, &[]), TreeError::Empty, "a tree has at least one position, its root");
    refused(parents(&[]), TreeError::Empty, "a tree has at least one position, its root");
    let n = MAX_POSITIONS + 1;
    let error = TreeError::TooMany { n: n.into(), limit: MAX_POSITIONS };
    let words = "16777217 positions; an explicit tree has at most 16777216";
    refused(Layout::from_children(n, |_, _| panic!("refused before"), &Limits::default()), error, words);
}

#[test]
fn lines_of_a_tree_file() {
    let cases = [
        ("0: 1\n1 2\n", "line 2: \"1 2\" has no colon; a line is PARENT: CHILD CHILD ..."),
        ("0: 1\n\n# fine\n1: two", "line 4: \"two\" is not a position, which is a decimal number"),
        ("0: 1\n-1: 2", "line 2: \"-1\" is not a position, which is a decimal number"),
        ("0: 1\n: 2", "line 2: \"\" is not a position, which is a decimal number"),
        ("0: 1 +2", "line 1: \"+2\" is not a position, which is a decimal number"),
        ("0: 1: 2", "line 1: \"1:\" is not a position, which is a decimal number"),
        ("0: 16777216", "line 1: position 16777216 is past the last that a tree may have, 16777215"),
        ("0: 99999999999", "line 1: position 99999999999 is past the last that a tree may have, 16777215"),
        ("0: 1\n1: 2\n0: 3", "line 3: position 0 has its children in line 1 already"),
        ("\n# nothing\n", "no line names a position; a tree of one position is \"0:\""),
        ("0: 1\n1: 1", "line 2: position 1 is its own child"),
        ("1: 3\n0: 1 2\n2: 3", "lines 1, 3: position 3 has two parents, positions 1 and 2"),
        ("0: 1\n1: 2 2", "line 2: position 2 is listed twice as a child of position 1"),
        ("0: 1\n2: 3\n3: 2", "lines 2, 3: positions form a cycle, each the parent of the next: 2 -> 3 -> 2"),
        ("2: 0\n1: 2", "line 1: position 0 is the root and cannot be a child of position 2"),
        (
            "0: 1\n2: 3\n",
            "line 2: position 2 cannot be reached from position 0: it has no parent; 2 positions in all are not reached",
        ),
        (
            "1: 2",
            "line 1: position 1 cannot be reached from position 0: it has no parent; 2 positions in all are not reached",
        ),
        (
            "0: 1 4",
            "position 2 cannot be reached from position 0: it has no parent; 2 positions in all are not reached",
        ),
    ];
    for (text, words) in cases {
        assert_eq!(file(text).to_string(), words, "{text:?}");
    }
    let limits = Limits { depth: 1, fan_out: 2 };
    let told = |text: &str| Layout::parse(text, &limits).unwrap_err().to_string();
    assert_eq!(told("0: 1\n\n1: 2"), "position 2 lies more than 1 levels below the root, which is the limit");
    let unreached =
        "position 3 cannot be reached from position 0: it has no parent; 6 positions in all are not reached";
    assert_eq!(told("0: 1\n1: 2\n2: 9"), unreached);
    assert_eq!(told("0: 1 2 3"), "line 1: position 0 has 3 children; the limit is 2");
}

/// A large number is not trusted: the memory used is that of the text.
#[test]
fn a_high_position_in_a_short_file_costs_nothing() {
    let error = TreeError::Unreachable { first: 1, count: 16_777_214 };
    assert_eq!(file("0: 16777215"), TreeFileError::Structure { lines: vec![], error });
    // The cycle is reported in the caller's numbers.
    let error = TreeError::Cycle { path: vec![1_000_000, 9_000_000] };
    assert_eq!(
        file("0: 5\n9000000: 1000000\n1000000: 9000000"),
        TreeFileError::Structure { lines: vec![3, 2], error }
    );
}

#[test]
fn a_long_wrong_word_is_cut_short() {
    let told = file(&format!("0: {}", "\u{e9}".repeat(10_000))).to_string();
    assert!(told.len() < 300, "{told}");
}

/// A subtree that ends one position after its parent's.
#[test]
fn a_subtree_lies_within_its_parents() {
    for (sizes, is_tree) in [
        (vec![4, 2, 2, 1], false),
        (vec![4, 3, 2, 1], true),
        (vec![5, 3, 1, 2, 1], false),
        (vec![5, 3, 1, 1, 1], true),
    ] {
        let n = sizes.len() as u32;
        let tree = Tree::Explicit(gpc_trees::Shape::from_sizes(sizes.clone()).unwrap());
        assert_eq!(tree.check(n, &Limits::default()).is_ok(), is_tree, "{sizes:?}");
        assert_eq!(edges(&tree, n).all(|edge| edge.is_ok()), is_tree, "{sizes:?}");
    }
}

/// Of several groups that are too deep the first is named.
#[test]
fn the_first_position_that_is_too_deep_is_named() {
    let limits = Limits { depth: 1, ..Limits::default() };
    assert_eq!(Tree::Binary.check(7, &limits), Err(TreeError::Depth { position: 2, limit: 1 }));
    let limits = Limits { depth: 0, ..Limits::default() };
    assert_eq!(Tree::Flat.check(4, &limits), Err(TreeError::Depth { position: 1, limit: 0 }));
}

/// A length that occurs at several levels counts at the deepest.
#[test]
fn the_depth_of_a_registered_split_is_that_of_its_deepest_id() {
    let comb = registered(|n, groups| {
        groups.push(Group { start: 1, len: 1 });
        if n > 2 {
            groups.push(Group { start: 2, len: n - 2 });
        }
    });
    let deepest = |n: u32| {
        let mut depths = vec![0; n as usize];
        for edge in edges(&comb, n) {
            let (parent, child) = edge.unwrap();
            depths[child as usize] = depths[parent as usize] + 1;
        }
        depths.into_iter().max().unwrap()
    };
    for n in 1..40 {
        assert_eq!(comb.check(n, &Limits::default()).unwrap().depth, deepest(n), "{n}");
    }
    let limits = Limits { depth: 5, ..Limits::default() };
    assert_eq!(comb.check(12, &limits), Err(TreeError::Depth { position: 11, limit: 5 }));
}
