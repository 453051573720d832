//! Checks that a tree is the one that its name promises, by an independent definition; the other checkers take trees as
//! they are.
//!
//! Source: the table at [`Tree`]. For the tree for given link costs, its purpose is checked instead of its shape: the
//! last id is informed as early as possible.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use gpc_trees::{Group, Tree, send_order};

use super::findings::Findings;
use super::record::Record;

const NAME: &str = "shape";

/// One gap between two messages of a sender, in the unit of a lag.
const GAP: u64 = 1024;

pub(super) fn check(record: &Record, findings: &mut Findings) {
    let (tree, n) = (&record.plan.tree, record.parents.len() as u64);
    let wrong = match tree {
        Tree::Binary => differs(record, |rest| parts(rest, 2)),
        Tree::Kary(k) => differs(record, |rest| parts(rest, k.get().into())),
        Tree::Chain => differs(record, |rest| parts(rest, 1)),
        Tree::Flat => differs(record, |rest| parts(rest, rest)),
        Tree::Binomial => differs(record, |rest| growing(rest, 2)),
        Tree::Knomial(k) => differs(record, |rest| growing(rest, k.value().into())),
        Tree::Loggp(lag) => {
            let (last, least) =
                (last_knows(record, lag.as_1024ths().into()), least(n, lag.as_1024ths().into()));
            (last != least)
                .then(|| format!("the last knows at {last}, where {least} is possible (1,024ths of a gap)"))
        }
        // The user decides their shape; the book has checked that they are trees.
        Tree::Registered(_) | Tree::Explicit(_) => None,
        _ => Some("no rule here says which shape it has".into()),
    };
    wrong.into_iter().for_each(|what| findings.add(NAME, format!("{tree} over {n} ids: {what}")));
}

/// Describes the first position whose parent differs from the definition.
fn differs(record: &Record, groups: impl Fn(u64) -> Vec<u64>) -> Option<String> {
    // Slices to cut: position of the first id, and number of ids after it.
    let mut slices = vec![(0, record.parents.len() as u64 - 1)];
    while let Some((parent, rest)) = slices.pop() {
        let mut start = parent + 1;
        for len in groups(rest).into_iter().filter(|_| rest > 0) {
            let is = u64::from(record.parents[start as usize]);
            if is != parent {
                return Some(format!("position {start} has the parent {is}, and not {parent}"));
            }
            slices.push((start, len - 1));
            start += len;
        }
    }
    None
}

/// Up to `k` parts as equal as possible, larger ones first: each takes its share of the rest, rounded up.
fn parts(rest: u64, k: u64) -> Vec<u64> {
    let count = k.min(rest);
    (0..count).map(|part| (rest - part).div_ceil(count)).collect()
}

/// For each power of k, as many groups as lead to the next power; the last one is cut short.
fn growing(mut rest: u64, k: u64) -> Vec<u64> {
    let mut groups = Vec::new();
    while rest > 0 {
        let power = k.saturating_pow((groups.len() as u64 / (k - 1)) as u32);
        groups.push(power.min(rest));
        rest -= power.min(rest);
    }
    groups
}

/// Time at which the last id is informed. Each id informs its children one gap after another, the largest group first;
/// a child is informed one lag later.
fn last_knows(record: &Record, lag: u64) -> u64 {
    let mut knows = vec![0; record.parents.len()];
    // Parents come before their children.
    for parent in 0..record.parents.len() as u32 {
        let groups: Vec<Group> = record.groups(parent).collect();
        for (turn, index) in (0..).zip(send_order(&groups)) {
            knows[groups[index].start as usize] = knows[parent as usize] + turn * GAP + lag;
        }
    }
    knows.into_iter().max().unwrap_or_default()
}

/// Earliest time at which `n` ids can be informed: every informed id keeps informing others.
fn least(n: u64, lag: u64) -> u64 {
    // For each sender, the time at which its next message arrives.
    let mut next = BinaryHeap::from([Reverse(lag)]);
    let mut last = 0;
    for _ in 1..n {
        let Some(Reverse(knows)) = next.pop() else { break };
        last = knows;
        next.push(Reverse(knows + GAP));
        next.push(Reverse(knows + lag));
    }
    last
}

#[cfg(test)]
mod tests {
    use super::super::Plan;
    use super::*;
    use chained_gpc::wire::CallId;
    use gpc_trees::IdList;
    use std::sync::Arc;

    /// Number of findings for a tree under the name of another.
    fn said(is: &Tree, named: &Tree, n: u32) -> usize {
        let plan = |tree: &Tree| {
            let (ids, tree) = (IdList::range(0..n), tree.clone());
            let (partial, watch, reply_wanted, callback) = (false, false, true, false);
            Arc::new(Plan {
                ids,
                tree,
                partial,
                watch,
                reply_wanted,
                callback,
                forward_first: false,
                data_bytes: 0,
                limit_ns: 1,
                reply_bytes: 4,
                carries: Default::default(),
            })
        };
        let mut record = Record::new(CallId { root: 0, sequence: 1 }, plan(is), 0).unwrap();
        record.plan = plan(named);
        let mut findings = Findings { at: 0, found: Vec::new() };
        check(&record, &mut findings);
        findings.found.len()
    }

    #[test]
    fn a_tree_under_a_wrong_name_is_noticed() {
        let trees = ["binary", "binomial", "kary:3", "knomial:3", "chain", "flat"];
        let trees = trees.map(|name| name.parse::<gpc_trees::TreeName>().unwrap().built_in().unwrap());
        for (is, named) in trees.iter().flat_map(|is| trees.iter().map(move |named| (is, named))) {
            assert_eq!(said(is, named, 40), usize::from(is != named), "{is} as {named}");
        }
        let quick = "loggp:2.5".parse::<gpc_trees::TreeName>().unwrap().built_in().unwrap();
        assert_eq!(
            (said(&quick, &quick, 40), said(&Tree::Chain, &quick, 40), said(&Tree::Flat, &quick, 40)),
            (0, 1, 1)
        );
    }
}
