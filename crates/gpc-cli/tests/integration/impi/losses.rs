//! Clients and servers that end early, at each stage.

use std::fs;
use std::process::{Child, Stdio};

use rustix::process::Signal;

use super::support::*;

/// A cluster, described by a file.
struct Cluster(tempfile::TempDir);

impl Cluster {
    fn new(processes: u32) -> Cluster {
        let folder = tempfile::tempdir().unwrap();
        let lines: String = (0..processes)
            .map(|process| format!("10.0.{}.{}:7000\n", process >> 8, 1 + (process & 127)))
            .enumerate()
            .map(|(at, line)| line.replace(":7000", &format!(":{}", 7000 + at)))
            .collect();
        fs::write(folder.path().join("hosts"), lines).unwrap();
        Cluster(folder)
    }

    /// Starts a client of this command, as rank 0. Its output waits until it is read.
    fn client(&self, server: &Server) -> Child {
        let hosts = self.0.path().join("hosts");
        let words = format!("impi client 0 {} --output json --hosts {}", server.address, hosts.display());
        gpc(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

/// Like `kill -9`.
fn killed(mut client: Child) {
    client.kill().unwrap();
    client.wait().unwrap();
}

/// The reference server never freed the rank of a lost client.
#[test]
fn a_client_that_is_lost_before_all_have_joined_is_replaced() {
    let mut server = Server::start("server 2");
    let cluster = Cluster::new(1);
    let mut first = server.client();
    first.auth(1, 0);
    drop(first);
    let mut traced = Server::start("server 2 --trace");
    let client = cluster.client(&traced);
    traced.until("client  0       IMPI");
    killed(client);
    traced.until("client  0             lost, another may come in its place");
    leave(&mut traced.clients(2));
    assert_eq!(traced.ended().0, Some(0));
    // The loss is also printed without a trace.
    drop(server.joining(0));
    server.until("client 0 is lost before all have joined, another may come in its place");
    leave(&mut server.clients(2));
    assert_eq!(server.ended().0, Some(0));
}

/// The other client has passed all labels below an unknown one.
#[test]
fn a_client_that_is_killed_fails_the_session_where_it_stood() {
    for (said, seen, expected) in [
        (vec![], "client  0       COLL  C_VERSION", "client 0 was lost at label C_VERSION"),
        (coll(0x20ff, &[]), "client  0       COLL  H_PORT", "client 0 was lost at label H_PORT"),
        (coll(0x3fff, &[]), "client  0       DONE", "client 0 was lost after its DONE"),
    ] {
        let mut server = Server::start("server 2 --trace --check off");
        let cluster = Cluster::new(1);
        let client = cluster.client(&server);
        let mut other = server.joining(1);
        assert_eq!(other.frame(), frame("IMPI", &[2]));
        other.send(&said);
        server.until(seen);
        killed(client);
        other.rest();
        let (status, said) = server.ended();
        let last = said.lines().last().unwrap();
        assert!(status == Some(1) && last.starts_with("gpc: ") && last.contains(expected), "{said}");
    }
}

/// After DONE the other clients continue, and the loss is reported at the end.
#[test]
fn a_client_killed_after_all_are_done_is_reported_at_the_end() {
    let mut server = Server::start("server 2 --trace --check off");
    // The output is more than a pipe holds, so the client blocks before its FINI.
    let cluster = Cluster::new(4000);
    let client = cluster.client(&server);
    let mut other = server.joining(1);
    other.done();
    server.until("all             DONE");
    killed(client);
    server.until("client  0             lost before its FINI");
    other.fini();
    let (status, said) = server.ended();
    let last = said.lines().last().unwrap();
    assert!(status == Some(1) && last.contains("client 0 was lost after all were done"), "{said}");
}

#[test]
fn a_server_that_is_killed_is_told_by_its_clients() {
    let mut server = Server::start("server 2 --trace");
    let cluster = Cluster::new(1);
    let client = cluster.client(&server);
    server.until("client  0       IMPI");
    let mut other = server.joining(1);
    server.until("client  0       COLL  C_VERSION");
    server.signal(Signal::KILL);
    let (status, out, error) = told(client.wait_with_output().unwrap());
    assert_eq!((status, out.as_str()), (Some(1), ""));
    assert!(error.contains("the server was lost while waiting for COLL C_VERSION"), "{error}");
    other.rest();
}

#[test]
fn a_server_that_is_told_to_stop_exits_as_shells_expect() {
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut server = Server::start("server 2 --trace");
        let mut client = server.joining(1);
        server.until("client  1       IMPI");
        server.signal(signal);
        client.rest();
        let (exited, said) = server.ended();
        assert_eq!(exited, Some(status));
        let expected = "gpc: the server was stopped before the session was over: client 0 did not join";
        assert!(said.lines().last().unwrap().starts_with(expected), "{said}");
    }
}

/// The same reason was printed twice, and the end did not mention the second lost client.
#[test]
fn losses_after_all_are_done_are_reported_once_and_counted_at_the_end() {
    let mut server = Server::start("server 3");
    let mut clients = server.clients(3);
    clients.iter_mut().for_each(Client::done);
    for client in &mut clients {
        while client.frame() != frame("DONE", &[]) {}
    }
    drop(clients.remove(2));
    server.until("gpc: client 2 is lost before its FINI: ");
    drop(clients.remove(0));
    server.until("gpc: client 0 is lost before its FINI: ");
    clients[0].fini();
    let (status, said) = server.ended();
    let last = said.lines().last().unwrap();
    assert_eq!((status, said.lines().count()), (Some(1), 3), "{said}");
    assert_eq!(last, "gpc: clients 2, 0 were lost after all were done, before their FINI");
}

#[test]
fn time_limits_name_whom_the_session_waits_for() {
    let server = Server::start("server 3 --time-limit 300ms");
    let mut client = server.joining(1);
    client.rest();
    let (status, said) = server.ended();
    assert_eq!(status, Some(1));
    assert!(said.contains("within 300ms") && said.contains("0, 2 did not join"), "{said}");
    let server = Server::start("server 2 --time-limit 2s");
    let mut clients = server.clients(2);
    clients[0].send(&coll(C_VERSION, &[0; 8]));
    clients[0].rest();
    let (status, said) = server.ended();
    assert_eq!(status, Some(1));
    assert!(said.contains("C_VERSION") && said.contains('1'), "{said}");
}

/// The error said that the session was not over within 0 s.
#[test]
fn a_time_limit_of_nothing_is_refused() {
    let (status, out, said) = finished(gpc("impi server 2 --time-limit 0s"));
    assert_eq!((status, out.as_str()), (Some(2), ""));
    assert!(said.contains("--time-limit 0s leaves no time to join"), "{said}");
}

#[test]
fn a_client_that_breaks_the_protocol_fails_the_session() {
    for (bytes, expected) in [
        (coll(C_VERSION, &[0; 8]).repeat(2), "client 1 broke the protocol"),
        (frame("FINI", &[]), "client 1 broke the protocol"),
        (frame("AUTH", &[1]), "client 1 broke the protocol"),
    ] {
        let server = Server::start("server 2");
        let mut clients = server.clients(2);
        clients[1].send(&bytes);
        clients.iter_mut().for_each(|client| drop(client.rest()));
        let (status, said) = server.ended();
        assert!(status == Some(1) && said.contains(expected), "{said}");
    }
}

#[test]
fn values_that_cannot_be_are_told_refused_or_left_alone() {
    let run = |check: &str| {
        let server = Server::start(&format!("server 1 --check {check}"));
        let mut clients = server.clients(1);
        clients[0].send(&coll(C_NHOSTS, b"three"));
        clients[0].done();
        if check != "refuse" {
            assert_eq!(clients[0].until_done(), all(&[answer(C_NHOSTS, 1, b"three")]));
            clients[0].fini();
        }
        server.ended()
    };
    let (status, said) = run("warn");
    assert!(status == Some(0) && said.starts_with("gpc: client 0: COLL C_NHOSTS: "), "{said}");
    assert_eq!(run("off"), (Some(0), String::new()));
    let (status, said) = run("refuse");
    assert!(status == Some(1) && said.contains("client 0 broke the protocol"), "{said}");
}
