//! Worlds that are not of calls alone: what one is run with, what it comes to, and many of them. Those of peers are in [`peering`](super::peering), those of domains in a crate of their own.
//!
//! A kind of worlds is known by what goes wrong in it: whoever lists its faults with [`faults!`] and implements [`Fault`] has scenarios with the faults that a seed draws or with a list of faults at events ([`parse_acts`]), [many runs](run_all) over all cores, and small worlds [exhaustively](exhaustive).

mod faults;
mod many;

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::ops::RangeInclusive;

#[doc(inline)]
pub use crate::__faults as faults;
use crate::sim::check::Violation;
pub use faults::{FaultError, acts_text, parse_acts};
pub use many::{Swarm, exhaustive, run_all};

/// What goes wrong in worlds of one kind. As text: its name.
pub trait Fault: Copy + Ord + Debug + Display + Send + Sync + 'static {
    /// All of them.
    const ALL: &'static [Self];
    /// The option of `gpc sim` for these worlds, such as `peering`.
    const OPTION: &'static str;
    /// How many ids such a world may have.
    const IDS: RangeInclusive<u32>;

    /// Runs a scenario: see [`run()`].
    fn run(scenario: &Scenario<Self>) -> Report<Self>;

    /// After how many events all that goes wrong in a scenario is over.
    fn until_calm(scenario: &Scenario<Self>) -> u64;

    /// Whether it matters at which event it happens: [`exhaustive`] tries those alone.
    fn has_moment(self) -> bool {
        true
    }
}

/// What decides a run: equal scenarios have equal hashes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scenario<F> {
    /// How many ids, within [`Fault::IDS`]; some worlds have fewer.
    pub n: u32,
    /// Decides everything that is drawn.
    pub seed: u64,
    /// What goes wrong after how many events, in a small world; none for what the seed draws.
    pub acts: Option<Vec<(u64, F)>>,
    /// Whether a line is kept for each thing that happens.
    pub trace: bool,
}

impl<F: Fault> Scenario<F> {
    /// With faults that the seed draws.
    pub fn new(n: u32, seed: u64) -> Scenario<F> {
        Scenario { n: n.clamp(*F::IDS.start(), *F::IDS.end()), seed, acts: None, trace: false }
    }

    /// The command that runs it again.
    pub fn replay(&self) -> String {
        let acts = self.acts.as_ref().map_or_else(String::new, |acts| format!(" --acts {}", acts_text(acts)));
        format!("gpc sim -n {} --{} --seed {}{acts} --trace", self.n, F::OPTION, self.seed)
    }
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Report<F> {
    /// A hash of every event.
    pub hash: u64,
    /// Events of the world.
    pub events: u64,
    /// What passed between its ids: connections of worlds of peers, messages of those of domains.
    pub passed: u64,
    /// How often each fault took effect.
    pub injected: BTreeMap<F, u64>,
    /// How often each thing happened, where that is counted.
    pub counts: BTreeMap<String, u64>,
    /// What must not be and was.
    pub violations: Vec<Violation>,
    /// A line for each thing that happened, if they were asked for.
    pub trace: Vec<String>,
}

/// Runs a scenario.
pub fn run<F: Fault>(scenario: &Scenario<F>) -> Report<F> {
    F::run(scenario)
}
