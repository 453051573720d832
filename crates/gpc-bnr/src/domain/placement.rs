//! Placement of processes on nodes: blocks of consecutive ranks, by the slots of the nodes, or spread as evenly as
//! possible.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use chained_gpc::trees::Id;

use super::host_names::HostNames;
use super::room::Room;
use crate::fault::{Fault, FaultKind};
use crate::spec::{Block, Spec};

/// Places the processes of some specs on nodes, in node order. `hosts` has the host name of each node of the domain,
/// `runs` says which of them may run processes; `loads` has the number of processes that each node already runs.
///
/// With `slots`, no node gets more processes than it has slots before all are full. Without, they are divided evenly;
/// if that leaves some over, the nodes with the lowest loads get one more; among equals, the first nodes do.
///
/// # Errors
/// A spec's hint matches no node, or there is no node.
pub(super) fn place(
    specs: &[Spec],
    hosts: &[(Id, &str)],
    runs: impl Fn(Id) -> bool,
    slots: &BTreeMap<Id, u32>,
    loads: &BTreeMap<Id, u64>,
) -> Result<Vec<Block>, Fault> {
    let all: Vec<Id> = hosts.iter().map(|(id, _)| *id).filter(|id| runs(*id)).collect();
    let known: BTreeSet<Id> = all.iter().copied().collect();
    let is_named = specs.iter().any(|spec| spec.hint("host").is_some());
    let names = is_named.then(|| HostNames::new(hosts, &known));
    let mut hints = Vec::with_capacity(specs.len());
    for spec in specs {
        hints.push(Hint::of(spec, names.as_ref(), &known, !slots.is_empty())?);
    }
    let evenly = specs.iter().zip(&hints).filter(|(_, hint)| **hint == Hint::Evenly(None));
    let free = evenly.map(|(spec, _)| u64::from(spec.count)).sum();
    let mut even = shares(free, &all, loads)?;
    let mut room = Room::new(&all, slots, loads);
    let places = |among: Option<BTreeSet<Id>>| {
        let among = |place: &usize| among.as_ref().is_none_or(|among| among.contains(&all[*place]));
        (0..all.len()).filter(among).collect::<Vec<_>>()
    };
    let mut blocks = Blocks::default();
    for ((spec, hint), number) in specs.iter().zip(hints).zip(0..) {
        let count = u64::from(spec.count);
        let mut add = |node, count| blocks.add(number, node, count);
        match hint {
            Hint::Evenly(None) => take_shares(&mut even, count, add),
            Hint::Evenly(Some(among)) => {
                let among: Vec<Id> = all.iter().copied().filter(|id| among.contains(id)).collect();
                take_shares(&mut shares(count, &among, loads)?, count, add);
            }
            Hint::BySlot(among) => room.by_slot(&places(among), count, add),
            Hint::ByNode(among) => room.by_node(&places(among), count, add),
            Hint::Each(nodes) => nodes.into_iter().for_each(|node| add(node, 1)),
        }
    }
    Ok(blocks.all)
}

/// How a spec's processes are placed. The nodes are those of its `host`, if it has one.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Hint {
    Evenly(Option<BTreeSet<Id>>),
    BySlot(Option<BTreeSet<Id>>),
    ByNode(Option<BTreeSet<Id>>),
    /// The node of each process.
    Each(Vec<Id>),
}

impl Hint {
    /// `known` has the ids of the nodes that run processes.
    fn of(
        spec: &Spec,
        names: Option<&HostNames<'_>>,
        known: &BTreeSet<Id>,
        has_slots: bool,
    ) -> Result<Hint, Fault> {
        let refused = |message| Err(Fault::new(FaultKind::BadRequest, message));
        if let Some(places) = spec.places() {
            let Some(places) = places.filter(|places| places.len() == spec.count as usize) else {
                return refused("the info places has no node and list of processors for each process".into());
            };
            let absent = places.iter().find(|(node, _)| !known.contains(node));
            return match absent {
                Some((node, _)) => {
                    refused(format!("the info places names node {node}, which runs no processes"))
                }
                None => Ok(Hint::Each(places.into_iter().map(|(node, _)| node).collect())),
            };
        }
        let among = match (spec.hint("host"), names) {
            (Some(list), Some(names)) => Some(names.listed(list)?),
            _ => None,
        };
        Ok(match spec.hint("map") {
            Some(b"node") => Hint::ByNode(among),
            _ if has_slots => Hint::BySlot(among),
            _ => Hint::Evenly(among),
        })
    }
}

/// Blocks of consecutive ranks, of which neighbours on one node are one.
#[derive(Default)]
struct Blocks {
    all: Vec<Block>,
    next: u32,
}

