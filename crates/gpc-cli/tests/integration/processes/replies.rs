//! Long replies from many processes: the memory of the processes in between, and processes that die meanwhile.

use std::io::Write;
use std::sync::atomic::{AtomicU8, Ordering};

use chained_gpc::wire::level::{Leaves, Limits};
use rustix::process::Signal;

use crate::processes::size::OWN_KIB_MAX;
use crate::processes::support::{Ended, Gpc, coverage, run, until};

const KIB: u64 = 1 << 10;

/// Maximum memory of a node for each child's reply, in KiB: a window of 4 MiB, the two segments that its link to the
/// parent has cut, the two segments that it reads into, and overhead of the allocator.
const WINDOW_KIB_MAX: u64 = 8 * KIB;

/// Returns the sizes of the leaves of raw level-n data, all of them filled by `fill`.
fn filled(ended: &Ended, level: u16) -> Vec<usize> {
    let leaf = |leaf: Result<&[u8], _>| {
        let leaf = leaf.unwrap();
        assert!(leaf == vec![b'.'; leaf.len()]);
        leaf.len()
    };
    Leaves::new(level, &ended.stdout, Limits::default()).map(leaf).collect()
}

/// Nodes 1 to 7, which outlive a call, so that their peak memory can be read. The file has their addresses, and that of
/// id 0.
struct Nodes {
    peers: tempfile::NamedTempFile,
    nodes: Vec<Gpc>,
}

impl Nodes {
    fn start(link: &str) -> Nodes {
        static COUNT: AtomicU8 = AtomicU8::new(100);
        // Loopback addresses of this process and set only, so that no other test has the port.
        let (pid, count) = (std::process::id().to_be_bytes(), COUNT.fetch_add(1, Ordering::Relaxed));
        let address = |id| format!("127.{}.{}.{count}:{}", pid[2] | 0x80, pid[3], 7000 + id);
        let mut peers = tempfile::NamedTempFile::new().unwrap();
        (0..8).for_each(|id| writeln!(peers, "{id} {}", address(id)).unwrap());
        let node = |id| {
            let (at, peers) = (address(id), peers.path().display());
            let node = Gpc::start(&format!("node --id {id} --listen {at} --peers {peers} --link {link}"));
            node.until_said(&format!("gpc: id {id} listens at {at}"));
            node
        };
        let nodes = (1..8).map(node).collect();
        Nodes { peers, nodes }
    }

    /// Ends the nodes; returns the peak memory of each, in KiB.
    fn end(self) -> Vec<u64> {
        let end = |node: Gpc| {
            let most = node.process().own_kib_max();
            node.process().kill(Signal::INT);
            assert_eq!(node.end().code(), Some(0));
            most
        };
        self.nodes.into_iter().map(end).collect()
    }
}

/// Every process replies with 16 MiB. A process that gathered the replies would hold up to seven times that.
#[test]
fn long_replies_pass_through_processes_that_hold_a_window_of_each() {
    let own_kib = 16 * KIB;
    for (tree, link, level, children) in [
        ("chain", "tcp", 7, 1),
        ("chain", "unix", 7, 1),
        ("chain", "shm", 7, 1),
        ("binomial", "tcp", 3, 2),
        ("binomial", "unix", 3, 2),
        ("binomial", "shm", 3, 2),
    ] {
        let nodes = Nodes::start(link);
        let ended = run(&format!(
            "call fill --peers {} --id 0 --tree {tree} --link {link} --time-limit 2m --output level --header {}",
            nodes.peers.path().display(),
            own_kib << 10
        ));
        assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
        assert_eq!(filled(&ended, level), [(own_kib << 10) as usize; 8], "{tree} over {link}");
        let (most, bound) = (nodes.end(), OWN_KIB_MAX + own_kib + children * WINDOW_KIB_MAX);
        assert!(most.iter().all(|kib| (own_kib..bound).contains(kib)), "{tree} over {link}: {most:?} KiB");
    }
}

/// A process dies when the first bytes of the whole reply are at the root. It is named, although its answer had begun
/// to go up.
#[test]
fn a_process_that_is_killed_while_replies_pass_ends_the_call() {
    let own_kib = 64 * KIB;
    for (link, killed) in [("tcp", 3), ("unix", 1), ("shm", 3), ("shm", 5)] {
        let call = Gpc::start(&format!(
            "call fill -n 6 --tree chain --link {link} --time-limit 5m --output json --header {}",
            own_kib << 10
        ));
        let root = call.process();
        let comes = || root.own_kib_max_if_alive() > Some(OWN_KIB_MAX + own_kib + 8 * KIB);
        until("the reply comes", comes);
        call.node(killed).kill(Signal::KILL);
        let ended = call.end();
        let value = ended.json();
        ended.blames_the_link_of(killed, link);
        // The coverage of the others depends on what the root learns first: from the processes above the dead one, or
        // from the command that started it. On a busy machine the root still ran its own function when the replies of
        // others arrived: then it is not done.
        let [done, failed, unreached, unknown] = coverage(&value);
        assert!((failed, unreached) == (0, 0) && done + unknown == 6, "{value}");
    }
}
