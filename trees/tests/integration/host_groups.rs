//! Tests of hosts in nested groups: each group is entered once, for any list, paths and tree. Hosts without groups have
//! the plain layout.

use std::collections::{BTreeMap, BTreeSet};

use gpc_trees::{Hosts, HostsError, Id, IdList, Layout, Limits, Tree, TreeError, TreeName, edges};
use proptest::prelude::*;

/// The names of a path, at most eight.
fn names(path: &str) -> Vec<&str> {
    path.splitn(8, '/').collect()
}

/// The groups of a place, each as its names, and its host.
fn belongs_to(path: &str) -> Vec<(Vec<&str>, bool)> {
    let names = names(path);
    let groups = (1..=names.len()).map(|level| (names[..level].to_vec(), false));
    groups.chain([(names.clone(), true)]).collect()
}

/// Parent of each place of the list.
fn parents(layout: &Layout) -> Vec<Option<u32>> {
    let mut parents = vec![None; layout.len() as usize];
    let mut had = BTreeSet::new();
    for edge in edges(&layout.tree(), layout.len()) {
        let (parent, child) = edge.unwrap();
        let [parent, child] = [parent, child].map(|at| layout.order()[at as usize]);
        assert!(had.insert(child), "place {child} has two parents");
        parents[child as usize] = Some(parent);
    }
    parents
}

/// Fails if a group at any level is entered twice or never, if the root's groups are entered at all, or if a place has
/// no parent. `list` has the path of each place.
fn each_group_is_entered_once(layout: &Layout, list: &[&str]) {
    assert_eq!(layout.order()[0], 0);
    let parents = parents(layout);
    assert_eq!((parents.len(), parents.iter().filter(|parent| parent.is_none()).count()), (list.len(), 1));
    let mut entered: BTreeMap<(Vec<&str>, bool), u32> = BTreeMap::new();
    for (path, parent) in list.iter().zip(&parents) {
        let around = parent.map(|parent| belongs_to(list[parent as usize])).unwrap_or_default();
        for group in belongs_to(path) {
            let from_outside = parent.is_some() && !around.contains(&group);
            *entered.entry(group).or_default() += u32::from(from_outside);
        }
    }
    let of_root = belongs_to(list[0]);
    for (group, times) in entered {
        assert_eq!(times, u32::from(!of_root.contains(&group)), "{group:?}");
    }
}

/// Writes the tree over some places of a list into a table of parents.
fn hang(places: &[u32], tree: &Tree, parents: &mut [Option<u32>]) {
    for edge in edges(tree, places.len() as u32) {
        let (parent, child) = edge.unwrap();
        parents[places[child as usize] as usize] = Some(places[parent as usize]);
    }
}

/// Groups the places by a key, in the order of the keys' first occurrence.
fn by_key<K: PartialEq>(places: &[u32], key: impl Fn(u32) -> K) -> Vec<(K, Vec<u32>)> {
    let mut groups: Vec<(K, Vec<u32>)> = Vec::new();
    for &place in places {
        let key = key(place);
        match groups.iter_mut().find(|(of, _)| *of == key) {
            Some((_, members)) => members.push(place),
            None => groups.push((key, vec![place])),
        }
    }
    groups
}

/// The model: the same rule at every level, recursively. At the end of a path the next name is `None`, which is a part
/// like any other.
fn lay_out(places: &[u32], list: &[&str], level: usize, tree: &Tree, parents: &mut [Option<u32>]) {
    let groups = by_key(places, |place| names(list[place as usize]).get(level).copied());
    let leaders: Vec<u32> = groups.iter().map(|(_, members)| members[0]).collect();
    hang(&leaders, tree, parents);
    for (name, members) in groups {
        match name {
            Some(_) => lay_out(&members, list, level + 1, tree, parents),
            None => hang(&members, tree, parents),
        }
    }
}

/// The layout of a list by the model.
fn by_the_model(list: &[&str], tree: &Tree) -> Layout {
    let places: Vec<u32> = (0..list.len() as u32).collect();
    let mut parents = vec![None; list.len()];
    lay_out(&places, list, 0, tree, &mut parents);
    Layout::from_parents(&parents, &Limits::default()).unwrap()
}

