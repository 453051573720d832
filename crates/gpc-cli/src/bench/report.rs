//! Results of a measurement. The structs are exactly the JSON that `--output json` prints and `--save` writes: programs
//! read their fields, and later runs compare with them.

use serde::{Deserialize, Serialize};

use super::comparison::Comparison;
use super::histogram::Bucket;
use super::key::Key;
use super::machine::Machine;

/// Version of the format.
pub(super) const VERSION: u32 = 1;

/// Results of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Report {
    /// Always [`VERSION`].
    pub(super) version: u32,
    /// Version of the program.
    pub(super) gpc: String,
    /// The arguments as given.
    pub(super) command: Vec<String>,
    /// Start of the run, in seconds since 1970.
    pub(super) began_unix_s: u64,
    pub(super) machine: Machine,
    /// Name of the function.
    pub(super) func: String,
    /// Header of the request.
    pub(super) header: String,
    pub(super) forward_first: bool,
    /// Planned number of repetitions.
    pub(super) repeat: u32,
    pub(super) rounds: Option<u32>,
    pub(super) time_ms: Option<u64>,
    pub(super) seed: u64,
    /// Whether the run was interrupted; rows without a turn are then omitted.
    pub(super) interrupted: bool,
    /// Share of all cores that other processes used, in percent.
    pub(super) others_percent: Option<f64>,
    /// Reasons to doubt the figures.
    pub(super) warnings: Vec<String>,
    pub(super) rows: Vec<Row>,
    /// Present with `--compare`; `--save` does not write it.
    #[serde(skip_deserializing)]
    pub(super) comparison: Option<Comparison>,
}

/// Figures of a kind of call.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Row {
    #[serde(flatten)]
    pub(super) key: Key,
    /// Number of calls in all turns.
    pub(super) calls: u64,
    /// Median of the turns.
    pub(super) round_ns: u64,
    pub(super) low_ns: u64,
    pub(super) high_ns: u64,
    /// Probability that the median lies between low and high, in percent.
    pub(super) confidence_percent: f64,
    pub(super) p50_ns: u64,
    pub(super) p90_ns: u64,
    pub(super) p99_ns: u64,
    pub(super) most_ns: u64,
    pub(super) calls_per_s: f64,
    /// CPU time of each node per call.
    pub(super) cpu_ns: Option<u64>,
    /// Time of every turn.
    pub(super) rounds_ns: Vec<u64>,
    pub(super) histogram: Vec<Bucket>,
}

impl Row {
    /// Returns half the width of the interval divided by the median, 0 to 1 or more.
    pub(super) fn spread(&self) -> f64 {
        (self.high_ns - self.low_ns) as f64 / 2.0 / self.round_ns.max(1) as f64
    }
}
