//! Tests of the driver's own limits, by a clock that the test moves. The state machine's limits are tested with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::server::Settings;
use crate::wire::{Command, Methods, command};

type Recorded = Vec<(Duration, Event)>;

/// A driver that listens for two clients, its address, and its clock in milliseconds.
struct Driven<F> {
    driver: Driver<F>,
    address: SocketAddr,
    now: Arc<AtomicU64>,
}

fn driven<F: FnMut(Duration, &Event)>(on_event: F) -> Driven<F> {
    let poll = Poll::new().unwrap();
    let mut listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE).unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::new(Settings::new(2, Methods { none: true, key: None })).unwrap();
    let now = Arc::new(AtomicU64::new(0));
    let shown = Arc::clone(&now);
    let clock = Clock::reading(move || Duration::from_millis(shown.load(Ordering::SeqCst)));
    Driven { driver: Driver::new(poll, listener, server, clock, on_event), address, now }
}

impl<F: FnMut(Duration, &Event)> Driven<F> {
    /// Connects, and accepts the connection.
    fn connect(&mut self) -> std::net::TcpStream {
        let stream = std::net::TcpStream::connect(self.address).unwrap();
        let before = self.driver.next;
        self.driver.accepting = Accepting::Ready;
        // Ends: the connection is in the queue of the listener.
        while self.driver.next == before {
            self.driver.accepting = Accepting::Ready;
            self.driver.accept();
        }
        stream
    }

