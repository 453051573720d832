//! Measures registrations over HTTP on loopback: the time should be linear in the number of registrants.
//!
//! There are two modes. Either all registrants share some persistent connections, and then one waits. Or each has its
//! own connection, registers, and waits for the completion.
//! `cargo bench -p gpc-rendezvous --features http --bench http` measures both. The server is a separate process, so
//! that each process has its own descriptors: `ulimit -n` should be some hundred over the largest number.
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on is over")]
#![allow(clippy::disallowed_methods, reason = "it measures time")]
#![allow(clippy::print_stdout, reason = "it prints what it has measured")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use gpc_rendezvous::http::{Options, Server};
use rustix::process::{Resource, getrlimit, setrlimit};

/// Numbers of registrants.
const COUNTS: [usize; 3] = [1000, 3000, 10_000];

/// Shared connections, each driven by a thread.
const CONNECTIONS: usize = 64;

/// Data of each registrant: about the size of a contact.
const DATA: [u8; 64] = [b'x'; 64];

/// Number of measurements; the median is printed.
const TIMES: usize = 5;

struct Client(BufReader<TcpStream>);

impl Client {
    fn new(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Client(BufReader::new(stream))
    }

    fn send(&mut self, line: &str, body: &[u8]) {
        let head = format!("{line} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
        self.0.get_mut().write_all(&[head.as_bytes(), body].concat()).unwrap();
    }

    /// Reads an answer: its status, its location, and the length of its body.
    fn answer(&mut self) -> (String, String, usize) {
        let (mut status, mut location, mut length) = (String::new(), String::new(), 0);
        self.0.read_line(&mut status).unwrap();
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            match line.trim_end().split_once(": ") {
                Some(("content-length", value)) => length = value.parse().unwrap(),
                Some(("location", value)) => location = value.to_owned(),
                Some(_) => {}
                None => break,
            }
        }
        std::io::copy(&mut (&mut self.0).take(length as u64), &mut std::io::sink()).unwrap();
        (status, location, length)
    }

    fn ask(&mut self, line: &str, body: &[u8]) -> (String, String, usize) {
        self.send(line, body);
        self.answer()
    }

    fn register(&mut self, path: &str) {
        let (status, ..) = self.ask(&format!("POST {path}/registrants"), &DATA);
        assert!(status.contains(" 201 "), "{status}");
    }
}

fn create(address: SocketAddr, count: usize) -> String {
    let (status, path, _) =
        Client::new(address).ask("POST /rendezvous", format!("{{\"capacity\":{count}}}").as_bytes());
    assert!(status.contains(" 201 "), "{status}");
    path
}

/// All registrants over shared connections.
fn shared(address: SocketAddr, count: usize) -> Duration {
    let path = create(address, count);
    let mut clients: Vec<Client> = (0..CONNECTIONS).map(|_| Client::new(address)).collect();
    let begin = Instant::now();
    thread::scope(|scope| {
        for (number, client) in clients.iter_mut().enumerate() {
            let path = &path;
            scope.spawn(move || (number..count).step_by(CONNECTIONS).for_each(|_| client.register(path)));
        }
    });
    let (status, _, length) = clients[0].ask(&format!("GET {path}/completion?wait=60"), b"");
    let took = begin.elapsed();
    assert!(status.contains(" 200 ") && length > count * DATA.len(), "{status}");
    Client::new(address).ask(&format!("DELETE {path}"), b"");
    took
}

/// Each registrant on its own connection, until the last one knows that the rendezvous is complete. The requests are
/// HEAD, so the transfer of the data is not measured.
fn alone(address: SocketAddr, count: usize) -> Duration {
    let path = create(address, count);
    let begin = Instant::now();
    thread::scope(|scope| {
        for part in 0..4 {
            let path = &path;
            scope.spawn(move || {
                let mut clients: Vec<Client> =
                    (part..count).step_by(4).map(|_| Client::new(address)).collect();
                for client in &mut clients {
                    client.register(path);
                    client.send(&format!("HEAD {path}/completion?wait=300"), b"");
                }
                for client in &mut clients {
                    let mut status = String::new();
                    client.0.read_line(&mut status).unwrap();
                    assert!(status.contains(" 200 "), "{status}");
                }
            });
        }
    });
    let took = begin.elapsed();
    Client::new(address).ask(&format!("DELETE {path}"), b"");
    took
}

fn median(measure: impl Fn() -> Duration) -> Duration {
    let mut times: Vec<Duration> = (0..TIMES).map(|_| measure()).collect();
    times.sort();
    times[TIMES / 2]
}

/// Runs the server until the parent process ends.
fn serve() {
    let server = Server::start(Options::new(([127, 0, 0, 1], 0).into())).unwrap();
    println!("{}", server.address());
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

fn main() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    if std::env::args().any(|argument| argument == "serve") {
        return serve();
    }
    let mut server = Command::new(std::env::current_exe().unwrap())
        .arg("serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut address = String::new();
    BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
    let address = address.trim().parse().unwrap();
    println!("{:>11} {:>26} {:>26}", "registrants", "64 connections", "a connection each");
    let each = |took: Duration, count: usize| {
        format!("{:8.1} ms {:7.1} us each", took.as_secs_f64() * 1e3, took.as_secs_f64() * 1e6 / count as f64)
    };
    for count in COUNTS {
        let first = each(median(|| shared(address, count)), count);
        let room = limit.current.is_none_or(|limit| limit > count as u64 + 200);
        let second =
            if room { each(median(|| alone(address, count)), count) } else { "too few descriptors".into() };
        println!("{count:>11} {first:>26} {second:>26}");
    }
    drop(server.stdin.take());
    server.wait().unwrap();
}
