//! Every tree over every kind of link: the ids reached, and the order of replies.

use std::num::NonZeroU32;

use chained_gpc::runtime::CallTree;
use chained_gpc::{Call, Functions, LinkKind};
use gpc_test_support::nodes::LocalNodes;
use gpc_trees::{Group, Layout, Limits, Radix, Registered, Tree};

use super::common::{LINKS, assert_who, ids, limited, nodes_of_who, outcome_of, replies_of, who};

fn built_in() -> Vec<Tree> {
    let three = NonZeroU32::new(3).expect("not zero");
    let radix = Radix::new(3).expect("at least 2");
    vec![Tree::Binary, Tree::Binomial, Tree::Kary(three), Tree::Knomial(radix), Tree::Chain, Tree::Flat]
}

#[test]
fn every_id_answers_in_every_tree_on_every_link() {
    limited(|| {
        for link in LINKS {
            for n in [1, 2, 8, 64] {
                let (nodes, who) = nodes_of_who(n, link);
                let all: Vec<u32> = (0..n).collect();
                for tree in built_in() {
                    let call = Call::new(who).ids(0..n).tree(tree.clone()).header("x");
                    let outcome = outcome_of(nodes.root().call(call).unwrap());
                    assert_who(&outcome.replies().unwrap(), &all, "x");
                    assert_eq!(Some(u32::from(outcome.level())), tree.depth(n), "{tree:?} of {n}");
                    assert_eq!(*outcome.ids(), ids(&format!("0-{}", n - 1)));
                }
            }
        }
    });
}

#[test]
fn replies_come_in_the_callers_order_wherever_the_root_stands() {
    limited(|| {
        let (nodes, who) = nodes_of_who(8, LinkKind::Unix);
        let asked = |list: &str, tree: Tree| {
            let call = Call::new(who).ids(ids(list)).tree(tree);
            replies_of(nodes.node(5).call(call).unwrap())
        };
        for tree in built_in() {
            assert_who(&asked("0-3", tree.clone()), &[5, 0, 1, 2, 3], "");
            assert_who(&asked("2,3,5,6", tree.clone()), &[2, 3, 5, 6], "");
            assert_who(&asked("7,1,6,5,0,4", tree.clone()), &[7, 1, 6, 5, 0, 4], "");
            assert_who(&asked("5", tree), &[5], "");
        }
    });
}

#[test]
fn a_caller_that_only_watches_is_not_among_the_replies() {
    limited(|| {
        let (nodes, who) = nodes_of_who(4, LinkKind::Unix);
        for tree in built_in() {
            for list in ["3,1,2", "2"] {
                let call = Call::new(who).ids(ids(list)).tree(tree.clone()).watch();
                let outcome = outcome_of(nodes.root().call(call).unwrap());
                let asked: Vec<u32> = ids(list).iter().collect();
                assert_who(&outcome.replies().unwrap(), &asked, "");
            }
        }
    });
}

#[test]
fn a_laid_out_tree_needs_no_registration_and_keeps_the_callers_order() {
    limited(|| {
        let (nodes, who) = nodes_of_who(7, LinkKind::Tcp);
        let limits = Limits::default();
        let heap = |i: u32, out: &mut Vec<u32>| out.extend([2 * i + 1, 2 * i + 2].iter().filter(|&&c| c < 7));
        let layouts = [
            Layout::from_children(7, heap, &limits).unwrap(),
            Layout::from_parents(&[None, Some(0), Some(0), Some(1), Some(1), Some(2), Some(2)], &limits)
                .unwrap(),
            Layout::parse("0: 2 1\n1: 4 3\n2: 5 6 # the same, written the other way round\n", &limits)
                .unwrap(),
        ];
        for layout in layouts {
            let call = |list: &str| Call::new(who).ids(ids(list)).tree(CallTree::from(layout.clone()));
            let outcome = outcome_of(nodes.root().call(call("0-6")).unwrap());
            assert_who(&outcome.replies().unwrap(), &[0, 1, 2, 3, 4, 5, 6], "");
            assert_eq!(outcome.level(), 2);
            let replies = replies_of(nodes.root().call(call("6,5,4,0,3,2,1")).unwrap());
            assert_who(&replies, &[6, 5, 4, 0, 3, 2, 1], "");
        }
    });
}

#[test]
fn a_registered_split_is_followed_at_every_id() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        // One leaf first, then the rest as one subtree.
        let vine = Registered::new("vine", |n, groups| {
            groups.push(Group { start: 1, len: 1 });
            if n > 2 {
                groups.push(Group { start: 2, len: n - 2 });
            }
        });
        functions.tree(vine.unwrap()).unwrap();
        let tree = functions.named_tree(&"vine".parse().unwrap()).unwrap();
        let nodes = LocalNodes::start(8, LinkKind::Unix, &functions).unwrap();
        let outcome = outcome_of(nodes.root().call(Call::new(who).ids(0..8).tree(tree)).unwrap());
        assert_who(&outcome.replies().unwrap(), &[0, 1, 2, 3, 4, 5, 6, 7], "");
        assert_eq!(outcome.level(), 4);
    });
}
