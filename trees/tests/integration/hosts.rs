//! Tests of trees that keep hosts together: each host is entered once, and its ids are below its leader.

use std::collections::BTreeMap;

use gpc_trees::{Hosts, HostsError, IdList, Limits, Tree, TreeName, edges};
use proptest::prelude::*;

fn hosts_of(of: &[u8]) -> Hosts {
    let lines: Vec<String> = of.iter().enumerate().map(|(id, host)| format!("{id} host-{host}\n")).collect();
    Hosts::parse(&lines.concat()).unwrap()
}

proptest! {
    #[test]
    fn a_host_is_entered_once(of in prop::collection::vec(0u8..9, 1..120), which in 0usize..4) {
        let tree = [Tree::Binary, Tree::Binomial, Tree::Flat, Tree::Chain][which].clone();
        let ids = IdList::range(0..of.len() as u32);
        let layout = hosts_of(&of).layout(&ids, &tree, &Limits::default()).unwrap();
        let order = layout.order();
        let mut entered: BTreeMap<u8, u32> = BTreeMap::new();
        let mut reached = 1;
        for edge in edges(&layout.tree(), ids.len()) {
            let (parent, child) = edge.unwrap();
            let [parent, child] = [parent, child].map(|place| of[order[place as usize] as usize]);
            reached += 1;
            if parent != child {
                *entered.entry(child).or_default() += 1;
            }
        }
        prop_assert_eq!(reached, of.len());
        let mut others: Vec<u8> = of.iter().copied().filter(|host| *host != of[0]).collect();
        others.sort_unstable();
        others.dedup();
        prop_assert_eq!(entered, others.into_iter().map(|host| (host, 1)).collect());
    }

    #[test]
    fn any_text_is_hosts_or_an_error(text in "[0-9a-z #\\n-]{0,200}") {
        let _ = Hosts::parse(&text);
    }
}

#[test]
fn two_hosts_of_three() {
    let hosts = Hosts::parse("# a cluster\n0 a\n1 b\n2 a # here\n\n3 b\n4 b\n5 a\n").unwrap();
    assert_eq!((hosts.len(), hosts.host(4), hosts.host(6)), (2, Some("b"), None));
    let layout = hosts.layout(&"0-5".parse().unwrap(), &Tree::Flat, &Limits::default()).unwrap();
    let ids: IdList = layout.apply(&"0-5".parse().unwrap()).unwrap();
    assert_eq!(ids.to_string(), "0-1,3-4,2,5");
}

/// Names were once numbered in input order. A host whose only id was moved to another host still counted, and the same
/// hosts in another order were not equal.
#[test]
fn hosts_are_what_the_ids_say_in_whatever_order() {
    let hosts: Hosts = [(0, "a"), (1, "b"), (0, "b")].into_iter().collect();
    assert_eq!((hosts.len(), hosts.host(0), hosts.host(1)), (1, Some("b"), Some("b")));
    let hosts: Hosts = [(1, "b"), (0, "a")].into_iter().collect();
    assert_eq!(hosts, Hosts::parse("0 a\n1 b\n").unwrap());
    assert_eq!(hosts, Hosts::parse("1 b\n0 a\n").unwrap());
}

#[test]
fn faults_name_their_line() {
    let fault = |text: &str| Hosts::parse(text).unwrap_err().to_string();
    assert_eq!(fault("0 a\n1"), "line 2: \"1\" is not of the form ID HOST, such as `3 node-b`");
    assert_eq!(fault("x a"), "line 1: \"x\" is no id: not a decimal number");
    assert_eq!(fault("0 a\n\n0 b"), "line 3: id 0 has a line already");
    assert!(fault(&format!("0 {}", "h".repeat(256))).contains("longer than 255 bytes"));
    assert!(fault(&format!("0 rack/{}", "h".repeat(256))).contains("longer than 255 bytes"));
    let missing = hosts_of(&[1]).layout(&IdList::range(0..2), &Tree::Binary, &Limits::default());
    assert_eq!(missing.unwrap_err(), HostsError::NoHost { id: 1 });
}

/// The limit is for each name: the path of a host in several groups may be longer.
#[test]
fn a_path_may_be_longer_than_a_name() {
    let longest = ["h".repeat(255), "g".repeat(255), "f".repeat(255)].join("/");
    let hosts = Hosts::parse(&format!("0 {longest}\n")).unwrap();
    assert_eq!(hosts.host(0), Some(longest.as_str()));
}

#[test]
fn a_name_holds_the_path_and_the_tree() {
    let name = |text: &str| text.parse::<TreeName>();
    let hosts = name("hosts:a+b/my.hosts+kary:3").unwrap();
    assert_eq!(hosts.to_string(), "hosts:a+b/my.hosts+kary:3");
    assert!(matches!(hosts, TreeName::Hosts { path, tree: Tree::Kary(_) } if path == "a+b/my.hosts"));
    let known = name("hosts+kary:3").unwrap();
    assert_eq!((known.to_string().as_str(), known.built_in()), ("hosts+kary:3", None));
    assert!(matches!(known, TreeName::KnownHosts(Tree::Kary(_))));
    for bad in [
        "hosts+",
        "hosts+mine",
        "hosts+hosts+binary",
        "hosts",
        "hosts:",
        "hosts:file",
        "hosts:+binary",
        "hosts:file+",
        "hosts:file+mine",
        "hosts:file+file:x",
    ] {
        assert!(name(bad).unwrap_err().to_string().contains("as in hosts:cluster.txt+binomial"), "{bad}");
    }
}
