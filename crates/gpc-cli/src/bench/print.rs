//! Prints the results as tables for people.

use std::io::{self, Write};

use super::axes::{Axis, described, varying};
use super::comparison::{Compared, Comparison};
use super::histogram;
use super::key::Key;
use super::report::{Report, Row};
use crate::output::{Align, write_columns};

/// Writes the figures, the comparison if there is one, and the histograms if they are requested.
///
/// # Errors
/// If the output fails.
pub(super) fn write_table(report: &Report, histograms: bool, out: &mut dyn Write) -> io::Result<()> {
    if report.rows.is_empty() {
        return Ok(());
    }
    let keys: Vec<&Key> = report.rows.iter().map(|row| &row.key).collect();
    let (shown, same) = varying(&keys);
    writeln!(out, "{}", heading(report, &described(keys[0], &same)))?;
    let figures =
        ["round µs", "interval µs", "p90", "p99", "calls/s", "CPU µs"].map(|name| (name, Align::Right));
    let lines: Vec<Vec<String>> =
        report.rows.iter().map(|row| line(&shown, &row.key, figures_of(row))).collect();
    write_columns(&columns(&shown, &figures), &lines, out)?;
    if let Some(comparison) = &report.comparison {
        writeln!(out)?;
        write_comparison(comparison, &shown, out)?;
    }
    if histograms {
        for row in &report.rows {
            writeln!(out, "\n{}: {} calls", described(&row.key, &shown), row.calls)?;
            histogram::draw(&row.histogram, out)?;
        }
    }
    Ok(())
}

fn heading(report: &Report, same: &str) -> String {
    let Report { func, repeat, rounds, time_ms, .. } = report;
    let forward_first = if report.forward_first { ", forward first" } else { "" };
    let turn = match (rounds, time_ms) {
        (Some(rounds), Some(ms)) => format!("{rounds} calls or {ms} ms"),
        (Some(rounds), None) => format!("{rounds} calls"),
        (None, ms) => format!("{} ms", ms.unwrap_or(0)),
    };
    let turns = if *repeat == 1 { "turn" } else { "turns" };
    // In an interrupted run some rows have fewer turns than others. The lowest confidence holds for all rows.
    let percent = report.rows.iter().map(|row| row.confidence_percent).fold(100.0, f64::min);
    let intervals = if percent > 0.0 { format!("{percent:.0} % intervals") } else { "no intervals".into() };
    format!("{func}{forward_first}: {same}; {repeat} {turns} of {turn} for each row, {intervals}")
}

fn columns<'a>(axes: &[Axis], figures: &[(&'a str, Align)]) -> Vec<(&'a str, Align)> {
    axes.iter().map(|axis| (axis.name, axis.align)).chain(figures.iter().copied()).collect()
}

fn line<const N: usize>(axes: &[Axis], key: &Key, figures: [String; N]) -> Vec<String> {
    axes.iter().map(|axis| (axis.value)(key)).chain(figures).collect()
}

fn figures_of(row: &Row) -> [String; 6] {
    let calls_per_s = match row.calls_per_s {
        few if few < 100.0 => format!("{few:.1}"),
        many => format!("{many:.0}"),
    };
    [
        us(row.round_ns),
        if row.rounds_ns.len() > 1 {
            format!("{} .. {}", us(row.low_ns), us(row.high_ns))
        } else {
            "-".into()
        },
        us(row.p90_ns),
        us(row.p99_ns),
        calls_per_s,
        row.cpu_ns.map_or("-".into(), us),
    ]
}

fn write_comparison(comparison: &Comparison, shown: &[Axis], out: &mut dyn Write) -> io::Result<()> {
    let Comparison { against, rows, only_now, only_earlier, .. } = comparison;
    writeln!(out, "against {against}:")?;
    if rows.is_empty() {
        writeln!(out, "no row is in both runs")?;
    } else {
        let figures = [
            ("then µs", Align::Right),
            ("now µs", Align::Right),
            ("ratio", Align::Right),
            ("interval", Align::Right),
            ("", Align::Left),
        ];
        let lines: Vec<Vec<String>> = rows.iter().map(|row| line(shown, &row.key, compared(row))).collect();
        write_columns(&columns(shown, &figures), &lines, out)?;
    }
    // These axes distinguish the rows of both runs.
    let both: Vec<&Key> = rows.iter().map(|row| &row.key).chain(only_now).chain(only_earlier).collect();
    let (telling, _) = varying(&both);
    for (which, keys) in [("this run", only_now), ("the earlier run", only_earlier)] {
        keys.iter().try_for_each(|key| writeln!(out, "only in {which}: {}", described(key, &telling)))?;
    }
    Ok(())
}

fn compared(row: &Compared) -> [String; 5] {
    [
        us(row.earlier_ns),
        us(row.now_ns),
        format!("{:.2}", row.ratio),
        format!("{:.2} .. {:.2}", row.low, row.high),
        row.verdict.name().into(),
    ]
}

/// Formats microseconds with one decimal. All have one unit, so that the values of a column are comparable.
fn us(ns: u64) -> String {
    let tenths = ns.saturating_add(50) / 100;
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests;
