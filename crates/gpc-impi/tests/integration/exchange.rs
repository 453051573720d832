//! Sessions over sockets whose owner chooses the labels, at the server of this project and at servers that are hostile.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::thread;
use std::time::Duration;

use gpc_impi::client::{ClientSettings, Cluster, ExchangeSettings, Host, Proc, SendError, from_ip};
use gpc_impi::serve::Listener;
use gpc_impi::server::Settings;
use gpc_impi::session::{ExchangeSession, Session, SessionError};
use gpc_impi::wire::{Label, Method, Methods, Version, server_auth};

/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A limit that passes in a test.
const SHORT: Duration = Duration::from_millis(50);

const OWN: Label = Label(0x9000);

fn open() -> Methods {
    Methods { none: true, key: None }
}

fn session(server: &str, rank: u32) -> ExchangeSession {
    ExchangeSession::connect(server, ExchangeSettings::new(rank, open()), PATIENCE).unwrap()
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_be_bytes()).collect()
}

fn waits(session: &mut ExchangeSession, is_reached: impl Fn(&ExchangeSession) -> bool) {
    assert!(session.wait(PATIENCE, is_reached), "{:?}", session.exchange().fault());
}

/// Sends a label, and returns mask and values of all.
fn exchanged(session: &mut ExchangeSession, label: Label, values: &[u8]) -> (u32, Vec<u8>) {
    session.send(label, values).unwrap();
    waits(session, |session| session.exchange().broadcast(label).is_some());
    let (mask, values) = session.exchange().broadcast(label).unwrap();
    (mask, values.to_vec())
}

/// A client that sends labels in its own order, label by label, with one of this project's other client.
#[test]
fn clients_of_both_kinds_meet() {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let served = thread::spawn(move || {
        listener.serve(Settings { limit: PATIENCE, ..Settings::new(2, open()) }, |_, _| {})
    });
    let other = {
        let address = address.clone();
        thread::spawn(move || {
            let ip = from_ip(Ipv4Addr::LOCALHOST.into());
            let hosts = [5001, 5002].map(|port| Host::new(ip, port, vec![Proc::new(ip, port.into())]));
            let settings = ClientSettings::new(1, open(), Cluster::new(hosts.into()));
            Session::join(&address, settings, PATIENCE, |_| {}).unwrap()
        })
    };
    let mut client = session(&address, 0);
    waits(&mut client, |session| session.exchange().clients().is_some());
    assert!(client.as_raw_fd() > 2 && client.exchange().clients() == Some(2));
    let (_, versions) = exchanged(&mut client, Label::C_VERSION, &Version::to_bytes(&[Version::MANDATORY]));
    assert_eq!(versions.len(), 24, "the other client speaks one more");
    assert_eq!(exchanged(&mut client, Label::C_NHOSTS, &words(&[3])), (3, words(&[3, 2])));
    assert_eq!(exchanged(&mut client, Label::C_NPROCS, &words(&[3])), (3, words(&[3, 2])));
    assert_eq!(exchanged(&mut client, Label::C_DATALEN, &words(&[8000])), (3, words(&[8000, 65536])));
    let ports = exchanged(&mut client, Label::H_PORT, &words(&[1, 2, 3]));
    assert_eq!(ports, (3, words(&[1, 2, 3, 5001, 5002])));
    assert_eq!(exchanged(&mut client, Label::H_NPROCS, &words(&[1, 1, 1])), (3, words(&[1; 5])));
    assert_eq!(exchanged(&mut client, OWN, b"mine"), (1, b"mine".to_vec()));
    client.done().unwrap();
    waits(&mut client, |session| session.exchange().are_all_done());
    assert_eq!(
        client.exchange().broadcast(Label::C_TAGUB).unwrap().0,
        2,
        "only the other client has sent it"
    );
    let other = other.join().unwrap();
    assert_eq!(other.learned().clusters[0].hosts.len(), 3);
    other.finish().unwrap();
    client.fini().unwrap();
    waits(&mut client, ExchangeSession::is_flushed);
    drop(client);
    served.join().unwrap().unwrap();
}

/// A server that serves one connection with this function.
fn serving(serve: impl FnOnce(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || serve(listener.accept().unwrap().0));
    address
}

