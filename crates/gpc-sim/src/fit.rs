//! Fits the cost of messages on a machine to the measured times of a few calls.
//!
//! The result is the set of constants with which the simulator predicts the *probes* best; a probe is a measured call.
//! The distance is the sum over the probes of the squared logarithm of predicted over measured time. So 10 % of a short
//! call counts as much as 10 % of a long one. The search is Levenberg and Marquardt over the logarithms of the
//! constants, from several starts; it uses no random numbers.
//!
//! To separate the constants, the probes need:
//! - a pair of ids, for the latency;
//! - a chain, for latency and waking, with nothing in parallel;
//! - a flat tree of few ids and one of many, for the work and the cost of cold caches;
//! - trees with few and with many inner nodes, for waking;
//! - a pair with much data, for the cost of a byte.

use std::num::NonZeroU32;

use gpc_trees::Tree;

use super::cost::{Costs, LinkCost, Sharing};
use super::run::run;
use super::scenario::Scenario;

/// A call over ids of one machine, and its measured time.
#[derive(Clone, PartialEq, Debug)]
pub struct Probe {
    /// Tree of the call.
    pub tree: Tree,
    /// Number of ids.
    pub n: u32,
    /// Bytes of the request's data and of each id's reply; a reply has at least 4.
    pub data_bytes: u32,
    /// Median time, nanoseconds.
    pub median_ns: u64,
}

/// Cost of messages between the processes of one machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostCost {
    /// Cost of a message.
    pub link: LinkCost,
    /// Shared cores, and the cost of waking a process.
    pub sharing: Sharing,
}

impl HostCost {
    /// A call over ids that are all on this host.
    pub fn scenario(&self, tree: Tree, n: u32, data_bytes: u32) -> Scenario {
        let costs = Costs { host: self.link, rack: self.link, elsewhere: self.link };
        Scenario {
            costs,
            sharing: Some(self.sharing),
            data_bytes: Some(data_bytes),
            reply_bytes: Some(data_bytes.max(4)),
            ..Scenario::new(n, tree)
        }
    }

    /// Predicted time of that call, nanoseconds.
    pub fn predict(&self, tree: Tree, n: u32, data_bytes: u32) -> u64 {
        let report = run(&self.scenario(tree, n, data_bytes));
        report.calls.first().and_then(|call| call.took_ns).unwrap_or_default()
    }
}

/// Number of unknown constants: latency, overhead, waking, cold caches.
const UNKNOWNS: usize = 4;

/// Unknown constants in nanoseconds, as real numbers, because the search multiplies them.
type Point = [f64; UNKNOWNS];

/// Factor by which a constant is changed to find the slope: large enough to exceed the noise from reordered events.
const NUDGE: f64 = 1.05;

/// Iterations from one start: about four times what converges.
const ROUNDS_MAX: u32 = 40;

/// First value and bound of the damping on the diagonal of the normal equations; above the bound a step is negligible.
const DAMPING: f64 = 0.01;
const DAMPING_MAX: f64 = 1e4;

/// Longest step of a constant in one iteration, as a logarithm: a factor of four.
const STEP_MAX: f64 = 1.4;

/// Shares of a hop's time that the starts assign to latency, overhead (twice), waking, cold caches.
const STARTS: [Point; 3] = [[0.4, 0.1, 0.2, 0.2], [0.02, 0.2, 0.1, 0.5], [0.2, 0.1, 0.4, 0.02]];

/// Returns the constants that predict the probes best, on a machine of so many cores. Fewer cores may fit best if other
/// programs use the machine as well.
///
/// `None` if the probes are too few: fewer than the unknown constants, or without a pair of ids.
pub fn fit(probes: &[Probe], machine_cores: NonZeroU32) -> Option<HostCost> {
    let small = probes.iter().map(|probe| probe.data_bytes).min()?;
    let short: Vec<&Probe> = probes.iter().filter(|probe| probe.data_bytes == small && probe.n > 1).collect();
    let pair = short.iter().find(|probe| probe.n == 2)?;
    if short.len() < UNKNOWNS {
        return None;
    }
    let byte_ps = byte_ps(pair, probes);
    let mut best: Option<(f64, HostCost)> = None;
    for cores in candidates(machine_cores) {
        let host = |point: &Point| host_cost(point, byte_ps, cores);
        let misses = |point: &Point| misses(&host(point), &short);
        for start in STARTS {
            let hop_ns = (pair.median_ns as f64 / 2.0).max(1.0);
            let (distance, point) = search(start.map(|part| part * hop_ns), misses);
            if best.is_none_or(|(least, _)| distance < least) {
                best = Some((distance, host(&point)));
            }
        }
    }
    best.map(|(_, host)| host)
}

