//! Benchmark of calls at a node that has many other links, and connections without a hello: they must cost as much as
//! at a node without any.
#![allow(missing_docs)]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use chained_gpc::Placement;
use chained_gpc::{Call, FuncHandle, Functions, LinkKind, PolledNode};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use gpc_test_support::{nodes, strangers};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Links beside the one that a call uses: each takes two descriptors of this process.
const LINKS: [u32; 4] = [0, 100, 1000, 5000];

/// A root, and the node that it calls, without threads.
struct Pair {
    nodes: [PolledNode; 2],
    func: FuncHandle,
}

impl Pair {
    fn new() -> Pair {
        let functions = Functions::new();
        let func = functions.at(Placement::Inline).func("nothing", |_, _| Ok(())).expect("a fresh name");
        let nodes = nodes::polled_pair(LinkKind::Unix, &functions, |builder| builder);
        Pair { nodes, func }
    }

    fn call(&mut self) {
        let mut handle = self.nodes[0].call(Call::new(self.func).ids(0..2)).expect("a good call");
        loop {
            nodes::turn(&mut self.nodes);
            if let Some(ended) = handle.test() {
                ended.expect("it ends well");
                return;
            }
        }
    }
}

fn a_call_beside_links(criterion: &mut Criterion) {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).expect("up to the hard limit");
    let most = limit.maximum.unwrap_or(u64::MAX) / 4;
    let mut group = criterion.benchmark_group("a_call_beside_links");
    for links in LINKS.into_iter().filter(|links| u64::from(*links) <= most) {
        let mut pair = Pair::new();
        let _held: Vec<UnixStream> =
            (0..links).map(|id| strangers::link(&mut pair.nodes[1], 1000 + id)).collect();
        group.bench_function(BenchmarkId::new("one_is_silent", links), |bencher| {
            // A new one for each measurement, since a connection without a hello is closed after some seconds.
            bencher.iter_custom(|calls| {
                let _silent = strangers::connect(&pair.nodes[1]);
                pair.call();
                let begun = Instant::now();
                (0..calls).for_each(|_| pair.call());
                begun.elapsed()
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(2));
    targets = a_call_beside_links
}
criterion_main!(benches);
