//! Two sides with a network that a test controls, and a network of tiny messages.

use std::io::{ErrorKind, IoSlice, Read as _, Write as _};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use gpc_trees::Id;

use super::connection::WINDOW;
use super::record::{HEADER, Kind, Record};
use super::{HostNetwork, HostPort, HostSocket, Inbound, Network, NotDelivered, NotSent};
use crate::transport::ByteStream as _;

/// A network that stores messages, and rejects them while it is full.
#[derive(Default)]
struct Kept {
    messages: Mutex<Vec<(Id, Vec<u8>)>>,
    port: Mutex<Option<HostPort>>,
    full: AtomicBool,
    message_max: usize,
}

impl HostNetwork for Kept {
    fn send(&self, to: Id, parts: &[IoSlice<'_>]) -> Result<(), NotSent> {
        if self.full.load(Ordering::SeqCst) {
            return Err(NotSent::WouldBlock);
        }
        let message = parts.iter().map(|part| &**part).collect::<Vec<_>>().concat();
        assert!(message.len() <= self.message_max);
        self.messages.lock().unwrap().push((to, message));
        Ok(())
    }

    fn message_max(&self) -> usize {
        self.message_max
    }

    fn starts(&self, port: HostPort) {
        *self.port.lock().unwrap() = Some(port);
    }
}

/// One side, with its network.
struct Side {
    network: Arc<Kept>,
    inbound: Arc<Inbound>,
    port: HostPort,
    wakes: Arc<AtomicUsize>,
}

impl Side {
    fn new(me: Id, message_max: usize) -> Side {
        let network = Arc::new(Kept { message_max, ..Kept::default() });
        let wakes = Arc::<AtomicUsize>::default();
        let wake = wakes.clone();
        let wake = Box::new(move || {
            wake.fetch_add(1, Ordering::SeqCst);
        });
        let inbound = Inbound::start(me, Network(network.clone()), 100, wake).unwrap();
        let port = network.port.lock().unwrap().clone().unwrap();
        Side { network, inbound, port, wakes }
    }

    fn take(&self) -> Vec<(Id, Vec<u8>)> {
        std::mem::take(&mut self.network.messages.lock().unwrap())
    }