impl Blocks {
    fn add(&mut self, spec: u32, node: Id, count: u64) {
        // A group has fewer processes than that.
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        match self.all.last_mut() {
            Some(last) if (last.spec, last.node) == (spec, node) => last.count += count,
            _ => self.all.push(Block { node, spec, first: self.next, count }),
        }
        self.next += count;
    }
}

/// Takes processes from the front of the shares.
fn take_shares(shares: &mut VecDeque<(Id, u64)>, count: u64, mut add: impl FnMut(Id, u64)) {
    let mut left = count;
    while left > 0
        && let Some((node, share)) = shares.front_mut()
    {
        let count = (*share).min(left);
        add(*node, count);
        *share -= count;
        left -= count;
        if *share == 0 {
            shares.pop_front();
        }
    }
}

/// Number of processes for each node.
fn shares(count: u64, nodes: &[Id], loads: &BTreeMap<Id, u64>) -> Result<VecDeque<(Id, u64)>, Fault> {
    let many = nodes.len() as u64;
    if many == 0 {
        return Err(Fault::new(FaultKind::NotStarted, "there is no node left that runs processes"));
    }
    let mut by_load: Vec<usize> = (0..nodes.len()).collect();
    by_load.sort_by_key(|place| loads.get(&nodes[*place]).copied().unwrap_or_default());
    let mut shares: VecDeque<(Id, u64)> = nodes.iter().map(|node| (*node, count / many)).collect();
    by_load.truncate((count % many) as usize);
    for place in by_load {
        shares[place].1 += 1;
    }
    shares.retain(|(_, share)| *share > 0);
    Ok(shares)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spec(count: u32, host: Option<&str>) -> Spec {
        let info = host.map(|host| ("host".to_owned(), host.as_bytes().to_vec())).into_iter().collect();
        Spec { count, info, ..Spec::default() }
    }

    const HOSTS: [&str; 3] = ["one.example", "TWO", "two"];

    fn named(nodes: &[Id]) -> Vec<(Id, &'static str)> {
        nodes.iter().copied().zip(HOSTS).collect()
    }

    /// Placement on nodes that all run processes.
    fn place(
        specs: &[Spec],
        nodes: &[(Id, &str)],
        slots: &BTreeMap<Id, u32>,
        loads: &BTreeMap<Id, u64>,
    ) -> Result<Vec<Block>, Fault> {
        super::place(specs, nodes, |_| true, slots, loads)
    }

    fn placed(specs: &[Spec], nodes: &[Id]) -> Vec<(Id, u32, u32)> {
        let blocks = place(specs, &named(nodes), &BTreeMap::new(), &BTreeMap::new()).unwrap();
        blocks.iter().map(|block| (block.node, block.spec, block.count)).collect()
    }

    #[test]
    fn ranks_are_in_blocks_and_the_first_is_on_the_first_node() {
        assert_eq!(placed(&[spec(5, None)], &[9, 4]), [(9, 0, 3), (4, 0, 2)]);
        assert_eq!(placed(&[spec(1, None)], &[9, 4]), [(9, 0, 1)]);
        assert_eq!(placed(&[spec(2, None), spec(2, None)], &[9, 4, 6]), [(9, 0, 2), (4, 1, 1), (6, 1, 1)]);
        assert_eq!(placed(&[spec(2, Some("4")), spec(2, None)], &[9, 4]), [(4, 0, 2), (9, 1, 1), (4, 1, 1)]);
    }

    #[test]
    fn what_is_over_goes_where_less_runs() {
        let loads = BTreeMap::from([(9, 3), (4, 1)]);
        let blocks = place(&[spec(1, None)], &named(&[9, 4]), &BTreeMap::new(), &loads).unwrap();
        assert_eq!(blocks, [Block { node: 4, spec: 0, first: 0, count: 1 }]);
    }

    /// MPI programs name a host as its system does. Such a spawn was refused, since the info `host` could only be the
    /// id of a node.
    #[test]
    fn processes_are_placed_on_all_nodes_of_a_host_by_its_name() {
        assert_eq!(placed(&[spec(2, Some("one"))], &[9, 4, 6]), [(9, 0, 2)]);
        assert_eq!(placed(&[spec(2, Some("ONE.example"))], &[9, 4, 6]), [(9, 0, 2)]);
        assert_eq!(
            placed(&[spec(3, Some("two.example")), spec(1, None)], &[9, 4, 6]),
            [(4, 0, 2), (6, 0, 1), (9, 1, 1)]
        );
    }

    /// A program sets the info `host`, and later sets it again. Its processes started on the host that it had replaced.
    #[test]
    fn the_last_of_several_hosts_counts() {
        let [first, last] = [spec(1, Some("9")), spec(1, Some("4"))];
        let info = [first.info, last.info].concat();
        assert_eq!(placed(&[Spec { count: 1, info, ..Spec::default() }], &[9, 4]), [(4, 0, 1)]);
    }

    #[test]
    fn a_list_of_hosts_is_all_of_their_nodes() {
        assert_eq!(placed(&[spec(4, Some("two,one"))], &[3, 4, 9]), [(3, 0, 2), (4, 0, 1), (9, 0, 1)]);
        assert_eq!(placed(&[spec(4, Some("4, 4"))], &[3, 4, 9]), [(4, 0, 4)]);
    }

    #[test]
    fn a_host_that_is_not_there_is_refused_with_its_name() {
        for host in ["5", "two,elsewhere", "elsewhere", "two.example.org.", "", "one.example.org"] {
            let nodes = [(9, "one.example"), (4, "three")];
            let none = BTreeMap::new();
            let fault = place(&[spec(1, Some(host))], &nodes, &none, &BTreeMap::new()).unwrap_err();
            assert_eq!(fault.kind, FaultKind::BadRequest);
            assert!(fault.message.contains(host), "{fault}");
        }
        let fault = place(&[spec(1, None)], &[], &BTreeMap::new(), &BTreeMap::new()).unwrap_err();
        assert_eq!(fault.kind, FaultKind::NotStarted);
    }

    fn hinted(count: u32, key: &str, value: &str) -> Spec {
        Spec { count, info: vec![(key.into(), value.into())], ..Spec::default() }
    }

    #[test]
    fn slots_are_filled_in_order_or_node_by_node() {
        let slots = BTreeMap::from([(9, 2), (4, 1), (6, 3)]);
        let placed = |specs: &[Spec]| {
            let blocks = place(specs, &named(&[9, 4, 6]), &slots, &BTreeMap::new()).unwrap();
            blocks.iter().map(|block| (block.node, block.count)).collect::<Vec<_>>()
        };
        assert_eq!(placed(&[spec(4, None)]), [(9, 2), (4, 1), (6, 1)]);
        assert_eq!(placed(&[hinted(4, "map", "node")]), [(9, 1), (4, 1), (6, 1), (9, 1)]);
        // The host of one program has no room for the other.
        assert_eq!(placed(&[spec(2, Some("9")), spec(1, None)]), [(9, 2), (4, 1)]);
        assert_eq!(placed(&[spec(7, None)]), [(9, 2), (4, 1), (6, 3), (9, 1)]);
        // Without slots, a node is as good as another.
        let none = BTreeMap::new();
        let blocks = place(&[hinted(3, "map", "node")], &named(&[9, 4]), &none, &BTreeMap::new()).unwrap();
        assert_eq!(blocks.iter().map(|block| block.node).collect::<Vec<_>>(), [9, 4, 9]);
    }

    #[test]
    fn each_process_goes_where_its_place_is() {
        let place = |count, places: &str| {
            let specs = [hinted(count, "places", places)];
            let blocks = place(&specs, &named(&[9, 4]), &BTreeMap::new(), &BTreeMap::new());
            blocks.map(|blocks| blocks.iter().map(|block| (block.node, block.count)).collect::<Vec<_>>())
        };
        assert_eq!(place(4, "4=0-1 9 9=3 4"), Ok(vec![(4, 1), (9, 2), (4, 1)]));
        for (count, places) in [(1, "5"), (2, "4"), (1, "x"), (1, "4= 9")] {
            assert_eq!(place(count, places).unwrap_err().kind, FaultKind::BadRequest, "{places}");
        }
    }

    proptest! {
        #[test]
        fn blocks_have_no_gap_and_are_even(counts in prop::collection::vec(1u32..40, 1..6), many in 1u32..9) {
            let specs: Vec<Spec> = counts.iter().map(|count| spec(*count, None)).collect();
            let nodes: Vec<Id> = (0..many).rev().collect();
            let hosts: Vec<(Id, &str)> = nodes.iter().map(|node| (*node, "")).collect();
            let blocks = place(&specs, &hosts, &BTreeMap::new(), &BTreeMap::new()).unwrap();
            let mut next = 0;
            let mut by_node = BTreeMap::new();
            let mut by_spec = vec![0; specs.len()];
            for block in &blocks {
                prop_assert_eq!(block.first, next);
                next += block.count;
                *by_node.entry(block.node).or_insert(0) += block.count;
                by_spec[block.spec as usize] += block.count;
            }
            prop_assert_eq!(by_spec, counts);
            let most = by_node.values().max().unwrap();
            let least = if by_node.len() < nodes.len() { &0 } else { by_node.values().min().unwrap() };
            prop_assert!(most - least <= 1);
            prop_assert_eq!(blocks[0].node, nodes[0]);
        }
    }
}
