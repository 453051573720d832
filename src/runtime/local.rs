//! Several nodes in one process, for tests, examples and benchmarks. Each is a full node, with its own thread and
//! sockets.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use gpc_trees::Id;

use super::builder::Builder;
use super::functions::Functions;
use super::node::Node;
use super::{LinkKind, MemoryNetwork, Peers};

/// Nodes 0 to n-1 of one process.
///
/// ```
/// use std::time::Duration;
///
/// use chained_gpc::{Call, Functions, LinkKind, LocalNodes};
///
/// let functions = Functions::new();
/// let who = functions.func("who", |request, reply| {
///     reply.data = vec![request.me() as u8];
///     Ok(())
/// })?;
/// let mut nodes = LocalNodes::start(4, LinkKind::Unix, &functions)?;
/// // Any node may be the root of a call.
/// let outcome = nodes.node(2).call(Call::new(who).ids([2, 0, 3]))?.wait()?;
/// let ids: Vec<u8> = outcome.replies()?.iter().map(|reply| reply.data[0]).collect();
/// assert_eq!(ids, [2, 0, 3]);
/// // A node that is dropped is like one that has died.
/// drop(nodes.take(3));
/// assert!(nodes.node(2).call(Call::new(who).ids([2, 3]))?.wait().is_err());
/// nodes.shutdown(Duration::from_secs(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LocalNodes(BTreeMap<Id, Node>);

impl LocalNodes {
    /// Starts `n` nodes with the same functions, which know each other.
    ///
    /// # Errors
    /// The system's: no descriptors, no threads.
    pub fn start(n: u32, link: LinkKind, functions: &Functions) -> io::Result<LocalNodes> {
        LocalNodes::start_with(n, link, functions, |_, builder| builder)
    }

    /// Like [`start`](Self::start); `adjust` may change the builder of each node.
    ///
    /// # Errors
    /// The system's: no descriptors, no threads.
    pub fn start_with(
        n: u32,
        link: LinkKind,
        functions: &Functions,
        adjust: impl Fn(Id, Builder) -> Builder,
    ) -> io::Result<LocalNodes> {
        let (listeners, row) = link.listen(0..n).map_err(|(_, error)| error)?;
        let peers = Peers::from(row);
        let (memory, mut listeners) = (MemoryNetwork::new(), listeners.into_iter());
        let start = |id| {
            let builder = Node::builder(id).functions(functions).peers(peers.clone()).first_run();
            let builder = match listeners.next() {
                Some(listener) => builder.listener(listener).link(link),
                None => builder.memory(&memory),
            };
            adjust(id, builder).start().map(|node| (id, node))
        };
        Ok(LocalNodes((0..n).map(start).collect::<io::Result<_>>()?))
    }

    /// Returns a node by its id.
    ///
    /// # Panics
    /// If there is no such node, or it has been taken.
    pub fn node(&self, id: Id) -> &Node {
        &self.0[&id]
    }

    /// Returns node 0.
    ///
    /// # Panics
    /// If there are no nodes.
    pub fn root(&self) -> &Node {
        self.node(0)
    }

    /// Number of nodes, without those that were taken.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What each node holds, by id.
    #[cfg(feature = "snapshot")]
    #[doc(hidden)]
    pub fn snapshots(&self) -> Vec<(Id, crate::Snapshot)> {
        self.0.iter().map(|(id, node)| (*id, node.snapshot())).collect()
    }

    /// Takes one node out, to end or restart it while the others go on; they keep their ids.
    ///
    /// # Panics
    /// If there is no such node, or it has been taken.
    pub fn take(&mut self, id: Id) -> Node {
        self.0.remove(&id).expect("a node is taken once")
    }

    /// Ends all of them in order.
    pub fn shutdown(self, limit: Duration) {
        for node in self.0.into_values() {
            node.shutdown(limit);
        }
    }
}
