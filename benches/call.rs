//! Whole calls over nodes of this process: the round trip of one, and many in flight.
#![allow(missing_docs)]

use std::collections::VecDeque;
use std::time::Duration;

use chained_gpc::{Call, FuncHandle, Functions, LinkKind, LocalNodes, Tree};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

const IN_FLIGHT: usize = 64;

fn nodes(n: u32, link: LinkKind) -> (LocalNodes, FuncHandle) {
    let functions = Functions::new();
    let echo = functions.inline_func("echo", |request, reply| {
        reply.data = request.data().to_vec();
        Ok(())
    });
    let nodes = LocalNodes::start(n, link, &functions).expect("nodes start");
    (nodes, echo.expect("a fresh name"))
}

fn call(echo: FuncHandle, n: u32) -> Call {
    Call::new(echo).ids(0..n).tree(Tree::Binomial).data(vec![7; 64])
}

fn round_trip(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("round_trip");
    for link in [LinkKind::Tcp, LinkKind::Unix, LinkKind::Shm] {
        for n in [2, 8, 64] {
            let (nodes, echo) = nodes(n, link);
            group.bench_function(BenchmarkId::new(format!("{link:?}"), n), |bencher| {
                bencher.iter(|| {
                    nodes.root().call(call(echo, n)).and_then(|call| call.wait()).expect("the call ends well")
                });
            });
        }
    }
    group.finish();
}

fn in_flight(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("in_flight_64");
    group.throughput(Throughput::Elements(1));
    for link in [LinkKind::Tcp, LinkKind::Unix, LinkKind::Shm] {
        for n in [2, 8, 64] {
            let (nodes, echo) = nodes(n, link);
            let mut flying = VecDeque::new();
            group.bench_function(BenchmarkId::new(format!("{link:?}"), n), |bencher| {
                bencher.iter(|| {
                    while flying.len() < IN_FLIGHT {
                        flying.push_back(nodes.root().call(call(echo, n)).expect("the node takes the call"));
                    }
                    flying.pop_front().map(|call| call.wait().expect("the call ends well"))
                });
            });
        }
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(30).measurement_time(Duration::from_secs(3));
    targets = round_trip, in_flight
}
criterion_main!(benches);