/// The layout without groups: one tree over the hosts, and one within each.
fn one_level(list: &[&str], tree: &Tree) -> Layout {
    let places: Vec<u32> = (0..list.len() as u32).collect();
    let hosts = by_key(&places, |place| list[place as usize]);
    let leaders: Vec<u32> = hosts.iter().map(|(_, members)| members[0]).collect();
    let mut parents = vec![None; list.len()];
    hang(&leaders, tree, &mut parents);
    hosts.iter().for_each(|(_, members)| hang(members, tree, &mut parents));
    Layout::from_parents(&parents, &Limits::default()).unwrap()
}

fn tree() -> impl Strategy<Value = Tree> {
    let names = ["binary", "binomial", "flat", "chain", "kary:3", "knomial:3", "loggp:2.5"];
    prop::sample::select(names.to_vec())
        .prop_map(|name| name.parse::<TreeName>().unwrap().built_in().unwrap())
}

/// Paths of few names, so that groups have several members and some paths extend others.
fn path() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["a", "b", "c"]);
    prop_oneof![prop::collection::vec(name.clone(), 1..4), prop::collection::vec(name, 1..9)]
        .prop_map(|names| names.join("/"))
}

/// The ids of a list in a random order, and the host of each.
fn listed(path: impl Strategy<Value = String>) -> impl Strategy<Value = Vec<(Id, String)>> {
    let pairs = |paths: Vec<String>| (10..).zip(paths).collect::<Vec<(Id, String)>>();
    prop::collection::vec(path, 1..60).prop_map(pairs).prop_shuffle()
}

fn layout_of(listed: &[(Id, String)], tree: &Tree) -> Layout {
    let hosts: Hosts = listed.iter().cloned().collect();
    let ids = IdList::from_ids(listed.iter().map(|(id, _)| *id)).unwrap();
    hosts.layout(&ids, tree, &Limits::default()).unwrap()
}

proptest! {
    #[test]
    fn every_group_is_entered_once(listed in listed(path()), tree in tree()) {
        let list: Vec<&str> = listed.iter().map(|(_, path)| path.as_str()).collect();
        let layout = layout_of(&listed, &tree);
        each_group_is_entered_once(&layout, &list);
        prop_assert_eq!(layout, by_the_model(&list, &tree));
    }

    #[test]
    fn plain_names_are_laid_out_as_ever(listed in listed("[a-f]"), tree in tree()) {
        let list: Vec<&str> = listed.iter().map(|(_, path)| path.as_str()).collect();
        prop_assert_eq!(layout_of(&listed, &tree), one_level(&list, &tree));
    }

    /// Programmatic names are never rejected: empty names are valid, and the eighth name contains the rest.
    #[test]
    fn any_names_are_hosts(listed in listed("[ab/]{0,20}"), tree in tree()) {
        let list: Vec<&str> = listed.iter().map(|(_, path)| path.as_str()).collect();
        let layout = layout_of(&listed, &tree);
        each_group_is_entered_once(&layout, &list);
        prop_assert_eq!(layout, by_the_model(&list, &tree));
        let hosts: Hosts = listed.iter().cloned().collect();
        prop_assert_eq!(hosts.len(), list.iter().collect::<BTreeSet<_>>().len());
        // Each id has its own path, and no other id has one.
        let paths: BTreeMap<Id, &str> = listed.iter().map(|(id, path)| (*id, path.as_str())).collect();
        prop_assert!((0..100).all(|id| hosts.host(id) == paths.get(&id).copied()));
    }

    #[test]
    fn a_line_has_a_path_or_is_refused(path in "[ab/]{1,24}|(a/){0,10}b") {
        let names: Vec<&str> = path.split('/').collect();
        let text = format!("# one id\n4 {path}\n");
        let parsed = Hosts::parse(&text);
        if names.len() > 8 {
            prop_assert_eq!(parsed, Err(HostsError::TooManyLevels { line: 2, levels: names.len() }));
        } else if names.contains(&"") {
            prop_assert_eq!(parsed, Err(HostsError::EmptyName { line: 2, text: path }));
        } else {
            prop_assert_eq!(parsed.unwrap(), [(4, path)].into_iter().collect());
        }
    }
}

