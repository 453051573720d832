//! Measures a whole session of 32 clients with different numbers of hosts, over loopback. It prints the time, the
//! server's peak memory, and the bytes that the server broadcasts.
//!
//! The server is a separate process. The clients are threads with blocking sockets, which send all labels of the source
//! in lockstep.
#![allow(missing_docs)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it prints what it measures")]
#![allow(clippy::disallowed_methods, reason = "it measures time")]
#![allow(clippy::unwrap_used, reason = "a machine without sockets measures nothing")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use gpc_impi::serve::Listener;
use gpc_impi::server::Settings;
use gpc_impi::wire::{Command as Name, Label, Methods, Per, coll, command};

/// As many clients as the mask has bits.
const CLIENTS: u32 = 32;

/// Hosts of each client, with one process each.
const HOSTS: [u32; 3] = [100, 1000, 10_000];

/// Sessions of each size.
const SESSIONS: usize = 5;

/// The argument that makes this program the server.
const SERVER: &str = "--serve-one-session";

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some(SERVER) => serve(),
        _ => measure(),
    }
}

/// Serves one session. Prints the address, and at the end the peak memory of the process, KiB.
fn serve() {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    println!("{}", listener.local_addr().unwrap());
    let settings = Settings::new(CLIENTS, Methods { none: true, key: None });
    listener.serve(settings, |_, event| assert!(!format!("{event:?}").starts_with("Doubted"))).unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    println!("{}", most.and_then(|most| most.split_whitespace().next()).unwrap_or("0"));
}

fn measure() {
    println!("hosts of each    broadcast      median         most   server's memory, most");
    for hosts in HOSTS {
        let all: Vec<Vec<Vec<u8>>> = (0..CLIENTS).map(|rank| said(rank, hosts)).collect();
        let bytes: usize = all.iter().flatten().map(|bytes| bytes.len() - 12).sum();
        let mut measured: Vec<(Duration, u64)> = (0..SESSIONS).map(|_| session(&all)).collect();
        measured.sort_unstable();
        let most = measured.iter().map(|(_, memory)| *memory).max().unwrap_or(0);
        println!(
            "{hosts:>13}  {:>8.2} MiB  {:>7.1} ms  {:>8.1} ms  {:>7.1} MiB",
            bytes as f64 / 1_048_576.0,
            measured[SESSIONS / 2].0.as_secs_f64() * 1e3,
            measured[SESSIONS - 1].0.as_secs_f64() * 1e3,
            most as f64 / 1024.0
        );
    }
}

/// The commands of a client, in order.
fn said(rank: u32, hosts: u32) -> Vec<Vec<u8>> {
    let values = |label: Label| -> Vec<u8> {
        let number = |number: u32| number.to_be_bytes().to_vec();
        let address =
            |host: u32| (0xfd_u128 << 120 | u128::from(rank) << 32 | u128::from(host)).to_be_bytes();
        match (label, label.shape()) {
            (Label::C_VERSION, _) => vec![0; 8],
            (Label::C_NHOSTS | Label::C_NPROCS, _) => number(hosts),
            (Label::C_TAGUB, _) => number(32_767),
            (Label::C_COLL_XSIZE | Label::C_COLL_MAXLINEAR, _) => number(u32::MAX),
            (Label::H_IPV6 | Label::P_IPV6, _) => (0..hosts).flat_map(address).collect(),
            (Label::P_PID, _) => (0..hosts).flat_map(|host| u64::from(host).to_be_bytes()).collect(),
            (Label::H_PORT, _) => number(7000).repeat(hosts as usize),
            (_, Some((Per::Host, _))) => number(1).repeat(hosts as usize),
            (_, _) => number(65_536),
        }
    };
    Label::KNOWN.iter().map(|label| coll(*label, None, [&values(*label)[..]]).to_vec()).collect()
}

/// The time from the first connection to the last FINI, and the server's peak memory, KiB.
fn session(all: &[Vec<Vec<u8>>]) -> (Duration, u64) {
    let mut server = Command::new(std::env::current_exe().unwrap());
    let mut server = server.arg(SERVER).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let address: SocketAddr = lines.next().unwrap().unwrap().parse().unwrap();
    let began = Instant::now();
    thread::scope(|scope| {
        for (rank, said) in (0..).zip(all) {
            scope.spawn(move || client(address, rank, said));
        }
    });
    let took = began.elapsed();
    let most = lines.next().unwrap().unwrap().parse().unwrap();
    assert!(server.wait().unwrap().success());
    (took, most)
}

/// Sends each command after the answer to the previous one.
fn client(address: SocketAddr, rank: u32, said: &[Vec<u8>]) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut bytes = Vec::new();
    stream.write_all(&command(Name::Auth, &[1])).unwrap();
    stream.read_exact(&mut [0; 8]).unwrap();
    stream.write_all(&command(Name::Impi, &[rank])).unwrap();
    assert_eq!(read(&mut stream, &mut bytes), Name::Impi);
    for said in said {
        stream.write_all(said).unwrap();
        assert_eq!(read(&mut stream, &mut bytes), Name::Coll);
        // The label of the broadcast, with the mask of all clients.
        assert_eq!((&bytes[..4], &bytes[4..8]), (&said[8..12], &[255; 4][..]));
        let values = bytes.len() - 8;
        assert_eq!(values, (said.len() - 12) * CLIENTS as usize);
    }
    stream.write_all(&command(Name::Done, &[])).unwrap();
    assert_eq!(read(&mut stream, &mut bytes), Name::Done);
    stream.write_all(&command(Name::Fini, &[])).unwrap();
}

/// Reads a command.
fn read(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Name {
    let (mut name, mut len) = ([0; 4], [0; 4]);
    stream.read_exact(&mut name).unwrap();
    stream.read_exact(&mut len).unwrap();
    bytes.resize(u32::from_be_bytes(len) as usize, 0);
    stream.read_exact(bytes).unwrap();
    Name::of(u32::from_be_bytes(name))
}
