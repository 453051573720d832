//! A network between nodes of one process, in memory.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::{Arc, Mutex, PoisonError};

use gpc_trees::Id;

use super::network::{HostNetwork, NotSent};
use super::port::HostPort;

/// Connects nodes of one process without sockets, for tests, examples, and comparisons of transports. Clones are the
/// same network; [`Builder::memory`](crate::Builder::memory) puts a node on it.
///
/// ```
/// use chained_gpc::runtime::AddressRow;
/// use chained_gpc::{Call, Functions, MemoryNetwork, Node, Peers};
///
/// let functions = Functions::new();
/// let hello = functions.func("hello", |_, _| Ok(()))?;
/// let network = MemoryNetwork::new();
/// let start = |id| {
///     let peers = Peers::from(AddressRow::host(0..8));
///     Node::builder(id).functions(&functions).peers(peers).memory(&network).start()
/// };
/// let nodes = (0..8).map(start).collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(nodes[3].call(Call::new(hello).ids([3, 0, 7]))?.wait()?.replies()?.len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default, Debug)]
pub struct MemoryNetwork(Arc<Mutex<BTreeMap<Id, HostPort>>>);

/// One node's access to a [`MemoryNetwork`].
#[derive(Debug)]
pub(crate) struct MemoryPlace {
    me: Id,
    network: MemoryNetwork,
}

impl MemoryNetwork {
    /// Creates a network without nodes.
    pub fn new() -> MemoryNetwork {
        MemoryNetwork::default()
    }

    pub(crate) fn place(&self, me: Id) -> MemoryPlace {
        MemoryPlace { me, network: self.clone() }
    }
}

impl HostNetwork for MemoryPlace {
    fn send(&self, to: Id, parts: &[IoSlice<'_>]) -> Result<(), NotSent> {
        let lost = |why: &str| NotSent::Lost(format!("id {to} {why}"));
        let ports = self.network.0.lock().unwrap_or_else(PoisonError::into_inner);
        let port = ports.get(&to).cloned().ok_or_else(|| lost("is not in this network"))?;
        drop(ports);
        let message = parts.iter().map(|part| &**part).collect::<Vec<_>>().concat();
        port.deliver(self.me, &message).map_err(|error| lost(&format!("takes no message: {error}")))
    }

    /// A later node of the same id replaces the former one.
    fn starts(&self, port: HostPort) {
        self.network.0.lock().unwrap_or_else(PoisonError::into_inner).insert(self.me, port);
    }
}
