//! Nodes that are run by hand, and calls that join them.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use chained_gpc::wire::Hello;
use rustix::process::Signal;

use crate::processes::support::{Gpc, coverage, ids, json_of, run};

/// Time limit for a node to close a connection after malformed bytes.
const CLOSE_LIMIT: Duration = Duration::from_secs(60);

/// Nodes 1 to 3, and the file with their addresses.
pub(super) struct Set {
    folder: tempfile::TempDir,
    addresses: Vec<String>,
    pub(super) nodes: Vec<Gpc>,
}

impl Set {
    fn over_tcp() -> Set {
        static COUNT: AtomicU8 = AtomicU8::new(1);
        // Loopback addresses of this process and set only, so that no other test has the port.
        let (pid, count) = (std::process::id().to_be_bytes(), COUNT.fetch_add(1, Ordering::Relaxed));
        let address = |id| format!("127.{}.{}.{count}:{}", pid[2] | 0x80, pid[3], 7000 + id);
        Set::start(tempfile::tempdir().unwrap(), (0..=3).map(address).collect())
    }

    pub(super) fn over_unix() -> Set {
        let folder = tempfile::tempdir().unwrap();
        let address = |id| format!("unix:{}/{id}.sock", folder.path().display());
        let addresses = (0..=3).map(address).collect();
        Set::start(folder, addresses)
    }

    fn start(folder: tempfile::TempDir, addresses: Vec<String>) -> Set {
        let lines: Vec<String> = addresses
            .iter()
            .enumerate()
            .map(|(id, address)| format!("{id} {address} # node {id}\n"))
            .collect();
        fs::write(folder.path().join("peers"), lines.concat()).unwrap();
        let mut set = Set { folder, addresses, nodes: vec![] };
        set.nodes = (1..=3).map(|id| set.node(id)).collect();
        set
    }

    /// Starts a node, and waits until it listens.
    fn node(&self, id: usize) -> Gpc {
        let node = Gpc::start(&self.line(id));
        node.until_said(&format!("gpc: id {id} listens at {}", self.addresses[id]));
        node
    }

    /// Returns the arguments of a node. The peers file has its address, and the arguments may have it, too.
    fn line(&self, id: usize) -> String {
        let listen = if id == 1 { String::new() } else { format!("--listen {}", self.addresses[id]) };
        format!("node --id {id} {listen} --peers {}", self.peers())
    }

    pub(super) fn peers(&self) -> String {
        self.folder.path().join("peers").display().to_string()
    }

    pub(super) fn socket(&self, id: usize) -> PathBuf {
        self.addresses[id].strip_prefix("unix:").unwrap().into()
    }

    /// Makes a call as root `root`; returns the ids that replied.
    #[track_caller]
    pub(super) fn call(&self, root: u32, more: &str) -> Vec<u64> {
        let value = json_of(&format!(
            "call digest --peers {} --id {root} --data {} {more}",
            self.peers(),
            self.peers()
        ));
        let replies = value["replies"].as_array().unwrap();
        assert!(replies.iter().all(|reply| reply["data"] == replies[0]["data"]));
        assert_eq!(coverage(&value)[0], replies.len() as u64);
        ids(&value)
    }

    /// Ends all nodes with Ctrl-C.
    pub(super) fn end(self) {
        for node in self.nodes {
            node.process().kill(Signal::INT);
            let ended = node.end();
            // A node also logs refused peers.
            let lines = ended.stderr.lines().filter(|line| !line.contains(" WARN chained_gpc::")).count();
            assert_eq!((ended.code(), lines), (Some(0), 1), "{}", ended.stderr);
        }
        let files = fs::read_dir(self.folder.path()).unwrap().map(|file| file.unwrap().file_name());
        assert_eq!(files.collect::<Vec<_>>(), ["peers"], "the sockets' files are removed");
    }
}

