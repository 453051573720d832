//! The client's session over sockets, with servers that are slow, silent, or close the connection. Peers that imitate
//! other implementations are in `peers.rs`.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use gpc_impi::client::{ClientEvent, ClientSettings, Cluster, Host, Proc, from_ip};
use gpc_impi::serve::{Listener, ServeError};
use gpc_impi::server::{Event, Settings};
use gpc_impi::session::{Session, SessionError};
use gpc_impi::wire::{Command, Frame, Label, Method, Methods, Reader, coll, command, server_auth};

/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// More than the buffers of both sockets of a connection hold.
const MUCH: usize = 64 << 20;

const EXTRA: Label = Label(0x9000);

fn open() -> Methods {
    Methods { none: true, key: None }
}

fn client(rank: u32) -> ClientSettings {
    let address = from_ip(Ipv4Addr::LOCALHOST.into());
    ClientSettings::new(
        rank,
        open(),
        Cluster::new(vec![Host::new(address, 5000, vec![Proc::new(address, rank.into())])]),
    )
}

fn with_extra(rank: u32, values: Bytes) -> ClientSettings {
    let mut settings = client(rank);
    settings.extra.insert(EXTRA, values);
    settings
}

fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

type Served = JoinHandle<Result<(), ServeError>>;

/// A server of this project, on a thread, and its events.
fn serve(clients: u32) -> (SocketAddr, Served, mpsc::Receiver<Event>) {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let settings = Settings { limit: PATIENCE, ..Settings::new(clients, open()) };
    let (tell, told) = mpsc::channel();
    let served = thread::spawn(move || {
        listener.serve(settings, |_, event| {
            // The test may have dropped the receiver.
            let _ = tell.send(event.clone());
        })
    });
    (address, served, told)
}

/// A server for one client that broadcasts each label immediately. When the client has begun to send what follows the
/// labels of the source, the server sends `first` before it continues to read.
fn answers_first(listener: TcpListener, first: Vec<u8>) -> JoinHandle<()> {
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut reader, mut bytes) = (Reader::new(), vec![0; 1 << 16]);
        loop {
            let read = stream.read(&mut bytes).unwrap();
            assert!(read > 0, "the client has left");
            let mut rest = &bytes[..read];
            while !rest.is_empty() {
                let Some(Frame::Command(said, payload)) = reader.take(&mut rest, |_| usize::MAX).unwrap()
                else {
                    continue;
                };
                let label = payload.first_chunk().map(|label| Label(u32::from_be_bytes(*label)));
                let answer = match (said, label) {
                    (Command::Auth, _) => server_auth(Method::None),
                    (Command::Impi, _) => command(Command::Impi, &[1]),
                    (Command::Coll, Some(label)) => coll(label, Some(1), [&payload[4..]]),
                    (Command::Done, _) => command(Command::Done, &[]),
                    _ => return,
                };
                stream.write_all(&answer).unwrap();
                if label == Some(Label::P_PID) {
                    stream.peek(&mut [0]).unwrap();
                    stream.write_all(&first).unwrap();
                }
            }
        }
    })
}

/// After the labels of the source a client sends all the rest together, and did not read meanwhile. If the server sent
/// before it continued to read, client and server waited for each other until the time limit.
#[test]
fn a_server_that_sends_much_before_it_reads_on() {
    let (listener, address) = listener();
    let much = command(Command::Other(7), &[0; 1 << 18]).repeat(MUCH >> 20);
    let server = answers_first(listener, much);
    let session = Session::join(&address, with_extra(0, vec![7; MUCH].into()), PATIENCE, |_| {}).unwrap();
    assert_eq!(session.learned().others[&EXTRA].1.len(), MUCH);
    session.finish().unwrap();
    server.join().unwrap();
}

/// `goes_on` was called only while the client read: a client whose server did not read could not be stopped before its
/// time limit.
#[test]
fn one_who_sends_is_asked_whether_it_goes_on() {
    let (listener, address) = listener();
    // The server does not read, so the client's bytes fill the buffers.
    let mut settings = client(0);
    settings.extra = [(Label(1), vec![7; MUCH].into())].into();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&[server_auth(Method::None), command(Command::Impi, &[1])].concat()).unwrap();
        stream
    });
    let (sent, mut asked) = (std::cell::Cell::new(false), 0);
    let goes_on = || {
        asked += u32::from(sent.get());
        asked < 3
    };
    let trace = |event: &ClientEvent| sent.set(sent.get() || matches!(event, ClientEvent::Sent(..)));
    let error = Session::join_while(&address, settings, PATIENCE, goes_on, trace).unwrap_err();
    assert!(matches!(error, SessionError::GivenUp), "{error}");
    drop(server.join().unwrap());
}

