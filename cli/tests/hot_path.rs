//! What a hop costs: allocations and calls of the system, counted, so that a message takes no more than docs/performance.md says.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use chained_gpc::Placement;
use chained_gpc::{Call, FuncHandle, Functions, LinkKind, Listener, Node, Peers, PolledNode};
use gpc_trees::{IdList, Tree};

/// The system's allocator, with the calls of the current thread counted.
struct Counting;

thread_local! {
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes on to the system's allocator as it came; counting neither allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TAKEN.set(TAKEN.get() + 1);
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        TAKEN.set(TAKEN.get() + 1);
        // SAFETY: as above.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Calls before counting begins: links are up, and every list has found its size.
const WARM_UP: u32 = 300;

/// Calls that are counted; what happens once in hundreds, such as a list that grows, is spread over them.
const COUNTED: u32 = 500;

/// Nodes that are all driven by this thread; the first one is the root.
struct Group {
    nodes: Vec<PolledNode>,
    func: FuncHandle,
    tree: Tree,
    /// Allocations in each node's turns.
    taken: Vec<u64>,
    /// Allocations of the root's application to have all replies, lent.
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
        let listeners: Vec<Listener> =
            (0..n).map(|id| Listener::bind(&link.fresh_address(id)).expect("a fresh address")).collect();
        let addresses = listeners.iter().map(|listener| listener.address().expect("it is bound"));
        let peers: Peers = (0..).zip(addresses).collect();
        let build = |(id, listener)| {
            let builder = Node::builder(id).functions(&functions).peers(peers.clone());
            builder.listener(listener).link(link).polled().expect("a node")
        };
        let nodes: Vec<PolledNode> = (0..).zip(listeners).map(build).collect();
        Group { taken: vec![0; nodes.len()], nodes, func, tree, lent: 0 }
    }

    /// Allocations for a call when nothing is new any more: in each node's turns, and for the replies.
    fn each(mut self) -> (Vec<f64>, f64) {
        (0..WARM_UP).for_each(|_| self.call());
        self.taken.fill(0);
        self.lent = 0;
        (0..COUNTED).for_each(|_| self.call());
        let each = |taken: u64| taken as f64 / f64::from(COUNTED);
        (self.taken.into_iter().map(each).collect(), each(self.lent))
    }

    /// One call with 64 bytes each way.
    fn call(&mut self) {
        let n = self.nodes.len();
        let call =
            Call::new(self.func).ids(IdList::range(0..n as u32)).tree(self.tree.clone()).data(vec![7; 64]);
        let mut handle = self.nodes[0].call(call).expect("a good call");
        // Bounded: far more turns than a call takes.
        for _ in 0..1_000_000 {
            for (node, taken) in self.nodes.iter_mut().zip(&mut self.taken) {
                let before = TAKEN.get();
                node.progress(Duration::ZERO).expect("the poll works");
                *taken += TAKEN.get() - before;
            }
            if let Some(outcome) = handle.test() {
                let (outcome, before) = (outcome.expect("it ends well"), TAKEN.get());
                assert_eq!(outcome.replies_ref().expect("good replies").len(), n);
                self.lent += TAKEN.get() - before;
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
        // Of docs/performance.md, "What a hop costs".
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
            // The list itself: the parts lie where they came.
            assert!(lent <= 1.0, "{link:?}: to have {children} replies takes {lent} allocations");
        }
    }
}

/// Calls of the system that one run of `gpc call` made, by name; `None` without strace.
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

/// A Unix socket once told its writer of every read of the peer: each node was woken one and a half times for every message.
#[test]
fn a_hop_is_one_write_one_read_and_one_wait() {
    // Two hops; the root is woken once more, by its caller, and now and then after it has seen the call by itself.
    let sockets = [("writev", 0.0), ("recvfrom", 2.0), ("sendto", 2.0), ("epoll_wait", 3.0), ("write", 1.0)];
    // The bell is a write, too; and bells are read by the dozen.
    let rings = [("writev", 0.0), ("recvfrom", 0.1), ("sendto", 2.0), ("epoll_wait", 3.0), ("write", 1.0)];
    for (link, each) in [("tcp", sockets), ("unix", sockets), ("shm", rings)] {
        // Who is scheduled when can only add to them: a process that is put off between two steps is rung, or asks, once more. What is made too often is so each time.
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

/// Calls of the system that one call over two ids makes, by name.
fn of_a_call(link: &str) -> Option<BTreeMap<String, f64>> {
    let (few, mut many) = (system_calls(link, 200)?, system_calls(link, 1200)?);
    // Those of the start and the end are in both.
    for (name, count) in &mut many {
        *count = (*count - few.get(name).copied().unwrap_or_default()) / 1000.0;
    }
    Some(many)
}