#[test]
fn roots_come_and_go() {
    for set in [Set::over_tcp(), Set::over_unix()] {
        for tree in ["binary", "chain", "flat"] {
            assert_eq!(set.call(0, &format!("--tree {tree}")), [0, 1, 2, 3]);
        }
        assert_eq!(set.call(0, "--repeat 20 --ids 3,1"), [0, 3, 1]);
        // A root that is not in the peers file.
        assert_eq!(set.call(7, "--ids 1-3"), [7, 1, 2, 3]);
        assert_eq!(set.call(0, "--forward-first"), [0, 1, 2, 3]);
        set.end();
    }
}

/// Nodes that know each other by TCP addresses of one host use faster links there, if both allow that.
#[test]
fn nodes_of_one_host_find_each_other_without_tcp() {
    let set = Set::over_tcp();
    let over = |link: &str| {
        let line = format!("call echo --peers {} --id 0 --link {link} --ids 1-3 --tree flat", set.peers());
        let ended = Gpc::start_in(&line, b"", &[("GPC_LOG", "debug")]).end();
        assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
        let links = ended.stderr.lines().filter(|line| line.contains("link up")).map(str::to_owned);
        links.collect::<Vec<_>>()
    };
    for (link, words) in [("shm", "rings in shared memory"), ("unix", "a Unix socket"), ("tcp", "TCP")] {
        let links = over(link);
        assert_eq!(links.len(), 3, "{links:?}");
        assert!(links.iter().all(|line| line.contains(words)), "{link}: {links:?}");
    }
    set.end();
}

#[test]
fn a_node_that_wants_tcp_is_reached_by_it() {
    let set = Set::over_tcp();
    let wants_tcp = Gpc::start(&format!("{} --link tcp", set.line(0)));
    wants_tcp.until_said("gpc: id 0 listens at");
    let line = format!("call echo --peers {} --id 7 --ids 0,1 --tree flat", set.peers());
    let ended = Gpc::start_in(&line, b"", &[("GPC_LOG", "debug")]).end();
    let over = |words: &str| {
        ended.stderr.lines().filter(|line| line.contains("link up") && line.contains(words)).count()
    };
    assert_eq!((ended.code(), over("TCP"), over("rings")), (Some(0), 1, 1), "{}", ended.stderr);
    wants_tcp.process().kill(Signal::INT);
    assert_eq!(wants_tcp.end().code(), Some(0));
    set.end();
}

#[test]
fn roots_call_at_the_same_time() {
    let set = Set::over_tcp();
    let call = |root| {
        Gpc::start(&format!(
            "call echo --peers {} --id {root} --ids 1-3 --repeat 200 --tree chain --output json",
            set.peers()
        ))
    };
    let calls: Vec<Gpc> = [0, 10, 11].into_iter().map(call).collect();
    for call in calls {
        let ended = call.end();
        assert_eq!((ended.code(), coverage(&ended.json())), (Some(0), [4, 0, 0, 0]), "{}", ended.stderr);
    }
    set.end();
}

/// Sends bytes, and waits until the node closes the connection.
fn throw(mut stream: impl Thrown, bytes: &[u8]) {
    // The node may close the connection before all is written.
    let _ = stream.write_all(bytes);
    stream.limit();
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        let kind = error.kind();
        assert_eq!(
            kind,
            std::io::ErrorKind::ConnectionReset,
            "the node keeps the connection after {bytes:?}"
        );
    }
}

trait Thrown: std::io::Read + Write {
    fn limit(&self);
}

impl Thrown for TcpStream {
    fn limit(&self) {
        self.set_read_timeout(Some(CLOSE_LIMIT)).unwrap();
    }
}

impl Thrown for UnixStream {
    fn limit(&self) {
        self.set_read_timeout(Some(CLOSE_LIMIT)).unwrap();
    }
}

/// Returns bytes that no node sends.
fn bad_bytes() -> Vec<Vec<u8>> {
    let hello = Hello {
        from: 9,
        to: 1,
        incarnation: 1,
        generation: 1,
        hiwater: 64,
        job: Default::default(),
        rings: false,
        extents: false,
    };
    let frame = |kind: u8, payload: &[u8]| {
        [&(payload.len() as u32).to_le_bytes()[..], &[kind, 0, 0, 0], payload].concat()
    };
    let other = Hello { to: 2, ..hello };
    let mut magic = hello.emit();
    magic[0] ^= 0xff;
    let mut version = hello.emit();
    version[4] = 99;
    vec![
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        vec![0xff; 100_000],
        frame(77, b"what"),
        frame(1, &[]),
        frame(1, &magic),
        frame(1, &version),
        frame(1, &other.emit()),
        frame(2, &[0; 64]),
        [frame(1, &hello.emit()), frame(1, &hello.emit())].concat(),
        [frame(1, &hello.emit()), frame(2, &[0xff; 64])].concat(),
        [frame(1, &hello.emit()), frame(3, &[0xff; 32])].concat(),
    ]
}

