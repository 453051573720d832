//! Tests of the session's time limit, by a clock that the test moves, and of its first steps.

use std::cell::Cell;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use super::*;
use crate::client::{Cluster, Host, Proc, from_ip};
use crate::wire::{Command, Frame, Label, Method, Methods, Reader, coll, command, server_auth};

/// A clock that shows this number of milliseconds.
#[derive(Clone, Default)]
struct Hands(Arc<AtomicU64>);

impl Hands {
    fn at(&self, millis: u64) {
        self.0.store(millis, Ordering::SeqCst);
    }

    fn clock(&self) -> Clock {
        let shown = Arc::clone(&self.0);
        Clock::reading(move || Duration::from_millis(shown.load(Ordering::SeqCst)))
    }
}

const LIMIT: Duration = Duration::from_secs(30);

fn client() -> ClientSettings {
    let address = from_ip(std::net::Ipv4Addr::LOCALHOST.into());
    let methods = Methods { none: true, key: None };
    let hosts = vec![Host::new(address, 5000, vec![Proc::new(address, 1)])];
    ClientSettings::new(0, methods, Cluster::new(hosts))
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// The server never answers. One millisecond before the limit the client still waits; at the limit it fails.
#[test]
fn a_silent_server_is_waited_for_until_the_limit() {
    let (listener, address) = listener();
    let hands = Hands::default();
    let times = [29_999, 30_000, 0];
    let asked = Cell::new(0);
    let goes_on = || {
        hands.at(times[asked.replace(asked.get() + 1)]);
        true
    };
    let limit = hands.clock().limit(LIMIT);
    let ended = Session::join_within(&address.to_string(), client(), &limit, goes_on, |_| {});
    let Err(SessionError::Fault(ClientFault::Late { stage, limit })) = ended else { panic!("{ended:?}") };
    assert_eq!((stage, limit, asked.get()), (ClientStage::Auth, LIMIT, 2));
    drop(listener);
}

/// A server for one client that broadcasts each known label, and then DONE without reading on.
fn stops_reading(listener: TcpListener) -> JoinHandle<TcpStream> {
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut reader, mut bytes) = (Reader::new(), [0; 4096]);
        let mut known = Label::KNOWN.len();
        // Ends: with the last known label.
        while known > 0 {
            let read = stream.read(&mut bytes).unwrap();
            assert!(read > 0, "the client has left");
            let mut rest = &bytes[..read];
            while !rest.is_empty() {
                let answer = match reader.take(&mut rest, |_| usize::MAX).unwrap() {
                    Some(Frame::Command(Command::Auth, _)) => server_auth(Method::None),
                    Some(Frame::Command(Command::Impi, _)) => command(Command::Impi, &[1]),
                    Some(Frame::Command(Command::Coll, payload)) => {
                        known -= 1;
                        let label = Label(u32::from_be_bytes(*payload.first_chunk().unwrap()));
                        coll(label, Some(1), [&payload[4..]])
                    }
                    _ => continue,
                };
                stream.write_all(&answer).unwrap();
                if known == 0 {
                    break;
                }
            }
        }
        stream.write_all(&command(Command::Done, &[])).unwrap();
        stream
    })
}

/// The server has sent DONE, and does not read what the client still has to send: the limit holds for that, too.
#[test]
fn a_server_that_does_not_read_is_waited_for_until_the_limit() {
    let (listener, address) = listener();
    let server = stops_reading(listener);
    let hands = Hands::default();
    let mut settings = client();
    // More than the buffers of both sockets hold.
    settings.extra.insert(Label(0x7000_0000), vec![7; 64 << 20].into());
    let learned = Cell::new(false);
    let goes_on = || {
        if learned.get() {
            hands.at(30_000);
        }
        true
    };
    let trace = |event: &ClientEvent| learned.set(learned.get() || matches!(event, ClientEvent::AllDone(_)));
    let limit = hands.clock().limit(LIMIT);
    let ended = Session::join_within(&address.to_string(), settings, &limit, goes_on, trace).map(drop);
    let Err(SessionError::Fault(ClientFault::Late { stage, limit })) = ended else { panic!("{ended:?}") };
    assert_eq!((stage, limit), (ClientStage::Over, LIMIT));
    drop(server.join().unwrap());
}

/// A server that closes before it admits the client, and then is gone: the first fault says more than the last.
#[test]
fn the_first_fault_is_told_if_the_server_is_gone_at_the_second_attempt() {
    for over in [false, true] {
        let (listener, address) = listener();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            drop(listener);
            // AUTH has arrived: the connection is closed and not reset.
            stream.read_exact(&mut [0; 12]).unwrap();
        });
        let hands = Hands::default();
        hands.at(0);
        let limit = hands.clock().limit(LIMIT);
        // Little time is left, so the pauses between the attempts are short.
        hands.at(29_999);
        let trace = |event: &ClientEvent| {
            if matches!(event, ClientEvent::Again(_)) && over {
                hands.at(30_000);
            }
        };
        let ended = Session::join_within(&address.to_string(), client(), &limit, || true, trace);
        let Err(SessionError::Fault(ClientFault::Lost { stage, why })) = ended else { panic!("{ended:?}") };
        assert_eq!((stage, why.as_str()), (ClientStage::Auth, "it has closed the connection"));
        server.join().unwrap();
    }
}

