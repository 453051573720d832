//! Finds the tree that `loggp` alone names: of the trees that are optimal for some lag, the fastest one in this run.
//!
//! The lag of the costs, (L + 2o) / g, gives the fastest *broadcast*. A call also goes up again, its replies grow on
//! the way, and processes may share cores. So lags from 1 to the number of ids are tried.

use gpc_trees::{Lag, Limits, Tree, TreeName};

use super::costs::RunCosts;
use super::scenario::scenario;
use crate::args::{SimArgs, SimTree};
use crate::refused::Refused;
use gpc_sim::{FaultSet, Scenario, run as simulate};

/// Maximum number of ids of a trial, of some milliseconds each; with more ids the best lag hardly changes.
const TRIAL_MAX: u32 = 1024;

/// Ratio of one tried lag to the one before it.
const RATIO: f64 = 1.12;

/// Returns a tree by its name.
///
/// # Errors
/// If the arguments conflict.
pub(super) fn named(tree: &SimTree, args: &SimArgs, costs: &RunCosts) -> Result<TreeName, Refused> {
    match tree {
        SimTree::Named(name) => Ok(name.clone()),
        SimTree::Fastest => {
            let n = args.ids().min(TRIAL_MAX);
            let trial = scenario(args, costs, &TreeName::Flat, n)?;
            let trial = Scenario { faults: FaultSet::NONE, crashes: None, trace: false, calls: 1, ..trial };
            Ok(TreeName::Loggp(fastest(&trial, costs.lag(args.data_bytes.unwrap_or(0)))))
        }
    }
}

/// Returns the lag with which a scenario ends first. Of equal ones it is the first tried, and the lag of the costs is
/// tried first.
fn fastest(trial: &Scenario, lag: Option<Lag>) -> Lag {
    let steps = std::iter::successors(Some(1.0), |lag| Some(lag * RATIO));
    // The last lag exceeds the number of ids, which gives the flat tree.
    let tried = steps.take_while(|lag| *lag <= f64::from(trial.n) * RATIO);
    let tried = tried.filter_map(|lag| Lag::from_1024ths((lag * 1024.0) as u32));
    let fits = |lag: &Lag| Tree::Loggp(*lag).check(trial.n, &Limits::default()).is_ok();
    let took = |lag: &Lag| {
        let report = simulate(&Scenario { tree: Tree::Loggp(*lag), ..trial.clone() });
        report.calls.first().and_then(|call| call.took_ns).unwrap_or(u64::MAX)
    };
    let one = || Lag::from_1024ths(1024).expect("a lag is 1 at least");
    lag.into_iter().chain(tried).filter(fits).min_by_key(took).unwrap_or_else(one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpc_sim::{Costs, LinkCost};

    #[test]
    fn the_fastest_lag_is_no_slower_than_that_of_the_costs_nor_than_flat() {
        let cost = LinkCost { latency_ns: 2000, overhead_ns: 500, gap_ns: 300, byte_ps: 100 };
        let costs = Costs { host: cost, rack: cost, elsewhere: cost };
        for n in [1, 8, 64] {
            let trial = Scenario { costs, ..Scenario::new(n, Tree::Flat) };
            let took = |tree| simulate(&Scenario { tree, ..trial.clone() }).calls[0].took_ns;
            let lag = Lag::of_costs(2000, 500, 300, 0.1, 9);
            let best = took(Tree::Loggp(fastest(&trial, lag)));
            assert!(best <= took(Tree::Flat) && best <= lag.and_then(|lag| took(Tree::Loggp(lag))), "n {n}");
        }
    }
}