    /// Delivers the messages of this side to the other one.
    fn carry_to(&self, other: &Side) {
        for (to, message) in self.take() {
            assert_eq!(to, other.port.id());
            other.port.deliver(self.port.id(), &message).unwrap();
        }
    }
}

fn read(socket: &mut HostSocket, room: usize) -> Result<Vec<u8>, ErrorKind> {
    let mut buffer = vec![0; room];
    let count = socket.read(&mut buffer).map_err(|error| error.kind())?;
    buffer.truncate(count);
    Ok(buffer)
}

fn record(kind: Kind, sequence: u32, connection: u64) -> Vec<u8> {
    Record { kind, opened_by_receiver: false, sequence, connection }.emit().to_vec()
}

#[test]
fn bytes_pass_in_messages_of_the_length_that_the_network_takes() {
    let (one, two) = (Side::new(1, 64), Side::new(2, 64));
    let mut here = HostSocket::open(&one.inbound, 2);
    here.set_token(7);
    assert_eq!(here.write_vectored(&[IoSlice::new(b"hello "), IoSlice::new(&[b'x'; 100])]).unwrap(), 48);
    assert_eq!(here.write(b"!").unwrap(), 1);
    one.carry_to(&two);
    let mut there = HostSocket::accept(&two.inbound).unwrap();
    assert!(
        HostSocket::accept(&two.inbound).is_none() && two.inbound.take_events().is_empty(),
        "it has no name yet"
    );
    there.set_token(9);
    let told = two.inbound.take_events();
    assert_eq!((told.len(), told[0].token, told[0].readable, told[0].ended), (1, 9, true, false));
    let all = read(&mut there, 1000).unwrap();
    assert_eq!((all.len(), &all[..7], all[48]), (49, &b"hello x"[..], b'!'));
    assert_eq!(read(&mut there, 1), Err(ErrorKind::WouldBlock));
    there.write_all(b"back").unwrap();
    two.carry_to(&one);
    assert_eq!(one.inbound.take_events()[0].token, 7);
    assert_eq!(read(&mut here, 3).unwrap(), b"bac");
    assert_eq!(read(&mut here, 3).unwrap(), b"k");
    assert!(one.wakes.load(Ordering::SeqCst) == 1 && two.wakes.load(Ordering::SeqCst) == 2);
}

#[test]
fn the_end_of_one_side_follows_its_bytes_at_the_other() {
    let (one, two) = (Side::new(1, 64), Side::new(2, 64));
    let mut here = HostSocket::open(&one.inbound, 2);
    here.write_all(b"last").unwrap();
    drop(here);
    one.carry_to(&two);
    let mut there = HostSocket::accept(&two.inbound).unwrap();
    assert!(there.is_ended());
    assert_eq!((read(&mut there, 9).unwrap(), read(&mut there, 9).unwrap()), (b"last".to_vec(), Vec::new()));
    drop(there);
    assert!(two.take().is_empty(), "an end is not answered");
}

#[test]
fn a_sender_without_room_waits_and_is_notified_of_room() {
    let (one, two) = (Side::new(1, 1 << 20), Side::new(2, 1 << 20));
    let mut here = HostSocket::open(&one.inbound, 2);
    here.set_token(7);
    let long = vec![5; 1 << 20];
    assert_eq!(here.write(&long).unwrap() as u64, WINDOW);
    assert_eq!(here.write(&long).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert!(!here.has_room());
    one.carry_to(&two);
    let mut there = HostSocket::accept(&two.inbound).unwrap();
    read(&mut there, WINDOW as usize / 2 - 1).unwrap();
    assert!(two.take().is_empty(), "less than half a window is no news");
    // The network has no room for the limit, which is sent when it has.
    two.network.full.store(true, Ordering::SeqCst);
    read(&mut there, 1).unwrap();
    assert!(there.has_unsent_bytes() && there.flush().is_err());
    two.network.full.store(false, Ordering::SeqCst);
    there.set_token(9);
    two.inbound.take_events();
    two.port.writable(1);
    assert!(two.inbound.take_events()[0].writable);
    there.flush().unwrap();
    two.carry_to(&one);
    assert!(!there.has_unsent_bytes() && one.inbound.take_events()[0].writable && here.has_room());
    assert_eq!(here.write(&long).unwrap() as u64, WINDOW / 2);
}

#[test]
fn a_network_without_room_takes_nothing_and_no_number_is_lost() {
    let (one, two) = (Side::new(1, 64), Side::new(2, 64));
    let mut here = HostSocket::open(&one.inbound, 2);
    one.network.full.store(true, Ordering::SeqCst);
    assert_eq!(here.write(b"a").unwrap_err().kind(), ErrorKind::WouldBlock);
    one.network.full.store(false, Ordering::SeqCst);
    here.write_all(b"b").unwrap();
    one.carry_to(&two);
    assert_eq!(read(&mut HostSocket::accept(&two.inbound).unwrap(), 9).unwrap(), b"b");
}

/// A restarted process has none of the connections of its predecessor.
#[test]
fn a_message_of_an_unknown_connection_gets_an_end_message() {
    let (one, two) = (Side::new(1, 64), Side::new(2, 64));
    let mut here = HostSocket::open(&one.inbound, 2);
    here.write_all(b"to the first run").unwrap();
    one.carry_to(&two);
    let again = Side::new(2, 64);
    here.write_all(b"to the second run").unwrap();
    one.carry_to(&again);
    assert!(HostSocket::accept(&again.inbound).is_none());
    again.inbound.send_ends();
    again.carry_to(&one);
    let error = here.read(&mut [0; 9]).unwrap_err().to_string();
    assert!(error.contains("does not have this connection: its process is another one"), "{error}");
    // An end message for an unknown connection is not answered, or two nodes would exchange them for ever.
    again.port.deliver(1, &record(Kind::End, 0, 5)).unwrap();
    again.inbound.send_ends();
    assert!(again.take().is_empty());
}

#[test]
fn a_lost_peer_ends_only_its_connections_after_their_bytes() {
    let one = Side::new(1, 64);
    let (mut lost, mut kept) = (HostSocket::open(&one.inbound, 2), HostSocket::open(&one.inbound, 3));
    lost.set_token(7);
    let back = Record { kind: Kind::Bytes, opened_by_receiver: true, sequence: 0, connection: 100 };
    one.port.deliver(2, &[&back.emit()[..], b"before"].concat()).unwrap();
    one.port.peer_lost(2, "its node is down");
    let told = one.inbound.take_events();
    assert!(told.len() == 1 && told[0].ended && told[0].readable);
    assert_eq!(read(&mut lost, 9).unwrap(), b"before");
    let error = lost.read(&mut [0; 9]).unwrap_err().to_string();
    assert_eq!(error, "the program's network has lost the peer: its node is down");
    assert_eq!(read(&mut kept, 9), Err(ErrorKind::WouldBlock));
    drop(lost);
    assert!(one.take().is_empty(), "nothing is sent to a lost peer");
}

#[test]
fn bytes_that_are_no_message_change_nothing() {
    let one = Side::new(1, 64);
    for bytes in [&b""[..], &[0; HEADER], &[1, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]] {
        let error = one.port.deliver(2, bytes).unwrap_err();
        assert!(matches!(error, NotDelivered::NoMessage { from: 2, .. }), "{error}");
    }
    assert!(HostSocket::accept(&one.inbound).is_none() && one.take().is_empty());
}

/// A peer opens connections without limit, and fills the window of each.
#[test]
fn a_peer_has_few_connections_and_few_ends_wait() {
    let one = Side::new(1, 64);
    for connection in 0..10_000 {
        one.port.deliver(2, &record(Kind::Bytes, 0, connection)).unwrap();
    }
    one.network.full.store(true, Ordering::SeqCst);
    assert_eq!(std::iter::from_fn(|| HostSocket::accept(&one.inbound)).count(), 8);
    one.inbound.send_ends();
    one.network.full.store(false, Ordering::SeqCst);
    one.inbound.send_ends();
    assert_eq!(one.take().len(), 1024);
}

#[test]
fn a_node_that_has_ended_says_so_to_peers_and_program() {
    let (one, two) = (Side::new(1, 64), Side::new(2, 64));
    let here = HostSocket::open(&one.inbound, 2);
    two.port.deliver(1, &record(Kind::Bytes, 0, 100)).unwrap();
    two.inbound.end();
    assert_eq!(two.port.deliver(1, &record(Kind::Bytes, 1, 100)), Err(NotDelivered::Ended));
    two.carry_to(&one);
    assert!(here.is_ended());
    let Side { inbound, port, .. } = two;
    drop(inbound);
    assert_eq!(port.deliver(1, &record(Kind::Bytes, 2, 100)), Err(NotDelivered::Ended));
}

#[test]
fn a_network_of_tiny_messages_is_refused() {
    let network = Kept { message_max: 63, ..Kept::default() };
    let error = Inbound::start(1, Network(Arc::new(network)), 0, Box::new(|| {})).unwrap_err();
    assert!(error.to_string().contains("63 bytes are too short"), "{error}");
}

/// The peer waited for ever: its message was lost, and no end message followed.
#[test]
fn a_broken_connection_is_reported_to_the_peer_with_the_reason() {
    let (one, two) = (Side::new(1, 100), Side::new(2, 100));
    let mut here = HostSocket::open(&one.inbound, 2);
    here.write_all(b"a").unwrap();
    one.carry_to(&two);
    let mut there = HostSocket::accept(&two.inbound).unwrap();
    here.write_all(b"lost").unwrap();
    one.take();
    here.write_all(b"c").unwrap();
    one.carry_to(&two);
    assert_eq!(read(&mut there, 9).unwrap(), b"a");
    assert!(there.read(&mut [0; 9]).unwrap_err().to_string().contains("message 2 arrived instead of 1"));
    drop(there);
    two.carry_to(&one);
    let error = here.read(&mut [0; 9]).unwrap_err().to_string();
    assert!(error.starts_with("the peer reported: message 2 arrived instead of 1"), "{error}");
}
