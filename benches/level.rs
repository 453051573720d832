//! Benchmark of level-n data: bytes a second of encoding and decoding, for many small replies and for few large ones.
//!
//! Large replies are passed by reference, and decoders borrow, so the figures include bytes that were never touched.
//! For large replies they only show that the cost depends on the number of replies, not on their bytes.

use std::hint::black_box;

use bytes::Bytes;
use chained_gpc::wire::level::{Event, Leaves, Leveled, Limits, StreamDecoder, aggregate};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

/// Name of a load, number of replies, and bytes of each. The two in the middle are on either side of the bound up to
/// which parts are copied.
const LOADS: [(&str, usize, usize); 4] =
    [("64 x 64 B", 64, 64), ("64 x 4080 B", 64, 4080), ("64 x 4096 B", 64, 4096), ("8 x 1 MiB", 8, 1 << 20)];

/// Bytes of a socket read.
const CHUNK_BYTES: usize = 64 * 1024;

fn replies(count: usize, bytes: usize) -> Vec<Leveled> {
    (0..count)
        .map(|at| aggregate(Some(Bytes::from(vec![at as u8; bytes])), &[]).expect("a leaf is of level 0"))
        .collect()
}

fn encode(c: &mut Criterion) {
    let mut group = c.benchmark_group("level/encode");
    for (name, count, bytes) in LOADS {
        let (own, children) = (Bytes::from(vec![0xa5; bytes]), replies(count - 1, bytes));
        group.throughput(Throughput::Bytes((count * bytes) as u64));
        group.bench_function(BenchmarkId::new("aggregate", name), |b| {
            b.iter(|| aggregate(Some(black_box(&own).clone()), black_box(&children)));
        });
    }
    group.finish();
}

/// Replies of 64 bytes from 2^depth ids, aggregated by a binomial tree: most of them are beside values of other levels.
fn binomial(depth: u32) -> Leveled {
    let children: Vec<Leveled> = (0..depth).rev().map(binomial).collect();
    aggregate(Some(Bytes::from(vec![depth as u8; 64])), &children).expect("a tree is not that deep")
}

fn decode(c: &mut Criterion) {
    let mut group = c.benchmark_group("level/decode");
    let Leveled { level, data } = binomial(6);
    let data = data.to_bytes();
    group.throughput(Throughput::Bytes(data.len() as u64));
    group.bench_function(BenchmarkId::new("leaves", "64 x 64 B, binomial"), |b| {
        b.iter(|| {
            for leaf in Leaves::new(level, black_box(&data), Limits::default()) {
                black_box(leaf).expect("good data");
            }
        });
    });
    for (name, count, bytes) in LOADS {
        let Leveled { level, data } =
            aggregate(None, &replies(count, bytes)).expect("children are of level 0");
        let data = data.to_bytes();
        group.throughput(Throughput::Bytes(data.len() as u64));
        group.bench_function(BenchmarkId::new("leaves", name), |b| {
            b.iter(|| {
                for leaf in Leaves::new(level, black_box(&data), Limits::default()) {
                    black_box(leaf).expect("good data");
                }
            });
        });
        group.bench_function(BenchmarkId::new("stream", name), |b| {
            b.iter(|| {
                let mut decoder = StreamDecoder::new(level, Limits::default());
                for chunk in black_box(&data).chunks(CHUNK_BYTES) {
                    let mut sink = |event: Event<'_>| {
                        black_box(event);
                    };
                    decoder.feed(chunk, &mut sink).expect("good data");
                }
                decoder.finish()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, encode, decode);
criterion_main!(benches);