/// Of several addresses the first that answers is used; without time left none is tried.
#[test]
fn the_first_address_that_answers_is_used() {
    let (one, refuses) = listener();
    drop(one);
    let (_listener, answers) = listener();
    let hands = Hands::default();
    let limit = hands.clock().limit(LIMIT);
    let stream = connect::connect(&[refuses, answers], &limit).unwrap();
    assert_eq!(stream.peer_addr().unwrap(), answers);
    let kind = |addresses: &[SocketAddr]| connect::connect(addresses, &limit).unwrap_err().kind();
    assert_eq!(kind(&[answers, refuses].map(|_| refuses)), ErrorKind::ConnectionRefused);
    assert_eq!(kind(&[]), ErrorKind::NotFound);
    hands.at(30_000);
    assert_eq!(kind(&[answers]), ErrorKind::TimedOut);
}

/// A client that has joined is known to the others: it must not come a second time when it has lost the server.
#[test]
fn a_client_that_has_joined_does_not_come_again() {
    let (listener, address) = listener();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // A second connection is refused.
        drop(listener);
        stream.write_all(&[server_auth(Method::None), command(Command::Impi, &[1])].concat()).unwrap();
        // AUTH, IMPI and C_VERSION have arrived: the connection is closed and not reset.
        stream.read_exact(&mut [0; 12 + 12 + 12 + 16]).unwrap();
    });
    let mut again = 0;
    let trace = |event: &ClientEvent| again += u32::from(matches!(event, ClientEvent::Again(_)));
    let limit = Clock::system().limit(Duration::from_secs(60));
    let ended = Session::join_within(&address.to_string(), client(), &limit, || true, trace);
    let Err(SessionError::Fault(ClientFault::Lost { stage, .. })) = ended else { panic!("{ended:?}") };
    assert_eq!((stage, again), (ClientStage::At(Label::C_VERSION), 0));
    server.join().unwrap();
}

/// Bytes after DONE have no meaning: they are not the end of the server, and do not keep FINI from arriving.
#[test]
fn bytes_after_done_have_no_meaning() {
    let (listener, address) = listener();
    let server = stops_reading(listener);
    let limit = Clock::system().limit(Duration::from_secs(60));
    let session = Session::join_within(&address.to_string(), client(), &limit, || true, |_| {}).unwrap();
    let mut server = server.join().unwrap();
    assert!(!session.is_lost());
    server.write_all(b"more").unwrap();
    session.stream.peek(&mut [0]).unwrap();
    assert!(!session.is_lost());
    session.finish().unwrap();
    let mut rest = Vec::new();
    server.read_to_end(&mut rest).unwrap();
    assert!(rest.ends_with(&command(Command::Fini, &[])));
}

/// The server has sent DONE and ends, before it has read everything: the client has learned all, and what it still has
/// to send is of no use.
#[test]
fn a_server_that_ends_after_done_has_told_all() {
    let (listener, address) = listener();
    let mut server = Some(stops_reading(listener));
    let hands = Hands::default();
    let limit = hands.clock().limit(LIMIT);
    let mut settings = client();
    settings.extra.insert(Label(0x7000_0000), vec![7; 64 << 20].into());
    let trace = |event: &ClientEvent| {
        if matches!(event, ClientEvent::AllDone(_)) {
            drop(server.take().map(|server| server.join().unwrap()));
        }
    };
    // Bytes that nobody takes would keep the client until its limit.
    let rounds = Cell::new(0);
    let goes_on = || {
        hands.at(if rounds.replace(rounds.get() + 1) < 1000 { 0 } else { 30_000 });
        true
    };
    let session = Session::join_within(&address.to_string(), settings, &limit, goes_on, trace).unwrap();
    assert!(session.is_lost());
}

/// FINI that reaches nobody is an error: the server has failed, or reports this client as lost.
#[test]
fn a_server_that_is_gone_gets_no_fini() {
    let (listener, address) = listener();
    let server = stops_reading(listener);
    let limit = Clock::system().limit(Duration::from_secs(60));
    let session = Session::join_within(&address.to_string(), client(), &limit, || true, |_| {}).unwrap();
    let mut server = server.join().unwrap();
    // With unread bytes the server would reset the connection, and FINI would fail by itself.
    server.set_nonblocking(true).unwrap();
    while server.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {}
    drop(server);
    // The end has arrived.
    assert!(matches!(session.stream.peek(&mut [0]), Ok(0) | Err(_)));
    assert!(session.is_lost());
    let error = session.finish().unwrap_err();
    assert!(matches!(error, SessionError::Fini(_)), "{error}");
}
