//! Outputs of the peering machine: actions for its driver, and events.

use gpc_trees::Id;

use super::greeting::Proof;
use super::peer::LinkKey;
use super::proof::Session;
use crate::wire::{CauseKind, Hello};

/// An action or event for the driver, carried out in order.
#[derive(Debug)]
pub enum Output {
    /// Write these bytes to a connection, after those before them.
    Write {
        /// The connection.
        key: LinkKey,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Close a connection once all written bytes have been sent. Bytes received on it are ignored.
    Finish {
        /// The connection.
        key: LinkKey,
    },
    /// Close a connection at once; peering has already dropped it.
    Close {
        /// The connection.
        key: LinkKey,
    },
    /// A connection was rejected. The reason is for the log: the other side receives less detail.
    Rejected {
        /// The connection.
        key: LinkKey,
        /// Reason, for people.
        why: String,
    },
    /// A connection has become the link to a peer.
    Up(Box<NewLink>),
    /// Close a link that another connection replaces. Its other end is notified, as far as that can be sent at once.
    Replaced {
        /// The link.
        key: LinkKey,
        /// The peer.
        peer: Id,
        /// Incarnation of the peer.
        incarnation: u64,
    },
    /// Send a PING to a peer, because another run of its id has connected. The driver sets the time limit of the answer
    /// with [`Peering::set_answer_limit`](super::Peering::set_answer_limit).
    SendPing {
        /// The link.
        key: LinkKey,
        /// The peer.
        peer: Id,
    },
    /// The link to a peer is lost, or the awaited connection did not arrive: fail everything that waits for it.
    Lost {
        /// The peer.
        peer: Id,
        /// Kind of failure for the calls that wait for it.
        kind: CauseKind,
        /// Reason, for people.
        why: String,
        /// Whether the link was up: if not, nothing that was sent can have arrived.
        was_up: bool,
    },
    /// This node's attempt to connect to a peer has failed: fail everything that waits for it; none of it arrived.
    Unreached {
        /// The peer.
        peer: Id,
        /// Kind of failure for the calls that wait for it.
        kind: CauseKind,
        /// Reason, for people, without the address.
        why: String,
    },
}

/// A new link.
#[derive(Debug)]
pub struct NewLink {
    /// The connection that became the link.
    pub key: LinkKey,
    /// The peer's hello.
    pub hello: Hello,
    /// Whether the peer opened the connection.
    pub accepted: bool,
    /// Whether all further bytes go through rings.
    pub rings: bool,
    /// Whether data are then passed by descriptor.
    pub extents: bool,
    /// Session that seals and opens all further bytes, if the link is encrypted.
    pub session: Option<Box<dyn Session>>,
    /// How the peer has proved its membership.
    pub proof: Proof,
}
