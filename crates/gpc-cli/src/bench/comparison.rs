//! Comparison of two runs, in the form that `--output json` prints.

use serde::Serialize;

use super::key::Key;

/// Comparison of both runs, row by row.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Comparison {
    /// File of the earlier run.
    pub(super) against: String,
    /// Start of the earlier run, in seconds since 1970.
    pub(super) began_unix_s: u64,
    /// Reasons to doubt the ratios.
    pub(super) warnings: Vec<String>,
    pub(super) rows: Vec<Compared>,
    /// Rows that the earlier run does not have.
    pub(super) only_now: Vec<Key>,
    /// Rows that this run does not have.
    pub(super) only_earlier: Vec<Key>,
}

/// A row of both runs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Compared {
    #[serde(flatten)]
    pub(super) key: Key,
    pub(super) earlier_ns: u64,
    pub(super) now_ns: u64,
    /// The new time divided by the earlier one, to three decimal places.
    pub(super) ratio: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) confidence_percent: f64,
    pub(super) verdict: Verdict,
}

/// Meaning of a ratio.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Faster,
    Slower,
    NoDifferenceSeen,
    TooFewRepetitions,
}

impl Verdict {
    pub(super) fn name(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::NoDifferenceSeen => "no difference seen",
            Verdict::TooFewRepetitions => "too few repetitions",
        }
    }
}