#[test]
fn a_silent_server_is_waited_for_until_the_limit_and_may_go_on() {
    let (go, goes) = std::sync::mpsc::channel();
    let address = serving(move |mut stream| {
        goes.recv().unwrap();
        stream.write_all(&server_auth(Method::None)).unwrap();
        stream.write_all(b"IMPI\0\0\0\x04\0\0\0\x01").unwrap();
        goes.recv().unwrap();
    });
    let mut client = session(&address, 0);
    let has_joined = |session: &ExchangeSession| session.exchange().clients().is_some();
    assert!(!client.wait(SHORT, has_joined) && !client.wait(Duration::ZERO, has_joined));
    assert_eq!(client.exchange().fault(), None);
    go.send(()).unwrap();
    waits(&mut client, has_joined);
    go.send(()).unwrap();
}

#[test]
fn a_server_that_closes_or_talks_without_end_is_left() {
    let closes = serving(|mut stream| stream.write_all(&server_auth(Method::None)).unwrap());
    let mut client = session(&closes, 0);
    assert!(!client.wait(PATIENCE, |session| session.exchange().clients().is_some()));
    let said = client.exchange().fault().unwrap().to_string();
    assert!(said.contains("lost while waiting for the number of clients"), "{said}");
    // Unknown commands that are bounded by their number alone.
    let endless = serving(|mut stream| {
        stream.write_all(&server_auth(Method::None)).unwrap();
        // Ends: when the client has closed.
        while stream.write_all(&b"NEWS\0\0\0\0".repeat(64)).is_ok() {}
    });
    let mut client = session(&endless, 0);
    assert!(!client.wait(PATIENCE, |session| session.exchange().clients().is_some()));
    let said = client.exchange().fault().unwrap().to_string();
    assert!(said.contains("more than 4096 commands"), "{said}");
}

/// A client whose server had closed the connection after DONE believed that FINI had arrived.
#[test]
fn a_server_that_is_gone_gets_no_fini_of_an_exchange() {
    let (end, ended) = std::sync::mpsc::channel();
    let address = serving(move |mut stream| {
        stream.write_all(&server_auth(Method::None)).unwrap();
        stream.write_all(b"IMPI\0\0\0\x04\0\0\0\x01").unwrap();
        let mut received = Vec::new();
        while !received.ends_with(b"DONE\0\0\0\0") {
            let mut bytes = [0; 64];
            let count = stream.read(&mut bytes).unwrap();
            received.extend_from_slice(&bytes[..count]);
        }
        stream.write_all(b"DONE\0\0\0\0").unwrap();
        drop(stream);
        end.send(()).unwrap();
    });
    let mut client = session(&address, 0);
    waits(&mut client, |session| session.exchange().clients().is_some());
    client.done().unwrap();
    waits(&mut client, |session| session.exchange().are_all_done());
    ended.recv().unwrap();
    let refused = client.fini().unwrap_err();
    assert!(matches!(refused, SendError::Failed(_)) && client.exchange().are_all_done(), "{refused}");
}

/// A server that does not read: `send` returns at once, and a wait ends at its limit.
#[test]
fn a_server_that_does_not_read_blocks_nobody() {
    let (end, ends) = std::sync::mpsc::channel::<()>();
    let address = serving(move |mut stream| {
        stream.write_all(&server_auth(Method::None)).unwrap();
        stream.write_all(b"IMPI\0\0\0\x04\0\0\0\x01").unwrap();
        let _ = ends.recv();
        let _ = stream.read(&mut [0]);
    });
    let mut client = session(&address, 0);
    waits(&mut client, |session| session.exchange().clients().is_some());
    client.send(OWN, &vec![7; 64 << 20]).unwrap();
    assert!(!client.wait(SHORT, ExchangeSession::is_flushed));
    drop(end);
}

#[test]
fn wrong_settings_and_addresses_are_errors() {
    let connect = |server: &str, settings| ExchangeSession::connect(server, settings, SHORT).unwrap_err();
    let settings = connect("nowhere", ExchangeSettings::new(32, open()));
    assert!(matches!(settings, SessionError::Settings(_)), "{settings}");
    let address = connect("no port", ExchangeSettings::new(0, open()));
    assert!(matches!(address, SessionError::Address { .. }), "{address}");
    // A port that was free a moment ago.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let refused = connect(&free, ExchangeSettings::new(0, open()));
    assert!(matches!(refused, SessionError::Connect { .. }), "{refused}");
}
