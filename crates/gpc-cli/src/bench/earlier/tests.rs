//! Tests of the comparison of two runs.

use super::super::sample::{key, report, row};
use super::*;

fn what(func: &str) -> CallSettings {
    CallSettings { func: func.into(), header: String::new(), forward_first: false }
}

fn saved(text: &str, func: &str) -> Result<Earlier, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.json");
    std::fs::write(&path, text).unwrap();
    let earlier = Earlier::matching(&path, &what(func));
    earlier.map_err(|error| error.replace(&path.display().to_string(), "run.json"))
}

#[test]
fn what_is_saved_is_what_is_read() {
    let report = report();
    let read = saved(&serde_json::to_string_pretty(&report).unwrap(), "echo").unwrap();
    assert_eq!(read.report, report);
}

#[test]
fn a_file_of_something_else_says_so() {
    let refused = |text: &str| saved(text, "echo").unwrap_err();
    assert!(refused("nothing").starts_with("run.json: no results of gpc bench: expected"));
    assert_eq!(refused("{}"), "run.json: no results of gpc bench: it has no version");
    assert!(refused("{\"version\": 2}").ends_with("its version is 2, this program knows 1"));
    assert!(refused("{\"version\": 1}").contains("missing field"));
    let with = |rounds: &[u64]| {
        let mut report = report();
        report.rows[1].rounds_ns = rounds.to_vec();
        refused(&serde_json::to_string(&report).unwrap())
    };
    for bad in [&[][..], &[5, 0]] {
        assert!(with(bad).ends_with("the row of n 64 and flat has no times"));
    }
    let error = saved(&serde_json::to_string(&report()).unwrap(), "digest").unwrap_err();
    assert!(error.contains("it measured echo, and now digest is to be measured"), "{error}");
}

#[test]
fn rows_are_matched_and_judged_by_their_interval() {
    let times = |ns: [u64; 5], factor: f64| ns.map(|ns| (ns as f64 * factor) as u64);
    let turns = [50_000, 51_000, 52_000, 53_000, 54_000];
    let run = |rows: Vec<Row>| Report { rows, ..report() };
    let earlier = run(vec![
        row(key(2, "flat"), &turns),
        row(key(4, "flat"), &turns),
        row(key(8, "flat"), &turns),
        row(key(16, "flat"), &turns),
        row(key(32, "flat"), &turns[..1]),
    ]);
    let now = run(vec![
        row(key(64, "flat"), &turns),
        row(key(32, "flat"), &turns[..2]),
        row(key(8, "flat"), &times(turns, 2.0)),
        row(key(4, "flat"), &times(turns, 1.01)),
        row(key(2, "flat"), &times(turns, 0.5)),
    ]);
    let comparison = Earlier { path: "run.json".into(), report: earlier }.compare(&now);
    let verdicts: Vec<_> = comparison.rows.iter().map(|row| (row.key.n, row.verdict)).collect();
    let expected = [
        (32, Verdict::TooFewRepetitions),
        (8, Verdict::Slower),
        (4, Verdict::NoDifferenceSeen),
        (2, Verdict::Faster),
    ];
    assert_eq!(verdicts, expected);
    let faster = &comparison.rows[3];
    assert!(faster.low < 0.5 && 0.5 <= faster.high && (faster.ratio - 0.5).abs() < 0.01, "{faster:?}");
    assert_eq!(
        (comparison.only_now, comparison.only_earlier),
        (vec![key(64, "flat")], vec![key(16, "flat")])
    );
    assert!(comparison.warnings.is_empty());
}

#[test]
fn what_makes_ratios_doubtful_is_said() {
    let mut earlier = report();
    earlier.machine.cores = 64;
    earlier.warnings = vec!["it was noisy".into()];
    let warnings = Earlier { path: "run.json".into(), report: earlier }.compare(&report()).warnings;
    assert_eq!(warnings.len(), 2);
    assert!(warnings[0].ends_with("another machine or kernel: 64 cores, unknown, 6.1"), "{warnings:?}");
    assert_eq!(warnings[1], "of the earlier run: it was noisy");
}
