//! Descriptors and memory of a server: their bounds under hostile clients, and what remains afterwards. This test has a
//! process of its own, because it measures the whole process.
#![cfg(test)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on is over")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use gpc_rendezvous::http::{Options, Server};
use gpc_test_support::process::{self, status_number};
use gpc_test_support::waiting::until;
use rustix::process::{Resource, getrlimit, setrlimit};

/// Connections of each kind.
const MANY: usize = 1000;

/// Most that the process may grow, MiB: some 20 KiB for each connection with both of its ends, and the allocator's
/// reserve.
const GROWTH: usize = 96;

/// Time limit of an answer: it passes only if something is broken.
const LIMIT: Duration = Duration::from_secs(60);

/// A time that does not pass: no limit of the server has a part in these tests, however slow the machine is.
const NEVER: Duration = Duration::from_secs(30 * 86_400);

fn descriptors() -> usize {
    process::descriptors("self")
}

/// Memory of the process, MiB.
fn memory() -> usize {
    status_number("self", "VmRSS") as usize / 1024
}

fn connect(server: &Server, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    stream
}

/// Sends a request, and returns the whole answer.
fn ask(server: &Server, line: &str, body: &str) -> String {
    let length = body.len();
    let head = format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    let mut answer = String::new();
    connect(server, &format!("{head}{body}")).read_to_string(&mut answer).unwrap();
    answer
}

fn create(server: &Server) -> String {
    let answer = ask(server, "POST /rendezvous", r#"{"capacity":2}"#);
    let line = answer.lines().find_map(|line| line.strip_prefix("location: ")).unwrap();
    line.to_owned()
}

fn waiting(server: &Server, path: &str) -> usize {
    let answer = ask(server, &format!("GET {path}"), "");
    let number = answer.split("\"waiting\":").nth(1).unwrap().split(',').next().unwrap();
    number.parse().unwrap()
}

/// A server whose time limits do not pass.
fn server(change: impl FnOnce(&mut Options)) -> Server {
    let mut options = Options::new(([127, 0, 0, 1], 0).into());
    (options.times.head, options.times.idle, options.times.silent) = (NEVER, NEVER, NEVER);
    change(&mut options);
    Server::start(options).unwrap()
}

/// The parts run one after another, because each measures the whole process. The first one counts its descriptors, of
/// which a server that has ended closes the last ones a little later.
#[test]
fn what_a_server_holds_is_bounded() {
    what_clients_take_is_bounded_and_comes_back();
    long_answers_are_not_copied_for_each_client();
    data_of_resources_that_are_gone_are_bounded_too();
}

fn what_clients_take_is_bounded_and_comes_back() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    if limit.current.is_some_and(|limit| limit < 4 * MANY as u64) {
        println!("skipped: needs {} descriptors", 4 * MANY);
        return;
    }
    let server = server(|_| {});
    let path = create(&server);
    until("the server has a connection left", || waiting(&server, &path) == 0);
    let (descriptors_before, memory_before) = (descriptors(), memory());
    let get = |what: &str| format!("GET {path}/{what} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let announced = "Host: localhost\r\nContent-Length: 60000000\r\n\r\n1234";
    for (kind, text) in [
        ("silent", String::new()),
        ("in a head", "GET / HTTP/1.1\r\nHost: loc".to_owned()),
        ("with a long body", format!("POST {path}/registrants HTTP/1.1\r\n{announced}")),
        ("waiting", get("completion?wait=300")),
        ("looking on", get("events")),
    ] {
        let streams: Vec<TcpStream> = (0..MANY).map(|_| connect(&server, &text)).collect();
        if ["waiting", "looking on"].contains(&kind) {
            until(kind, || waiting(&server, &path) == MANY);
        }
        // Both ends of each connection. The descriptors of before do not count: the test waited for some of them
        // that had been closed meanwhile.
        until(kind, || descriptors() >= 2 * MANY);
        let grown = memory().saturating_sub(memory_before);
        println!("{MANY} {kind}: {grown} MiB more");
        assert!(grown < GROWTH, "{kind}: {grown} MiB");
        drop(streams);
        until(kind, || waiting(&server, &path) == 0);
        until(kind, || descriptors() <= descriptors_before);
    }
    let grown = memory().saturating_sub(memory_before);
    assert!(grown < GROWTH, "{grown} MiB are left");
}

/// Many clients that request long data as JSON, and do not take them, share one copy.
fn long_answers_are_not_copied_for_each_client() {
    let server = server(|_| {});
    let path = ask(&server, "POST /rendezvous", r#"{"capacity":1}"#);
    let path = path.lines().find_map(|line| line.strip_prefix("location: ")).unwrap();
    assert!(ask(&server, &format!("POST {path}/registrants"), &"x".repeat(32 << 20)).contains(" 201 "));
    let before = memory();
    let text =
        format!("GET {path}/completion HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n");
    let mut streams: Vec<TcpStream> = (0..50).map(|_| connect(&server, &text)).collect();
    for stream in &mut streams {
        let mut begin = [0; 15];
        stream.read_exact(&mut begin).unwrap();
        assert_eq!(&begin, b"HTTP/1.1 200 OK");
    }
    let grown = memory().saturating_sub(before);
    assert!(grown < 64, "{grown} MiB for 50 clients");
}

/// `Limits::held` excluded data that clients had yet to take. If 60 MiB were registered, requested, not read and
/// destroyed, they stayed in memory until the client was disconnected, and further data took their place.
fn data_of_resources_that_are_gone_are_bounded_too() {
    let server = server(|options| options.limits.held = 64 << 20);
    let before = memory();
    let data = "x".repeat(30 << 20);
    let mut streams = Vec::new();
    let refused = (0..12).find_map(|_| {
        let path = ask(&server, "POST /rendezvous", r#"{"capacity":1}"#);
        let path = path.lines().find_map(|line| line.strip_prefix("location: ")).unwrap().to_owned();
        assert!(ask(&server, &format!("POST {path}/registrants"), &data).contains(" 201 "));
        let get = format!("GET {path}/registrants/0 HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let mut stream = connect(&server, &get);
        let mut begin = [0; 12];
        stream.read_exact(&mut begin).unwrap();
        assert!(ask(&server, &format!("DELETE {path}"), "").contains(" 204 "));
        streams.push(stream);
        begin.ends_with(b"503").then_some(streams.len())
    });
    assert_eq!(refused, Some(4), "three pass 64 MiB");
    let grown = memory().saturating_sub(before);
    // Three answers in progress, the client's outgoing data, and the allocator's reserve; twelve answers would be 360
    // MiB.
    assert!(grown < 280, "{grown} MiB");
    // All but the first: the last part of an answer keeps the whole in memory.
    let mut first = streams.swap_remove(0);
    first.read_exact(&mut vec![0; 29 << 20]).unwrap();
    drop(streams);
    let path = create(&server);
    assert!(ask(&server, &format!("POST {path}/registrants"), "short").contains(" 201 "));
    let get = format!("GET {path}/registrants/0");
    until("those who have gone make room", || ask(&server, &get, "").contains(" 200 "));
}
