//! Ids that join and leave while one call tells all members.
#![cfg(feature = "noise")]

use chained_gpc::runtime::{CallTree, Listener, Peers};
use chained_gpc::{
    Call, CauseKind, Functions, Id, LinkKind, Node, Outcome, Peer, PrivateKey, Secret, Stage, Status,
};
use gpc_trees::{Group, Layout, Limits, Registered, TreeName};

use super::common::{assert_cause, assert_who, cause_of, limited, outcome_of, replies_of, who};
use super::membership::{alone, peer};

/// Members before the newcomer, which has the next id: in every tree but the flat one it is below another id than the
/// root.
const MEMBERS: Id = 9;

/// Nodes that know each other, and no others.
fn members(functions: &Functions, link: LinkKind) -> Vec<Node> {
    let listeners: Vec<Listener> =
        (0..MEMBERS).map(|id| Listener::bind(&link.fresh_address(id)).unwrap()).collect();
    let peers: Peers = (0..).zip(listeners.iter().map(|listener| listener.address().unwrap())).collect();
    let start = |(id, listener)| {
        let builder = Node::builder(id).functions(functions).link(link).peers(peers.clone());
        builder.listener(listener).start().unwrap()
    };
    (0..).zip(listeners).map(start).collect()
}

/// Every kind of tree.
fn trees(functions: &Functions) -> Vec<CallTree> {
    let two = Registered::new("two", |n, groups| {
        let half = n / 2;
        let both = [Group { start: 1, len: half }, Group { start: 1 + half, len: n - 1 - half }];
        groups.extend(both.into_iter().filter(|group| group.len > 0));
    });
    functions.tree(two.unwrap()).unwrap();
    let names = ["binary", "binomial", "kary:3", "knomial:3", "chain", "flat", "loggp:2", "two"];
    let named = names.map(|name| functions.named_tree(&name.parse::<TreeName>().unwrap()).unwrap());
    // Position i is below position (i - 1) / 2.
    let parents: Vec<Option<u32>> =
        (0..=MEMBERS).map(|place| place.checked_sub(1).map(|place| place / 2)).collect();
    let layout = Layout::from_parents(&parents, &Limits::default()).unwrap();
    named.map(CallTree::Split).into_iter().chain([CallTree::Layout(layout)]).collect()
}

fn assert_told(outcome: &Outcome, ids: std::ops::Range<Id>) {
    assert!(ids.clone().all(|id| outcome.status(id) == Some(Status::Done)), "{:?}", outcome.causes());
    assert_eq!(outcome.ids().len() as usize, ids.len());
}

/// A node that learned of a new id could call it only as its own child: in every deeper tree the parent had no address
/// for it.
#[test]
fn an_announced_id_is_reached_in_every_tree_and_a_withdrawn_one_in_none() {
    limited(|| {
        for link in [LinkKind::Tcp, LinkKind::Shm] {
            let functions = Functions::new();
            let who = who(&functions);
            let trees = trees(&functions);
            let nodes = members(&functions, link);
            let newcomer = alone(MEMBERS, link, &functions);
            let all: Vec<Id> = (0..=MEMBERS).collect();
            let call =
                |tree: &CallTree| nodes[0].call(Call::new(who).ids(0..=MEMBERS).tree(tree.clone())).unwrap();
            for tree in &trees {
                assert_told(&outcome_of(nodes[0].announce(peer(&newcomer)).unwrap()), 0..MEMBERS);
                let replies = replies_of(call(tree));
                let mut ids: Vec<Id> = replies.iter().map(|reply| reply.id).collect();
                ids.sort_unstable();
                assert_eq!(ids, all, "{tree:?} over {link:?}");

                assert_told(&outcome_of(nodes[0].withdraw(MEMBERS).unwrap()), 0..MEMBERS);
                assert_cause(&cause_of(call(tree)), MEMBERS, Stage::Link, "no address is known for it");
            }
        }
    });
}

