//! The port to which a program delivers the messages of its network.

use std::fmt;
use std::sync::Weak;

use gpc_trees::Id;

/// The port of a node to which the program [delivers](Self::deliver) the messages of its [network](super::HostNetwork).
/// Clones are ports of the same node. Any thread may use it, also while it [sends](super::HostNetwork::send) for
/// another node. No method waits.
#[derive(Clone)]
pub struct HostPort {
    me: Id,
    node: Weak<dyn Receives>,
}

/// Receiver of the program's messages and reports.
pub(super) trait Receives: Send + Sync {
    /// Handles a message of a peer.
    fn deliver(&self, from: Id, message: &[u8]) -> Result<(), NotDelivered>;

    /// Handles the loss of a peer and all of its connections.
    fn peer_lost(&self, peer: Id, why: &str);

    /// Handles room in the network for messages to a peer.
    fn writable(&self, peer: Id);
}

impl fmt::Debug for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostPort").field("me", &self.me).finish_non_exhaustive()
    }
}

/// Why a message was not delivered.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotDelivered {
    /// The node has ended.
    #[error("the node has ended")]
    Ended,
    /// The bytes are not a valid message. Nothing has changed.
    #[error("invalid message from id {from}: {why}")]
    NoMessage {
        /// The id that the network names as the sender.
        from: Id,
        /// Reason, for people.
        why: String,
    },
}

impl HostPort {
    pub(super) fn new(me: Id, node: Weak<dyn Receives>) -> HostPort {
        HostPort { me, node }
    }

    /// The id of the node.
    pub fn id(&self) -> Id {
        self.me
    }

    /// Delivers a complete message of a peer: the bytes that [`send`](super::HostNetwork::send) got there. They are
    /// copied. The bytes that wait here are bounded, since each peer has a limit; a peer that exceeds it loses its
    /// link.
    ///
    /// # Errors
    /// [`NotDelivered`].
    pub fn deliver(&self, from: Id, message: &[u8]) -> Result<(), NotDelivered> {
        self.node.upgrade().ok_or(NotDelivered::Ended)?.deliver(from, message)
    }

    /// Reports that a peer cannot be reached any more: its link is lost, and calls that need it fail or go on without
    /// it. `why` is for people. A later process of the same id may link again.
    pub fn peer_lost(&self, peer: Id, why: &str) {
        if let Some(node) = self.node.upgrade() {
            node.peer_lost(peer, why);
        }
    }

    /// Reports that there is room for messages to a peer, after [`NotSent::WouldBlock`](super::NotSent::WouldBlock).
    pub fn writable(&self, peer: Id) {
        if let Some(node) = self.node.upgrade() {
            node.writable(peer);
        }
    }
}
