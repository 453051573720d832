//! Where the processes of a group go, and what MPI libraries are told of it.

use chained_gpc::trees::Id;

use crate::fault::{Fault, FaultKind};
use crate::spec::{Block, Layout, Spec};

/// Longest value of the mapping: clients read lines of about a thousand bytes.
const MAPPING_MAX: usize = 1000;

/// The key under which MPI libraries look for it.
pub(super) const MAPPING: &[u8] = b"PMI_process_mapping";

/// Blocks of consecutive ranks, as even as possible over the nodes, in this order; a spec whose info `host` is the id of a node goes there.
///
/// # Errors
/// [`BadRequest`](FaultKind::BadRequest) when `host` is no node of the domain.
pub(super) fn place(specs: &[Spec], nodes: &[Id]) -> Result<Vec<Block>, Fault> {
    let free: u32 = specs.iter().filter(|spec| host(spec).is_none()).map(|spec| spec.count).sum();
    let share = |index: usize| {
        let (count, index) = (nodes.len() as u32, index as u32);
        free / count + u32::from(index < free % count)
    };
    let (mut blocks, mut rank, mut at, mut left) = (Vec::new(), 0, 0, share(0));
    for (number, spec) in (0..).zip(specs) {
        let mut block = |node, count| {
            if count > 0 {
                blocks.push(Block { node, spec: number, first: rank, count });
                rank += count;
            }
        };
        if let Some(host) = host(spec) {
            block(pinned(host, nodes)?, spec.count);
            continue;
        }
        let mut count = spec.count;
        // Ends: shares add up to all that are free.
        while count > 0 {
            let part = count.min(left);
            block(nodes[at], part);
            (count, left) = (count - part, left - part);
            if left == 0 && at + 1 < nodes.len() {
                at += 1;
                left = share(at);
            }
        }
    }
    Ok(blocks)
}

fn host(spec: &Spec) -> Option<&[u8]> {
    spec.info.iter().rfind(|(key, _)| key == "host").map(|(_, value)| value.as_slice())
}

fn pinned(host: &[u8], nodes: &[Id]) -> Result<Id, Fault> {
    let id = str::from_utf8(host).ok().and_then(|text| text.trim().parse::<Id>().ok());
    id.filter(|id| nodes.contains(id)).ok_or_else(|| {
        let text = String::from_utf8_lossy(host);
        let message = format!(
            "`{}` is no node of this domain: the info `host` is the id of a node",
            chained_gpc::Shown(&text)
        );
        Fault::new(FaultKind::BadRequest, message)
    })
}

/// Which ranks share a node, as MPICH reads it: `(vector,(NODE,NODES,RANKS OF EACH),...)`, nodes numbered from 0. None where that is too long for clients; they go by host names, then.
pub(super) fn mapping(layout: &Layout) -> Option<Vec<u8>> {
    let nodes = layout.nodes();
    let mut text = "(vector".to_owned();
    let mut run: Option<(usize, usize, u32)> = None;
    let show = |text: &mut String, run: Option<(usize, usize, u32)>| {
        if let Some((first, count, each)) = run {
            *text += &format!(",({first},{count},{each})");
        }
    };
    for block in merged(&layout.blocks) {
        let node = nodes.binary_search(&block.node).ok()?;
        run = match run {
            Some((first, count, each)) if each == block.count && first + count == node => {
                Some((first, count + 1, each))
            }
            before => {
                show(&mut text, before);
                Some((node, 1, block.count))
            }
        };
    }
    show(&mut text, run);
    text.push(')');
    (text.len() <= MAPPING_MAX).then(|| text.into_bytes())
}

/// Neighbouring blocks on one node as one.
fn merged(blocks: &[Block]) -> Vec<Block> {
    let mut all: Vec<Block> = Vec::new();
    for block in blocks {
        match all.last_mut() {
            Some(last) if last.node == block.node => last.count += block.count,
            _ => all.push(*block),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::names::GroupId;
    use crate::spec::OnDeath;

    fn spec(count: u32) -> Spec {
        Spec { count, ..Spec::default() }
    }

    fn layout(blocks: Vec<Block>) -> Layout {
        Layout {
            group: GroupId(0),
            parent: None,
            database: String::new(),
            specs: Vec::new(),
            blocks,
            on_death: OnDeath::Kill,
            preputs: Vec::new(),
            input: false,
        }
    }

    fn shown(specs: &[Spec], nodes: &[Id]) -> String {
        String::from_utf8(mapping(&layout(place(specs, nodes).unwrap())).unwrap()).unwrap()
    }

    #[test]
    fn blocks_are_even_and_mapped() {
        assert_eq!(shown(&[spec(4)], &[7]), "(vector,(0,1,4))");
        assert_eq!(shown(&[spec(4)], &[7, 9]), "(vector,(0,2,2))");
        assert_eq!(shown(&[spec(5)], &[7, 9, 11]), "(vector,(0,2,2),(2,1,1))");
        assert_eq!(shown(&[spec(1), spec(3)], &[7, 9]), "(vector,(0,2,2))");
        assert_eq!(shown(&[spec(2)], &[7, 9, 11]), "(vector,(0,2,1))");
        let pinned = Spec { info: vec![("host".into(), b"9".to_vec())], ..spec(2) };
        assert_eq!(shown(&[spec(2), pinned], &[7, 9]), "(vector,(0,1,1),(1,1,3))");
        let nowhere = Spec { info: vec![("host".into(), b"8".to_vec())], ..spec(2) };
        assert_eq!(place(&[nowhere], &[7, 9]).unwrap_err().kind, FaultKind::BadRequest);
    }

    proptest! {
        #[test]
        fn each_rank_has_one_place(counts in prop::collection::vec(0_u32..40, 1..6), nodes in 1_u32..20) {
            let specs: Vec<Spec> = counts.iter().map(|count| spec(*count)).collect();
            let nodes: Vec<Id> = (0..nodes).collect();
            let layout = layout(place(&specs, &nodes).unwrap());
            let total: u32 = counts.iter().sum();
            prop_assert_eq!(layout.size(), total);
            let mut next = 0;
            for block in &layout.blocks {
                prop_assert!(block.first == next && block.count > 0);
                next += block.count;
            }
            for (number, count) in (0..).zip(&counts) {
                let of = layout.blocks.iter().filter(|block| block.spec == number);
                prop_assert_eq!(of.map(|block| block.count).sum::<u32>(), *count);
            }
            let each: Vec<usize> = nodes.iter().map(|node| layout.ranks_on(*node).count()).collect();
            prop_assert!(each.iter().max().unwrap() - each.iter().min().unwrap() <= 1);
        }
    }
}