#[test]
fn bad_bytes_leave_a_node_serving() {
    let tcp = Set::over_tcp();
    let connect = || TcpStream::connect(&tcp.addresses[1]).unwrap();
    bad_bytes().iter().for_each(|bytes| throw(connect(), bytes));
    // Half a frame, and nothing at all: these connections are open while calls are made, and are closed halfway.
    let mut half = connect();
    half.write_all(&[32, 0, 0]).unwrap();
    let silent = connect();
    assert_eq!(tcp.call(0, "--tree chain"), [0, 1, 2, 3]);
    drop((half, silent));
    assert_eq!(tcp.call(0, "--tree flat"), [0, 1, 2, 3]);
    tcp.end();

    let unix = Set::over_unix();
    bad_bytes().iter().for_each(|bytes| throw(UnixStream::connect(unix.socket(1)).unwrap(), bytes));
    assert_eq!(unix.call(0, "--tree chain"), [0, 1, 2, 3]);
    unix.end();
}

#[test]
fn a_node_that_was_killed_serves_again_at_its_address() {
    for mut set in [Set::over_tcp(), Set::over_unix()] {
        assert_eq!(set.call(0, "--tree chain"), [0, 1, 2, 3]);
        let killed = set.nodes.remove(1);
        killed.process().kill(Signal::KILL);
        assert_eq!(killed.end().code(), None);
        // The file of a Unix socket remains, and the next node replaces it.
        let line = format!("call echo --peers {} --id 0 --tree chain --output json", set.peers());
        let ended = run(&line);
        assert_eq!((ended.code(), &ended.json()["cause"]["id"]), (Some(1), &2.into()), "{}", ended.stderr);
        set.nodes.insert(1, set.node(2));
        assert_eq!(set.call(0, "--tree chain"), [0, 1, 2, 3]);
        assert_eq!(set.call(7, "--ids 3,2,1"), [7, 3, 2, 1]);
        set.end();
    }
}

#[test]
fn a_node_that_is_killed_during_a_call_is_named() {
    let mut set = Set::over_tcp();
    let call = Gpc::start(&format!(
        "call sleep --peers {} --id 0 --tree chain --forward-first --header 10m --time-limit 20m --output json",
        set.peers()
    ));
    set.nodes.iter().zip(1..).for_each(|(node, id)| node.until_asleep(id));
    let killed = set.nodes.remove(1);
    killed.process().kill(Signal::KILL);
    killed.end();
    let ended = call.end();
    let value = ended.json();
    assert_eq!(
        (ended.code(), &value["cause"]["id"], &value["cause"]["stage"]),
        (Some(1), &2.into(), &"link".into())
    );
    // A root that ends leaves the nodes to the next root, although their functions still run.
    set.end();
}

/// A root that was started first had to be restarted, until the other nodes happened to be up.
#[test]
fn a_root_waits_for_nodes_that_are_started_after_it() {
    for (set, command) in
        [(Set::over_tcp(), "call digest"), (Set::over_unix(), "bench digest --rounds 3 --repeat 1")]
    {
        let mut set = set;
        let node = set.nodes.remove(1);
        node.process().kill(Signal::TERM);
        assert_eq!(node.end().code(), Some(0));
        let line = |patience| {
            format!("{command} --peers {} --id 7 --wait-for-peers {patience} --output json", set.peers())
        };
        let ended = run(&line("50ms"));
        assert_eq!((ended.code(), ended.stdout.len()), (Some(1), 0));
        assert!(
            ended.said().starts_with("gpc: ids 0,2 did not come up within 50ms; id 0: cannot connect to"),
            "{}",
            ended.stderr
        );
        let call = Gpc::start(&line("60s"));
        call.until_said("gpc: waiting for id 0,2");
        let late: Vec<Gpc> = [0, 2].map(|id| set.node(id)).into();
        let ended = call.end();
        assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
        set.nodes.extend(late);
        set.end();
    }
}

