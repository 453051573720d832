//! The info key `host` of a spawn: nodes by id, by host name, or by the name that PMIx has for them.

use std::collections::{BTreeMap, BTreeSet};

use chained_gpc::trees::Id;

use super::database::shown;
use crate::fault::{Fault, FaultKind};
use crate::spec::Spec;

/// Most nodes that an error lists.
const SHOWN_MAX: usize = 8;

/// Most names in the lists of one group: more than there are hosts in the largest clusters. The head looks up each of
/// them, on the word of one process.
const NAMES_MAX: usize = 1 << 14;

/// Checks the number of names in the lists of a group's specs.
///
/// # Errors
/// There are too many.
pub(super) fn check_count<'a>(specs: impl Iterator<Item = &'a Spec>) -> Result<(), Fault> {
    let lists = specs.filter_map(|spec| spec.hint("host"));
    let count: usize = lists.map(|list| list.split(|byte| *byte == b',').count()).sum();
    if count <= NAMES_MAX {
        return Ok(());
    }
    let message = format!("the infos host of the group have {count} names, the most are {NAMES_MAX}");
    Err(Fault::new(FaultKind::TooLarge, message))
}

/// The names of the nodes that run processes.
#[derive(Debug)]
pub(super) struct HostNames<'a> {
    /// Those nodes, with their hosts.
    nodes: BTreeMap<Id, &'a str>,
    /// By host name, in lower case.
    whole: BTreeMap<String, Vec<Id>>,
    /// By the part before the first dot, of host names with a dot.
    short: BTreeMap<String, Vec<Id>>,
    /// By the name that PMIx has for a node.
    of_pmix: BTreeMap<String, Id>,
}