/// A newcomer announces its own address; the outcome names members that are not there.
#[test]
fn a_newcomer_announces_itself_and_the_outcome_names_who_was_not_told() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let mut nodes = members(&functions, LinkKind::Tcp);
        let newcomer = alone(MEMBERS, LinkKind::Tcp, &functions);
        for node in &nodes {
            newcomer.learn(peer(node)).unwrap();
        }
        // It ends without a goodbye to the others.
        drop(nodes.remove(4));
        let outcome = outcome_of(newcomer.announce(peer(&newcomer)).unwrap());
        let told: Vec<Id> = (0..=MEMBERS).filter(|id| *id != 4).collect();
        assert_eq!(outcome.done().iter().collect::<Vec<Id>>().len(), told.len());
        assert!(told.iter().all(|id| outcome.status(*id) == Some(Status::Done)));
        assert_eq!(outcome.status(4), Some(Status::Unreached), "{:?}", outcome.causes());
        let outcome = outcome_of(nodes[0].call(Call::new(who).ids(0..=MEMBERS).partial()).unwrap());
        assert_eq!(outcome.status(MEMBERS), Some(Status::Done));
    });
}

/// An announcement with another key would have let any member replace an id that is listed with a key.
#[test]
fn no_announcement_replaces_a_key() {
    limited(|| {
        let functions = Functions::new();
        let [own, other] = [(); 2].map(|()| PrivateKey::random().unwrap().public());
        let secret = Secret::random().unwrap();
        let listeners = [0, 1].map(|id| Listener::bind(&LinkKind::Tcp.fresh_address(id)).unwrap());
        let mut peers: Peers =
            (0..).zip(listeners.iter().map(|listener| listener.address().unwrap())).collect();
        let five: Peer = Peer::new(5, "127.0.0.1:9".parse().unwrap());
        peers.insert(5, five.address.clone());
        peers.set_key(5, own);
        let start = |(id, listener)| {
            let builder = Node::builder(id).functions(&functions).link(LinkKind::Tcp).peers(peers.clone());
            builder.listener(listener).secret(secret.clone()).start().unwrap()
        };
        let nodes: Vec<Node> = (0..).zip(listeners).map(start).collect();
        let refused = |peer: &Peer, remedy: &str| {
            let outcome = outcome_of(nodes[0].announce(peer.clone()).unwrap());
            for id in [0, 1] {
                let cause = outcome.cause(id).unwrap();
                assert!(
                    cause.kind == CauseKind::Failed
                        && cause.message.contains("by another key")
                        && cause.message.contains(remedy),
                    "{cause}"
                );
            }
        };
        refused(&five.clone().known_by(other), "must forget the id");
        // Withdrawing the id before does not help.
        assert_told(&outcome_of(nodes[0].withdraw(5).unwrap()), 0..2);
        refused(&five.clone().known_by(other), "must forget the id");
        assert_told(&outcome_of(nodes[0].announce(five.clone().known_by(own)).unwrap()), 0..2);
        assert_told(&outcome_of(nodes[0].withdraw(5).unwrap()), 0..2);
        refused(&five.clone().known_by(other), "must forget the id");
        // A key that was only announced is withdrawn with its id. The advice was to have the application forget it.
        let six = Peer::new(6, five.address);
        assert_told(&outcome_of(nodes[0].announce(six.clone().known_by(other)).unwrap()), 0..2);
        refused(&six.clone().known_by(own), "withdraw the id, and announce it again");
        assert_told(&outcome_of(nodes[0].withdraw(6).unwrap()), 0..2);
        for key in [own, other] {
            assert_told(&outcome_of(nodes[0].announce(six.clone().known_by(key)).unwrap()), 0..2);
            assert_told(&outcome_of(nodes[0].withdraw(6).unwrap()), 0..2);
        }
    });
}

#[test]
fn a_polled_node_spreads_changes_too() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let other = alone(1, LinkKind::Tcp, &functions);
        let newcomer = alone(2, LinkKind::Tcp, &functions);
        let peers: Peers = [(1, other.address().unwrap().clone())].into_iter().collect();
        let mut node =
            Node::builder(0).functions(&functions).link(LinkKind::Tcp).peers(peers).polled().unwrap();
        let handle = node.announce(peer(&newcomer)).unwrap();
        assert_told(&node.wait(handle).unwrap(), 0..2);
        let chain = gpc_trees::Tree::Chain;
        let handle = node.call(Call::new(who).ids(0..3).tree(chain)).unwrap();
        assert_who(&node.wait(handle).unwrap().replies().unwrap(), &[0, 1, 2], "");
        let handle = node.withdraw(2).unwrap();
        assert_told(&node.wait(handle).unwrap(), 0..2);
    });
}
