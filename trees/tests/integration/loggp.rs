//! Tests that the `loggp` tree is the fastest for its lag: against a naive simulation, and against every other tree.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use gpc_trees::{Lag, Limits, Tree, TreeName, edges, levels};
use proptest::prelude::*;

const UNIT: u64 = 1024;

/// The optimum, by the greedy rule: every node that knows the message sends it at every gap, and the earliest arrivals
/// count.
fn greedy(n: u32, lag: u64) -> u64 {
    let mut arrivals = BinaryHeap::from([Reverse((0u64, 0u64))]);
    let mut last = 0;
    for _ in 0..n {
        // A node that was reached at `at` by a send at `sent` adds two candidates: its sender's next send, and its own
        // first send.
        let Reverse((at, sent)) = arrivals.pop().unwrap();
        last = at;
        arrivals.push(Reverse((at + lag, at)));
        if at > 0 {
            arrivals.push(Reverse((sent + UNIT + lag, sent + UNIT)));
        }
    }
    last
}

/// The time when the last node of a tree knows the message: each parent sends to its children in list order, a gap
/// apart.
fn completion(tree: &Tree, n: u32, lag: u64) -> u64 {
    let mut known = vec![0u64; n as usize];
    let mut sends = vec![0u64; n as usize];
    for edge in edges(tree, n) {
        let (parent, child) = edge.unwrap();
        known[child as usize] = known[parent as usize] + sends[parent as usize] * UNIT + lag;
        sends[parent as usize] += 1;
    }
    known.into_iter().max().unwrap()
}

fn tree(lag: u64) -> Tree {
    Tree::Loggp(Lag::from_1024ths(lag as u32).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn it_is_as_fast_as_can_be(n in 1u32..1500, lag in UNIT..40 * UNIT) {
        prop_assert_eq!(completion(&tree(lag), n, lag), greedy(n, lag));
    }

    #[test]
    fn depth_and_fan_out_are_those_of_the_tree(n in 1u32..3000, lag in UNIT..40 * UNIT) {
        let tree = tree(lag);
        let mut children = vec![0u32; n as usize];
        edges(&tree, n).for_each(|edge| children[edge.unwrap().0 as usize] += 1);
        prop_assert_eq!(tree.fan_out(n), children.into_iter().max());
        prop_assert_eq!(tree.depth(n).map(|depth| depth as usize + 1), Some(levels(&tree, n).unwrap().len()));
        prop_assert!(tree.check(n, &Limits::default()).is_ok());
    }

    #[test]
    fn no_other_tree_is_faster(n in 2u32..1500, lag in UNIT..40 * UNIT, k in 1u32..20) {
        for name in ["binary".to_owned(), "flat".into(), format!("kary:{k}"), format!("knomial:{}", k + 1)] {
            let other = name.parse::<TreeName>().unwrap().built_in().unwrap();
            prop_assert!(completion(&tree(lag), n, lag) <= completion(&other, n, lag), "{name}");
        }
    }

    #[test]
    fn it_prints_as_it_parses(parts in 1024u32..) {
        let tree = Tree::Loggp(Lag::from_1024ths(parts).unwrap());
        prop_assert_eq!(tree.to_string().parse::<TreeName>().unwrap().built_in(), Some(tree.clone()));
        prop_assert_eq!(Tree::from_wire(tree.wire_id(), tree.wire_param()), Some(tree));
    }
}

#[test]
fn the_ends_of_the_scale_are_the_binomial_and_the_flat_tree() {
    for n in [1, 2, 3, 8, 100, 1000] {
        assert_eq!(tree(UNIT).depth(n), Tree::Binomial.depth(n), "{n}");
        assert_eq!(tree(UNIT).fan_out(n), Tree::Binomial.fan_out(n), "{n}");
        assert_eq!(tree(UNIT * 2000).split(n), Tree::Flat.split(n), "{n}");
    }
}

#[test]
fn a_million_ids_are_split_at_once() {
    for lag in [UNIT, 3 * UNIT / 2, 10 * UNIT, 1000 * UNIT, 4_000_000 * UNIT - 1] {
        let tree = tree(lag);
        let groups = tree.split(1_000_000).unwrap();
        assert_eq!(groups.iter().map(|group| group.len).sum::<u32>(), 999_999);
        assert!(tree.depth(1_000_000).unwrap() < 20);
    }
}

#[test]
fn costs_become_a_lag_and_nonsense_is_refused() {
    // 5/3 of a gap: the nearest of the 1,024ths.
    assert_eq!(Lag::of_costs(5, 0, 3, 0.0, 1).unwrap().as_1024ths(), 1707);
    let lag = |text: &str| text.parse::<TreeName>().map(|name| name.to_string());
    assert_eq!(lag("loggp:2.5").unwrap(), "loggp:2.5");
    assert_eq!(lag("loggp:5000,1000,2000,0").unwrap(), "loggp:3.5");
    assert_eq!(lag("loggp:5000,1000,500,0").unwrap(), "loggp:7");
    for bad in [
        "loggp",
        "loggp:",
        "loggp:0.5",
        "loggp:x",
        "loggp:1,2,3",
        "loggp:0,0,0,0",
        "loggp:1,2,3,-1",
        "loggp:NaN",
        "loggp:1e300",
    ] {
        let error = lag(bad).unwrap_err().to_string();
        assert!(error.contains("lag of at least 1"), "{bad}: {error}");
    }
}
