//! What simulated worlds cost grows with their size, and not with its square: counted in bytes that are taken from the allocator, and in events.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use chained_gpc::Tree;
use chained_gpc::sim::{FaultSet, Report, Scenario, run};

/// The system's allocator, with the bytes of the current thread counted, so that tests beside it do not matter.
struct Counting;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
    static TAKEN: Cell<usize> = const { Cell::new(0) };
}

fn count(taken: usize, given: usize) {
    TAKEN.set(TAKEN.get().wrapping_add(taken));
    HELD.set(HELD.get().wrapping_add(taken).wrapping_sub(given));
    PEAK.set(PEAK.get().max(HELD.get()));
}

// SAFETY: every call goes on to the system's allocator as it came; counting neither allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Runs a scenario; the most bytes that it held at once, and all that it ever took.
fn cost(scenario: &Scenario) -> (Report, usize, usize) {
    // Held memory is counted from a high base, so that freeing what another thread gave does not go below zero.
    let (held, taken) = (1 << 40, TAKEN.get());
    HELD.set(held);
    PEAK.set(held);
    let report = run(scenario);
    (report, PEAK.get() - held, TAKEN.get() - taken)
}

/// The replies of a chain of n ids have n * n bytes of prefixes, header and data alike. They were copied at every hop: a chain of 10,000 took minutes.
#[test]
fn a_chain_copies_its_prefixes_once() {
    let n = 3000;
    let (report, _, taken) = cost(&Scenario::new(n, Tree::Chain));
    assert_eq!(report.violations, []);
    let prefixes = 2 * (n * n) as usize;
    assert!(taken < 8 * prefixes, "{taken} bytes for {prefixes} of prefixes");
}

/// Each fault went once over all links, ids and notes of the checkers.
#[test]
fn faults_cost_what_they_touch() {
    for (seed, partial) in [(11, false), (4, true), (8, true)] {
        let world = |n| Scenario { seed, partial, faults: FaultSet::ALL, ..Scenario::new(n, Tree::Binary) };
        // Both are worlds whose idle nodes are let go.
        let (small, _, taken) = cost(&world(17_000));
        let (large, held, more) = cost(&world(34_000));
        assert_eq!((&small.violations, &large.violations), (&vec![], &vec![]), "seed {seed}");
        let (events, bytes) = (large.events as f64 / small.events as f64, more as f64 / taken as f64);
        // Where a caller gives up at once there are few events, and what each id costs from the start weighs most.
        assert!(
            bytes < 1.5 * events.max(1.0),
            "seed {seed}: {bytes} times the bytes for {events} times the events"
        );
        assert!(held < 34_000 * HELD_FAULTY, "seed {seed}: {} bytes for each id", held / 34_000);
    }
}

/// Bytes that a world may hold for each id: of a node that waits in a call and of the messages, and half as many for those that have nothing to do.
const HELD_PLAIN: usize = 900;

/// The same of a world with faults, where what has ended must be remembered, and where the checkers know all links.
const HELD_FAULTY: usize = 3_000;

#[test]
fn a_node_that_waits_holds_little() {
    let n = 20_000;
    for tree in [Tree::Binary, Tree::Binomial, Tree::Flat] {
        let (report, held, _) = cost(&Scenario::new(n, tree.clone()));
        assert_eq!(report.violations, []);
        assert!(held < n as usize * HELD_PLAIN, "{tree}: {} bytes for each id", held / n as usize);
    }
}
