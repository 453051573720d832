//! Writes the results as comma-separated values (RFC 4180), a line for each row. Times are in nanoseconds; an unknown
//! value is empty.

use std::io::{self, Write};

use super::comparison::Compared;
use super::report::{Report, Row};

/// The columns; `--compare` fills the last four.
const COLUMNS: [&str; 24] = [
    "func",
    "n",
    "tree",
    "bytes",
    "reply_bytes",
    "in_flight",
    "link",
    "wait",
    "root",
    "calls",
    "round_ns",
    "low_ns",
    "high_ns",
    "confidence_percent",
    "p50_ns",
    "p90_ns",
    "p99_ns",
    "most_ns",
    "calls_per_s",
    "cpu_ns",
    "ratio",
    "ratio_low",
    "ratio_high",
    "verdict",
];

/// Writes the heading and the rows.
///
/// # Errors
/// If the output fails.
pub(super) fn write_csv(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    write_line(&COLUMNS.map(str::to_owned), out)?;
    for row in &report.rows {
        let compared = report.comparison.iter().flat_map(|comparison| &comparison.rows);
        let compared = compared.into_iter().find(|compared| compared.key == row.key);
        write_line(&fields(&report.func, row, compared), out)?;
    }
    Ok(())
}

fn fields(func: &str, row: &Row, compared: Option<&Compared>) -> [String; 24] {
    let key = &row.key;
    let known = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
    let ratio =
        |of: fn(&Compared) -> f64| compared.map_or_else(String::new, |compared| of(compared).to_string());
    [
        func.to_owned(),
        key.n.to_string(),
        key.tree.clone(),
        key.bytes.to_string(),
        known(key.reply_bytes.map(u64::from)),
        key.in_flight.to_string(),
        key.link.clone(),
        key.wait.clone(),
        key.root.clone(),
        row.calls.to_string(),
        row.round_ns.to_string(),
        row.low_ns.to_string(),
        row.high_ns.to_string(),
        row.confidence_percent.to_string(),
        row.p50_ns.to_string(),
        row.p90_ns.to_string(),
        row.p99_ns.to_string(),
        row.most_ns.to_string(),
        row.calls_per_s.to_string(),
        known(row.cpu_ns),
        ratio(|compared| compared.ratio),
        ratio(|compared| compared.low),
        ratio(|compared| compared.high),
        compared.map_or_else(String::new, |compared| compared.verdict.name().to_owned()),
    ]
}

fn write_line(fields: &[String], out: &mut dyn Write) -> io::Result<()> {
    let fields: Vec<String> = fields.iter().map(|field| quoted(field)).collect();
    writeln!(out, "{}", fields.join(","))
}

/// Quotes a field if it contains a character that would end it.
fn quoted(field: &str) -> String {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        let quoted = ["flat", "", "a b", "file:a,b", "say \"x\"", "two\nlines"].map(quoted);
        assert_eq!(quoted, ["flat", "", "a b", "\"file:a,b\"", "\"say \"\"x\"\"\"", "\"two\nlines\""]);
    }
}
