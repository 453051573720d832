//! Tests of the output for people and programs.

use super::super::comparison::Verdict;
use super::super::csv::write_csv;
use super::super::picture::picture;
use super::super::sample::{key, report, row};
use super::*;
use crate::chart::Chart;

fn table(report: &Report, histograms: bool) -> String {
    let mut out = Vec::new();
    write_table(report, histograms, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn compared() -> Report {
    let comparison = Comparison {
        against: "before.json".into(),
        began_unix_s: 7,
        warnings: vec![],
        rows: vec![Compared {
            key: key(2, "binomial"),
            earlier_ns: 104_000,
            now_ns: 52_000,
            ratio: 0.5,
            low: 0.456,
            high: 0.543,
            confidence_percent: 96.8,
            verdict: Verdict::Faster,
        }],
        only_now: vec![key(64, "flat")],
        only_earlier: vec![],
    };
    Report { comparison: Some(comparison), ..report() }
}

#[test]
fn a_table_has_a_column_for_what_varies_and_says_the_rest_once() {
    let expected = "\
echo: 64 bytes, 1 in flight, unix, adaptive, polled root; 5 turns of 200 ms for each row, 94 % intervals
 n  tree      round µs     interval µs   p90     p99  calls/s  CPU µs
 2  binomial      52.0    50.0 .. 90.0  90.0  1234.6    12346     4.3
64  flat         402.0  400.0 .. 440.0  90.0  1234.6    12346     4.3
";
    assert_eq!(table(&report(), false), expected);
    let mut other = report();
    other.rows.remove(1);
    other.rows[0].cpu_ns = None;
    other.rows[0].calls_per_s = 2.34;
    (other.rounds, other.forward_first) = (Some(20), true);
    let text = table(&other, false);
    assert!(text.starts_with("echo, forward first: binomial, 64 bytes, 1 in flight"), "{text}");
    assert!(
        text.contains("; 5 turns of 20 calls or 200 ms for each row, 94 % intervals\nn  round µs"),
        "{text}"
    );
    assert!(text.ends_with("      2.3       -\n"), "{text}");
    other.repeat = 1;
    other.rows[0].rounds_ns.truncate(1);
    other.rows[0].confidence_percent = 0.0;
    let text = table(&other, false);
    assert!(text.contains("; 1 turn of 20 calls or 200 ms for each row, no intervals\n"), "{text}");
    assert!(text.contains("\n2      52.0            -  "), "{text}");
    other.rows.clear();
    assert_eq!(table(&other, true), "");
}

#[test]
fn a_comparison_stands_below_the_figures() {
    let expected = "
against before.json:
n  tree      then µs  now µs  ratio      interval
2  binomial    104.0    52.0   0.50  0.46 .. 0.54  faster
only in this run: n 64, flat
";
    let text = table(&compared(), false);
    assert!(text.ends_with(expected), "{text}");
}

#[test]
fn histograms_stand_last() {
    let text = table(&report(), true);
    assert_eq!(text.matches(": 5 calls\n").count(), 2);
    assert!(text.contains("\nn 64, flat: 5 calls\n  from   393 µs  4   80.0 %  ██"), "{text}");
}

#[test]
fn csv_has_a_field_for_every_column() {
    let mut report = compared();
    report.rows[1].key.tree = "file:a,b".into();
    report.rows[1].key.reply_bytes = None;
    report.rows[1].cpu_ns = None;
    let mut out = Vec::new();
    write_csv(&report, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(
        lines[0].starts_with("func,n,tree,bytes,")
            && lines[0].ends_with(",ratio,ratio_low,ratio_high,verdict")
    );
    assert!(
        lines[1].starts_with("echo,2,binomial,64,64,1,unix,adaptive,polled,5,52000,50000,90000,"),
        "{text}"
    );
    assert!(lines[1].ends_with(",4321,0.5,0.456,0.543,faster"), "{text}");
    assert!(
        lines[2].starts_with("echo,64,\"file:a,b\",64,,1,") && lines[2].ends_with(",12345.6,,,,,"),
        "{text}"
    );
    assert!(lines.iter().all(|line| line.replace("a,b", "ab").split(',').count() == 24));
}

#[test]
fn a_picture_has_a_line_for_every_combination() {
    let with = |n, tree, in_flight| row(Key { in_flight, ..key(n, tree) }, &[5, 6, 7]);
    let rows = vec![with(8, "flat", 1), with(2, "flat", 1), with(2, "chain", 4), with(2, "flat", 4)];
    let chart = picture(&Report { rows, ..report() });
    let shown: Vec<_> = chart
        .lines
        .iter()
        .map(|line| (line.name.as_str(), line.points.iter().map(|point| point.at).collect::<Vec<_>>()))
        .collect();
    let expected =
        [("flat, 1 in flight", vec![2, 8]), ("chain, 4 in flight", vec![2]), ("flat, 4 in flight", vec![2])];
    assert_eq!((shown.as_slice(), chart.axis), (&expected[..], "ids"));
    let rows = vec![with(8, "flat", 16), with(8, "flat", 4)];
    let chart = picture(&Report { rows, ..report() });
    assert_eq!((chart.axis, chart.lines.len(), chart.lines[0].name.as_str()), ("calls in flight", 1, "echo"));
    assert_eq!(chart.lines[0].points[0].interval_ns, Some((5, 7)));
    assert_eq!(picture(&report()).axis, "ids");
}

/// The title said "the median of turns, and where it lies" of a time that several calls in flight had shared.
#[test]
fn a_picture_says_what_its_times_are() {
    let of = |flying: &[u32]| {
        let rows = flying.iter().map(|&in_flight| row(Key { in_flight, ..key(8, "flat") }, &[5, 6, 7]));
        let Chart { title, notes, .. } = picture(&Report { rows: rows.collect(), ..report() });
        (title, notes.concat())
    };
    let (one, several, both) = (of(&[1]), of(&[4, 16]), of(&[1, 4]));
    assert!(one.0 == "Time of one call: echo" && !one.1.contains("in flight"), "{one:?}");
    assert!(several.0 == "Time per call, several in flight: echo", "{several:?}");
    assert!(several.1.contains("divided by the number of its calls"), "{several:?}");
    assert!(both.0 == "Time per call: echo" && both.1.contains("or with several in flight"), "{both:?}");
}