#[test]
fn a_peer_that_is_not_running_is_named_with_its_address() {
    for set in [Set::over_tcp(), Set::over_unix()] {
        let Set { folder, addresses, nodes } = set;
        nodes.into_iter().for_each(|node| {
            node.process().kill(Signal::TERM);
            assert_eq!(node.end().code(), Some(0));
        });
        let peers = folder.path().join("peers");
        let ended = run(&format!("call echo --peers {} --id 0 --ids 2 --output json", peers.display()));
        assert_eq!((ended.code(), &ended.json()["cause"]["id"]), (Some(1), &2.into()));
        let said = ended.said();
        assert!(said.starts_with("gpc: id 2 failed at stage link (unreachable): cannot connect"), "{said}");
        assert!(said.contains(&addresses[2].to_string()), "{said}");
        assert!(said.ends_with("; see that `gpc node --id 2` runs there"), "{said}");
    }
}

#[test]
fn an_id_that_is_running_is_not_taken_away_from_it() {
    for set in [Set::over_tcp(), Set::over_unix()] {
        let ended = run(&format!("call echo --peers {} --id 2", set.peers()));
        let expected = format!(
            "gpc: id 2 is running already, at {}: join with another --id, which the peers file need not have\n",
            set.addresses[2]
        );
        assert_eq!((ended.code(), ended.stderr), (Some(1), expected));
        // The id had never been heard from, and is not locked out now.
        assert_eq!(set.call(0, "--tree chain"), [0, 1, 2, 3]);
        set.end();
    }
}

#[test]
fn a_node_says_why_it_does_not_run() {
    let set = Set::over_unix();
    let refused_with = |status, line: &str| {
        let ended = run(line);
        assert_eq!((ended.code(), ended.stdout.len()), (Some(status), 0), "{line}");
        ended.stderr
    };
    let refused = |line: &str| refused_with(1, line);
    let peers = set.peers();
    let error = refused_with(2, &format!("node --id 9 --listen 0.0.0.0:0 --peers {peers}"));
    assert!(error.contains("without a secret whoever connects") && error.contains("--insecure"), "{error}");
    // Another node already listens there, and continues.
    let error = refused(&set.line(1));
    assert!(error.starts_with(&format!("gpc: cannot listen at {}: ", set.addresses[1])), "{error}");
    assert_eq!(set.call(0, ""), [0, 1, 2, 3]);
    // A file that is not a socket is not replaced.
    let file = set.folder.path().join("file");
    fs::write(&file, "mine").unwrap();
    let error = refused(&format!("node --id 9 --listen unix:{} --peers {peers}", file.display()));
    assert!(error.contains("cannot listen at unix:") && error.contains("is no socket"), "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    // An error in the peers file is reported with its line.
    fs::write(&file, "0 127.0.0.1:7000\n\n1 here\n").unwrap();
    for line in ["node --id 9 --listen unix:@nowhere", "call echo --id 0"] {
        let error = refused(&format!("{line} --peers {}", file.display()));
        assert!(error.contains("peers file, line 3: `here` is no address"), "{error}");
    }
    fs::remove_file(file).unwrap();
    set.end();
}

#[test]
fn a_socket_without_a_node_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("1.sock");
    drop(UnixListener::bind(&path).unwrap());
    fs::write(folder.path().join("peers"), "0 127.0.0.1:7000\n").unwrap();
    let line = format!(
        "node --id 1 --listen unix:{} --peers {}",
        path.display(),
        folder.path().join("peers").display()
    );
    for signal in [Signal::TERM, Signal::INT] {
        let node = Gpc::start(&line);
        node.until_said("listens at");
        drop(UnixStream::connect(&path).unwrap());
        node.process().kill(signal);
        assert_eq!((node.end().code(), path.exists()), (Some(0), false));
    }
}