#[test]
fn three_clusters_of_three_two_and_two_hosts() {
    let text = "0 red/a\n1 red/b\n2 red/c\n3 green/a\n4 green/b\n5 blue/a\n6 blue/b\n";
    let hosts = Hosts::parse(text).unwrap();
    assert_eq!((hosts.len(), hosts.host(3)), (7, Some("green/a")));
    let table = |ids: &str, tree| {
        let layout = hosts.layout(&ids.parse().unwrap(), &tree, &Limits::default()).unwrap();
        parents(&layout).into_iter().map(|parent| parent.map_or(9, |parent| parent)).collect::<Vec<u32>>()
    };
    // Over 0, 3, 5, then within each cluster.
    assert_eq!(table("0-6", Tree::Flat), [9, 0, 0, 0, 3, 0, 5]);
    assert_eq!(table("0-6", Tree::Chain), [9, 0, 1, 0, 3, 3, 5]);
    // The list order determines the leaders: id 4 leads green, and id 2 leads red.
    assert_eq!(table("4,2,0,6,3,1,5", Tree::Chain), [9, 0, 1, 1, 0, 2, 3]);
}

#[test]
fn a_host_may_have_the_path_of_a_group() {
    let hosts = Hosts::parse("0 x\n1 a/b\n2 a\n3 a/b\n4 a\n5 a/c\n").unwrap();
    let ids = IdList::range(0..6);
    let layout = hosts.layout(&ids, &Tree::Flat, &Limits::default()).unwrap();
    // Id 1 leads a; host a, led by id 2, is a part of it like b and c.
    assert_eq!(parents(&layout), [None, Some(0), Some(1), Some(1), Some(2), Some(1)]);
    each_group_is_entered_once(&layout, &["x", "a/b", "a", "a/b", "a", "a/c"]);
}

#[test]
fn paths_that_cannot_be_name_their_line() {
    let fault = |path: &str| Hosts::parse(&format!("0 a\n1 {path}\n")).unwrap_err().to_string();
    for path in ["/", "a//b", "/a", "a/"] {
        assert_eq!(
            fault(path),
            format!(
                "line 2: a name is missing in \"{path}\": write CLUSTER/HOST, with one `/` between two names and none at the ends"
            )
        );
    }
    assert!(fault("a/b/c/d/e/f/g/h/i").starts_with("line 2: the host is 9 levels deep, and 8 are the most"));
    let long = |names: usize, bytes: usize| vec!["h".repeat(bytes); names].join("/");
    assert!(
        fault(&long(2, 256))
            .starts_with("line 2: the name of the host, or of a group that it is in, is longer")
    );
    assert_eq!(Hosts::parse(&format!("0 {}", long(8, 255))).unwrap().len(), 1);
    // Programmatic names are accepted: the eighth name contains the rest.
    let hosts: Hosts = [(0, "1/2/3/4/5/6/7/8/9"), (1, "1/2/3/4/5/6/7/8"), (2, "")].into_iter().collect();
    assert_eq!((hosts.len(), hosts.host(0), hosts.host(2)), (3, Some("1/2/3/4/5/6/7/8/9"), Some("")));
}

#[test]
fn what_a_tree_cannot_bear_is_said() {
    let hosts: Hosts = (0..40).map(|id| (id, format!("c{}/h{id}", id / 20))).collect();
    let layout = |ids: IdList, limits| hosts.layout(&ids, &Tree::Flat, &limits);
    let few = Limits { fan_out: 20, ..Limits::default() };
    // A leader has children at each level: 1 of the clusters and 19 of the hosts.
    assert_eq!(layout(IdList::range(0..40), few).unwrap().tree().check(40, &few).unwrap().fan_out, 20);
    let fewer = Limits { fan_out: 19, ..Limits::default() };
    let refused = Err(HostsError::Tree(TreeError::FanOut { position: 0, fan_out: 20, limit: 19 }));
    assert_eq!(layout(IdList::range(0..40), fewer), refused);
    assert_eq!(layout(IdList::range(0..41), few), Err(HostsError::NoHost { id: 40 }));
    assert_eq!(layout(IdList::range(0..0), few), Err(HostsError::Tree(TreeError::Empty)));
}

/// Many ids in shapes for which a search through all groups, or through all of a group, would take minutes.
#[test]
fn many_ids_in_many_groups() {
    const IDS: u32 = 60_000;
    let shapes: [fn(u32) -> String; 4] = [
        |id| format!("all/h{id}"),
        |id| format!("c{}/h{id}", id % 300),
        |id| format!("c{id}/a/b/c/d/e/f/g"),
        |id| format!("a/b/c/d/e/f/g/h{}", id % 7),
    ];
    for shape in shapes {
        let listed: Vec<(Id, String)> = (0..IDS).map(|id| (id, shape(id))).collect();
        let list: Vec<&str> = listed.iter().map(|(_, path)| path.as_str()).collect();
        each_group_is_entered_once(&layout_of(&listed, &Tree::Binomial), &list);
    }
}
