//! Connections of processes and commands.

use super::*;
use std::net::TcpStream;

use crate::host::listeners::{TOOLS_MAX, UNIDENTIFIED_MAX};

fn tools() -> (tempfile::TempDir, std::path::PathBuf, Rig) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tools");
    let rig = Rig::with(Some(UnixListener::bind(&path).unwrap()), false);
    (folder, path, rig)
}

/// Whether the node has closed a connection.
fn sees_end(stream: &mut UnixStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    matches!(stream.read(&mut [0; 16]), Ok(0))
}

#[test]
fn so_many_commands_may_connect_and_each_place_is_given_back() {
    let (_folder, path, mut rig) = tools();
    let connect = |rig: &mut Rig| {
        let stream = UnixStream::connect(&path).unwrap();
        rig.turns();
        stream
    };
    let mut streams: Vec<UnixStream> = (0..TOOLS_MAX).map(|_| connect(&mut rig)).collect();
    assert!(streams.iter_mut().all(|stream| !sees_end(stream)));
    let mut one_too_many = connect(&mut rig);
    rig.until(|_| sees_end(&mut one_too_many));
    streams.pop();
    // A process that another test starts holds a copy of it for a moment, so its end arrives later.
    rig.until(|rig| rig.engine.links.clients.len() < TOOLS_MAX);
    let mut next = connect(&mut rig);
    assert!(!sees_end(&mut next));
    next.write_all(&MAGIC).unwrap();
    next.write_all(&encode_up(1, &Request::Groups).unwrap()).unwrap();
    rig.turns();
    assert!(matches!(next.read(&mut [0; 1024]), Ok(1..)), "it is answered");
    drop((streams, next));
    rig.turns();
    rig.assert_empty();
}

#[test]
fn a_command_that_speaks_another_protocol_sees_end() {
    let (_folder, path, mut rig) = tools();
    let mut stream = UnixStream::connect(&path).unwrap();
    rig.turns();
    stream.write_all(b"GET / HTTP/1.0\r\n").unwrap();
    rig.turns();
    stream.set_nonblocking(true).unwrap();
    assert!(!matches!(stream.read(&mut [0; 1]), Err(error) if error.kind() == ErrorKind::WouldBlock));
    rig.assert_empty();
}

fn port(rig: &Rig) -> std::net::SocketAddr {
    rig.engine.links.listeners.address().unwrap()
}

fn connects(rig: &mut Rig) -> TcpStream {
    let stream = TcpStream::connect(port(rig)).unwrap();
    stream.set_nonblocking(true).unwrap();
    let local = stream.local_addr().unwrap();
    rig.until(|rig| rig.engine.links.unidentified.values().any(|waiting| peer_of(&waiting.link) == local));
    stream
}

fn peer_of(link: &crate::host::clients::Link) -> std::net::SocketAddr {
    rustix::net::getpeername(link.socket()).unwrap().unwrap().try_into().unwrap()
}

fn reads_nothing(stream: &mut TcpStream) -> bool {
    matches!(stream.read(&mut [0; 16]), Err(error) if error.kind() == ErrorKind::WouldBlock)
}

#[track_caller]
fn await_closed(rig: &mut Rig, stream: &mut TcpStream) {
    rig.until(|_| !reads_nothing(stream));
}

/// A connection at the port that does not identify its process is closed after 10 s.
#[test]
fn a_connection_at_the_port_has_ten_seconds_to_identify_itself() {
    let mut rig = Rig::with(None, true);
    let mut early = connects(&mut rig);
    rig.passes(1);
    let mut late = connects(&mut rig);
    let waiting = |rig: &Rig| rig.engine.snapshot().count("links without a process");
    assert_eq!(waiting(&rig), 2);
    rig.passes(9_998);
    assert_eq!(waiting(&rig), 2);
    rig.passes(1);
    assert_eq!(waiting(&rig), 1);
    await_closed(&mut rig, &mut early);
    assert!(reads_nothing(&mut late));
    rig.passes(1);
    assert_eq!(waiting(&rig), 0);
    await_closed(&mut rig, &mut late);
    rig.assert_empty();
}

#[test]
fn the_connection_that_has_waited_longest_makes_room() {
    crate::host::processes::raise_descriptors();
    let mut rig = Rig::with(None, true);
    let mut streams: Vec<TcpStream> = (0..UNIDENTIFIED_MAX).map(|_| connects(&mut rig)).collect();
    assert!(streams.iter_mut().all(reads_nothing));
    let mut next = connects(&mut rig);
    await_closed(&mut rig, &mut streams[0]);
    assert!(reads_nothing(&mut streams[1]) && reads_nothing(&mut next));
    assert_eq!(rig.engine.snapshot().count("links without a process"), UNIDENTIFIED_MAX);
    drop((streams, next));
    rig.until(|rig| rig.engine.links.unidentified.is_empty());
    rig.assert_empty();
}

/// A secret that had been used identified a second connection.
#[test]
fn a_secret_identifies_one_connection_of_its_process() {
    let mut rig = Rig::with(None, true);
    let (_, processes) = rig.start(2, false);
    let variable = |process: &Process, name: &str| {
        let SupervisorOrder::Start { env, .. } = &process.order else { panic!() };
        String::from_utf8(crate::supervisor::env_value(env, name.as_bytes()).unwrap().to_vec()).unwrap()
    };
    assert_eq!(variable(&processes[1], "PMI_PORT"), port(&rig).to_string());
    let secret = variable(&processes[1], "PMI_ID");
    assert_ne!(secret, variable(&processes[0], "PMI_ID"));
    let mut stream = connects(&mut rig);
    stream.write_all(format!("cmd=initack pmiid={secret}\n").as_bytes()).unwrap();
    let mut answer = String::new();
    rig.until(|_| {
        let mut buffer = [0; 256];
        let count = stream.read(&mut buffer).unwrap_or(0);
        answer += str::from_utf8(&buffer[..count]).unwrap();
        answer.contains("rank=1") && answer.contains("size=2")
    });
    assert_eq!(rig.engine.snapshot().count("links without a process"), 0);
    for wrong in [secret.as_str(), "1"] {
        let mut other = connects(&mut rig);
        other.write_all(format!("cmd=initack pmiid={wrong}\n").as_bytes()).unwrap();
        await_closed(&mut rig, &mut other);
    }
    assert!(reads_nothing(&mut stream));
    rig.ends_all(processes);
    drop(stream);
    rig.until(|rig| rig.engine.links.clients.is_empty());
    rig.assert_empty();
}

/// A flush had taken a request, and the loop slept until the next event, since such a request is no event.
#[test]
fn a_request_that_a_flush_has_taken_wakes_the_loop() {
    let mut rig = Rig::new();
    rig.turns();
    let mut is_woken = |inputs: usize| {
        rig.engine.inputs.extend((0..inputs).map(|_| crate::domain::Input::Time));
        rig.engine.flush_clients();
        rig.engine.inbox.try_recv().is_ok()
    };
    assert_eq!([is_woken(0), is_woken(1)], [false, true]);
}
