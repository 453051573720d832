//! An earlier run that `--save` wrote to a file, to compare with.

use std::path::Path;

use super::comparison::{Compared, Comparison, Verdict};
use super::key::{CallSettings, Key};
use super::machine::Machine;
use super::report::{Report, Row, VERSION};
use super::statistics::{WORTH_SAYING, ratio};
use crate::files::read_text;

/// An earlier run.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Earlier {
    path: String,
    report: Report,
}

impl Earlier {
    /// Reads the file of a run.
    ///
    /// # Errors
    /// If the file cannot be read or is not that of a run; the message begins with the path.
    pub(super) fn read(path: &Path) -> Result<Earlier, String> {
        let text = read_text(path, "earlier results")?;
        let path = path.display().to_string();
        let wrong = |why: String| format!("{path}: no results of gpc bench: {why}");
        let value: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        match value.get("version").and_then(serde_json::Value::as_u64) {
            Some(version) if version == u64::from(VERSION) => {}
            Some(version) => {
                return Err(wrong(format!("its version is {version}, this program knows {VERSION}")));
            }
            None => return Err(wrong("it has no version".into())),
        }
        let report: Report = serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
        let is_bad = |row: &&Row| row.rounds_ns.is_empty() || row.rounds_ns.contains(&0);
        if let Some(row) = report.rows.iter().find(is_bad) {
            return Err(wrong(format!("the row of n {} and {} has no times", row.key.n, row.key.tree)));
        }
        Ok(Earlier { path, report })
    }

    /// Reads the file of a run with comparable calls.
    ///
    /// # Errors
    /// As for [`Earlier::read`], and if it measured something else.
    pub(super) fn matching(path: &Path, what: &CallSettings) -> Result<Earlier, String> {
        let earlier = Earlier::read(path)?;
        let Report { func, header, forward_first, .. } = &earlier.report;
        if (func, header, *forward_first) != (&what.func, &what.header, what.forward_first) {
            let calls = |func: &str, header: &str, forward_first: bool| {
                let header =
                    if header.is_empty() { String::new() } else { format!(" with header {header:?}") };
                format!("{func}{header}{}", if forward_first { ", forward first" } else { "" })
            };
            return Err(format!(
                "{}: it measured {}, and now {} is to be measured: only calls of the same function can be compared",
                earlier.path,
                calls(func, header, *forward_first),
                calls(&what.func, &what.header, what.forward_first)
            ));
        }
        Ok(earlier)
    }

    /// Compares a later run with this one.
    pub(super) fn compare(&self, now: &Report) -> Comparison {
        let Earlier { path, report: earlier } = self;
        let earlier_of = |key: &Key| earlier.rows.iter().find(|row| row.key == *key);
        let rows = now.rows.iter().filter_map(|row| Compared::new(row, earlier_of(&row.key)?));
        let only = |these: &[Row], others: &[Row]| {
            let keys = these.iter().map(|row| row.key.clone());
            keys.filter(|key| others.iter().all(|row| row.key != *key)).collect()
        };
        Comparison {
            against: path.clone(),
            began_unix_s: earlier.began_unix_s,
            warnings: warnings(earlier, &now.machine),
            rows: rows.collect(),
            only_now: only(&now.rows, &earlier.rows),
            only_earlier: only(&earlier.rows, &now.rows),
        }
    }
}

impl Compared {
    fn new(now: &Row, earlier: &Row) -> Option<Compared> {
        let times = |row: &Row| row.rounds_ns.iter().map(|&ns| ns as f64).collect::<Vec<f64>>();
        let estimate = ratio(&times(now), &times(earlier))?;
        let verdict = match estimate {
            few if few.confidence < WORTH_SAYING => Verdict::TooFewRepetitions,
            faster if faster.high < 1.0 => Verdict::Faster,
            slower if slower.low > 1.0 => Verdict::Slower,
            _ => Verdict::NoDifferenceSeen,
        };
        let thousandths = |value: f64| (value * 1000.0).round() / 1000.0;
        Some(Compared {
            key: now.key.clone(),
            earlier_ns: earlier.round_ns,
            now_ns: now.round_ns,
            ratio: thousandths(estimate.value),
            low: thousandths(estimate.low),
            high: thousandths(estimate.high),
            confidence_percent: (estimate.confidence * 1000.0).round() / 10.0,
            verdict,
        })
    }
}

fn warnings(earlier: &Report, machine: &Machine) -> Vec<String> {
    let other = (earlier.machine != *machine).then(|| {
        let Machine { cores, processor, kernel } = &earlier.machine;
        let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "unknown".into());
        format!(
            "the earlier run was made on another machine or kernel: {cores} cores, {}, {}",
            name(processor),
            name(kernel)
        )
    });
    let noisy = earlier.warnings.iter().map(|warning| format!("of the earlier run: {warning}"));
    other.into_iter().chain(noisy).collect()
}

#[cfg(test)]
mod tests;
