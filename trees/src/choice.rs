//! The tree for a call that names none: of a few candidates the one that a model of costs predicts to be the fastest.
//!
//! The model has two parts, which are added. The *path* is the time until the last reply is at the root if every
//! process has a processor of its own: an id sends to one child after another, the largest subtree first, and takes in
//! their replies one after another (LogP: Culler et al., 1993). The *work* is the time of all processes together,
//! divided by the processors that they share: an id that forwards is woken again by each of its children's replies. The
//! root is not: it still takes in others.

use std::num::NonZeroU32;

use crate::sorting::sort_by;
use crate::{Hosts, Limits, Tree};

/// Most children in a chosen flat tree. Each child is a link and a descriptor of one process.
const FLAT_MAX: u32 = 64;

/// Most ids in a chosen chain: each of them adds two wake-ups to the path.
const CHAIN_MAX: u32 = 16;

/// Fan-outs of the candidates among k-ary trees, the widest first: of equals the first one is chosen, which has the
/// fewest levels.
const FAN_OUTS: [u32; 5] = [32, 16, 8, 4, 2];

/// Costs of messages between processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// Time from the end of sending a message to the start of taking it in, nanoseconds: the network, and the wake-up.
    pub latency_ns: u64,
    /// Processor time to send a message, and again to take it in, nanoseconds.
    pub overhead_ns: u64,
    /// Time that a byte of data adds to sending, picoseconds.
    pub byte_ps: u64,
    /// Processor time of one process for one call, nanoseconds.
    pub process_ns: u64,
    /// Processors that all processes share; `None` if each has one of its own.
    pub processors: Option<NonZeroU32>,
}

impl Costs {
    /// Costs of the order of those between processes of one host, which share these processors.
    pub fn of_host(processors: NonZeroU32) -> Costs {
        let processors = Some(processors);
        Costs { latency_ns: 35_000, overhead_ns: 2_000, byte_ps: 250, process_ns: 16_000, processors }
    }

    /// Costs of the order of those between hosts of one network, with a process or more on each.
    pub fn of_network() -> Costs {
        Costs { latency_ns: 60_000, overhead_ns: 3_000, byte_ps: 400, process_ns: 16_000, processors: None }
    }
}

/// What a tree is chosen for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// Number of ids, with the root; at least 1.
    pub ids: u32,
    /// Bytes of data that every id gets.
    pub bytes: u64,
    /// Whether each id forwards the data while they arrive.
    pub forward_first: bool,
}

impl Tree {
    /// Chooses the tree that is predicted to be the fastest: flat, k-ary, binomial or, for data that are forwarded
    /// while they arrive, a chain. Its depth and fan-out are within `limits`, if those of any candidate are.
    ///
    /// The time does not depend on the number of ids: it is that of splitting the candidates level by level.
    ///
    /// ```
    /// use std::num::NonZeroU32;
    ///
    /// use gpc_trees::{Costs, Limits, Load, Tree};
    ///
    /// let costs = Costs::of_host(NonZeroU32::new(4).expect("not zero"));
    /// let short = |ids| Load { ids, bytes: 100, forward_first: false };
    /// let tree = |load| Tree::choose(&load, &costs, &Limits::default());
    /// assert_eq!(tree(short(8)), Tree::Flat);
    /// assert_eq!(tree(short(1024)).to_string(), "kary:32");
    /// assert_eq!(tree(Load { ids: 8, bytes: 64 << 20, forward_first: true }), Tree::Chain);
    /// ```
    pub fn choose(load: &Load, costs: &Costs, limits: &Limits) -> Tree {
        let (limits, mut best): (Limits, Option<(f64, Tree)>) = (limits.bounded(), None);
        for tree in candidates(load) {
            let fan_out = tree.fan_out(load.ids).is_some_and(|fan_out| fan_out <= limits.fan_out);
            let depth = tree.depth(load.ids).is_some_and(|depth| depth <= limits.depth);
            if !(fan_out && depth) {
                continue;
            }
            let time = time_ns(&tree, load, costs);
            if best.as_ref().is_none_or(|(least, _)| time < *least) {
                best = Some((time, tree));
            }
        }
        best.map(|(_, tree)| tree).unwrap_or_default()
    }
}

