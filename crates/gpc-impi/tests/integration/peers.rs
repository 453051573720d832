//! Sessions over real sockets with Python peers (`peers/`) that imitate other implementations on the wire: clients like
//! those of LAM and MetaMPICH, and a server like the reference one.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "helper functions of tests, which say when they are skipped"
)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use chained_gpc::PublicKey;
use gpc_impi::client::{ClientSettings, Cluster, Host, Learned, Proc, to_ip};
use gpc_impi::serve::{Listener, ServeError};
use gpc_impi::server::Settings;
use gpc_impi::session::{Session, SessionError};
use gpc_impi::wire::{Label, Methods};

/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const KEY: &str = "-81985529216486895";

fn has_python() -> bool {
    let has = Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    if !has {
        eprintln!("skipped: needs python3");
    }
    has
}

fn none() -> Methods {
    Methods { none: true, key: None }
}

/// A peer in Python, which ends with the test.
struct Peer {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Peer {
    fn start(script: &str, args: &[&str], variables: &[(&str, &str)]) -> Peer {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/integration/peers").join(script);
        let mut command = Command::new("python3");
        // Do not write bytecode files beside the sources.
        command.args(["-B"]).arg(script).args(args).env_remove("IMPI_AUTH_NONE").env_remove("IMPI_AUTH_KEY");
        command.envs(variables.iter().copied());
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        let (send, lines) = mpsc::channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        Peer { child, lines }
    }

    fn lam(rank: u32, server: &str, procs: u32) -> Peer {
        let args = [&rank.to_string(), server, "192.0.2.1", "6001", &procs.to_string()];
        Peer::start("lam_like.py", &args, &[("IMPI_AUTH_NONE", ""), ("IMPI_AUTH_KEY", KEY)])
    }

    fn metampich(rank: u32, server: &str, procs: u32, more: &str) -> Peer {
        let args = [&rank.to_string(), server, "192.0.2.2", "55555", &procs.to_string(), more];
        Peer::start("metampich_like.py", &args, &[])
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line of a peer")
    }

    /// The broadcasts that it has received, up to DONE.
    fn received(&self) -> BTreeMap<String, (u32, String)> {
        let mut received = BTreeMap::new();
        loop {
            let line = self.line();
            let words: Vec<&str> = line.split(' ').collect();
            let [label, mask, values] = words[..] else {
                assert_eq!(line, "DONE");
                return received;
            };
            let mask = u32::from_str_radix(&mask[2..], 16).unwrap();
            let before = received.insert(label.to_owned(), (mask, values.to_owned()));
            assert_eq!(before, None, "{label} came twice");
        }
    }

    /// Ends its processes: it sends FINI.
    fn end(&mut self) {
        drop(self.child.stdin.take());
    }

