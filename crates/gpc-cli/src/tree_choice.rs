//! The tree of a call by its name, or `auto`: the one that is predicted to be the fastest, chosen as the library does
//! for a call that names none.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use gpc_trees::{Costs, Hosts, IdList, Limits, Load, Tree, TreeName};

/// Tree of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CallTreeName {
    /// A tree by name.
    Named(TreeName),
    /// `auto`: the one that is predicted to be the fastest.
    Auto,
}

/// What a tree is chosen for.
pub(super) struct Choice<'a> {
    /// The ids, the root first.
    pub(super) ids: &'a IdList,
    /// Their hosts, if they are known: those of all ids.
    pub(super) hosts: Option<&'a Hosts>,
    /// Bytes of data.
    pub(super) bytes: u64,
    pub(super) forward_first: bool,
}

impl CallTreeName {
    /// Returns the name of the tree.
    pub(super) fn resolve(&self, choice: &Choice<'_>) -> TreeName {
        match self {
            CallTreeName::Named(name) => name.clone(),
            CallTreeName::Auto => choice.name(),
        }
    }
}

impl Choice<'_> {
    fn name(&self) -> TreeName {
        let Choice { ids, hosts, bytes, forward_first } = *self;
        let load = Load { ids: ids.len(), bytes, forward_first };
        let processors =
            std::thread::available_parallelism().ok().and_then(|it| NonZeroU32::try_from(it).ok());
        let on_host = Costs::of_host(processors.unwrap_or(NonZeroU32::MIN));
        let (between, limits) = (Costs::of_network(), Limits::default());
        let Some(known) = hosts else { return name_of(&Tree::choose(&load, &on_host, &limits)) };
        let of_ids: Hosts = ids.iter().filter_map(|id| Some((id, known.host(id)?))).collect();
        match of_ids.choose(&load, &on_host, &between, &limits) {
            (tree, true) => TreeName::KnownHosts(tree),
            (tree, false) => name_of(&tree),
        }
    }
}

/// The name of a chosen tree, all of which are built in.
fn name_of(tree: &Tree) -> TreeName {
    tree.to_string().parse().unwrap_or_default()
}

impl FromStr for CallTreeName {
    type Err = <TreeName as FromStr>::Err;

    fn from_str(text: &str) -> Result<CallTreeName, Self::Err> {
        match text {
            "auto" => Ok(CallTreeName::Auto),
            name => name.parse().map(CallTreeName::Named),
        }
    }
}

impl fmt::Display for CallTreeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallTreeName::Named(name) => name.fmt(f),
            CallTreeName::Auto => f.write_str("auto"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(ids: u32, hosts: Option<&str>, bytes: u64, forward_first: bool) -> String {
        let (ids, hosts) = (IdList::range(0..ids), hosts.map(|text| Hosts::parse(text).unwrap()));
        let choice = Choice { ids: &ids, hosts: hosts.as_ref(), bytes, forward_first };
        CallTreeName::Auto.resolve(&choice).to_string()
    }

    #[test]
    fn the_hosts_of_the_ids_that_are_called_count() {
        let hosts = Some("0 -\n1 a\n2 a\n3 b\n4 b\n");
        assert_eq!(chosen(5, hosts, 0, false), "hosts+flat");
        assert_eq!(chosen(2, hosts, 0, false), "flat", "two ids on two hosts");
        assert_eq!(chosen(5, None, 0, false), "flat");
        assert_eq!(chosen(5, None, 64 << 20, true), "chain");
    }

    #[test]
    fn a_tree_with_a_name_is_that_tree() {
        let ids = IdList::range(0..5);
        let choice = Choice { ids: &ids, hosts: None, bytes: 0, forward_first: false };
        for name in ["kary:3", "binary", "hosts+flat"] {
            assert_eq!(name.parse::<CallTreeName>().unwrap().resolve(&choice).to_string(), name);
        }
    }
}