impl Hosts {
    /// Chooses a tree over the ids that have these hosts; `on_host` has the costs if all are on one host, `between`
    /// those between hosts. Returns the tree, and whether it is one over the hosts and within each, as a
    /// [layout](Hosts::layout): if several ids share a host.
    pub fn choose(&self, load: &Load, on_host: &Costs, between: &Costs, limits: &Limits) -> (Tree, bool) {
        let hosts = u32::try_from(self.len()).unwrap_or(u32::MAX);
        match hosts {
            0 | 1 => (Tree::choose(load, on_host, limits), false),
            _ if hosts < load.ids => (Tree::choose(&Load { ids: hosts, ..*load }, between, limits), true),
            _ => (Tree::choose(load, between, limits), false),
        }
    }
}

/// The trees to choose from. None has more than 32 levels but a short chain.
fn candidates(load: &Load) -> impl Iterator<Item = Tree> {
    let flat = Some(Tree::Flat).filter(|_| load.ids <= FLAT_MAX + 1);
    let kary = FAN_OUTS.into_iter().filter_map(NonZeroU32::new).map(Tree::Kary);
    let chain = Some(Tree::Chain).filter(|_| load.forward_first && load.ids <= CHAIN_MAX);
    flat.into_iter().chain(kary).chain([Tree::Binomial]).chain(chain)
}

/// The predicted time of a call, nanoseconds.
fn time_ns(tree: &Tree, load: &Load, costs: &Costs) -> f64 {
    let data = load.bytes as f64 * costs.byte_ps as f64 / 1000.0;
    // Data that are forwarded while they arrive go through the id with the most children once for each of them.
    let (each, streamed) = match load.forward_first {
        true => (0.0, data * f64::from(tree.fan_out(load.ids).unwrap_or(1))),
        false => (data, 0.0),
    };
    let path = path_ns(tree, load.ids, each, costs, &mut Vec::new());
    let work = costs.processors.map_or(0.0, |processors| {
        let below = load.ids - 1;
        let again = below - tree.fan_out(load.ids).unwrap_or(0).min(below);
        let woken = f64::from(load.ids) + f64::from(again);
        (woken * costs.process_ns as f64 + f64::from(below) * data) / f64::from(processors.get())
    });
    path + streamed + work
}

