//! Benchmark of the simulator: events a second, over whole runs.
#![allow(missing_docs)]

use std::time::Duration;

use chained_gpc::Tree;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use gpc_sim::{FaultSet, Scenario, run};

fn events(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sim_events");
    group.sample_size(20).measurement_time(Duration::from_secs(4));
    let plain = |n| Scenario::new(n, Tree::Binomial);
    let faulty = |n| Scenario { calls: 3, partial: true, faults: FaultSet::ALL, ..plain(n) };
    let scenarios =
        [("plain", plain(64)), ("plain", plain(10_000)), ("faults", faulty(64)), ("faults", faulty(1000))];
    for (name, scenario) in scenarios {
        let report = run(&scenario);
        assert_eq!(report.violations, [], "{}", scenario.replay());
        group.throughput(Throughput::Elements(report.events));
        group.bench_with_input(BenchmarkId::new(name, scenario.n), &scenario, |bencher, scenario| {
            bencher.iter(|| run(scenario));
        });
    }
    group.finish();
}

criterion_group!(benches, events);
criterion_main!(benches);