#[test]
fn labels_of_ones_own_through_the_server_of_this_project() {
    let (address, served, _) = serve(2);
    let join = |rank: u32| {
        let mut settings = with_extra(rank, Bytes::from(vec![rank as u8; 3]));
        settings.extra.insert(Label(0x10), Bytes::new());
        thread::spawn(move || Session::join(&address.to_string(), settings, PATIENCE, |_| {}).unwrap())
    };
    let sessions = [join(0), join(1)].map(|session| session.join().unwrap());
    for session in sessions {
        let expected =
            [(Label(0x10), (3, Bytes::new())), (EXTRA, (3, Bytes::from_static(&[0, 0, 0, 1, 1, 1])))];
        assert_eq!(session.learned().others, expected.into());
        session.finish().unwrap();
    }
    served.join().unwrap().unwrap();
}

#[test]
fn over_a_connection_that_there_is() {
    let (address, served, _) = serve(1);
    let stream = TcpStream::connect(address).unwrap();
    let local = stream.local_addr().unwrap();
    let session = Session::over(stream, client(0), PATIENCE, || true, |_| {}).unwrap();
    assert_eq!((session.local_address(), session.learned().procs()), (local, 1));
    session.finish().unwrap();
    served.join().unwrap().unwrap();
}

/// A client that was restarted before the server had detected the death of its predecessor was rejected, although its
/// rank was free a moment later.
#[test]
fn a_rank_that_is_still_taken() {
    let (address, served, told) = serve(1 + 1);
    let mut dead = TcpStream::connect(address).unwrap();
    dead.write_all(&[command(Command::Auth, &[1]), command(Command::Impi, &[0])].concat()).unwrap();
    let joined = |event: &Event| matches!(event, Event::Joined(_, 0));
    let freed = |event: &Event| matches!(event, Event::Freed(0, ..));
    let wait = |what: &dyn Fn(&Event) -> bool| while !what(&told.recv_timeout(PATIENCE).unwrap()) {};
    wait(&joined);
    let (mut dead, mut again, mut other) = (Some(dead), 0, None);
    let session = Session::join(&address.to_string(), client(0), PATIENCE, |event| {
        if matches!(event, ClientEvent::Again(_)) {
            again += 1;
            if dead.take().is_some() {
                wait(&freed);
                let join = move || Session::join(&address.to_string(), client(1), PATIENCE, |_| {}).unwrap();
                other = Some(thread::spawn(join));
            }
        }
    });
    session.unwrap().finish().unwrap();
    assert_eq!(again, 1);
    other.unwrap().join().unwrap().finish().unwrap();
    served.join().unwrap().unwrap();
}

/// A client that is rejected each time gives up after some retries, long before its time limit. It can also be stopped
/// meanwhile.
#[test]
fn one_that_is_always_refused() {
    let (listener, address) = listener();
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // AUTH has arrived: the connection was not reset.
            stream.read_exact(&mut [0; 12]).unwrap();
            tell.send(()).unwrap();
        }
    });
    let mut events = Vec::new();
    let joined = Session::join(&address, client(0), PATIENCE, |event| events.push(event.clone()));
    let error = joined.unwrap_err().to_string();
    assert!(error.contains("the server was lost while waiting for the server's choice of AUTH"), "{error}");
    assert!(error.contains("it says which on its standard error"), "{error}");
    assert_eq!(events.iter().filter(|event| matches!(event, ClientEvent::Again(_))).count(), 8);
    assert_eq!(told.try_iter().count(), 9);
    let gone = std::cell::Cell::new(false);
    let trace = |event: &ClientEvent| gone.set(gone.get() || matches!(event, ClientEvent::Again(_)));
    let error = Session::join_while(&address, client(0), PATIENCE, || !gone.get(), trace).unwrap_err();
    assert!(matches!(error, SessionError::GivenUp), "{error}");
}
