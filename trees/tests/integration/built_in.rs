//! Tests that the built-in trees have their documented properties: one parent each, no id left out, depth and fan-out.
//!
//! If the groups of every length cover the rest once, in order, this follows for the whole tree by induction on the
//! length. So do depth and fan-out. Walks over all ids check samples without induction. The documented forms are
//! computed independently and naively here.

use gpc_trees::{Group, IdList, Limits, MAX_FAN_OUT, Radix, Summary, Tree, TreeError, levels};
use std::num::NonZeroU32;

const LARGEST: u32 = 1_000_000;
const RADICES: [u32; 7] = [2, 3, 4, 5, 8, 16, 100];

fn kary(k: u32) -> Tree {
    Tree::Kary(NonZeroU32::new(k).unwrap())
}

fn knomial(k: u32) -> Tree {
    Tree::Knomial(Radix::new(k).unwrap())
}

/// Every built-in tree with the radix whose powers matter for it.
fn trees() -> Vec<(Tree, u32)> {
    let mut trees =
        vec![(Tree::Binary, 2), (Tree::Binomial, 2), (Tree::Chain, 2), (Tree::Flat, 2), (kary(1), 2)];
    trees.extend(RADICES.map(|k| (kary(k), k)));
    trees.extend(RADICES.map(|k| (knomial(k), k)));
    trees
}

/// Lengths around the powers of 2 and of k up to a million, and around 1 + k + ... + k^d, where k-ary levels are full.
fn lengths(k: u32) -> Vec<u32> {
    let mut lengths = vec![LARGEST];
    for base in [2, k] {
        let (mut power, mut sum) = (1, 1);
        while power <= LARGEST {
            lengths.extend([power, sum].iter().flat_map(|&at| at.saturating_sub(2)..=at + 2));
            power *= base;
            sum += power;
        }
    }
    lengths.retain(|n| (1..=LARGEST).contains(n));
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}

/// The documented sizes of the groups, computed naively.
fn documented_sizes(tree: &Tree, n: u32) -> Vec<u32> {
    let m = n - 1;
    let equal = |k: u32| {
        let parts = k.min(m);
        (0..parts).map(|part| m / parts + u32::from(part < m % parts)).collect()
    };
    let growing = |k: u64| {
        let sizes = (0..).flat_map(|j| (1..k).map(move |_| k.pow(j)));
        let mut left = u64::from(m);
        let mut groups = Vec::new();
        for size in sizes {
            if left == 0 {
                break;
            }
            groups.push(size.min(left) as u32);
            left -= size.min(left);
        }
        groups
    };
    match tree {
        Tree::Binary => equal(2),
        Tree::Kary(k) => equal(k.get()),
        Tree::Chain => equal(1),
        Tree::Flat => vec![1; m as usize],
        Tree::Binomial => growing(2),
        Tree::Knomial(k) => growing(k.value().into()),
        other => panic!("{other} is not built in"),
    }
}

/// The documented depth, computed naively.
fn documented_depth(tree: &Tree, n: u32) -> u32 {
    let n = u128::from(n);
    let sum_to = |k: u128, d: u32| (0..d).map(|j| k.pow(j)).sum::<u128>();
    let depth = match tree {
        Tree::Binary | Tree::Binomial => (0..).take_while(|&d| 2u128.pow(d) <= n).last(),
        Tree::Kary(k) if k.get() == 1 => Some(n as u32 - 1),
        Tree::Kary(k) => (0..).find(|&d| sum_to(k.get().into(), d + 1) >= n),
        Tree::Knomial(k) => {
            let k = u128::from(k.value());
            (0..).take_while(|&d| (k.pow(d) - 1) / (k - 1) < n).last()
        }
        Tree::Chain => Some(n as u32 - 1),
        Tree::Flat => Some((n as u32 - 1).min(1)),
        other => panic!("{other} is not built in"),
    };
    depth.unwrap()
}