/// The path of a subtree over `n` ids, nanoseconds; `each` is the time to send the data once. `known` has the paths of
/// the sizes that were split: a split of any size has few sizes of groups, so they are as many as levels, or the square
/// of that.
fn path_ns(tree: &Tree, n: u32, each: f64, costs: &Costs, known: &mut Vec<(u32, f64)>) -> f64 {
    if n <= 1 {
        return 0.0;
    }
    if let Some((_, path)) = known.iter().find(|(size, _)| *size == n) {
        return *path;
    }
    let (overhead, latency) = (costs.overhead_ns as f64, costs.latency_ns as f64);
    let (mut latest, mut sent) = (0.0f64, 0.0);
    let mut sizes: Vec<u32> = tree.split(n).unwrap_or_default().iter().map(|group| group.len).collect();
    sort_by(&mut sizes, |one, other| other.cmp(one));
    // Recurses at most as deep as the candidates have levels.
    for size in sizes {
        sent += overhead + each;
        let below = path_ns(tree, size, each, costs, known);
        // Its reply is taken in behind those before it.
        latest = latest.max(sent + 2.0 * (latency + overhead) + below) + overhead;
    }
    known.push((n, latest));
    latest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn host(processors: u32) -> Costs {
        Costs::of_host(NonZeroU32::new(processors).unwrap())
    }

    fn short(ids: u32) -> Load {
        Load { ids, bytes: 64, forward_first: false }
    }

    fn chosen(load: Load, costs: Costs) -> String {
        Tree::choose(&load, &costs, &Limits::default()).to_string()
    }

    /// On two processors the work decides, of which a flat tree has the least; with many processors, or hosts of their
    /// own, the path does.
    #[test]
    fn few_ids_are_called_at_once_and_many_through_few_levels() {
        for costs in [host(2), host(64), Costs::of_network()] {
            for ids in [1, 2, 3, 8, 16] {
                assert_eq!(chosen(short(ids), costs), "flat", "{ids} ids, {costs:?}");
            }
            let tree = Tree::choose(&short(128), &costs, &Limits::default());
            let (levels, children) = (tree.depth(128).unwrap(), tree.fan_out(128).unwrap());
            assert!(levels <= 3 && (4..=32).contains(&children), "{tree}, {costs:?}");
        }
    }

    #[test]
    fn some_dozens_of_ids_on_few_processors_are_called_at_once() {
        assert_eq!(chosen(short(64), host(2)), "flat");
        assert_ne!(chosen(short(64), host(64)), "flat");
    }

    /// A flat tree is out of the question where its root would send long data to all, or wait for a million links.
    #[test]
    fn a_root_is_not_to_do_everything() {
        let million = Tree::choose(&short(1 << 20), &Costs::of_network(), &Limits::default());
        assert!(million.fan_out(1 << 20).unwrap() <= FLAT_MAX, "{million}");
        let long = Load { ids: 33, bytes: 64 << 20, forward_first: false };
        let tree = Tree::choose(&long, &Costs::of_network(), &Limits::default());
        assert!(tree.fan_out(33).unwrap() <= 6, "{tree}");
    }

    /// Only where data are forwarded while they arrive, and for few ids.
    #[test]
    fn long_data_go_down_a_chain_if_they_stream() {
        let load = |ids, forward_first| Load { ids, bytes: 16 << 20, forward_first };
        for costs in [host(8), Costs::of_network()] {
            assert_eq!(chosen(load(8, true), costs), "chain");
            assert_ne!(chosen(load(8, false), costs), "chain");
            assert_ne!(chosen(load(CHAIN_MAX + 1, true), costs), "chain");
        }
        assert_eq!(chosen(Load { ids: 8, bytes: 0, forward_first: true }, host(8)), "flat");
    }

    /// A call enters each host once; where each id has a host of its own, or all have one, there is nothing to group.
    #[test]
    fn hosts_with_several_ids_have_one_tree_over_them() {
        let of = |hosts: &[(u32, &str)]| {
            let hosts: Hosts = hosts.iter().copied().collect();
            let (tree, grouped) = hosts.choose(&short(4), &host(4), &Costs::of_network(), &Limits::default());
            (tree.to_string(), grouped)
        };
        assert_eq!(of(&[(0, "a"), (1, "b"), (2, "a"), (3, "b")]), ("flat".into(), true));
        assert_eq!(of(&[(0, "a"), (1, "b"), (2, "c"), (3, "d")]), ("flat".into(), false));
        assert_eq!(of(&[(0, "a"), (1, "a"), (2, "a"), (3, "a")]), ("flat".into(), false));
        assert_eq!(of(&[]), ("flat".into(), false));
    }

    proptest! {
        /// Whatever is asked for, the tree is within the limits if a k-ary one can be, and its prediction is a number.
        #[test]
        fn it_keeps_to_the_limits(
            ids in prop_oneof![1u32..200, Just(u32::MAX), any::<u32>().prop_map(|ids| ids.max(1))],
            bytes: u64, forward_first: bool, fan_out in 2u32..100, depth in 32u32..70,
            latency_ns in 0u64..1_000_000, overhead_ns in 0u64..100_000, byte_ps in 0u64..10_000,
            processors in 0u32..9,
        ) {
            let processors = NonZeroU32::new(processors);
            let costs = Costs { latency_ns, overhead_ns, byte_ps, process_ns: 10_000, processors };
            let load = Load { ids, bytes, forward_first };
            let tree = Tree::choose(&load, &costs, &Limits { depth, fan_out });
            prop_assert!(tree.fan_out(ids).unwrap() <= fan_out && tree.depth(ids).unwrap() <= depth, "{tree}");
            prop_assert!(time_ns(&tree, &load, &costs).is_finite());
        }
    }
}
