//! Summarizes the turns of a measurement as a report.

use super::axes::{described, varying};
use super::histogram::Histogram;
use super::key::Key;
use super::machine::Machine;
use super::measure::{Measured, TurnResult};
use super::plan::BenchPlan;
use super::report::{Report, Row, VERSION};
use super::statistics::estimate;

/// Half width from which the interval of a row is reported as wide: a quarter of its median.
const WIDE: f64 = 0.25;

/// Load from which other processes are reported: a tenth of all cores.
const OTHERS: f64 = 0.1;

/// Time and place of a run.
#[derive(Clone, Debug)]
pub(super) struct Circumstances {
    pub(super) command: Vec<String>,
    pub(super) began_unix_s: u64,
    pub(super) machine: Machine,
    pub(super) interrupted: bool,
}

impl Row {
    /// Returns the row; `None` if it has no turn.
    fn new(key: &Key, turns: &[TurnResult], histogram: &Histogram) -> Option<Row> {
        let figures = |of: fn(&TurnResult) -> f64| turns.iter().map(of).collect::<Vec<f64>>();
        let round = estimate(&figures(|turn| turn.round_ns as f64))?;
        let median =
            |of: fn(&TurnResult) -> f64| estimate(&figures(of)).map_or(0.0, |estimate| estimate.value);
        let cpu_known = turns.iter().all(|turn| turn.cpu_ns.is_some());
        let cpu_ns = || median(|turn| turn.cpu_ns.unwrap_or(0) as f64).round() as u64;
        Some(Row {
            key: key.clone(),
            calls: turns.iter().map(|turn| turn.calls).sum(),
            round_ns: round.value.round() as u64,
            low_ns: round.low as u64,
            high_ns: round.high as u64,
            confidence_percent: tenths(round.confidence * 100.0),
            p50_ns: median(|turn| turn.p50_ns as f64).round() as u64,
            p90_ns: median(|turn| turn.p90_ns as f64).round() as u64,
            p99_ns: median(|turn| turn.p99_ns as f64).round() as u64,
            most_ns: turns.iter().map(|turn| turn.most_ns).max().unwrap_or(0),
            calls_per_s: tenths(median(|turn| turn.calls_per_s)),
            cpu_ns: cpu_known.then(cpu_ns),
            rounds_ns: turns.iter().map(|turn| turn.round_ns).collect(),
            histogram: histogram.buckets(),
        })
    }
}

impl Report {
    pub(super) fn new(plan: &BenchPlan, measured: &Measured, made: Circumstances) -> Report {
        let rows = plan.rows.iter().zip(&measured.turns).zip(&measured.histograms);
        let rows: Vec<Row> =
            rows.filter_map(|((row, turns), histogram)| Row::new(&row.key, turns, histogram)).collect();
        Report {
            version: VERSION,
            gpc: env!("CARGO_PKG_VERSION").into(),
            command: made.command,
            began_unix_s: made.began_unix_s,
            machine: made.machine,
            func: plan.what.func.clone(),
            header: plan.what.header.clone(),
            forward_first: plan.what.forward_first,
            repeat: plan.repeat,
            rounds: plan.bound.rounds,
            time_ms: plan.bound.time.and_then(|time| u64::try_from(time.as_millis()).ok()),
            seed: plan.seed,
            interrupted: made.interrupted,
            others_percent: measured.others.map(|others| tenths(others * 100.0)),
            warnings: warnings(&rows, measured.others),
            rows,
            comparison: None,
        }
    }
}

/// Returns reasons to doubt the figures, and what to do about them.
fn warnings(rows: &[Row], others: Option<f64>) -> Vec<String> {
    let busy = others.filter(|&others| others > OTHERS).map(|others| {
        format!(
            "other processes took {:.0} % of the cores meanwhile: times are longer than they need be; end them, or trust only ratios of rows of this run",
            others * 100.0
        )
    });
    let wide: Vec<&Row> = rows.iter().filter(|row| row.spread() > WIDE).collect();
    let worst = wide.iter().max_by(|one, other| one.spread().total_cmp(&other.spread()));
    let keys: Vec<&Key> = rows.iter().map(|row| &row.key).collect();
    let (telling, _) = varying(&keys);
    let spread = worst.map(|worst| {
        format!(
            "the interval is wider than ± {:.0} % in {} of {} rows, the most in {}: ± {:.0} %; repeat more often with --repeat, or longer with --time",
            WIDE * 100.0,
            wide.len(),
            rows.len(),
            described(&worst.key, &telling),
            worst.spread() * 100.0
        )
    });
    busy.into_iter().chain(spread).collect()
}

/// Rounds to one decimal: more would be noise, and files stay short.
fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::super::sample::{key, row};
    use super::*;

    fn turn(round_ns: u64, cpu_ns: Option<u64>) -> TurnResult {
        TurnResult {
            calls: 10,
            round_ns,
            p50_ns: round_ns,
            p90_ns: 2 * round_ns,
            p99_ns: 3 * round_ns,
            most_ns: 4 * round_ns,
            calls_per_s: 1e9 / round_ns as f64,
            cpu_ns,
        }
    }

    #[test]
    fn a_row_is_the_median_of_its_turns() {
        let turns = [300, 100, 700, 200, 500].map(|ns| turn(ns, Some(ns / 10)));
        let row = Row::new(&key(2, "flat"), &turns, &Histogram::new()).unwrap();
        assert_eq!((row.calls, row.round_ns, row.low_ns, row.high_ns), (50, 300, 100, 700));
        assert_eq!((row.p50_ns, row.p90_ns, row.p99_ns, row.most_ns), (300, 600, 900, 2800));
        assert_eq!((row.cpu_ns, &row.rounds_ns[..]), (Some(30), &[300, 100, 700, 200, 500][..]));
        assert!((row.confidence_percent - 93.8).abs() < 1e-9 && (row.calls_per_s - 3_333_333.3).abs() < 1e-3);
        assert!((row.spread() - 1.0).abs() < 1e-9);
        let unknown = Row::new(&key(2, "flat"), &[turn(5, Some(1)), turn(5, None)], &Histogram::new());
        assert_eq!(unknown.unwrap().cpu_ns, None);
        assert_eq!(Row::new(&key(2, "flat"), &[], &Histogram::new()), None);
    }

    #[test]
    fn what_is_noisy_is_said_with_what_to_do() {
        let quiet = [row(key(2, "flat"), &[100, 101, 102]), row(key(8, "flat"), &[100, 120, 149])];
        assert_eq!(warnings(&quiet, Some(0.1)), Vec::<String>::new());
        assert_eq!(warnings(&[], None), Vec::<String>::new());
        let noisy = [row(key(2, "flat"), &[100, 120, 190]), row(key(8, "flat"), &[100, 100, 400])];
        let said = warnings(&noisy, Some(0.5));
        assert!(said[0].starts_with("other processes took 50 % of the cores meanwhile: "), "{said:?}");
        let expected =
            "the interval is wider than ± 25 % in 2 of 2 rows, the most in n 8: ± 150 %; repeat more often";
        assert!(said[1].starts_with(expected), "{said:?}");
    }
}
