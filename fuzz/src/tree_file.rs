//! The texts that people write about trees: tree files, hosts files, peers files and the names of trees.
//!
//! A parser must accept what a plain reader accepts. An accepted text must be the same when it is written and read
//! again. A text takes at most a multiple of its length in memory.
//!
//! Input: a byte that chooses the kind of text, a byte for its tree or its limits, and the text.

use std::collections::{BTreeMap, BTreeSet};

use chained_gpc::runtime::Peers;
use gpc_trees::{Hosts, HostsError, Id, IdList, Layout, Limits, Tree, TreeName, edges};

use super::input::Input;
use super::memory;

/// Maximum number of bytes held for each character of a text. A position of two characters (`1 `) has an entry of a map
/// or a few words in each of some tables, and a vector exists twice while it grows.
const HELD_PER_BYTE: usize = 120;

/// Reads a text.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let (kind, choice) = (input.byte(), input.byte());
    let Ok(text) = std::str::from_utf8(input.rest()) else { return };
    match kind % 4 {
        0 => tree_file(text, choice),
        1 => hosts_file(text, choice),
        2 => peers_file(text),
        _ => tree_name(text),
    }
}

/// Returns the children by parent as the text gives them; `None` if the form is wrong, or a parent has two lines.
fn children(text: &str) -> Option<BTreeMap<u32, Vec<u32>>> {
    let mut children = BTreeMap::new();
    let number = |word: &str| {
        word.parse::<u32>().ok().filter(|n| *n < 1 << 24 && word.bytes().all(|byte| byte.is_ascii_digit()))
    };
    for line in lines(text) {
        let (parent, rest) = line.split_once(':')?;
        let below: Option<Vec<u32>> = rest.split_whitespace().map(number).collect();
        if children.insert(number(parent.trim())?, below?).is_some() {
            return None;
        }
    }
    Some(children)
}

/// Returns the lines that are not empty, without comments.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()).filter(|line| !line.is_empty())
}

/// Returns the preorder of a tree over all positions up to the highest; `None` if there is no such tree within the
/// limits.
fn preorder(children: &BTreeMap<u32, Vec<u32>>, limits: &Limits) -> Option<Vec<u32>> {
    let below = |parent: u32| children.get(&parent).map_or(&[][..], |below| below);
    let named = children.keys().chain(children.values().flatten());
    let highest = *named.max()?;
    let (mut order, mut seen, mut pending) = (Vec::new(), BTreeSet::new(), vec![(0, 0)]);
    while let Some((position, depth)) = pending.pop() {
        if !seen.insert(position) || depth > limits.depth || below(position).len() > limits.fan_out as usize {
            return None;
        }
        order.push(position);
        pending.extend(below(position).iter().rev().map(|child| (*child, depth + 1)));
    }
    (order.len() as u64 == u64::from(highest) + 1).then_some(order)
}

fn tree_file(text: &str, choice: u8) {
    let limits = match choice {
        0 => Limits::default(),
        _ => Limits { depth: u32::from(choice & 15), fan_out: u32::from(choice >> 4) },
    };
    let parsed = memory::bounded(text.len(), HELD_PER_BYTE, || Layout::parse(text, &limits));
    let expected = children(text).and_then(|children| preorder(&children, &limits));
    let layout = match parsed {
        Ok(layout) => layout,
        Err(error) => {
            assert!(error.to_string().len() < 4096, "an error to be read by people");
            return assert_eq!(expected, None, "{error}");
        }
    };
    assert_eq!(Some(layout.order()), expected.as_deref());
    let (tree, n) = (layout.tree(), layout.len());
    let summary = tree.check(n, &limits).expect("what was laid out is a tree");
    assert!(summary.depth <= limits.depth && summary.fan_out <= limits.fan_out);
    let mut again: BTreeMap<u32, Vec<u32>> = BTreeMap::from([(0, vec![])]);
    for edge in edges(&tree, n) {
        let (parent, child) = edge.expect("what was laid out is a tree");
        let position = |place: u32| layout.order()[place as usize];
        again.entry(position(parent)).or_default().push(position(child));
    }
    let line = |(parent, below): (&u32, &Vec<u32>)| {
        let below: String = below.iter().map(|child| format!(" {child}")).collect();
        format!("{parent}:{below}\n")
    };
    let printed: String = again.iter().map(line).collect();
    assert_eq!(Layout::parse(&printed, &limits), Ok(layout), "{printed}");
}

