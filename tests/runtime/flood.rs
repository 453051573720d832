//! One peer that asks for more than a node can do, and the others beside it.

use std::sync::Arc;
use std::time::Duration;

use chained_gpc::wire::Message;
use chained_gpc::wire::Request;
use chained_gpc::{Functions, IdList, Tree};

use super::common::{LIMIT, ids, limited, who};
use super::raw::{EARLY, RawPeer, call, node, request};

/// Requests that one link has credit for.
const REQUESTS: u64 = 250;

/// Has a node adopt ids that nobody has, of four billion, in each of its requests.
fn flood(peer: &mut RawPeer, func: chained_gpc::FuncHandle) {
    let unknown = IdList::range(1_000_000..u32::MAX - 1).with_first(1);
    for sequence in 0..REQUESTS {
        let tree = Ok(Tree::Binary);
        let wide = Request { partial: true, tree, ..request(LIMIT, call(7, sequence), func, &unknown) };
        peer.send(Message::Request(Arc::new(wide)));
    }
}

/// 250 requests of 116 bytes, over ids that nobody has, were 29 s of work. All of it was done before the next link had its turn: another member's call took as long, the node did not end when it was told to, and the work went on when the
/// peer was gone.
#[test]
fn a_peer_that_asks_for_much_work_does_not_keep_the_others_waiting() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let node = node(1, &functions, []);
        let mut flooder = RawPeer::greet(&node, 7, EARLY, 1);
        let mut other = RawPeer::greet(&node, 8, EARLY, 1);
        flood(&mut flooder, who);
        for sequence in 0..10 {
            other.request(call(8, sequence), who, &ids("1"));
            other.expect_response(call(8, sequence));
        }
        // What the flooder has asked for is far from done: it was not waited for.
        other.request(call(8, 10), who, &ids("1"));
        other.expect_response(call(8, 10));
        assert!(node_is_busy(&mut flooder), "the flood was over before the others were served");
        // What has not begun goes with the link, and the node ends when it is told to.
        drop(flooder);
        other.request(call(8, 11), who, &ids("1"));
        other.expect_response(call(8, 11));
        node.shutdown(Duration::ZERO);
    });
}

/// Whether the last request of the flood has no answer yet.
fn node_is_busy(flooder: &mut RawPeer) -> bool {
    let mut answers = 0;
    while flooder.has_something() {
        match flooder.next() {
            Some(chained_gpc::runtime::link::Event::Response(_)) => answers += 1,
            Some(_) => {}
            None => panic!("the node has closed the link of a peer that keeps to the protocol"),
        }
    }
    answers < REQUESTS
}
