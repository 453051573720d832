//! The cost of simulated worlds grows linearly with their size, not quadratically: measured in allocated bytes and in
//! events.

use chained_gpc::Tree;
use gpc_sim::{FaultSet, Report, Scenario, run};
use gpc_test_support::memory::{Counting, OfThread};

#[global_allocator]
static COUNTING: Counting<OfThread> = Counting::new();

/// Runs a scenario; returns its peak of allocated bytes, and the sum of all allocations.
fn cost(scenario: &Scenario) -> (Report, usize, usize) {
    let (report, cost) = OfThread::cost(|| run(scenario));
    (report, cost.peak, cost.taken)
}

/// The replies of a chain of n ids have n * n bytes of prefixes, in header and data alike. They were copied at every
/// hop: a chain of 10,000 took minutes.
#[test]
fn a_chain_copies_its_prefixes_once() {
    let n = 3000;
    let (report, _, taken) = cost(&Scenario::new(n, Tree::Chain));
    assert_eq!(report.violations, []);
    let prefixes = 2 * (n * n) as usize;
    assert!(taken < 8 * prefixes, "{taken} bytes for {prefixes} of prefixes");
}

/// Each fault scanned all links, ids and records of the checkers.
#[test]
fn faults_cost_what_they_touch() {
    for (seed, partial) in [(11, false), (4, true), (8, true)] {
        let world = |n| Scenario { seed, partial, faults: FaultSet::ALL, ..Scenario::new(n, Tree::Binary) };
        let (small, _, taken) = cost(&world(17_000));
        let (large, held, more) = cost(&world(34_000));
        assert_eq!((&small.violations, &large.violations), (&vec![], &vec![]), "seed {seed}");
        let (events, bytes) = (large.events as f64 / small.events as f64, more as f64 / taken as f64);
        // If a caller gives up at once, there are few events, and the initial cost of each id dominates.
        assert!(
            bytes < 1.5 * events.max(1.0),
            "seed {seed}: {bytes} times the bytes for {events} times the events"
        );
        assert!(held < 34_000 * HELD_FAULTY, "seed {seed}: {} bytes for each id", held / 34_000);
    }
}

/// Bytes that a world may hold for each id: a node that waits in a call, with its messages and the times of the call.
const HELD_PLAIN: usize = 2_800;

/// The same in a world with faults, where ended calls must be remembered and the checkers know all links.
const HELD_FAULTY: usize = 6_000;

#[test]
fn a_node_that_waits_holds_little() {
    let n = 20_000;
    for tree in [Tree::Binary, Tree::Binomial, Tree::Flat] {
        let (report, held, _) = cost(&Scenario::new(n, tree.clone()));
        assert_eq!(report.violations, []);
        assert!(held < n as usize * HELD_PLAIN, "{tree}: {} bytes for each id", held / n as usize);
    }
}
