//! The results as a chart: times over n, or over the first other number that varies; a line for every other combination.

use super::axes::{AXES, Axis, described, varying};
use super::report::{Key, Report, Row};
use crate::cli::chart::{Chart, Line, Point};

/// The chart of all rows.
pub(super) fn picture(report: &Report) -> Chart {
    let keys: Vec<&Key> = report.rows.iter().map(|row| &row.key).collect();
    let (shown, _) = varying(&keys);
    let (axis, number) = lower(&keys);
    let others: Vec<Axis> =
        shown.into_iter().filter(|other| other.name != axis.name && varies(other, &keys)).collect();
    let mut lines: Vec<Line> = Vec::new();
    for row in &report.rows {
        let name = match others.as_slice() {
            [] => report.func.clone(),
            others => described(&row.key, others),
        };
        let place = lines.iter().position(|line| line.name == name).unwrap_or(lines.len());
        if place == lines.len() {
            lines.push(Line { name, points: Vec::new() });
        }
        lines[place].points.push(point(row, number));
    }
    // Sizes may be given in any order.
    lines.iter_mut().for_each(|line| line.points.sort_by_key(|point| point.at));
    let axis = match axis.name {
        "n" => "ids",
        "bytes" => "bytes of a request",
        _ => "calls in flight",
    };
    Chart { title: "Time of one call: the median of turns, and where it lies", axis, lines }
}

fn varies(axis: &Axis, keys: &[&Key]) -> bool {
    keys.iter().any(|key| (axis.value)(key) != (axis.value)(keys[0]))
}

/// The axis that lies at the bottom.
fn lower(keys: &[&Key]) -> (Axis, fn(&Key) -> u32) {
    let numbers = AXES.iter().filter_map(|axis| Some((*axis, axis.number?)));
    let mut varying = numbers.clone().filter(|(axis, _)| varies(axis, keys));
    varying.next().or_else(|| numbers.clone().next()).expect("some axes are numbers")
}

fn point(row: &Row, number: fn(&Key) -> u32) -> Point {
    Point { at: number(&row.key), ns: row.round_ns, interval_ns: Some((row.low_ns, row.high_ns)) }
}