/// The documented number of the root's children, computed naively where there is another form.
fn documented_fan_out(tree: &Tree, n: u32) -> u32 {
    match tree {
        Tree::Binary => (n - 1).min(2),
        Tree::Kary(k) => (n - 1).min(k.get()),
        Tree::Chain => (n - 1).min(1),
        Tree::Flat => n - 1,
        Tree::Binomial => (0..).find(|&bits| 2u64.pow(bits) >= u64::from(n)).unwrap(),
        Tree::Knomial(k) => {
            let k = u64::from(k.value());
            let (j, power) =
                (0..).map(|j| (j, k.pow(j))).take_while(|&(_, power)| power <= n.into()).last().unwrap();
            (u64::from(j) * (k - 1) + u64::from(n).div_ceil(power) - 1) as u32
        }
        other => panic!("{other} is not built in"),
    }
}

/// Summaries by length, by induction: the summary of a length is known once those of its groups are.
struct Proved<'a> {
    tree: &'a Tree,
    known: Vec<Option<Summary>>,
}

impl<'a> Proved<'a> {
    fn new(tree: &'a Tree) -> Proved<'a> {
        Proved { tree, known: vec![None; LARGEST as usize + 1] }
    }

    fn summary(&mut self, n: u32) -> Summary {
        let mut open = vec![n];
        while let Some(&len) = open.last() {
            if self.known[len as usize].is_some() {
                open.pop();
                continue;
            }
            let groups = self.tree.split(len).unwrap();
            let before = open.len();
            // Only the first unknown group: one of each length suffices.
            open.extend(groups.iter().map(|group| group.len).find(|&len| self.known[len as usize].is_none()));
            if open.len() == before {
                self.known[len as usize] = Some(self.join(len, &groups));
                open.pop();
            }
        }
        self.known[n as usize].unwrap()
    }

    /// The induction step: the groups cover positions 1..n once, in order, and the groups are trees.
    fn join(&self, n: u32, groups: &[Group]) -> Summary {
        let mut end = 1;
        let mut summary = Summary { depth: 0, fan_out: groups.len() as u32 };
        for group in groups {
            assert!(group.start == end && group.len > 0, "{} of {n}: {group:?} after {end}", self.tree);
            end += group.len;
            let below = self.known[group.len as usize].unwrap();
            summary.depth = summary.depth.max(below.depth + 1);
            summary.fan_out = summary.fan_out.max(below.fan_out);
        }
        assert_eq!(end, n, "{} of {n} leaves ids out", self.tree);
        summary
    }
}

fn assert_documented(proved: &mut Proved<'_>, n: u32) {
    let tree = proved.tree;
    let summary = proved.summary(n);
    let documented = Summary { depth: documented_depth(tree, n), fan_out: documented_fan_out(tree, n) };
    assert_eq!(summary, documented, "{tree} of {n}");
    assert_eq!(
        (tree.depth(n), tree.fan_out(n)),
        (Some(summary.depth), Some(summary.fan_out)),
        "{tree} of {n}"
    );
    if summary.depth <= Limits::default().depth && summary.fan_out <= Limits::default().fan_out {
        assert_eq!(tree.check(n, &Limits::default()), Ok(summary), "{tree} of {n}");
    } else {
        assert!(tree.check(n, &Limits::default()).is_err(), "{tree} of {n}");
    }
}

#[test]
fn every_length_to_4096_is_as_documented() {
    for (tree, _) in trees() {
        let mut proved = Proved::new(&tree);
        (1..=4096).for_each(|n| assert_documented(&mut proved, n));
    }
}

#[test]
fn lengths_around_powers_up_to_a_million_are_as_documented() {
    for (tree, k) in trees() {
        let mut proved = Proved::new(&tree);
        lengths(k).into_iter().for_each(|n| assert_documented(&mut proved, n));
    }
}

#[test]
fn group_sizes_are_as_documented() {
    for (tree, k) in trees() {
        for n in (1..=600).chain(lengths(k).into_iter().filter(|&n| tree != Tree::Flat || n < 5000)) {
            let sizes: Vec<u32> = tree.split(n).unwrap().iter().map(|group| group.len).collect();
            assert_eq!(sizes, documented_sizes(&tree, n), "{tree} of {n}");
        }
    }
}

/// Walks all ids through actual slices of a list, checks that each is reached once, and returns the number of ids at
/// each depth.
fn walk(tree: &Tree, ids: &IdList) -> Vec<u32> {
    let first = ids.first().unwrap();
    let mut reached = vec![false; ids.len() as usize];
    let mut levels = Vec::new();
    let mut pending = vec![(ids.clone(), 0)];
    while let Some((slice, depth)) = pending.pop() {
        let id = slice.first().unwrap();
        assert!(
            !std::mem::replace(&mut reached[(id - first) as usize], true),
            "{tree}: {id} has two parents"
        );
        if levels.len() <= depth {
            levels.resize(depth + 1, 0);
        }
        levels[depth] += 1;
        let groups = tree.split(slice.len()).unwrap();
        pending.extend(groups.iter().map(|&group| (slice.slice(group), depth + 1)));
    }
    assert!(reached.iter().all(|&reached| reached), "{tree}: not all ids are reached");
    levels
}

#[test]
fn walks_over_all_ids_reach_each_once() {
    for (tree, k) in trees() {
        for n in (1..=70).chain(lengths(k).into_iter().filter(|&n| n < 3000)) {
            let counts = walk(&tree, &IdList::range(10..10 + n));
            assert_eq!(counts.len() as u32 - 1, documented_depth(&tree, n), "{tree} of {n}");
            assert_eq!(levels(&tree, n).unwrap(), counts, "{tree} of {n}");
        }
    }
}

fn walk_around(tree: &Tree, lengths: &[u32]) {
    for &n in lengths {
        let counts = walk(tree, &IdList::range(0..n));
        assert_eq!(counts.len() as u32 - 1, documented_depth(tree, n), "{tree} of {n}");
    }
}

#[test]
fn walks_over_a_million_ids_with_equal_parts() {
    walk_around(&Tree::Binary, &[131_071, 131_072, 131_073, LARGEST]);
    walk_around(&kary(8), &[262_143, 262_144, 262_145, 299_593, 299_594]);
    walk_around(&Tree::Chain, &[LARGEST]);
}

#[test]
fn walks_over_a_million_ids_with_growing_groups() {
    walk_around(&Tree::Binomial, &[131_071, 131_072, 131_073, LARGEST]);
    walk_around(&knomial(8), &[262_143, 262_144, 262_145]);
    walk_around(&Tree::Flat, &[LARGEST]);
}

#[test]
fn knomial_of_radix_2_is_binomial_and_kary_2_is_binary() {
    for n in 1..2000 {
        assert_eq!(knomial(2).split(n), Tree::Binomial.split(n));
        assert_eq!(kary(2).split(n), Tree::Binary.split(n));
        assert_eq!(kary(1).split(n), Tree::Chain.split(n));
        assert_eq!(kary(n).split(n), Tree::Flat.split(n));
    }
}

/// A receiver must not trust a length from a peer: nothing overflows, and nothing large is allocated.
#[test]
fn the_longest_lists_split_or_are_refused() {
    for (tree, _) in trees().into_iter().chain([(kary(u32::MAX), 0), (knomial(u32::MAX), 0)]) {
        for n in [u32::MAX, u32::MAX - 1, 1 << 31, MAX_FAN_OUT + 2] {
            let fan_out = tree.fan_out(n).unwrap();
            match tree.split(n) {
                Ok(groups) => {
                    assert_eq!(groups.len(), fan_out as usize);
                    assert_eq!(
                        groups.iter().map(|group| u64::from(group.len)).sum::<u64>(),
                        u64::from(n) - 1
                    );
                }
                Err(error) => {
                    assert!(fan_out > MAX_FAN_OUT);
                    assert_eq!(error, TreeError::FanOut { position: 0, fan_out, limit: MAX_FAN_OUT });
                }
            }
            assert_eq!(tree.depth(n).unwrap(), documented_depth(&tree, n), "{tree} of {n}");
        }
    }
}

#[test]
fn limits_name_a_position_that_breaks_them() {
    for (tree, _) in trees() {
        for n in [2, 3, 10, 100, 1000] {
            let depth = tree.depth(n).unwrap();
            for limit in [0, 1, depth / 2, depth - 1].into_iter().filter(|&limit| limit < depth) {
                let Err(TreeError::Depth { position, limit: told }) =
                    tree.check(n, &Limits { depth: limit, ..Limits::default() })
                else {
                    panic!("{tree} of {n} is deeper than {limit}");
                };
                assert_eq!((told, depth_of(&tree, n, position)), (limit, limit + 1), "{tree} of {n}");
            }
            let fan_out = tree.fan_out(n).unwrap();
            let refused = tree.check(n, &Limits { fan_out: fan_out - 1, ..Limits::default() });
            assert_eq!(refused, Err(TreeError::FanOut { position: 0, fan_out, limit: fan_out - 1 }));
        }
    }
}

fn depth_of(tree: &Tree, n: u32, position: u32) -> u32 {
    let parents: Vec<(u32, u32)> = gpc_trees::edges(tree, n).collect::<Result<_, _>>().unwrap();
    let (mut at, mut depth) = (position, 0);
    while at != 0 {
        at = parents.iter().find(|&&(_, child)| child == at).unwrap().0;
        depth += 1;
    }
    depth
}

#[test]
fn no_ids_are_no_tree_and_one_id_has_no_groups() {
    for (tree, _) in trees() {
        assert_eq!(tree.split(0), Err(TreeError::Empty));
        assert_eq!(tree.check(0, &Limits::default()), Err(TreeError::Empty));
        assert_eq!(levels(&tree, 0), Err(TreeError::Empty));
        assert!(tree.split(1).unwrap().is_empty());
        assert_eq!(tree.check(1, &Limits { depth: 0, fan_out: 0 }), Ok(Summary::default()));
        assert_eq!(levels(&tree, 1), Ok(vec![1]));
        assert_eq!(gpc_trees::edges(&tree, 1).count(), 0);
    }
}

#[test]
fn edges_are_those_of_the_walk_in_preorder() {
    let binary: Vec<_> = gpc_trees::edges(&Tree::Binary, 7).map(Result::unwrap).collect();
    assert_eq!(binary, [(0, 1), (1, 2), (1, 3), (0, 4), (4, 5), (4, 6)]);
    let binomial: Vec<_> = gpc_trees::edges(&Tree::Binomial, 8).map(Result::unwrap).collect();
    assert_eq!(binomial, [(0, 1), (0, 2), (2, 3), (0, 4), (4, 5), (4, 6), (6, 7)]);
    for (tree, _) in trees() {
        let edges: Vec<_> = gpc_trees::edges(&tree, 500).map(Result::unwrap).collect();
        assert!(edges.iter().map(|&(_, child)| child).eq(1..500), "{tree}: children come in preorder");
        assert!(edges.iter().all(|&(parent, child)| parent < child));
    }
}

#[test]
fn the_largest_group_is_sent_first_and_equal_ones_in_list_order() {
    let groups = Tree::Binomial.split(12).unwrap();
    let sizes: Vec<u32> = groups.iter().map(|group| group.len).collect();
    assert_eq!(sizes, [1, 2, 4, 4]);
    assert_eq!(gpc_trees::send_order(&groups).to_vec(), [2, 3, 1, 0]);
    assert_eq!(gpc_trees::send_order(&kary(3).split(8).unwrap()).to_vec(), [0, 1, 2]);
    assert!(gpc_trees::send_order(&[]).is_empty());
    let mixed: Vec<Group> = (0..200).map(|i| Group { start: 1, len: i * 7 % 3 }).collect();
    let order = gpc_trees::send_order(&mixed);
    let key = |index: usize| (std::cmp::Reverse(mixed[index].len), index);
    assert!(order.len() == 200 && order.windows(2).all(|pair| key(pair[0]) < key(pair[1])));
}
