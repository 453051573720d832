//! Choice of the tree of a call that names none: at the root, from the hosts of the ids, their number, the length of
//! the data, and the given costs. The model is [`Tree::choose`].

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpc_trees::{Costs, Hosts, Id, IdList, Limits, Load, Tree};

use super::Peers;
use crate::transport::Address;

/// Chooses the trees of a node's calls.
#[derive(Debug)]
pub(super) struct AutoTree {
    /// Costs that the program has given for links between hosts, or on this host if there is only one.
    costs: Option<Costs>,
    /// The host of each id, as the program has given it.
    given_hosts: Hosts,
    /// Processors of this host.
    processors: NonZeroU32,
    /// IP addresses of this host, beside those of the loopback interface.
    own_ips: Vec<IpAddr>,
    state: Mutex<State>,
}

#[derive(Default, Debug)]
struct State {
    /// Addresses of the ids that are on other hosts.
    remote_ips: BTreeMap<Id, IpAddr>,
    /// The last choice. Most calls are like the one before.
    last: Option<Choice>,
}

#[derive(Debug)]
struct Choice {
    load: Load,
    /// The requested ids, and the ids in the order of the tree, if hosts count.
    ids: Option<(IdList, IdList)>,
    tree: Tree,
}

/// The host of an id.
#[derive(Clone, Copy, Debug)]
enum HostOf<'a> {
    /// This host, as far as is known.
    ThisHost,
    /// The host at this address.
    At(IpAddr),
    /// The name that the program has given.
    Given(&'a str),
}

impl HostOf<'_> {
    /// A unique name. Names of the program may contain groups.
    fn name(&self) -> String {
        match self {
            HostOf::ThisHost => "-".into(),
            HostOf::At(ip) => ip.to_string(),
            HostOf::Given(host) => (*host).into(),
        }
    }
}

impl AutoTree {
    /// Creates the chooser of node `me`, which listens at this address.
    pub(super) fn new(
        (costs, given_hosts): (Option<Costs>, Option<Hosts>),
        me: Id,
        address: Option<&Address>,
        peers: &Peers,
    ) -> AutoTree {
        let processors =
            std::thread::available_parallelism().ok().and_then(|it| NonZeroU32::try_from(it).ok());
        let own_ips = [address.and_then(Address::remote_ip), peers.address(me).and_then(|it| it.remote_ip())];
        let auto = AutoTree {
            costs,
            given_hosts: given_hosts.unwrap_or_default(),
            processors: processors.unwrap_or(NonZeroU32::MIN),
            own_ips: own_ips.into_iter().flatten().collect(),
            state: Mutex::default(),
        };
        peers.remote_ips().for_each(|(id, ip)| auto.note(id, Some(ip)));
        auto
    }

    /// Records the address of an id, or that it has none.
    pub(super) fn learn(&self, id: Id, address: Option<&Address>) {
        self.note(id, address.and_then(Address::remote_ip));
    }

    fn note(&self, id: Id, ip: Option<IpAddr>) {
        let remote_ip = ip.filter(|ip| !self.own_ips.contains(ip));
        let mut state = self.state();
        let before = match remote_ip {
            Some(ip) => state.remote_ips.insert(id, ip),
            None => state.remote_ips.remove(&id),
        };
        if before != remote_ip {
            state.last = None;
        }
    }

    /// The tree of a call over these ids, the root first, and the ids in its order. With several ids on one of several
    /// hosts, a call enters each host once.
    pub(super) fn choose(
        &self,
        ids: IdList,
        bytes: usize,
        forward_first: bool,
        limits: &Limits,
    ) -> (Tree, IdList) {
        // Lengths up to the next power of two share a tree.
        let bytes = (bytes as u64).checked_next_power_of_two().unwrap_or(u64::MAX);
        let load = Load { ids: ids.len(), bytes, forward_first };
        let mut state = self.state();
        let scattered = !state.remote_ips.is_empty() || self.given_hosts.len() > 1;
        let same = |last: &&Choice| {
            last.load == load && last.ids.as_ref().map_or(!scattered, |(asked, _)| *asked == ids)
        };
        if let Some(last) = state.last.as_ref().filter(same) {
            let ordered = last.ids.as_ref().map(|(_, ordered)| ordered.clone());
            return (last.tree.clone(), ordered.unwrap_or(ids));
        }
        let (tree, ordered) = match scattered {
            true => self.over_hosts(&state.remote_ips, &ids, &load, limits),
            false => (Tree::choose(&load, &self.costs().0, limits), ids.clone()),
        };
        let ids = scattered.then(|| (ids, ordered.clone()));
        state.last = Some(Choice { load, ids, tree: tree.clone() });
        (tree, ordered)
    }

