//! A session of 32 clients of 1,000 hosts each over loopback, whose broadcasts come from the server, or go through the clients' own nodes: how many bytes the server sends, and how long it takes.
//!
//! The server is a process of its own; the clients are threads of one other process, and so all nodes share this machine's processors and its memory: a tree saves the server's sending, which costs most where there is a network.
#![allow(missing_docs)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it prints what it measures")]
#![allow(clippy::disallowed_methods, reason = "it measures time")]
#![allow(clippy::unwrap_used, reason = "a machine without sockets measures nothing")]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use gpc_impi::RelayOptions;
use gpc_impi::client::{ClientSettings, Cluster, Host, Proc};
use gpc_impi::serve::Listener;
use gpc_impi::server::{RelaySettings, Settings};
use gpc_impi::session::{Session, SessionOptions};
use gpc_impi::wire::Methods;

/// As many as the mask has bits.
const CLIENTS: u32 = 32;

/// Hosts of each client, with one process each.
const HOSTS: u32 = 1000;

/// Sessions of each kind, which take turns.
const SESSIONS: usize = 9;

/// The argument that makes this program the server; the tree follows, or `plain`.
const SERVER: &str = "--serve-one-session";

/// What is measured.
const KINDS: [&str; 4] = ["plain", "binomial", "flat", "chain"];

fn main() {
    let args: Vec<String> = std::env::args().collect();
    match args.get(1).map(String::as_str) {
        Some(SERVER) => serve(&args[2]),
        _ => measure(),
    }
}

fn open() -> Methods {
    Methods { none: true, key: None }
}

/// Serves one session; prints the address, and at the end the bytes that it has written.
fn serve(kind: &str) {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    println!("{}", listener.local_addr().unwrap());
    let relay = (kind != "plain").then(|| RelaySettings::new(kind, [3; 16]).unwrap());
    listener.serve(Settings { relay, ..Settings::new(CLIENTS, open()) }, |_, _| ()).unwrap();
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    println!("{}", io.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap_or("0"));
}

fn measure() {
    println!("    tree    the server sends      median         most");
    let mut measured = vec![Vec::new(); KINDS.len()];
    for _ in 0..SESSIONS {
        for (kind, measured) in KINDS.iter().zip(&mut measured) {
            measured.push(session(kind));
        }
    }
    for (kind, measured) in KINDS.iter().zip(&mut measured) {
        measured.sort_unstable();
        let sent = measured.iter().map(|(_, sent)| *sent).max().unwrap_or(0);
        println!(
            "{kind:>8}  {:>14.2} MiB  {:>7.1} ms  {:>8.1} ms",
            sent as f64 / 1_048_576.0,
            measured[SESSIONS / 2].0.as_secs_f64() * 1e3,
            measured[SESSIONS - 1].0.as_secs_f64() * 1e3,
        );
    }
}

/// The time from the first connection to the last FINI, and what the server has sent.
fn session(kind: &str) -> (Duration, u64) {
    let mut server = Command::new(std::env::current_exe().unwrap());
    let mut server = server.args([SERVER, kind]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let address = lines.next().unwrap().unwrap();
    let all: Vec<ClientSettings> = (0..CLIENTS).map(client).collect();
    let began = Instant::now();
    thread::scope(|scope| {
        for settings in all {
            scope.spawn(|| {
                let relay = Some(RelayOptions::default());
                let options = SessionOptions { limit: Duration::from_secs(60), relay };
                let session = Session::join_with(&address, settings, options, || true, |_| ()).unwrap();
                session.finish().unwrap();
            });
        }
    });
    let took = began.elapsed();
    let sent = lines.next().unwrap().unwrap().parse().unwrap();
    assert!(server.wait().unwrap().success());
    (took, sent)
}

fn client(rank: u32) -> ClientSettings {
    let host = |host: u32| {
        let address = (0xfd_u128 << 120 | u128::from(rank) << 32 | u128::from(host)).into();
        let proc = Proc { address: Some(address), pid: Some(host.into()), port: Some(7000), key: None };
        Host::new(address, 7000, vec![proc])
    };
    ClientSettings::new(rank, open(), Cluster::new((0..HOSTS).map(host).collect()))
}
