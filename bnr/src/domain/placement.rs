//! Which process runs on which node: blocks of consecutive ranks, as even as possible over the nodes.

use std::collections::BTreeMap;

use chained_gpc::trees::Id;

use super::database::shown;
use crate::fault::{Fault, FaultKind};
use crate::spec::{Block, Spec};

/// Places the processes of some specs on nodes, in the order of the nodes; `loads` is how many processes each has already. Where the processes do not come out even, the nodes with the lower loads get one more, and of those the first.
///
/// # Errors
/// A spec is pinned to a node that is not there, or there is none.
pub(super) fn place(specs: &[Spec], nodes: &[Id], loads: &BTreeMap<Id, u64>) -> Result<Vec<Block>, Fault> {
    let mut pins = Vec::with_capacity(specs.len());
    for spec in specs {
        pins.push(pin(spec, nodes)?);
    }
    let free =
        specs.iter().zip(&pins).filter(|(_, pin)| pin.is_none()).map(|(spec, _)| u64::from(spec.count)).sum();
    let mut room = shares(free, nodes, loads)?.into_iter().peekable();
    let mut blocks: Vec<Block> = Vec::new();
    let mut first = 0;
    for ((spec, pin), number) in specs.iter().zip(pins).zip(0..) {
        let mut left = spec.count;
        while left > 0 {
            let (node, count) = match pin {
                Some(node) => (node, left),
                None => {
                    let Some((node, share)) = room.peek_mut() else { break };
                    let count = (*share).min(u64::from(left));
                    *share -= count;
                    let taken = (*node, u32::try_from(count).unwrap_or(left));
                    if *share == 0 {
                        room.next();
                    }
                    taken
                }
            };
            if count > 0 {
                blocks.push(Block { node, spec: number, first, count });
            }
            first += count;
            left -= count;
        }
    }
    Ok(blocks)
}

/// The node that a spec asks for: the last `host` that it names.
fn pin(spec: &Spec, nodes: &[Id]) -> Result<Option<Id>, Fault> {
    let Some((_, value)) = spec.info.iter().rfind(|(key, _)| key == "host") else { return Ok(None) };
    let id = str::from_utf8(value).ok().and_then(|text| text.parse().ok());
    match id.filter(|id| nodes.contains(id)) {
        Some(id) => Ok(Some(id)),
        None => {
            let message =
                format!("the info host is the id of a node that runs processes; {} is none", shown(value));
            Err(Fault::new(FaultKind::BadRequest, message))
        }
    }
}

/// How many processes each node gets.
fn shares(count: u64, nodes: &[Id], loads: &BTreeMap<Id, u64>) -> Result<Vec<(Id, u64)>, Fault> {
    let many = nodes.len() as u64;
    if many == 0 {
        return Err(Fault::new(FaultKind::NotStarted, "there is no node left that runs processes"));
    }
    let mut by_load: Vec<usize> = (0..nodes.len()).collect();
    by_load.sort_by_key(|place| loads.get(&nodes[*place]).copied().unwrap_or_default());
    let mut shares: Vec<(Id, u64)> = nodes.iter().map(|node| (*node, count / many)).collect();
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

    fn placed(specs: &[Spec], nodes: &[Id]) -> Vec<(Id, u32, u32)> {
        let blocks = place(specs, nodes, &BTreeMap::new()).unwrap();
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
        let blocks = place(&[spec(1, None)], &[9, 4], &loads).unwrap();
        assert_eq!(blocks, [Block { node: 4, spec: 0, first: 0, count: 1 }]);
    }

    #[test]
    fn a_host_that_is_not_there_is_refused_with_its_name() {
        for host in ["5", "localhost", ""] {
            let fault = place(&[spec(1, Some(host))], &[9, 4], &BTreeMap::new()).unwrap_err();
            assert_eq!(fault.kind, FaultKind::BadRequest);
            assert!(fault.message.contains(host), "{fault}");
        }
        let fault = place(&[spec(1, None)], &[], &BTreeMap::new()).unwrap_err();
        assert_eq!(fault.kind, FaultKind::NotStarted);
    }

    proptest! {
        #[test]
        fn blocks_have_no_gap_and_are_even(counts in prop::collection::vec(1u32..40, 1..6), many in 1u32..9) {
            let specs: Vec<Spec> = counts.iter().map(|count| spec(*count, None)).collect();
            let nodes: Vec<Id> = (0..many).rev().collect();
            let blocks = place(&specs, &nodes, &BTreeMap::new()).unwrap();
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
