//! Placement of processes on nodes: blocks of consecutive ranks, spread as evenly as possible.

use std::collections::BTreeMap;

use chained_gpc::trees::Id;

use super::database::shown;
use crate::fault::{Fault, FaultKind};
use crate::spec::{Block, Spec};

/// Most nodes that an error lists.
const NAMED_MAX: usize = 8;

/// Places the processes of some specs on nodes, in node order. Each node comes with its host name; `loads` has the
/// number of processes that each node already runs. If the processes cannot be divided evenly, the nodes with the
/// lowest loads get one more; among equals, the first nodes do.
///
/// # Errors
/// A spec's `host` hint matches no node, or there is no node.
pub(super) fn place(
    specs: &[Spec],
    nodes: &[(Id, &str)],
    loads: &BTreeMap<Id, u64>,
) -> Result<Vec<Block>, Fault> {
    let mut pins = Vec::with_capacity(specs.len());
    for spec in specs {
        pins.push(pinned(spec, nodes)?);
    }
    let free =
        specs.iter().zip(&pins).filter(|(_, pin)| pin.is_none()).map(|(spec, _)| u64::from(spec.count)).sum();
    let all: Vec<Id> = nodes.iter().map(|(id, _)| *id).collect();
    let mut room = shares(free, &all, loads)?.into_iter().peekable();
    let mut blocks: Vec<Block> = Vec::new();
    let mut first = 0;
    for ((spec, pin), number) in specs.iter().zip(pins).zip(0..) {
        let mut own = match pin {
            Some(nodes) => Some(shares(spec.count.into(), &nodes, loads)?.into_iter().peekable()),
            None => None,
        };
        let room = own.as_mut().unwrap_or(&mut room);
        let mut left = spec.count;
        while left > 0 {
            let Some((node, share)) = room.peek_mut() else { break };
            let node = *node;
            let count = (*share).min(u64::from(left));
            *share -= count;
            let count = u32::try_from(count).unwrap_or(left);
            if *share == 0 {
                room.next();
            }
            if count > 0 {
                blocks.push(Block { node, spec: number, first, count });
            }
            first += count;
            left -= count;
        }
    }
    Ok(blocks)
}

/// The nodes that match the last `host` hint of a spec: one node by its id, or all nodes of a host by its name.
fn pinned(spec: &Spec, nodes: &[(Id, &str)]) -> Result<Option<Vec<Id>>, Fault> {
    let Some((_, value)) = spec.info.iter().rfind(|(key, _)| key == "host") else { return Ok(None) };
    let text = str::from_utf8(value).unwrap_or_default();
    if let Some((id, _)) = nodes.iter().find(|(id, _)| text.parse() == Ok(*id)) {
        return Ok(Some(vec![*id]));
    }
    let of_host = nodes.iter().filter(|(_, host)| is_host(text, host));
    let of_host: Vec<Id> = of_host.map(|(id, _)| *id).collect();
    if !of_host.is_empty() {
        return Ok(Some(of_host));
    }
    let known = nodes.iter().take(NAMED_MAX).map(|(id, host)| format!("{id} ({host})"));
    let known = known.collect::<Vec<_>>().join(", ");
    let more = if nodes.len() > NAMED_MAX { " and others" } else { "" };
    let message = format!(
        "the info host is {}, and no node that runs processes has that id or host name; there are {known}{more}",
        shown(value)
    );
    Err(Fault::new(FaultKind::BadRequest, message))
}

/// Whether a name matches a host name. Case is ignored. If only one of them has a dot, the parts before the first dot
/// are compared.
fn is_host(name: &str, host: &str) -> bool {
    let same = |a: &str, b: &str| !a.is_empty() && a.eq_ignore_ascii_case(b);
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let one_is_short = name.contains('.') != host.contains('.');
    same(name, host) || one_is_short && same(&short(name), &short(host))
}

/// Number of processes for each node.
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

    const HOSTS: [&str; 3] = ["one.example", "TWO", "two"];

    fn named(nodes: &[Id]) -> Vec<(Id, &'static str)> {
        nodes.iter().copied().zip(HOSTS).collect()
    }

    fn placed(specs: &[Spec], nodes: &[Id]) -> Vec<(Id, u32, u32)> {
        let blocks = place(specs, &named(nodes), &BTreeMap::new()).unwrap();
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
        let blocks = place(&[spec(1, None)], &named(&[9, 4]), &loads).unwrap();
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
    fn a_host_that_is_not_there_is_refused_with_its_name() {
        for host in ["5", "elsewhere", "two.example.org.", "", "one.example.org"] {
            let fault = place(&[spec(1, Some(host))], &[(9, "one.example"), (4, "three")], &BTreeMap::new())
                .unwrap_err();
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
            let hosts: Vec<(Id, &str)> = nodes.iter().map(|node| (*node, "")).collect();
            let blocks = place(&specs, &hosts, &BTreeMap::new()).unwrap();
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