    fn over_hosts(
        &self,
        remote_ips: &BTreeMap<Id, IpAddr>,
        ids: &IdList,
        load: &Load,
        limits: &Limits,
    ) -> (Tree, IdList) {
        let host = |id: Id| match (self.given_hosts.host(id), remote_ips.get(&id)) {
            (Some(name), _) => HostOf::Given(name),
            (None, Some(ip)) => HostOf::At(*ip),
            (None, None) => HostOf::ThisHost,
        };
        let named: Hosts = ids.iter().map(|id| (id, host(id).name())).collect();
        let (on_host, between) = self.costs();
        let (tree, grouped) = named.choose(load, &on_host, &between, limits);
        if !grouped {
            return (tree, ids.clone());
        }
        let layout = named.layout(ids, &tree, limits).ok();
        let laid_out = layout.and_then(|layout| Some((layout.tree(), layout.apply(ids).ok()?)));
        // If there are too many ids for a shape, or too many levels, one tree covers all.
        laid_out.unwrap_or_else(|| (Tree::choose(load, &between, limits), ids.clone()))
    }

    /// Costs on one host, and between hosts.
    fn costs(&self) -> (Costs, Costs) {
        let on_host = || Costs::of_host(self.processors);
        (self.costs.unwrap_or_else(on_host), self.costs.unwrap_or_else(Costs::of_network))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auto(given_hosts: &str, peers: &str) -> AutoTree {
        let (given_hosts, peers) = (Hosts::parse(given_hosts).unwrap(), peers.parse().unwrap());
        AutoTree::new((None, Some(given_hosts)), 0, Some(&"10.0.0.1:7".parse().unwrap()), &peers)
    }

    fn chosen(auto: &AutoTree, ids: u32) -> (String, String) {
        let (tree, ids) = auto.choose(IdList::range(0..ids), 100, false, &Limits::default());
        (tree.to_string(), ids.to_string())
    }

    fn is(tree: &str, ids: &str) -> (String, String) {
        (tree.into(), ids.into())
    }

    #[test]
    fn ids_of_one_host_have_a_tree_for_it() {
        let here = auto("", "1 unix:@one\n2 127.0.0.1:9\n3 10.0.0.1:8\n");
        assert_eq!(chosen(&here, 4), is("flat", "0-3"));
        let given = auto("0 a\n1 a\n2 a\n3 a\n", "1 10.0.0.2:7\n2 10.0.0.3:7\n3 10.0.0.4:7\n");
        assert_eq!(chosen(&given, 4), is("flat", "0-3"), "the hosts that the program gives count");
    }

    /// A call enters each host once: the order of the ids follows the hosts.
    #[test]
    fn ids_of_one_host_stay_together() {
        let peers = "1 10.0.0.2:7\n2 10.0.0.1:8\n3 10.0.0.2:8\n4 unix:@four\n";
        let expected = is("explicit", "0-1,3,2,4");
        assert_eq!(chosen(&auto("", peers), 5), expected);
        assert_eq!(chosen(&auto("0 x\n1 y\n2 x\n3 y\n4 x\n", ""), 5), expected);
        // One id on each host.
        assert_eq!(chosen(&auto("", peers), 2), is("flat", "0-1"));
    }

    /// The choice is kept for the next call, and not for another list, another length or other hosts.
    #[test]
    fn a_choice_is_kept_as_long_as_it_holds() {
        let auto = auto("", "1 10.0.0.2:7\n2 10.0.0.3:7\n3 10.0.0.2:8\n");
        for _ in 0..2 {
            assert_eq!(chosen(&auto, 4), is("explicit", "0-1,3,2"));
            assert_eq!(chosen(&auto, 3), is("flat", "0-2"));
        }
        auto.learn(3, Some(&"10.0.0.3:9".parse().unwrap()));
        assert_eq!(chosen(&auto, 4), is("explicit", "0-3"));
        auto.learn(1, None);
        auto.learn(2, Some(&"unix:@two".parse().unwrap()));
        auto.learn(3, Some(&"unix:@three".parse().unwrap()));
        assert_eq!(chosen(&auto, 4), is("flat", "0-3"), "all ids are on this host");
        let tree = |bytes, forward_first| {
            auto.choose(IdList::range(0..8), bytes, forward_first, &Limits::default()).0.to_string()
        };
        let long = 64 << 20;
        assert_eq!([tree(1, false), tree(long, true), tree(1, true)], ["flat", "chain", "flat"]);
    }

    #[test]
    fn the_limits_of_trees_hold() {
        let auto = auto("", "");
        let limits = Limits { fan_out: 3, ..Limits::default() };
        let (tree, _) = auto.choose(IdList::range(0..8), 0, false, &limits);
        assert!(tree.fan_out(8).is_some_and(|most| most <= 3), "{tree}");
    }

    /// Costs of the program: where an id takes long to send, it sends to few.
    #[test]
    fn costs_of_the_program_count() {
        let slow = Costs { overhead_ns: 1_000_000, latency_ns: 0, ..Costs::of_network() };
        let auto = AutoTree::new((Some(slow), None), 0, None, &Peers::new());
        let (tree, _) = auto.choose(IdList::range(0..64), 0, false, &Limits::default());
        assert!(tree.fan_out(64).is_some_and(|most| most <= 8), "{tree}");
    }
}
