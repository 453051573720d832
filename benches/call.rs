//! Benchmark of whole calls over nodes of this process: one call at a time, and many in flight. Two polled nodes,
//! driven by one thread, show the cost of the nodes; with a thread each, they show their highest speed.
#![allow(missing_docs)]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chained_gpc::Placement;
use chained_gpc::{Call, FuncHandle, Functions, LinkKind, LocalNodes, PolledNode, Tree, Wait};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use gpc_test_support::nodes::polled_pair;

const IN_FLIGHT: usize = 64;

fn nodes(n: u32, link: LinkKind) -> (LocalNodes, FuncHandle) {
    let functions = Functions::new();
    let echo = functions.at(Placement::Inline).func("echo", |request, reply| {
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

/// Two polled nodes that busy-poll while they are driven.
fn polled(link: LinkKind) -> ([PolledNode; 2], FuncHandle) {
    let functions = Functions::new();
    let echo = functions.at(Placement::Inline).func("echo", |request, reply| {
        reply.data.extend_from_slice(request.data());
        Ok(())
    });
    let spin = Wait::Spin(Duration::from_millis(1));
    let nodes = polled_pair(link, &functions, |builder| builder.wait(spin));
    (nodes, echo.expect("a fresh name"))
}

/// One thread drives both in turn: the work of a round, without any wake-up.
fn by_one_thread(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("by_one_thread");
    for link in [LinkKind::Tcp, LinkKind::Unix, LinkKind::Shm] {
        let ([mut root, mut leaf], echo) = polled(link);
        group.bench_function(BenchmarkId::from_parameter(format!("{link:?}")), |bencher| {
            bencher.iter(|| {
                let mut handle = root.call(call(echo, 2)).expect("a good call");
                loop {
                    root.progress(Duration::ZERO).expect("the poll works");
                    leaf.progress(Duration::ZERO).expect("the poll works");
                    if let Some(outcome) = handle.test() {
                        return outcome.expect("the call ends well");
                    }
                }
            });
        });
    }
    group.finish();
}

/// A thread for each node, and both busy-poll: the shortest latency, if each thread has a core.
fn by_two_threads(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("by_two_threads");
    for link in [LinkKind::Tcp, LinkKind::Unix, LinkKind::Shm] {
        let ([mut root, mut leaf], echo) = polled(link);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    leaf.progress(Duration::from_millis(1)).expect("the poll works");
                }
            });
            group.bench_function(BenchmarkId::from_parameter(format!("{link:?}")), |bencher| {
                bencher.iter(|| {
                    let handle = root.call(call(echo, 2)).expect("a good call");
                    root.wait(handle).expect("the call ends well")
                });
            });
            done.store(true, Ordering::Relaxed);
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(30).measurement_time(Duration::from_secs(3));
    targets = round_trip, in_flight, by_one_thread, by_two_threads
}
criterion_main!(benches);