    fn at(&self, millis: u64) {
        self.now.store(millis, Ordering::SeqCst);
    }
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The driver sleeps until the first of: the session's limit, that of a connection without a rank, the pause after a
/// failed accept, and the end of the time for outgoing bytes.
#[test]
fn the_driver_sleeps_until_the_first_deadline() {
    let mut driven = driven(|_, _| {});
    assert_eq!(driven.driver.patience(), Some(Duration::ZERO), "connections may wait");
    driven.driver.accept();
    assert_eq!(driven.driver.patience(), Some(Duration::from_secs(600)));
    driven.at(599_999);
    assert_eq!(driven.driver.patience(), Some(millis(1)));
    driven.at(600_000);
    assert_eq!(driven.driver.patience(), Some(Duration::ZERO));
    driven.at(1_000);
    let _stream = driven.connect();
    driven.driver.accept();
    let mut buffer = [0; 64];
    driven.driver.read(&mut buffer);
    assert_eq!(driven.driver.patience(), Some(Duration::from_secs(10)), "to name a rank");
    driven.driver.accepting = Accepting::Short(millis(1_100));
    assert_eq!(driven.driver.patience(), Some(millis(100)));
    driven.driver.links.values_mut().for_each(|link| link.closing = Some(millis(1_050)));
    assert_eq!(driven.driver.patience(), Some(millis(50)));
}

/// The outgoing bytes of a closing connection have five seconds to leave.
#[test]
fn a_closing_connection_has_five_seconds_for_its_bytes() {
    for leaves in [false, true] {
        let mut driven = driven(|_, _| {});
        driven.at(7_000);
        let _stream = driven.connect();
        let id = *driven.driver.links.keys().next().unwrap();
        let link = driven.driver.links.get_mut(&id).unwrap();
        link.send(bytes::Bytes::from_static(b"to leave"));
        driven.driver.handle(Input::Received(id, b"no command of IMPI"));
        assert!(!driven.driver.links[&id].reads(), "a closing connection is not read");
        driven.at(11_999);
        driven.driver.close();
        assert_eq!(driven.driver.links.len(), 1, "its bytes have not left");
        match leaves {
            true => driven.driver.write(),
            false => driven.at(12_000),
        }
        driven.driver.close();
        assert_eq!(driven.driver.links.len(), 0, "{leaves}");
    }
}

/// If the system is short of descriptors, the next attempt follows after 100 ms, or at once if a connection was closed
/// to make room.
#[test]
fn accepting_pauses_if_there_is_no_room_to_make() {
    let mut driven = driven(|_, _| {});
    driven.at(50);
    driven.driver.crowded();
    assert_eq!(driven.driver.accepting, Accepting::Short(millis(150)));
    let _waits = std::net::TcpStream::connect(driven.address).unwrap();
    driven.at(149);
    driven.driver.accept();
    assert!(driven.driver.links.is_empty());
    driven.at(150);
    driven.driver.accept();
    assert_eq!((driven.driver.links.len(), driven.driver.accepting), (1, Accepting::Idle));
    // The connection without a rank makes room.
    driven.driver.accepting = Accepting::Ready;
    driven.driver.crowded();
    assert_eq!(driven.driver.accepting, Accepting::Ready);
    assert!(driven.driver.links.values().all(|link| link.closing.is_some()));
}

/// A shortage is reported once, and the next one again.
#[test]
fn each_shortage_is_reported() {
    let mut driven = driven(|_, _| {});
    driven.driver.warned = true;
    driven.driver.accept();
    assert_eq!((driven.driver.accepting, driven.driver.warned), (Accepting::Idle, false));
}

/// A pause ends by its time alone: an event of the listener tells nothing new.
#[test]
fn an_event_of_the_listener_does_not_end_a_pause() {
    let mut driven = driven(|_, _| {});
    driven.driver.accept();
    let _waits = std::net::TcpStream::connect(driven.address).unwrap();
    let mut events = Events::with_capacity(8);
    driven.driver.poll.poll(&mut events, Some(Duration::from_secs(60))).unwrap();
    let listens = events.iter().find(|event| event.token() == LISTENER).unwrap();
    driven.driver.accepting = Accepting::Short(millis(100));
    driven.driver.handle_event(listens);
    assert_eq!(driven.driver.accepting, Accepting::Short(millis(100)));
    driven.driver.accepting = Accepting::Idle;
    driven.driver.handle_event(listens);
    assert_eq!(driven.driver.accepting, Accepting::Ready);
}

/// Connections that are closing count, too: a peer that does not read cannot make the server open any number.
#[test]
fn as_many_connections_as_allowed_are_open() {
    let mut driven = driven(|_, _| {});
    let streams: Vec<_> = (0..LINKS_MAX).map(|_| driven.connect()).collect();
    assert_eq!((driven.driver.links.len(), driven.driver.accepts()), (LINKS_MAX, false));
    driven.driver.accepting = Accepting::Ready;
    let _more = std::net::TcpStream::connect(driven.address).unwrap();
    driven.driver.accept();
    assert_eq!(driven.driver.links.len(), LINKS_MAX);
    driven.driver.read(&mut [0; 64]);
    assert_ne!(driven.driver.patience(), Some(Duration::ZERO), "it does not spin meanwhile");
    driven.driver.close();
    assert!(driven.driver.accepts(), "those that were closed to make room are gone");
    drop(streams);
}

/// At the end the listener is closed, so later clients are refused by the system and do not wait for ever.
#[test]
fn after_the_end_nobody_is_accepted_and_events_have_the_time() {
    let mut events = Recorded::new();
    let mut driven = driven(|at, event| events.push((at, event.clone())));
    driven.at(3);
    let _stream = driven.connect();
    let id = *driven.driver.links.keys().next().unwrap();
    let joins = [command(Command::Auth, &[1]), command(Command::Impi, &[0])].concat();
    driven.at(5);
    driven.driver.handle(Input::Received(id, &joins));
    driven.at(600_000);
    driven.driver.handle(Input::Tick);
    assert!(matches!(driven.driver.ended, Some(Err(Failure::Late { .. }))));
    assert!(driven.driver.listener.is_none() && !driven.driver.accepts());
    assert_eq!(driven.driver.links[&id].closing, Some(Duration::from_secs(605)));
    assert!(std::net::TcpStream::connect(driven.address).is_err());
    let times: Vec<u64> = events.iter().map(|(at, _)| u64::try_from(at.as_millis()).unwrap()).collect();
    assert_eq!(times, [3, 5, 5]);
}

/// A client whose connection ends is lost, however it ends: its rank is free for another one at once.
#[test]
fn the_end_of_a_connection_frees_its_rank() {
    for resets in [false, true] {
        let mut events = Recorded::new();
        let mut driven = driven(|at, event| events.push((at, event.clone())));
        let stream = driven.connect();
        let id = *driven.driver.links.keys().next().unwrap();
        let joins = [command(Command::Auth, &[1]), command(Command::Impi, &[0])].concat();
        driven.driver.handle(Input::Received(id, &joins));
        if resets {
            // The answer to AUTH is unread, so the end resets the connection.
            driven.driver.write();
            stream.peek(&mut [0]).unwrap();
        }
        drop(stream);
        driven.driver.read(&mut [0; 64]);
        driven.driver.write();
        driven.driver.close();
        assert_eq!(driven.driver.links.len(), 0, "{resets}");
        assert!(matches!(events.last(), Some((_, Event::Freed(0, _)))), "{resets}: {events:?}");
    }
}
