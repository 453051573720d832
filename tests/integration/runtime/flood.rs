//! A peer that requests more than a node can do, and other peers beside it.

use std::sync::Arc;
use std::time::Duration;

use chained_gpc::wire::Message;
use chained_gpc::wire::Request;
use chained_gpc::{Functions, IdList, Tree};

use super::common::{LIMIT, ids, limited, who};
use super::raw::{EARLY, RawPeer, call, node, request};

/// Requests that one link has credit for.
const REQUESTS: u64 = 250;

/// Has a node adopt ids that do not exist, of four billion, in each request.
fn flood(peer: &mut RawPeer, func: chained_gpc::FuncHandle) {
    let unknown = IdList::range(1_000_000..u32::MAX - 1).with_first(1);
    for sequence in 0..REQUESTS {
        let tree = Ok(Tree::Binary);
        let wide = Request { partial: true, tree, ..request(LIMIT, call(7, sequence), func, &unknown) };
        peer.send(Message::Request(Arc::new(wide)));
    }
}

/// 250 requests of 116 bytes, over ids that do not exist, were 29 s of work. All of it was done before the next link
/// was served. Another member's call took as long, the node did not end on request, and the work continued after the
/// link to the peer was lost.
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
        // The flooder's requests are far from done: the others did not wait for them.
        other.request(call(8, 10), who, &ids("1"));
        other.expect_response(call(8, 10));
        assert!(node_is_busy(&mut flooder), "the flood was over before the others were served");
        // Requests that have not begun are dropped with the link, and the node ends on request.
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
            Some(chained_gpc::link::Event::Response(_)) => answers += 1,
            Some(_) => {}
            None => panic!("the node has closed the link of a peer that keeps to the protocol"),
        }
    }
    answers < REQUESTS
}
