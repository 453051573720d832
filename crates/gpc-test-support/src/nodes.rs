//! Nodes without threads, which the test drives, and checks that nodes hold nothing at the end of a test.
#![allow(clippy::disallowed_methods, reason = "every wait has a limit")]

use std::io;
use std::ops::{Deref, DerefMut};
use std::thread;
use std::time::{Duration, Instant};

use chained_gpc::{
    Builder, CallError, CallHandle, Functions, Id, LinkKind, MemoryNetwork, Node, Outcome, Peers, PolledNode,
    Snapshot,
};

/// No call of a test takes a tenth of this; a longer one hangs.
const LIMIT: Duration = Duration::from_secs(30);

/// What nodes hold without a change for so long, and in so many looks, stays: each look lets every node take a turn,
/// and no timer of a link takes as long. A function or a peer may still have to get a core.
const STILL: Duration = Duration::from_secs(4);
const LOOKS_MIN: usize = 200;

/// Pause before each look at nodes with threads.
const PAUSE: Duration = Duration::from_millis(2);

/// What a node without work may hold: links and their resources, memory for the next call, events that the test has not
/// taken, and answers that the root of a partial call may still ask for.
const STANDING: [&str; 8] = [
    "spare memory",
    "links up",
    "mapped rings",
    "sealed files",
    "descriptors",
    "events",
    "retained answers",
    "retained bytes",
];

/// The nodes 0 to n - 1, which know each other.
///
/// # Panics
/// If they cannot be built.
#[track_caller]
#[must_use]
pub fn polled(n: u32, link: LinkKind, functions: &Functions) -> Vec<PolledNode> {
    polled_with(n, link, functions, |builder| builder)
}

/// The same, with more settings.
///
/// # Panics
/// If they cannot be built.
#[track_caller]
pub fn polled_with(
    n: u32,
    link: LinkKind,
    functions: &Functions,
    settings: impl Fn(Builder) -> Builder,
) -> Vec<PolledNode> {
    let (listeners, addresses) = link.listen(0..n).expect("fresh addresses");
    let peers = Peers::from(addresses);
    let (memory, mut listeners) = (MemoryNetwork::new(), listeners.into_iter());
    let node = |id| {
        let builder = Node::builder(id).functions(functions).peers(peers.clone());
        let builder = match listeners.next() {
            Some(listener) => builder.listener(listener).link(link),
            None => builder.memory(&memory),
        };
        settings(builder).polled().expect("a node")
    };
    (0..n).map(node).collect()
}

/// Two nodes that know each other.
///
/// # Panics
/// If they cannot be built.
#[track_caller]
pub fn polled_pair(
    link: LinkKind,
    functions: &Functions,
    settings: impl Fn(Builder) -> Builder,
) -> [PolledNode; 2] {
    polled_with(2, link, functions, settings).try_into().unwrap_or_else(|_| unreachable!("there are two"))
}

/// Lets each node do what it can, without waiting.
///
/// # Panics
/// If the system's poll fails.
pub fn turn(nodes: &mut [PolledNode]) {
    for node in nodes {
        node.progress(Duration::ZERO).expect("the poll works");
    }
}

/// Drives all nodes until a call has ended.
///
/// # Errors
/// Those of the call.
///
/// # Panics
/// If it does not end.
#[track_caller]
pub fn drive(nodes: &mut [PolledNode], mut handle: CallHandle) -> Result<Outcome, CallError> {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(end) = handle.test() {
            return end;
        }
        assert!(Instant::now() < deadline, "the call hangs");
        turn(nodes);
    }
}

/// Waits until a node holds nothing of calls that have ended: nothing queued, reserved, watched, opening.
///
/// # Panics
/// If it still does after a limit, with what it holds.
#[track_caller]
pub fn assert_idle(node: &Node) {
    wait_for_rest(|| {
        thread::sleep(PAUSE);
        vec![(node.id(), node.snapshot())]
    });
}

/// The same for nodes that the test drives.
///
/// # Panics
/// As for [`assert_idle`].
#[track_caller]
pub fn assert_polled_idle(nodes: &mut [PolledNode]) {
    wait_for_rest(|| {
        turn(nodes);
        nodes.iter().map(|node| (node.id(), node.snapshot())).collect()
    });
}

#[track_caller]
fn wait_for_rest(mut look: impl FnMut() -> Vec<(Id, Snapshot)>) {
    let (begun, mut last) = (Instant::now(), Vec::new());
    let (mut since, mut looks) = (begun, 0);
    loop {
        let left = look().into_iter().map(|(id, snapshot)| (id, snapshot.left(&STANDING)));
        let left: Vec<_> = left.filter(|(_, left)| !left.is_empty()).collect();
        if left.is_empty() {
            return;
        }
        if left != last {
            (last, since, looks) = (left, Instant::now(), 0);
        }
        looks += 1;
        let stays = looks >= LOOKS_MIN && since.elapsed() >= STILL;
        assert!(!stays && begun.elapsed() < 2 * LIMIT, "nodes without work still hold: {last:?}");
    }
}

/// Nodes of one process that [hold nothing](assert_idle) at the end of the test.
#[derive(Debug)]
pub struct LocalNodes(chained_gpc::LocalNodes);

impl LocalNodes {
    /// As [`chained_gpc::LocalNodes::start`].
    ///
    /// # Errors
    /// As there.
    pub fn start(n: u32, link: LinkKind, functions: &Functions) -> io::Result<LocalNodes> {
        chained_gpc::LocalNodes::start(n, link, functions).map(LocalNodes)
    }

    /// As [`chained_gpc::LocalNodes::start_with`].
    ///
    /// # Errors
    /// As there.
    pub fn start_with(
        n: u32,
        link: LinkKind,
        functions: &Functions,
        adjust: impl Fn(Id, Builder) -> Builder,
    ) -> io::Result<LocalNodes> {
        chained_gpc::LocalNodes::start_with(n, link, functions, adjust).map(LocalNodes)
    }
}

impl Deref for LocalNodes {
    type Target = chained_gpc::LocalNodes;

    fn deref(&self) -> &chained_gpc::LocalNodes {
        &self.0
    }
}

impl DerefMut for LocalNodes {
    fn deref_mut(&mut self) -> &mut chained_gpc::LocalNodes {
        &mut self.0
    }
}

impl Drop for LocalNodes {
    fn drop(&mut self) {
        // A test that has failed says why itself.
        if !thread::panicking() {
            wait_for_rest(|| {
                thread::sleep(PAUSE);
                self.0.snapshots()
            });
        }
    }
}
