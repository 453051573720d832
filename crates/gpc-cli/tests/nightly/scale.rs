//! A domain of 64 nodes, and a thousand processes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::process::Signal;

use crate::support::*;

const NODES: usize = 64;
const PROCESSES: usize = 1024;

/// Serializes the tests: a thousand shells are enough for a machine.
static ALONE: Mutex<()> = Mutex::new(());

/// Each process puts, fences, gets the value of its neighbour, and enters a barrier. Rank 0 enters it after it has read
/// a line.
const EXCHANGE: &str = "put k$PMI_RANK v$PMI_RANK; fence; get k$(((PMI_RANK + 1) % PMI_SIZE)); echo \"$line\"; [ $PMI_RANK != 0 ] || read line; fence; finalize";

/// Maximum number of links of a node: to the nodes that send it their output, to those to which it forwards calls, and
/// to those that get its output and send it calls. For 64 nodes both trees together have 10 below the head; a tree
/// whose root is another node has 6.
const LINKS_MAX: usize = 24;

/// Returns the names of connected TCP sockets, in the form of descriptors in /proc.
fn connected() -> BTreeSet<String> {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<&str>>());
    // The state is the fourth column, the name the tenth.
    rows.filter(|row| row[3] == "01").map(|row| format!("socket:[{}]", row[9])).collect()
}

/// Returns the names of a process's descriptors.
fn descriptors(process: &Process) -> Vec<String> {
    let folder = fs::read_dir(format!("/proc/{}/fd", process.pid.as_raw_nonzero())).unwrap();
    let named = folder.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    named.map(|name| name.to_string_lossy().into_owned()).collect()
}

/// Returns the output of [`EXCHANGE`].
fn exchanged() -> Vec<String> {
    let mut said: Vec<String> =
        (0..PROCESSES).map(|rank| format!("cmd=get_result rc=0 msg=success value=v{rank}")).collect();
    said.sort();
    said
}

/// Runs the exchange, and calls `look` when all processes have fenced and none has ended.
fn exchange(mut command: Command, look: impl FnOnce()) {
    command.stdin(Stdio::piped());
    let mut run = Run::start(command);
    run.says("cmd=get_result", PROCESSES);
    look();
    run.write("go on\n");
    let ended = run.ended();
    assert_eq!((ended.status, ended.err.as_str()), (0, ""));
    assert_eq!(ended.lines(), exchanged());
}

/// Returns the processes of gpc itself: nodes, supervisors and servers of PMIx.
fn own(place: &Place) -> Vec<Process> {
    let mut own = place.processes();
    own.retain(|process| process.line.starts_with(EXE));
    own
}

#[test]
fn a_thousand_processes_of_64_nodes_begin_speak_fence_and_end() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Place::new();
    let words = format!("run --nodes {NODES} -n {PROCESSES}");
    let silent = ended(place.gpc(words.split_whitespace().chain(["true"])));
    assert_eq!((silent.status, silent.out.as_str(), silent.err.as_str()), (0, "", ""));
    place.empty();

    let loud = ended(place.gpc(words.split_whitespace().chain(["sh", "-c", "echo $PMI_RANK"])));
    let mut ranks: Vec<usize> = loud.out.lines().map(|line| line.parse().unwrap()).collect();
    ranks.sort_unstable();
    assert_eq!((loud.status, loud.err.as_str(), ranks), (0, "", (0..PROCESSES).collect()));
    place.empty();

    let script = format!("{PMI}{EXCHANGE}");
    exchange(place.script(&words["run ".len()..], &script), || {
        let own = own(&place);
        let count = |command: &str| {
            own.iter().filter(|process| process.line.split(' ').nth(1) == Some(command)).count()
        };
        assert_eq!((count("run"), count("node"), count("keep")), (1, NODES - 1, NODES), "{own:?}");
        // A script may start an Open MPI program, so each node has a server where libpmix is installed.
        assert!([0, NODES].contains(&count("pmix-serve")), "{own:?}");
        assert_eq!(own.len(), 2 * NODES + count("pmix-serve"), "{own:?}");
        for process in own {
            let memory = kib(process.pid, "VmHWM");
            assert!(memory < 64 << 10, "{memory} KiB: {process:?}");
            // Three for each of its processes (the socket, standard output and error); the head also has one for each
            // node that it has started.
            let most = 3 * PROCESSES / NODES + NODES + 64;
            let count = descriptors(&process).len();
            assert!(count < most, "{count} descriptors: {process:?}");
        }
    });
    place.empty();
}

/// Starts this number of nodes, from id 1 on, at addresses on loopback. The file `peers` has them and id 0.
fn running(place: &Place, count: usize) -> Vec<Run> {
    let sockets: Vec<TcpListener> = (0..=count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let address = |socket: &TcpListener| socket.local_addr().unwrap();
    let lines = sockets.iter().enumerate().map(|(id, socket)| format!("{id} {}\n", address(socket)));
    fs::write(place.path("peers"), lines.collect::<String>()).unwrap();
    drop(sockets);
    assert_eq!(ended(place.gpc(["secret", &place.path("secret")])).status, 0);
    let (peers, secret) = (place.path("peers"), place.path("secret"));
    let start = |id: usize| {
        let words =
            format!("node --exec-allowed --id {id} --peers {peers} --link tcp --secret-file {secret}");
        Run::start(place.gpc(words.split_whitespace()))
    };
    let nodes: Vec<Run> = (1..=count).map(start).collect();
    nodes.iter().for_each(|node| node.complains("listens at"));
    nodes
}

#[test]
fn no_node_of_64_opens_as_many_links_as_there_are_nodes() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Place::new();
    let nodes = running(&place, NODES);
    let (peers, secret) = (place.path("peers"), place.path("secret"));
    let words = format!("--peers {peers} --id 0 --secret-file {secret} -n {PROCESSES}");
    exchange(place.script(&words, &format!("{PMI}{EXCHANGE}")), || {
        let connected = connected();
        let links: BTreeMap<String, usize> = own(&place)
            .into_iter()
            .map(|process| {
                let found = descriptors(&process);
                (process.line.clone(), found.iter().filter(|name| connected.contains(*name)).count())
            })
            .collect();
        let all: usize = links.values().sum();
        assert!(all >= 2 * NODES, "each node has a link with two ends: {links:?}");
        assert!(links.values().all(|count| *count <= LINKS_MAX), "{links:?}");
    });
    nodes.iter().for_each(|node| node.signal(Signal::TERM));
    nodes.into_iter().for_each(|node| drop(node.ended()));
    place.empty();
}