impl<'a> HostNames<'a> {
    /// `hosts` has all nodes of the domain, as the names of PMIx depend on all of them; `runs` those that run
    /// processes.
    pub(super) fn new(hosts: &[(Id, &'a str)], runs: &BTreeSet<Id>) -> HostNames<'a> {
        let mut names = HostNames {
            nodes: hosts.iter().copied().filter(|(id, _)| runs.contains(id)).collect(),
            whole: BTreeMap::new(),
            short: BTreeMap::new(),
            of_pmix: distinct(hosts).into_iter().map(|(id, name)| (name, id)).collect(),
        };
        names.of_pmix.retain(|name, id| !name.is_empty() && runs.contains(id));
        for (id, host) in &names.nodes {
            let host = host.to_ascii_lowercase();
            if let Some((short, _)) = host.split_once('.') {
                names.short.entry(short.to_owned()).or_default().push(*id);
            }
            names.whole.entry(host).or_default().push(*id);
        }
        // A host may be unknown.
        names.whole.remove("");
        names.short.remove("");
        names
    }

    /// The nodes of a list with commas.
    ///
    /// # Errors
    /// A name is that of no node that runs processes.
    pub(super) fn listed(&self, list: &[u8]) -> Result<BTreeSet<Id>, Fault> {
        let names = str::from_utf8(list).unwrap_or_default().split(',').map(str::trim);
        let mut all = BTreeSet::new();
        for name in names.collect::<BTreeSet<_>>() {
            let of_name = self.named(name);
            if of_name.is_empty() {
                return Err(self.unknown(list, name));
            }
            all.extend(of_name);
        }
        Ok(all)
    }

    /// One node by its id, all nodes of a host by its name, or one of them by the name that PMIx has for it.
    ///
    /// Case is ignored in host names. If only one of two has a dot, the parts before the first dot are compared.
    fn named(&self, name: &str) -> Vec<Id> {
        if let Some(id) = name.parse().ok().filter(|id| self.nodes.contains_key(id)) {
            return vec![id];
        }
        let lower = name.to_ascii_lowercase();
        let other = match lower.split_once('.') {
            Some((short, _)) => self.whole.get(short),
            None => self.short.get(&lower),
        };
        let of_host = self.whole.get(&lower).into_iter().chain(other).flatten();
        let of_host: Vec<Id> = of_host.copied().collect();
        match of_host.is_empty() {
            true => self.of_pmix.get(name).copied().into_iter().collect(),
            false => of_host,
        }
    }

    fn unknown(&self, list: &[u8], name: &str) -> Fault {
        let known = self.nodes.iter().take(SHOWN_MAX).map(|(id, host)| format!("{id} ({host})"));
        let known = known.collect::<Vec<_>>().join(", ");
        let more = if self.nodes.len() > SHOWN_MAX { " and others" } else { "" };
        let message = format!(
            "the info host is {}, and no node that runs processes has the id or host name {}; there are {known}{more}",
            shown(list),
            shown(name.as_bytes())
        );
        Fault::new(FaultKind::BadRequest, message)
    }
}

/// Gives nodes of the same host different names: libpmix takes nodes of one name for one node.
pub(super) fn distinct(hosts: &[(Id, &str)]) -> Vec<(Id, String)> {
    let known: BTreeSet<&str> = hosts.iter().map(|(_, host)| *host).collect();
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let mut names = Vec::new();
    for (id, host) in hosts {
        let mut name = (*host).to_owned();
        // Terminates: each round makes the name longer, and the others are finite.
        while taken.contains(&name) || name != *host && known.contains(name.as_str()) {
            name = format!("{name}-{id}");
        }
        taken.insert(name.clone());
        names.push((*id, name));
    }
    names
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nodes_of_one_host_have_names_of_their_own() {
        let names = |given: &[&'static str]| -> Vec<String> {
            let hosts: Vec<(Id, &str)> = (0..).zip(given.iter().copied()).collect();
            distinct(&hosts).into_iter().map(|(_, name)| name).collect()
        };
        assert_eq!(names(&["a", "b"]), ["a", "b"]);
        assert_eq!(names(&["a", "a", "a"]), ["a", "a-1", "a-2"]);
        assert_eq!(names(&["a", "a", "a-1"]), ["a", "a-1-1", "a-1"], "a host may have such a name");
    }

    /// A process names a node as PMIx does. Where a node of its host was lost or runs no processes, it started on
    /// another node than the named one, or was refused.
    #[test]
    fn the_names_of_pmix_do_not_depend_on_the_nodes_that_run_processes() {
        let hosts = [(3, "same"), (4, "same"), (5, "same")];
        for runs in [[3, 4, 5].into(), BTreeSet::from([4, 5])] {
            let names = HostNames::new(&hosts, &runs);
            assert_eq!(names.listed(b"same-4, same-5").unwrap(), [4, 5].into());
            assert_eq!(names.listed(b"same").unwrap(), runs);
        }
        let fault = HostNames::new(&hosts, &[3, 5].into()).listed(b"same-4").unwrap_err();
        assert!(fault.message.contains("no node that runs processes") && fault.message.contains("3 (same)"));
    }

    /// Each name was compared with each node, and a spawn could name millions.
    #[test]
    fn the_names_of_a_group_are_bounded() {
        let spec = |count: usize| {
            let list = vec!["a"; count].join(",").into_bytes();
            Spec { info: vec![("host".into(), list)], ..Spec::default() }
        };
        let check = |counts: &[usize]| {
            check_count(counts.iter().map(|count| spec(*count)).collect::<Vec<_>>().iter())
        };
        assert_eq!(check(&[NAMES_MAX - 1, 1]), Ok(()));
        let fault = check(&[NAMES_MAX, 1]).unwrap_err();
        assert_eq!(fault.kind, FaultKind::TooLarge);
        assert!(fault.message.contains("16385 names, the most are 16384"), "{fault}");
    }

    proptest! {
        /// The maps find what a comparison with each host finds.
        #[test]
        fn a_host_is_found_as_by_comparison(hosts in prop::collection::vec("[aA]{0,2}(\\.[bB]?)?", 1..5), name in "[aA]{0,2}(\\.[bB]?)?") {
            let same = |a: &str, b: &str| !a.is_empty() && a.eq_ignore_ascii_case(b);
            let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
            let is_host = |host: &str| {
                let one_is_short = name.contains('.') != host.contains('.');
                same(&name, host) || one_is_short && same(&short(&name), &short(host))
            };
            let nodes: Vec<(Id, &str)> = (0..).zip(hosts.iter().map(String::as_str)).collect();
            let expected: BTreeSet<Id> = nodes.iter().filter(|(_, host)| is_host(host)).map(|(id, _)| *id).collect();
            let found = HostNames::new(&nodes, &(0..9).collect()).listed(name.as_bytes());
            prop_assert_eq!(found.unwrap_or_default(), expected);
        }
    }
}
