//! Nodes of a job start in any order: a root waits for the nodes that its calls reach.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use chained_gpc::runtime::{Address, Listener, Peers};
use chained_gpc::{AbsentPeers, Call, Functions, IdList, LinkKind, Node};
use gpc_trees::Tree;

use super::common::{LIMIT, ids, limited, outcome_of, who};
use super::raw::listener;

/// Short enough for a test of a node that does not come up.
const SHORT: Duration = Duration::from_millis(300);

/// Ids 0 to n-1, without listeners yet.
fn peers(n: u32) -> Peers {
    (0..n).map(|id| (id, LinkKind::Unix.fresh_address(id))).collect()
}

fn start(id: u32, peers: &Peers, functions: &Functions) -> Node {
    let address = peers.address(id).expect("an address for each");
    let listener = Listener::bind(&address).expect("an address of its own");
    let builder = Node::builder(id).functions(functions).peers(peers.clone()).listener(listener);
    builder.start().expect("a thread")
}

/// The README's program for a job failed if the process of the root started before the others: its first call reached
/// no node.
#[test]
fn a_root_that_starts_first_waits_for_the_others() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let peers = peers(4);
        let root = start(0, &peers, &functions);
        let call = || Call::new(who).ids(0..4).tree(Tree::Binary);
        assert!(root.call(call()).unwrap().wait().is_err(), "nobody is there yet");
        let (seen, go) = mpsc::channel::<()>();
        let (others, nodes) = (peers.clone(), functions.clone());
        let starter = thread::spawn(move || {
            go.recv().unwrap();
            [3, 1, 2].map(|id| start(id, &others, &nodes))
        });
        let Err(AbsentPeers::Late { ids, why, .. }) = root.wait_for_peers(0..4, SHORT) else {
            panic!("nobody is there yet")
        };
        assert_eq!(ids, IdList::range(1..4));
        assert!(why.starts_with("cannot connect to unix:@"), "{why}");
        seen.send(()).unwrap();
        assert_eq!(root.wait_for_peers(0..4, LIMIT), Ok(()));
        assert_eq!(outcome_of(root.call(call()).unwrap()).replies().unwrap().len(), 4);
        assert_eq!(root.wait_for_peers(0..4, Duration::ZERO), Ok(()), "they are there still");
        drop(starter.join().unwrap());
    });
}

#[test]
fn a_polled_root_waits_as_well() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let peers = peers(3);
        let mut root = Node::builder(0).functions(&functions).peers(peers.clone()).polled().unwrap();
        let one = start(1, &peers, &functions);
        let error = root.wait_for_peers(0..3, SHORT).unwrap_err();
        assert!(matches!(&error, AbsentPeers::Late { ids, .. } if *ids == IdList::range(2..3)), "{error}");
        let two = start(2, &peers, &functions);
        assert_eq!(root.wait_for_peers(0..3, LIMIT), Ok(()));
        let handle = root.call(Call::new(who).ids(0..3)).unwrap();
        assert!(root.wait(handle).unwrap().is_complete());
        drop([one, two]);
    });
}

#[test]
fn who_does_not_come_is_named_with_the_reason() {
    limited(|| {
        let functions = Functions::new();
        // It listens and sends nothing.
        let (silent, address) = listener();
        let peers: Peers = [(1, address), (5, Address::Abstract("gpc-nobody".into()))].into_iter().collect();
        let root = Node::builder(0).functions(&functions).peers(peers).start().unwrap();
        let error = root.wait_for_peers(ids("5,1"), SHORT).unwrap_err().to_string();
        assert!(
            error.starts_with("ids 5,1 did not come up within 300ms; id 5: cannot connect to"),
            "{error}"
        );
        let error = root.wait_for_peers(1..2, SHORT).unwrap_err().to_string();
        assert_eq!(error, "id 1 did not come up within 300ms; id 1: it has not answered yet");
        let error = root.wait_for_peers(0..u32::MAX, LIMIT).unwrap_err().to_string();
        assert_eq!(error, "no address is known for id 2: add it to the peers");
        drop(silent);
    });
}