fn hosts_file(text: &str, choice: u8) {
    let parsed = memory::bounded(text.len(), HELD_PER_BYTE, || Hosts::parse(text));
    let mut expected = BTreeMap::new();
    let good = lines(text).all(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [id, host] = words[..] else { return false };
        let Some(number) = id.parse::<Id>().ok().filter(|_| id.bytes().all(|byte| byte.is_ascii_digit()))
        else {
            return false;
        };
        let names: Vec<&str> = host.split('/').collect();
        let path = names.len() <= 8 && names.iter().all(|name| (1..=255).contains(&name.len()));
        path && expected.insert(number, host).is_none()
    });
    let hosts = match parsed {
        Ok(hosts) => hosts,
        Err(error) => return assert!(!good && !error.to_string().is_empty(), "{error}"),
    };
    assert!(good, "{hosts:?}");
    let names: BTreeSet<&str> = expected.values().copied().collect();
    assert_eq!((hosts.len(), hosts.is_empty()), (names.len(), names.is_empty()));
    assert!(expected.iter().all(|(id, host)| hosts.host(*id) == Some(*host)));
    // The ids in the order of the text.
    let order = lines(text).filter_map(|line| line.split_whitespace().next()?.parse::<Id>().ok());
    let ids = IdList::from_ids(order).expect("each has one line");
    let trees = [Tree::Binary, Tree::Binomial, Tree::Chain, Tree::Flat];
    lay_out(&hosts, &ids, &trees[usize::from(choice) % trees.len()]);
    if let Some(stranger) = (0..).find(|id| !expected.contains_key(id)) {
        let refused = hosts.layout(&ids.with_first(stranger), &Tree::Binary, &Limits::default());
        assert_eq!(refused, Err(HostsError::NoHost { id: stranger }));
    }
}

/// Checks that a message enters each group at every level once, and each host once, so the ids of each are connected.
fn lay_out(hosts: &Hosts, ids: &IdList, tree: &Tree) {
    let layout = match hosts.layout(ids, tree, &Limits::default()) {
        Ok(layout) => layout,
        Err(error) => return assert!(ids.is_empty(), "{error}"),
    };
    let list = layout.apply(ids).expect("a layout is as long as its list");
    assert_eq!(list.first(), ids.first());
    let around = |place: u32| {
        let host = list.id(place).and_then(|id| hosts.host(id)).expect("each has a line");
        let groups = host.match_indices('/').map(|(end, _)| &host[..end]).chain([host]);
        // A host may have the path of a group that has other members.
        groups.map(|group| (group, false)).chain([(host, true)]).collect::<BTreeSet<_>>()
    };
    let mut entered = around(0);
    for edge in edges(&layout.tree(), layout.len()) {
        let (parent, child) = edge.expect("what was laid out is a tree");
        for group in around(child).difference(&around(parent)) {
            assert!(entered.insert(*group), "two messages cross to {group:?}");
        }
    }
    assert_eq!(entered.iter().filter(|(_, host)| *host).count(), hosts.len());
}

fn peers_file(text: &str) {
    match memory::bounded(text.len(), HELD_PER_BYTE, || text.parse::<Peers>()) {
        Ok(peers) => {
            let printed: String = peers.iter().map(|(id, address)| format!("{id} {address}\n")).collect();
            assert_eq!(printed.parse::<Peers>().as_ref(), Ok(&peers), "{printed}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn tree_name(text: &str) {
    match text.parse::<TreeName>() {
        Ok(name) => {
            let printed = name.to_string();
            assert_eq!(printed.parse::<TreeName>().as_ref(), Ok(&name), "{printed}");
            let Some(tree) = name.built_in() else { return };
            assert_eq!(Tree::from_wire(tree.wire_id(), tree.wire_param()), Some(tree));
        }
        Err(error) => assert!(error.to_string().len() < 4096, "an error to be read by people"),
    }
}
