//! Resources that hostile clients may take: memory, descriptors, time.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::support::*;

/// More than a server's own memory, in KiB.
const ROOM: u64 = 40 << 10;

#[test]
fn a_length_is_no_reason_to_take_memory() {
    let mut server = Server::start("server 3 --trace");
    let before = (server.kib("VmPeak"), server.kib("VmHWM"));
    let mut clients = server.clients(3);
    // The maximum that a client may announce; no data follow.
    for client in &mut clients {
        let head = [&b"COLL"[..], &(250u32 << 20).to_be_bytes(), &C_VERSION.to_be_bytes(), &[7; 1000]];
        client.send(&head.concat());
    }
    // A stranger gets an answer when all earlier bytes have been read.
    drop(server.client());
    server.until("all clients have joined");
    server.until("closed");
    let now = (server.kib("VmPeak"), server.kib("VmHWM"));
    assert!(now.0 < before.0 + ROOM && now.1 < before.1 + ROOM, "{before:?} KiB, then {now:?}");
    // A longer or a negative length is invalid.
    clients.remove(1);
    let (status, said) = server.ended();
    assert!(status == Some(1) && said.contains("client 1 was lost"), "{said}");
    for len in [i32::MAX, -1, i32::MIN] {
        let server = Server::start("server 1");
        let mut clients = server.clients(1);
        clients[0].send(&[&b"COLL"[..], &len.to_be_bytes()].concat());
        clients[0].rest();
        let (status, said) = server.ended();
        assert!(status == Some(1) && said.contains(&format!("a length of {len}")), "{said}");
    }
}

/// Data queued for a client that does not read are shared with the other clients, so they exist once. At the end the
/// client gets some more seconds.
#[test]
fn a_client_that_never_reads_takes_no_memory_of_its_own_and_delays_nobody() {
    const LABELS: u32 = 64;
    const LEN: usize = 1 << 20;
    let server = Server::start("server 3");
    let mut clients = server.clients(3);
    let values = vec![7; LEN];
    for label in 0..LABELS {
        let label = 0x9000 + label;
        clients[0].send(&coll(label, &[]));
        clients[1].send(&coll(label, &values));
        clients[2].send(&coll(label, &[]));
        assert_eq!(clients[1].frame(), answer(label, 7, &values));
        assert_eq!(clients[2].frame().len(), 16 + LEN);
    }
    let held = server.kib("VmHWM");
    let sent = u64::from(LABELS) * (LEN as u64 >> 10);
    assert!(held < sent + ROOM, "{held} KiB for {sent} KiB that one client does not read");
    clients.iter_mut().for_each(Client::done);
    clients[0].fini();
    for client in &mut clients[1..] {
        assert_eq!(client.until_done(), all(&[]));
        client.fini();
    }
    assert_eq!(server.ended(), (Some(0), String::new()));
}

#[test]
fn connections_that_end_leave_no_descriptor() {
    let mut server = Server::start("server 2 --trace");
    // A client that has received an answer has been accepted.
    server.client().auth(1, 0);
    server.until("closed");
    // A connection that the trace reports as closed is really closed once another one gets its answer.
    let settled = |server: &Server| {
        let mut other = server.client();
        other.auth(1, 0);
        server.descriptors()
    };
    let before = settled(&server);
    for _ in 0..200 {
        let mut stranger = server.client();
        stranger.send(b"GET / HTTP/1.0\r\n\r\n");
        stranger.rest();
        drop(server.joining(0));
        server.until("another may come");
    }
    assert_eq!(settled(&server), before);
    leave(&mut server.clients(2));
    assert_eq!(server.ended().0, Some(0));
}

/// A server without free descriptors that retried in a loop did no other work. One that waited for the time limit of
/// silent strangers delayed its clients by 10 s for each batch.
#[test]
fn a_server_without_descriptors_waits_for_some() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 20; exec \"$0\" \"$@\"", EXE]);
    let mut server = Server::of(clean(shell, "impi server 2"));
    let silent: Vec<TcpStream> = (0..60).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    server.until("no connection can be accepted");
    // Earlier connections make room.
    let mut clients = [server.joining(0), server.joining(1)];
    for client in &mut clients {
        assert_eq!(client.frame(), frame("IMPI", &[2]));
    }
    drop(silent);
    leave(&mut clients);
    let ticks = cpu(&server);
    assert!(ticks < 300, "{ticks} hundredths of a second of work");
    assert_eq!(server.ended().0, Some(0));
}

/// Returns the CPU time of a process, in ticks of 10 ms.
fn cpu(server: &Server) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

/// The trace was written by the thread that serves the sockets. If standard error was not read, the server hung, with
/// its time limit and signals.
#[test]
fn standard_error_that_nobody_reads_holds_up_nothing() {
    let mut child =
        gpc("impi server 1 --trace").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let address = first.trim_end().parse().unwrap();
    // More lines than a pipe holds, two for each stranger: each is printed before its end is seen.
    for _ in 0..800 {
        let mut stranger = Client::to(address);
        stranger.send(b"GET / HTTP/1.0\r\n\r\n");
        stranger.rest();
    }
    let mut client = Client::to(address);
    client.auth(1, 0);
    client.send(&frame("IMPI", &[0]));
    assert_eq!(client.frame(), frame("IMPI", &[1]));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    client.rest();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.len() >= 4096 && said.contains("connection 0"), "{said}");
}
