//! Benchmark of a node's search for its children: one split of its slice, and the slices of the children.
#![allow(missing_docs)]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use gpc_trees::{IdList, TreeName, send_order};

fn split(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("split");
    for name in ["binary", "binomial", "kary:8", "knomial:4", "chain"] {
        let tree = name.parse::<TreeName>().ok().and_then(|name| name.built_in()).expect("a built-in tree");
        for n in [64u32, 1 << 20] {
            let ids = IdList::range(0..n);
            group.bench_with_input(BenchmarkId::new(name, n), &n, |bencher, &n| {
                bencher.iter(|| {
                    let groups = tree.split(black_box(n)).expect("a good length");
                    send_order(&groups).iter().map(|&index| ids.slice(groups[index]).len()).sum::<u32>()
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, split);
criterion_main!(benches);