/// Numbers of cores to try: all, and repeated halves.
fn candidates(machine_cores: NonZeroU32) -> impl Iterator<Item = NonZeroU32> {
    std::iter::successors(Some(machine_cores), |cores| NonZeroU32::new(cores.get() / 2))
}

/// Cost of a byte in picoseconds: the data travel to the second id and back.
fn byte_ps(pair: &Probe, probes: &[Probe]) -> u64 {
    let long = probes.iter().filter(|probe| probe.n == 2).max_by_key(|probe| probe.data_bytes);
    let Some(long) = long.filter(|long| long.data_bytes > pair.data_bytes) else { return 0 };
    let bytes = 2 * u64::from(long.data_bytes - pair.data_bytes);
    long.median_ns.saturating_sub(pair.median_ns).saturating_mul(1000) / bytes
}

fn host_cost(point: &Point, byte_ps: u64, cores: NonZeroU32) -> HostCost {
    let [latency_ns, overhead_ns, wake_ns, cold_ns] = point.map(|ns| ns.round() as u64);
    // On one machine no gap beyond the overhead can be measured.
    let link = LinkCost { latency_ns, overhead_ns, gap_ns: overhead_ns, byte_ps };
    HostCost { link, sharing: Sharing { cores, wake_ns, cold_ns } }
}

/// Logarithm of predicted over measured time, for each probe.
fn misses(host: &HostCost, probes: &[&Probe]) -> Vec<f64> {
    let miss = |probe: &&Probe| {
        let predicted = host.predict(probe.tree.clone(), probe.n, probe.data_bytes);
        (predicted.max(1) as f64 / probe.median_ns.max(1) as f64).ln()
    };
    probes.iter().map(miss).collect()
}

/// Searches from a start; returns the best point and its squared distance.
fn search(start: Point, misses: impl Fn(&Point) -> Vec<f64>) -> (f64, Point) {
    let square = |misses: &[f64]| misses.iter().map(|miss| miss * miss).sum::<f64>();
    let (mut point, mut here) = (start, misses(&start));
    let mut damping = DAMPING;
    for _ in 0..ROUNDS_MAX {
        let slopes: [Vec<f64>; UNKNOWNS] = std::array::from_fn(|place| {
            let mut nudged = point;
            nudged[place] *= NUDGE;
            let there = misses(&nudged);
            there.iter().zip(&here).map(|(there, here)| (there - here) / NUDGE.ln()).collect()
        });
        let mut moved = false;
        while !moved && damping < DAMPING_MAX {
            let step = downhill(&slopes, &here, damping);
            let factor = |place: usize| step[place].clamp(-STEP_MAX, STEP_MAX).exp();
            let next: Point = std::array::from_fn(|place| (point[place] * factor(place)).max(1.0));
            let there = misses(&next);
            moved = square(&there) < square(&here);
            if moved {
                (point, here) = (next, there);
            }
            damping *= if moved { 0.3 } else { 4.0 };
        }
        if !moved {
            break;
        }
    }
    (square(&here), point)
}

