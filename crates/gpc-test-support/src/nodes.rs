//! Nodes without threads, which the test drives.
#![allow(clippy::disallowed_methods, reason = "every wait has a limit")]

use std::time::{Duration, Instant};

use chained_gpc::{Builder, CallError, CallHandle, Functions, LinkKind, Node, Outcome, Peers, PolledNode};

/// No call of a test takes a tenth of this; a longer one hangs.
const LIMIT: Duration = Duration::from_secs(30);

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
    let node = |(id, listener)| {
        let builder = Node::builder(id).functions(functions).peers(peers.clone());
        settings(builder.listener(listener).link(link)).polled().expect("a node")
    };
    (0..n).zip(listeners).map(node).collect()
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
