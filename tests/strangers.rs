//! A node keeps no state of peers whose links have ended, however many ids they used.
#![cfg(target_os = "linux")]

use std::io::{Read as _, Write as _};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use chained_gpc::wire::Hello;
use chained_gpc::wire::frame::{FRAME_HEADER, FrameHeader, Kind};
use chained_gpc::{Address, Id, LinkKind, Listener, Node, PolledNode};
use gpc_test_support::memory::{Counting, OfThread};

#[global_allocator]
static COUNTING: Counting<OfThread> = Counting::new();

/// Turns within which a node has handled all input, far more than it needs.
const TURNS: usize = 10_000;

fn hello(from: Id) -> Vec<u8> {
    let hello = Hello {
        from,
        to: 1,
        incarnation: u64::from(from),
        generation: 1,
        hiwater: 4,
        job: Default::default(),
        rings: false,
        extents: false,
    };
    let payload = hello.emit();
    let header = FrameHeader { length: payload.len() as u32, kind: Kind::Hello, flags: 0 };
    [&header.emit()[..], &payload].concat()
}

/// Drives the node until `done` returns true.
fn turn_until(node: &mut PolledNode, mut done: impl FnMut() -> bool) {
    for _ in 0..TURNS {
        node.progress(Duration::ZERO).expect("the poll works");
        if done() {
            return;
        }
    }
    panic!("the node does not answer");
}

/// An unknown peer links with the node under an id, and closes.
fn come_and_go(node: &mut PolledNode, name: &SocketAddr, from: Id) {
    let mut stranger = UnixStream::connect_addr(name).expect("the node listens");
    stranger.set_nonblocking(true).expect("a socket");
    stranger.write_all(&hello(from)).expect("a new socket has room");
    let mut answer = [0; FRAME_HEADER + 32];
    turn_until(node, || matches!(stranger.read(&mut answer), Ok(count) if count == answer.len()));
}

/// A million short hellos under as many ids left a million peers in the table forever, 120 MB of them. Then the node
/// accepted no new id any more.
#[test]
fn nobody_is_remembered_who_said_hello_and_went() {
    let address = LinkKind::Unix.fresh_address(1);
    let Address::Abstract(name) = &address else { panic!("{address} has no name") };
    let name = SocketAddr::from_abstract_name(name).expect("a short name");
    let listener = Listener::bind(&address).expect("a fresh name");
    let mut node = Node::builder(1).listener(listener).link(LinkKind::Unix).polled().expect("a node");
    // Tables reach their size.
    (0..100).for_each(|from| come_and_go(&mut node, &name, 1000 + from));
    let before = OfThread::held();
    (0..30_000).for_each(|from| come_and_go(&mut node, &name, 10_000 + from));
    // The end of the last one is still to be read.
    for _ in 0..10 {
        node.progress(Duration::ZERO).expect("the poll works");
    }
    let kept = OfThread::held().saturating_sub(before);
    assert!(kept < 64 << 10, "{kept} bytes are left of 30,000 strangers");
}
