//! Parts shared by other kinds of worlds: scenarios, reports, and many runs. Worlds of peers are in
//! [`peering`](super::peering), worlds of domains in a crate of their own.
//!
//! A kind of worlds is identified by its faults. A crate lists them with [`faults!`] and implements [`Fault`]. It then
//! has scenarios with faults drawn from a seed or listed at events ([`parse_acts`]). It also has [many runs](run_all)
//! on all cores, and [`exhaustive`] runs of small worlds.

mod acts;
mod faults;
mod many;

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::ops::RangeInclusive;

#[doc(inline)]
pub use crate::__faults as faults;
use crate::check::Violation;
pub use acts::{FaultError, acts_text, parse_acts};
pub use many::{Swarm, exhaustive, run_all};

/// Faults of one kind of worlds. Text form: the name.
pub trait Fault: Copy + Ord + Debug + Display + Send + Sync + 'static {
    /// All faults.
    const ALL: &'static [Self];
    /// Option of `gpc sim` for these worlds, such as `peering`.
    const OPTION: &'static str;
    /// Allowed numbers of ids.
    const IDS: RangeInclusive<u32>;

    /// Runs a scenario: see [`run()`].
    fn run(scenario: &Scenario<Self>) -> Report<Self>;

    /// Number of events after which all faults of a scenario are over.
    fn until_calm(scenario: &Scenario<Self>) -> u64;

    /// Whether the event of the fault matters: [`exhaustive`] tries only such faults.
    fn has_moment(self) -> bool {
        true
    }
}

/// Parameters of a run: equal scenarios have equal hashes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scenario<F> {
    /// Number of ids, within [`Fault::IDS`]; some worlds use fewer.
    pub n: u32,
    /// Seed of every random choice.
    pub seed: u64,
    /// Faults at numbers of events, in a small world; `None` for faults drawn from the seed.
    pub acts: Option<Vec<(u64, F)>>,
    /// Whether to keep a line for each event.
    pub trace: bool,
}

impl<F: Fault> Scenario<F> {
    /// A scenario with faults drawn from the seed.
    pub fn new(n: u32, seed: u64) -> Scenario<F> {
        Scenario { n: n.clamp(*F::IDS.start(), *F::IDS.end()), seed, acts: None, trace: false }
    }
}

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Report<F> {
    /// Hash over every event.
    pub hash: u64,
    /// Number of events.
    pub events: u64,
    /// Connections of a world of peers, or messages of a world of domains.
    pub passed: u64,
    /// How often each fault took effect.
    pub injected: BTreeMap<F, u64>,
    /// How often each counted event happened.
    pub counts: BTreeMap<String, u64>,
    /// Violations that the checkers found.
    pub violations: Vec<Violation>,
    /// One line for each event, if the scenario asks for a trace.
    pub trace: Vec<String>,
}

/// Runs a scenario.
pub fn run<F: Fault>(scenario: &Scenario<F>) -> Report<F> {
    F::run(scenario)
}