    /// `Ok` if its exit status is 0, else what it has printed.
    fn ended(mut self) -> Result<(), String> {
        self.end();
        // Its output ends with the process.
        while self.lines.recv_timeout(PATIENCE).is_ok() {}
        let status = self.child.wait().unwrap();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        if status.success() { Ok(()) } else { Err(said) }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server of this project, on a thread.
fn serve(clients: u32, methods: Methods) -> (String, JoinHandle<Result<(), ServeError>>) {
    let listener = Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let settings = Settings { limit: PATIENCE, ..Settings::new(clients, methods) };
    (address, thread::spawn(move || listener.serve(settings, |_, _| {})))
}

/// A cluster of hosts with these numbers of processes.
fn cluster(client: u8, procs: &[usize]) -> Cluster {
    let host = |(i, procs): (usize, &usize)| {
        let address = Ipv4Addr::new(10, 9, client, i as u8 + 1).to_ipv6_mapped();
        let proc = |j: usize| Proc {
            address: Some(address),
            pid: Some(100 + j as u64),
            port: Some(7000 + j as u32),
            key: Some(PublicKey([1 + client; 32])),
        };
        Host::new(address, 7000, (0..*procs).map(proc).collect())
    };
    Cluster::new(procs.iter().enumerate().map(host).collect())
}

fn own(rank: u32, methods: Methods, procs: &[usize]) -> ClientSettings {
    let mut settings = ClientSettings::new(rank, methods, cluster(rank as u8, procs));
    settings.job = Some([3; 16]);
    settings
}

/// A client of this project, on a thread. The session stays open until `finish` is called.
fn join(server: &str, settings: ClientSettings) -> JoinHandle<Result<Session, SessionError>> {
    let server = server.to_owned();
    thread::spawn(move || Session::join(&server, settings, PATIENCE, |_| {}))
}

/// The addresses, ports and numbers of processes, as one client has learned them.
fn table(learned: &Learned) -> Vec<String> {
    let mut rows = Vec::new();
    for (client, cluster) in learned.clusters.iter().enumerate() {
        for host in &cluster.hosts {
            let pids: Vec<u64> = host.procs.iter().map(|proc| proc.pid.unwrap()).collect();
            rows.push(format!("{client} {} {} {pids:?}", to_ip(host.address.unwrap()), host.port.unwrap()));
        }
    }
    rows
}

#[test]
fn clients_like_those_of_lam_with_this_server() {
    if !has_python() {
        return;
    }
    for methods in [none(), Methods { none: false, key: Some(KEY.parse().unwrap()) }] {
        let (address, server) = serve(3, methods);
        let peers: Vec<Peer> = [2, 0, 1].map(|rank| Peer::lam(rank, &address, rank + 1)).into();
        let received: Vec<_> = peers.iter().map(Peer::received).collect();
        assert_eq!(received[0], received[1]);
        assert_eq!(received[0], received[2]);
        assert_eq!(received[0].len(), Label::KNOWN.len());
        assert_eq!(received[0]["C_NPROCS"], (7, "000000010000000200000003".into()));
        assert_eq!(received[0]["H_IPV6"], (7, format!("{:032x}", 0xc000_0201_u32).repeat(3)));
        peers.into_iter().for_each(|peer| peer.ended().unwrap());
        server.join().unwrap().unwrap();
    }
}

/// Labels of this project would make LAM's client abort, so they are not sent.
#[test]
fn three_kinds_of_clients_with_this_server() {
    if !has_python() {
        return;
    }
    let (address, server) = serve(3, none());
    let session = join(&address, own(1, none(), &[2, 1]));
    let (lam, metampich) = (Peer::lam(0, &address, 2), Peer::metampich(2, &address, 3, ""));
    let received = lam.received();
    assert_eq!(received["C_TAGUB"].0, 3);
    assert_eq!(received["H_HIWATER"].0, 3);
    assert_eq!(received["H_PORT"], (7, format!("{:08x}{:08x}{:08x}{:08x}", 6001, 7000, 7000, 55_555)));
    assert_eq!(metampich.received(), received);
    let session = session.join().unwrap().unwrap();
    let learned = session.learned();
    assert_eq!(
        table(learned),
        [
            "0 192.0.2.1 6001 [1000, 1001]",
            "1 10.9.1.1 7000 [100, 101]",
            "1 10.9.1.2 7000 [100]",
            "2 192.0.2.2 55555 [2000, 2001, 2002]"
        ]
    );
    assert_eq!((learned.datalen, learned.tag_ub), (Some(1024), Some(32_767)));
    assert_eq!((learned.coll_xsize, learned.coll_maxlinear), (1024, 4));
    assert_eq!((learned.own_labels, learned.job), (false, None));
    assert_eq!(learned.clusters[2].hosts[0].ackmark, None);
    assert_eq!(learned.version(0, 1).unwrap().to_string(), "0.0");
    assert!(!session.is_lost());
    session.finish().unwrap();
    lam.ended().unwrap();
    metampich.ended().unwrap();
    server.join().unwrap().unwrap();
}

/// A port of 2 bytes, as from MetaMPICH, between two clients.
#[test]
fn a_port_of_two_bytes() {
    if !has_python() {
        return;
    }
    let (address, server) = serve(2, none());
    let metampich = Peer::metampich(0, &address, 1, "narrow");
    let session = join(&address, own(1, none(), &[1, 1])).join().unwrap().unwrap();
    let expected = ["0 192.0.2.2 55555 [2000]", "1 10.9.1.1 7000 [100]", "1 10.9.1.2 7000 [100]"];
    assert_eq!(table(session.learned()), expected);
    session.finish().unwrap();
    metampich.ended().unwrap();
    server.join().unwrap().unwrap();
}

/// The imitation of LAM's client is as strict as the original: a label that it does not expect ends it.
#[test]
fn a_label_that_lam_does_not_expect() {
    if !has_python() {
        return;
    }
    let (address, server) = serve(2, none());
    let mut lam = Peer::lam(0, &address, 1);
    let metampich = Peer::metampich(1, &address, 1, "label");
    // After its abort it sends nothing more: FINI or the loss of the other client ends the session.
    lam.end();
    let said = lam.ended().unwrap_err();
    assert!(said.contains("where DONE was expected"), "{said}");
    drop(metampich);
    assert!(server.join().unwrap().unwrap_err().to_string().contains("lost"));
}

/// Starts a server like the reference one.
fn reference(clients: u32, variables: &[(&str, &str)]) -> (String, Peer) {
    let peer = Peer::start("reference_like.py", &[&clients.to_string()], variables);
    (peer.line(), peer)
}

/// This server drops the labels of this project. DONE, which is sent with them, must not cost any values.
#[test]
fn clients_of_this_project_with_a_server_like_the_reference_one() {
    if !has_python() {
        return;
    }
    let (address, server) = reference(3, &[("IMPI_AUTH_KEY", KEY)]);
    let methods = || Methods { none: true, key: Some(KEY.parse().unwrap()) };
    let shapes = [&[2, 1][..], &[1], &[3, 2, 1]];
    let sessions: Vec<_> =
        (0..3).rev().map(|rank| join(&address, own(rank, methods(), shapes[rank as usize]))).collect();
    let sessions: Vec<Session> =
        sessions.into_iter().map(|session| session.join().unwrap().unwrap()).collect();
    for session in &sessions {
        let learned = session.learned();
        assert_eq!((learned.own_labels, learned.job), (false, None));
        assert_eq!(learned.procs(), 10);
        assert_eq!(table(learned), table(sessions[0].learned()));
        for (rank, shape) in shapes.iter().enumerate() {
            let mut expected = cluster(rank as u8, shape);
            let procs = expected.hosts.iter_mut().flat_map(|host| &mut host.procs);
            procs.for_each(|proc| (proc.port, proc.key) = (None, None));
            assert_eq!(learned.clusters[rank].hosts, expected.hosts);
        }
    }
    sessions.into_iter().for_each(|session| session.finish().unwrap());
    server.ended().unwrap();
}

#[test]
fn three_kinds_of_clients_with_a_server_like_the_reference_one() {
    if !has_python() {
        return;
    }
    let (address, server) = reference(3, &[("IMPI_AUTH_NONE", "")]);
    let lam = Peer::lam(0, &address, 1);
    let metampich = Peer::metampich(1, &address, 2, "");
    let session = join(&address, own(2, none(), &[1])).join().unwrap().unwrap();
    let expected = ["0 192.0.2.1 6001 [1000]", "1 192.0.2.2 55555 [2000, 2001]", "2 10.9.2.1 7000 [100]"];
    assert_eq!(table(session.learned()), expected);
    assert_eq!(lam.received().len(), Label::KNOWN.len());
    lam.ended().unwrap();
    metampich.ended().unwrap();
    session.finish().unwrap();
    server.ended().unwrap();
}

#[test]
fn a_key_that_is_another_one() {
    if !has_python() {
        return;
    }
    let (address, server) = reference(1, &[("IMPI_AUTH_KEY", "5")]);
    let methods = Methods { none: false, key: Some(KEY.parse().unwrap()) };
    let error = Session::join(&address, own(0, methods, &[1]), PATIENCE, |_| {}).unwrap_err().to_string();
    assert!(error.contains("waiting for the number of clients (IMPI)"), "{error}");
    assert!(error.contains("IMPI_AUTH_KEY") && !error.contains("8198552921648689"), "{error}");
    drop(server);
}

#[test]
fn clients_of_this_project_with_its_server() {
    let (address, server) = serve(4, none());
    let sessions: Vec<_> = (0..4).map(|rank| join(&address, own(rank, none(), &[1, 3]))).collect();
    let sessions: Vec<Session> =
        sessions.into_iter().map(|session| session.join().unwrap().unwrap()).collect();
    for session in &sessions {
        let learned = session.learned();
        assert_eq!((learned.own_labels, learned.job), (true, Some([3; 16])));
        for rank in 0..4 {
            assert_eq!(learned.clusters[rank].hosts, cluster(rank as u8, &[1, 3]).hosts);
        }
        assert!(session.local_address().ip().is_loopback());
        assert!(!session.is_lost());
    }
    sessions.into_iter().for_each(|session| session.finish().unwrap());
    server.join().unwrap().unwrap();
}

#[test]
fn a_session_that_is_dropped_sends_no_fini() {
    let (address, server) = serve(1, none());
    drop(join(&address, own(0, none(), &[1])).join().unwrap().unwrap());
    let error = server.join().unwrap().unwrap_err().to_string();
    assert!(error.contains("client 0 was lost after all were done, before its FINI"), "{error}");
}

/// A port without a server, and texts that are no addresses.
#[test]
fn a_server_that_does_not_exist() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let error =
        |server: &str| Session::join(server, own(0, none(), &[1]), PATIENCE, |_| {}).unwrap_err().to_string();
    assert!(error(&address).contains("no connection to the IMPI server"));
    for bad in ["", "localhost", "127.0.0.1", "[::1", "127.0.0.1:port"] {
        let said = error(bad);
        assert!(said.contains("cannot be looked up") && said.contains("HOST:PORT"), "{said}");
    }
}

/// A server that ends after DONE: the loss is detected, and FINI fails.
#[test]
fn a_server_that_is_killed_after_done() {
    if !has_python() {
        return;
    }
    let (address, server) = reference(1, &[("IMPI_AUTH_NONE", "")]);
    let session = Session::join(&address, own(0, none(), &[1]), PATIENCE, |_| {}).unwrap();
    // Dropping it kills the process and waits for its end, so the system has closed its sockets.
    drop(server);
    let error = session.finish().unwrap_err();
    assert!(matches!(error, SessionError::Fini(_)), "{error}");
}
