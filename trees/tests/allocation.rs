//! Tests that a range of a million ids passes down a tree without allocation.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use gpc_test_support::memory::{Counting, OfThread};
use gpc_trees::{Group, IdList, Layout, Limits, Run, Tree, send_order};

#[global_allocator]
static COUNTING: Counting<OfThread> = Counting::new();

fn allocations(work: impl FnOnce()) -> u64 {
    OfThread::cost(work).1.allocations
}

/// Walks every slice of a list; the caller supplies the memory of the walk.
fn walk(tree: &Tree, ids: &IdList, pending: &mut Vec<(Tree, IdList)>) -> u32 {
    let mut reached = 0;
    pending.push((tree.clone(), ids.clone()));
    while let Some((tree, slice)) = pending.pop() {
        reached += 1;
        let groups = tree.split(slice.len()).unwrap();
        for index in send_order(&groups) {
            pending.push((tree.subtree(groups[index]), slice.slice(groups[index])));
        }
    }
    reached
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1)))), 1);
}

#[test]
fn a_range_of_a_million_ids_goes_down_a_binary_tree_without_allocation() {
    let mut pending = Vec::with_capacity(100);
    let counted = allocations(|| {
        let ids = IdList::range(0..1_000_000);
        assert_eq!(walk(&Tree::Binary, &ids, &mut pending), 1_000_000);
    });
    assert_eq!(counted, 0);
}

#[test]
fn a_scattered_list_is_not_copied_on_the_way_down() {
    let mut pending = Vec::with_capacity(100);
    let ids = IdList::from_runs((0..5000).map(|i| Run { first: 10 * (5000 - i), count: 1 + i % 3 })).unwrap();
    let counted = allocations(|| {
        assert_eq!(walk(&Tree::Binary, &ids, &mut pending), ids.len());
    });
    assert_eq!(counted, 0);
}

#[test]
fn a_shape_is_not_copied_on_the_way_down() {
    let n = 20_000;
    let heap = |i: u32, out: &mut Vec<u32>| out.extend([2 * i + 1, 2 * i + 2].into_iter().filter(|&c| c < n));
    let layout = Layout::from_children(n, heap, &Limits::default()).unwrap();
    let (tree, ids) = (layout.tree(), layout.apply(&IdList::range(0..n)).unwrap());
    let mut pending = Vec::with_capacity(100);
    let counted = allocations(|| {
        assert_eq!(walk(&tree, &ids, &mut pending), n);
    });
    assert_eq!(counted, 0);
}

#[test]
fn the_length_of_a_slice_alone_allocates_nothing() {
    let ids = IdList::range(0..u32::MAX);
    let counted = allocations(|| {
        assert!(Tree::Flat.split(ids.len()).is_err());
        assert_eq!(ids.slice(Group { start: 7, len: 1 << 31 }).first(), Some(7));
    });
    assert_eq!(counted, 0);
}
