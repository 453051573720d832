//! Peers in plain sockets that are not in a node's list: they connect, and may link with it.

use std::io::{Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use chained_gpc::wire::Hello;
use chained_gpc::wire::frame::{FRAME_HEADER, FrameHeader, Kind};
use chained_gpc::{Address, Id, PolledNode};

/// Turns within which a node has handled all input, far more than it needs.
const TURNS_MAX: usize = 10_000;

/// Connects to a node that listens on an abstract Unix socket.
///
/// # Panics
/// If it listens elsewhere, or the connection is refused.
#[must_use]
pub fn connect(node: &PolledNode) -> UnixStream {
    let Some(Address::Abstract(name)) = node.address() else { panic!("the node has no abstract name") };
    let name = SocketAddr::from_abstract_name(name).expect("a short name");
    UnixStream::connect_addr(&name).expect("the node listens")
}

/// Connects to a node, and links with it under an id.
///
/// # Panics
/// As [`connect`], and if the node does not answer.
#[must_use]
pub fn link(node: &mut PolledNode, id: Id) -> UnixStream {
    let mut stranger = connect(node);
    stranger.set_nonblocking(true).expect("a socket");
    stranger.write_all(&hello(id, node.id())).expect("a new socket has room");
    let mut answer = [0; FRAME_HEADER + 32];
    for _ in 0..TURNS_MAX {
        node.progress(Duration::ZERO).expect("the poll works");
        if matches!(stranger.read(&mut answer), Ok(count) if count == answer.len()) {
            return stranger;
        }
    }
    panic!("the node does not answer");
}

/// The frame of a hello.
fn hello(from: Id, to: Id) -> Vec<u8> {
    let (incarnation, generation, hiwater, job) = (1, 1, 4, Default::default());
    let hello = Hello { from, to, incarnation, generation, hiwater, job, rings: false, extents: false };
    let payload = hello.emit();
    let header = FrameHeader { length: payload.len() as u32, kind: Kind::Hello, flags: 0 };
    [&header.emit()[..], &payload].concat()
}
