//! The results as a chart: times over n, or over the first other number that varies, with a line for every other
//! combination.

use super::axes::{AXES, Axis, described, varying};
use super::key::Key;
use super::report::{Report, Row};
use crate::args::Bytes;
use crate::chart::{Chart, Line, Point};

/// Returns the chart of all rows.
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
    let (axis, written): (_, fn(u32) -> String) = match axis.name {
        "n" => ("ids", |n| n.to_string()),
        "bytes" => ("bytes of a request", |bytes| Bytes(bytes).to_string()),
        _ => ("calls in flight", |calls| calls.to_string()),
    };
    let (title, notes) = titles(report);
    Chart { title, notes, axis, number: written, lines }
}

/// Returns the title, and notes on the meaning of a point, which differs between sequential calls and calls in flight.
fn titles(report: &Report) -> (String, Vec<String>) {
    let flying = |wanted: fn(u32) -> bool| report.rows.iter().any(|row| wanted(row.key.in_flight));
    let (title, of) = match (flying(|calls| calls == 1), flying(|calls| calls > 1)) {
        (_, false) => ("Time of one call", "a turn's is the median of its calls"),
        (false, true) => {
            ("Time per call, several in flight", "a turn's is its length divided by the number of its calls")
        }
        (true, true) => (
            "Time per call",
            "a turn's is the median of its calls, or with several in flight its length divided by their number",
        ),
    };
    let turns = report.repeat;
    let notes = vec![
        format!("points: the median of {turns} turns; {of}"),
        "bars: the interval in which the median of many such turns lies".into(),
    ];
    (format!("{title}: {}", report.func), notes)
}

fn varies(axis: &Axis, keys: &[&Key]) -> bool {
    keys.iter().any(|key| (axis.value)(key) != (axis.value)(keys[0]))
}

/// Returns the axis at the bottom.
fn lower(keys: &[&Key]) -> (Axis, fn(&Key) -> u32) {
    let numbers = AXES.iter().filter_map(|axis| Some((*axis, axis.number?)));
    let mut varying = numbers.clone().filter(|(axis, _)| varies(axis, keys));
    varying.next().or_else(|| numbers.clone().next()).expect("some axes are numbers")
}

fn point(row: &Row, number: fn(&Key) -> u32) -> Point {
    Point { at: number(&row.key), ns: row.round_ns, interval_ns: Some((row.low_ns, row.high_ns)) }
}
