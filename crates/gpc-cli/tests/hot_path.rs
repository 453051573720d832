//! Cost of a hop: allocations and system calls are counted, so that a message takes no more than docs/performance.md
//! states.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use chained_gpc::Placement;
use chained_gpc::{Call, FuncHandle, Functions, LinkKind, PolledNode};
use gpc_test_support::memory::{Counting, OfThread};
use gpc_test_support::nodes;
use gpc_trees::{IdList, Tree};

#[global_allocator]
static COUNTING: Counting<OfThread> = Counting::new();

/// Calls before counting begins: links are up, and every list has its final size.
const WARM_UP: u32 = 300;

/// Calls that are counted. A rare event, such as the growth of a list once in hundreds of calls, is spread over them.
const COUNTED: u32 = 500;

/// Nodes that this thread drives; the first one is the root.
struct Group {
    nodes: Vec<PolledNode>,
    func: FuncHandle,
    tree: Tree,
    /// Number of allocations in the turns of each node.
    taken: Vec<u64>,
    /// Number of allocations of the root's application to borrow all replies.
    lent: u64,
}

impl Group {
    fn new(link: LinkKind, tree: Tree, n: u32) -> Group {
        let functions = Functions::new();
        let func = functions
            .at(Placement::Inline)
            .func("reply", |request, reply| {
                reply.data.extend_from_slice(request.data());
                Ok(())
            })
            .expect("no other function has the name");
        let nodes = nodes::polled(n, link, &functions);
        Group { taken: vec![0; nodes.len()], nodes, func, tree, lent: 0 }
    }

    /// Returns the allocations per call in the steady state: in the turns of each node, and for the replies.
    fn each(mut self) -> (Vec<f64>, f64) {
        (0..WARM_UP).for_each(|_| self.call());
        self.taken.fill(0);
        self.lent = 0;
        (0..COUNTED).for_each(|_| self.call());
        let each = |taken: u64| taken as f64 / f64::from(COUNTED);
        (self.taken.into_iter().map(each).collect(), each(self.lent))
    }

    /// Makes one call with 64 bytes each way.
    fn call(&mut self) {
        let n = self.nodes.len();
        let call =
            Call::new(self.func).ids(IdList::range(0..n as u32)).tree(self.tree.clone()).data(vec![7; 64]);
        let mut handle = self.nodes[0].call(call).expect("a good call");
        // Bounded: far more turns than a call takes.
        for _ in 0..1_000_000 {
            for (node, taken) in self.nodes.iter_mut().zip(&mut self.taken) {
                let before = OfThread::allocations();
                node.progress(Duration::ZERO).expect("the poll works");
                *taken += OfThread::allocations() - before;
            }
            if let Some(outcome) = handle.test() {
                let (outcome, before) = (outcome.expect("it ends well"), OfThread::allocations());
                assert_eq!(outcome.replies_ref().expect("good replies").len(), n);
                self.lent += OfThread::allocations() - before;
                return;
            }
        }
        panic!("the call does not end");
    }
}

#[test]
fn a_call_allocates_no_more_than_it_must() {
    for link in [LinkKind::Tcp, LinkKind::Unix, LinkKind::Shm] {
        let each = Group::new(link, Tree::Chain, 3).each().0;
        // From docs/performance.md, "What a hop costs".
        let most = [1.0, 0.0, 0.0];
        let roles = ["root", "one in the middle", "leaf"];
        for ((role, each), most) in roles.iter().zip(each).zip(most) {
            assert!(each <= most, "{link:?}: a {role} allocates {each} times for a call, more than {most}");
        }
        for (children, most) in [(2, 1.0), (6, 1.0), (8, 2.0)] {
            let (each, lent) = Group::new(link, Tree::Flat, 1 + children).each();
            assert!(
                each[0] <= most,
                "{link:?}: a root of {children} leaves allocates {} times for a call",
                each[0]
            );
            assert!(
                each[1..].iter().all(|&each| each == 0.0),
                "{link:?}: of {children} leaves one allocates: {each:?}"
            );
            // Only the list itself: its parts stay where they were received.
            assert!(lent <= 1.0, "{link:?}: to have {children} replies takes {lent} allocations");
        }
    }
}

/// Returns the number of system calls of one run of `gpc call`, by name; `None` without strace.
fn system_calls(link: &str, repeat: u32) -> Option<BTreeMap<String, f64>> {
    let summary = tempfile::NamedTempFile::new().expect("a file");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-c", "-o"]).arg(summary.path()).arg(env!("CARGO_BIN_EXE_gpc"));
    strace.args(["call", "echo", "-n", "2", "--wait", "block", "--link", link]);
    let output = strace.args(["--repeat", &repeat.to_string()]).output();
    match output {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        output => {
            let output = output.expect("strace runs");
            let said = String::from_utf8_lossy(&output.stderr);
            if said.contains("Operation not permitted") {
                return None;
            }
            assert!(output.status.success(), "{said}");
        }
    }
    let summary = std::fs::read_to_string(summary.path()).expect("the summary of strace");
    let rows = summary.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        Some(((*words.last()?).to_owned(), words.get(3)?.parse().ok()?))
    });
    Some(rows.collect())
}

/// A Unix socket reported every read of the peer to its writer: each node was woken one and a half times for every
/// message.
#[test]
fn a_hop_is_one_write_one_read_and_one_wait() {
    // Two hops. The root is woken once more by its caller, and sometimes after it has already found the call while
    // polling.
    let sockets = [("writev", 0.0), ("recvfrom", 2.0), ("sendto", 2.0), ("epoll_wait", 3.0), ("write", 1.0)];
    // A wake-up of the peer is a write to its socket, too, and many wake-ups are read at once.
    let rings = [("writev", 0.0), ("recvfrom", 0.1), ("sendto", 2.0), ("epoll_wait", 3.0), ("write", 1.0)];
    for (link, each) in [("tcp", sockets), ("unix", sockets), ("shm", rings)] {
        // Scheduling can only add calls: a process that is preempted between two steps is woken, or polls, once more. A
        // real excess occurs in every attempt.
        let mut wrong = Vec::new();
        for _ in 0..3 {
            let Some(made) = of_a_call(link) else {
                eprintln!("skipped: needs strace, and leave to trace");
                return;
            };
            let made = each.map(|(name, most)| (name, made.get(name).copied().unwrap_or_default(), most));
            wrong = made.into_iter().filter(|(_, made, most)| *made > most + 0.15).collect();
            if wrong.is_empty() {
                break;
            }
        }
        assert!(
            wrong.is_empty(),
            "{link}: a call over two ids makes more than it must (name, made, most): {wrong:?}"
        );
    }
}

/// Returns the number of system calls for one call over two ids, by name.
fn of_a_call(link: &str) -> Option<BTreeMap<String, f64>> {
    let (few, mut many) = (system_calls(link, 200)?, system_calls(link, 1200)?);
    // The calls at the start and the end are in both counts.
    for (name, count) in &mut many {
        *count = (*count - few.get(name).copied().unwrap_or_default()) / 1000.0;
    }
    Some(many)
}
