//! Results for tests of the modules that read and print them.

use super::histogram::Histogram;
use super::key::Key;
use super::machine::Machine;
use super::report::{Report, Row, VERSION};
use super::statistics::estimate;

/// Returns the key of a row.
pub(super) fn key(n: u32, tree: &str) -> Key {
    Key {
        n,
        tree: tree.into(),
        bytes: 64,
        reply_bytes: Some(64),
        in_flight: 1,
        link: "unix".into(),
        wait: "adaptive".into(),
        root: "polled".into(),
    }
}

/// Returns a row with these times of its turns, in nanoseconds.
pub(super) fn row(key: Key, rounds_ns: &[u64]) -> Row {
    let values: Vec<f64> = rounds_ns.iter().map(|&ns| ns as f64).collect();
    let round = estimate(&values).unwrap();
    let mut histogram = Histogram::new();
    rounds_ns.iter().for_each(|&ns| histogram.add(ns));
    Row {
        key,
        calls: rounds_ns.len() as u64,
        round_ns: round.value as u64,
        low_ns: round.low as u64,
        high_ns: round.high as u64,
        confidence_percent: 93.8,
        p50_ns: round.value as u64,
        p90_ns: 90_000,
        p99_ns: 1_234_567,
        most_ns: 9_999_999,
        calls_per_s: 12_345.6,
        cpu_ns: Some(4_321),
        rounds_ns: rounds_ns.to_vec(),
        histogram: histogram.buckets(),
    }
}

/// Returns a run of two rows.
pub(super) fn report() -> Report {
    let turns = |ns: u64| [ns, ns + 1_000, ns + 2_000, ns + 3_000, ns + 40_000];
    Report {
        version: VERSION,
        gpc: "0.1.0".into(),
        command: vec!["gpc".into(), "bench".into()],
        began_unix_s: 1_700_000_000,
        machine: Machine { cores: 2, processor: None, kernel: Some("6.1".into()) },
        func: "echo".into(),
        header: String::new(),
        forward_first: false,
        repeat: 5,
        rounds: None,
        time_ms: Some(200),
        seed: 1,
        interrupted: false,
        others_percent: None,
        warnings: vec![],
        rows: vec![row(key(2, "binomial"), &turns(50_000)), row(key(64, "flat"), &turns(400_000))],
        comparison: None,
    }
}
