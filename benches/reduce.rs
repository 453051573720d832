//! How fast the data of two replies are added, beside a loop over two arrays of numbers.

use std::hint::black_box;

use chained_gpc::reduce::{Reduction, bytes_of};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

fn reduce(c: &mut Criterion) {
    for bytes in [4 << 10, 1 << 20, 16 << 20] {
        let numbers: Vec<f64> = (0..bytes / 8).map(f64::from).collect();
        let mut group = c.benchmark_group(format!("reduce/{bytes}"));
        group.throughput(Throughput::Bytes(bytes as u64));
        let (mut own, more) = (numbers.clone(), numbers.clone());
        group.bench_function("a loop over f64", |b| {
            b.iter(|| {
                own.iter_mut().zip(black_box(&more)).for_each(|(own, more)| *own += more);
                black_box(&mut own);
            });
        });
        for reduction in [
            Reduction::sum::<f64>(),
            Reduction::sum::<f32>(),
            Reduction::sum::<u64>(),
            Reduction::min::<u32>(),
            Reduction::max::<f64>(),
            Reduction::xor(),
        ] {
            let (mut own, more) = (bytes_of(&numbers), bytes_of(&numbers));
            group.bench_function(reduction.to_string(), |b| {
                b.iter(|| reduction.merge(black_box(&mut own), black_box(&more)).expect("equal lengths"));
            });
        }
        group.finish();
    }
}

criterion_group!(benches, reduce);
criterion_main!(benches);