/// Solves the damped normal equations for a step: (slopes² + damping on the diagonal) × step = -slopes × misses.
fn downhill(slopes: &[Vec<f64>; UNKNOWNS], misses: &[f64], damping: f64) -> Point {
    let dot = |one: &[f64], other: &[f64]| one.iter().zip(other).map(|(a, b)| a * b).sum::<f64>();
    let mut rows: [[f64; UNKNOWNS + 1]; UNKNOWNS] = std::array::from_fn(|row| {
        std::array::from_fn(|column| match column {
            UNKNOWNS => -dot(&slopes[row], misses),
            _ if column == row => dot(&slopes[row], &slopes[row]) + damping,
            _ => dot(&slopes[row], &slopes[column]),
        })
    });
    // Gauss-Jordan elimination; the diagonal of a damped square is never zero.
    for pivot in 0..UNKNOWNS {
        let by = rows[pivot].map(|cell| cell / rows[pivot][pivot]);
        for (index, row) in rows.iter_mut().enumerate() {
            let times = row[pivot];
            match index == pivot {
                true => *row = by,
                false => row.iter_mut().zip(by).for_each(|(cell, by)| *cell -= times * by),
            }
        }
    }
    rows.map(|row| row[UNKNOWNS])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores(count: u32) -> NonZeroU32 {
        NonZeroU32::new(count).unwrap()
    }

    fn known(latency_ns: u64, overhead_ns: u64, wake_ns: u64, cold_ns: u64, count: u32) -> HostCost {
        let link = LinkCost { latency_ns, overhead_ns, gap_ns: overhead_ns, byte_ps: 250 };
        HostCost { link, sharing: Sharing { cores: cores(count), wake_ns, cold_ns } }
    }

    fn probes(host: &HostCost) -> Vec<Probe> {
        let shapes = [
            (Tree::Flat, 2, 8),
            (Tree::Chain, 8, 8),
            (Tree::Flat, 8, 8),
            (Tree::Flat, 64, 8),
            (Tree::Binary, 24, 8),
            (Tree::Binary, 96, 8),
            (Tree::Flat, 2, 65536),
        ];
        let probe = |(tree, n, data_bytes): (Tree, u32, u32)| {
            let median_ns = host.predict(tree.clone(), n, data_bytes);
            Probe { tree, n, data_bytes, median_ns }
        };
        shapes.into_iter().map(probe).collect()
    }

    /// The fit recovers the constants of probes that the simulator made, and predicts trees that are not among the
    /// probes.
    #[test]
    fn constants_are_found_again() {
        for host in [known(8000, 3000, 5000, 10_000, 2), known(1000, 2000, 6000, 20_000, 1)] {
            let found = fit(&probes(&host), cores(2)).unwrap();
            assert_eq!(found.sharing.cores, host.sharing.cores, "{found:?}");
            let near =
                |one: u64, other: u64, percent: u64, of: u64| one.abs_diff(other) * 100 <= of * percent;
            let (a, b) = (&found, &host);
            let hop = b.link.latency_ns + 2 * b.link.overhead_ns + b.sharing.wake_ns;
            assert!(near(a.link.latency_ns, b.link.latency_ns, 20, hop), "{found:?}");
            assert!(near(a.link.overhead_ns, b.link.overhead_ns, 20, hop), "{found:?}");
            assert!(near(a.sharing.wake_ns, b.sharing.wake_ns, 20, hop), "{found:?}");
            assert!(near(a.sharing.cold_ns, b.sharing.cold_ns, 20, b.sharing.cold_ns), "{found:?}");
            assert!(near(a.link.byte_ps, b.link.byte_ps, 5, b.link.byte_ps), "{found:?}");
            for n in [4, 16, 64, 200] {
                let (is, was) = (a.predict(Tree::Binomial, n, 8), b.predict(Tree::Binomial, n, 8));
                assert!(near(is, was, 8, was), "n {n}: {is} instead of {was} with {found:?}");
            }
        }
    }

    #[test]
    fn too_few_probes_give_nothing() {
        let all = probes(&known(1, 1, 1, 1, 1));
        assert_eq!(fit(&all[..3], cores(2)), None);
        assert_eq!(fit(&all[1..], cores(2)), None, "no pair with little data");
        assert_eq!(fit(&[], cores(2)), None);
    }

    #[test]
    fn a_wrong_measurement_does_no_harm() {
        let mut wrong = probes(&known(1, 1, 1, 1, 1));
        wrong.iter_mut().for_each(|probe| probe.median_ns = 0);
        assert!(fit(&wrong, cores(64)).is_some());
        assert_eq!(candidates(cores(64)).count(), 7);
    }
}
