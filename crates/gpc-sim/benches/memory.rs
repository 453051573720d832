//! Benchmark of the simulator's memory: peak of a run, divided by its ids. It counts bytes, not time, so two runs
//! agree.
#![allow(missing_docs)]

use std::time::Duration;

use chained_gpc::Tree;
use criterion::measurement::{Measurement, ValueFormatter};
use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use gpc_sim::{FaultSet, Scenario, run};
use gpc_test_support::memory::{Counting, OfProcess};

#[global_allocator]
static COUNTING: Counting<OfProcess> = Counting::new();

/// Measures bytes for each id.
struct Bytes;

impl Measurement for Bytes {
    type Intermediate = ();
    type Value = f64;

    fn start(&self) {}

    fn end(&self, (): ()) -> f64 {
        0.0
    }

    fn add(&self, one: &f64, other: &f64) -> f64 {
        one + other
    }

    fn zero(&self) -> f64 {
        0.0
    }

    fn to_f64(&self, value: &f64) -> f64 {
        *value
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        self
    }
}

impl ValueFormatter for Bytes {
    fn scale_values(&self, _typical: f64, _values: &mut [f64]) -> &'static str {
        "bytes"
    }

    fn scale_throughputs(&self, _typical: f64, _by: &Throughput, _values: &mut [f64]) -> &'static str {
        "bytes"
    }

    fn scale_for_machines(&self, _values: &mut [f64]) -> &'static str {
        "bytes"
    }
}

/// Peak memory of a run, divided by its ids.
fn bytes_for_one(scenario: &Scenario) -> f64 {
    let before = OfProcess::held();
    OfProcess::start_peak(before);
    let report = run(scenario);
    assert_eq!(report.violations, [], "{}", scenario.replay());
    (OfProcess::peak() - before) as f64 / f64::from(scenario.n)
}

fn memory(criterion: &mut Criterion<Bytes>) {
    let mut group = criterion.benchmark_group("sim_memory");
    group
        .sample_size(10)
        .sampling_mode(SamplingMode::Flat)
        .warm_up_time(Duration::from_millis(1))
        .measurement_time(Duration::from_millis(1));
    let bare = |n| Scenario { reply_bytes: Some(0), ..Scenario::new(n, Tree::Binomial) };
    let replies = |n| Scenario::new(n, Tree::Binomial);
    let faulty = |n| Scenario { calls: 3, partial: true, faults: FaultSet::ALL, ..replies(n) };
    let scenarios = [
        ("bare", bare(100_000)),
        ("replies", replies(100_000)),
        ("replies", replies(1000)),
        ("faults", faulty(1000)),
    ];
    for (name, scenario) in scenarios {
        group.bench_with_input(BenchmarkId::new(name, scenario.n), &scenario, |bencher, scenario| {
            bencher.iter_custom(|times| (0..times).map(|_| bytes_for_one(scenario)).sum());
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(Bytes);
    targets = memory
}
criterion_main!(benches);
