//! A node keeps no state of peers whose links have ended, however many ids they used.
#![cfg(target_os = "linux")]

use std::time::Duration;

use chained_gpc::{Id, LinkKind, Listener, Node, PolledNode};
use gpc_test_support::memory::{Counting, OfThread};
use gpc_test_support::strangers;

#[global_allocator]
static COUNTING: Counting<OfThread> = Counting::new();

/// An unknown peer links with the node under an id, and closes.
fn come_and_go(node: &mut PolledNode, from: Id) {
    drop(strangers::link(node, from));
}

/// A million short hellos under as many ids left a million peers in the table forever, 120 MB of them. Then the node
/// accepted no new id any more.
#[test]
fn nobody_is_remembered_who_said_hello_and_went() {
    let listener = Listener::bind(&LinkKind::Unix.fresh_address(1)).expect("a fresh name");
    let mut node = Node::builder(1).listener(listener).link(LinkKind::Unix).polled().expect("a node");
    // Tables reach their size.
    (0..100).for_each(|from| come_and_go(&mut node, 1000 + from));
    let before = OfThread::held();
    (0..30_000).for_each(|from| come_and_go(&mut node, 10_000 + from));
    // The end of the last one is still to be read.
    for _ in 0..10 {
        node.progress(Duration::ZERO).expect("the poll works");
    }
    let kept = OfThread::held().saturating_sub(before);
    assert!(kept < 64 << 10, "{kept} bytes are left of 30,000 strangers");
}
