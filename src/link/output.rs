//! Outputs of the links of a node: actions for the driver, and inputs for the chain.

use std::time::Duration;

use gpc_trees::Id;

use super::loss::Loss;
use super::outbox::unsent::UnsentRequests;
use super::peering::{LinkKey, NewLink};
use crate::chain::Input;
use crate::wire::CauseKind;

/// An action for the driver, or an event, in order. The driver carries out each output before its next call of the
/// links.
#[derive(Debug)]
pub enum LinksOutput {
    /// Open a connection to a peer, and report it with [`Links::add_outgoing`](super::Links::add_outgoing) or
    /// [`Links::fail_outgoing`](super::Links::fail_outgoing).
    Open {
        /// The peer.
        peer: Id,
    },
    /// Close a connection, and take it out with [`Links::remove`](super::Links::remove).
    Close {
        /// The connection.
        key: LinkKey,
    },
    /// Close a connection after its queued bytes have been written, as far as possible at once.
    CloseAfterWriting {
        /// The connection.
        key: LinkKey,
    },
    /// A connection is about to become a link. The driver writes the rest of its greeting and switches to its session
    /// or shared memory. Then it calls [`Links::establish`](super::Links::establish) or
    /// [`Links::fail_setup`](super::Links::fail_setup).
    Prepare(Box<NewLink>),
    /// A connection was rejected. The reason is for the log: the other side receives less detail.
    Rejected {
        /// The connection.
        key: LinkKey,
        /// Reason, for people.
        why: String,
    },
    /// A link is up: an event for subscribers. The chain has an input of its own.
    Up {
        /// The peer.
        peer: Id,
        /// Incarnation of the peer.
        incarnation: u64,
    },
    /// A link that was up is lost: an event for subscribers. The chain has an input of its own, or has detected the
    /// loss.
    Lost {
        /// The peer.
        peer: Id,
        /// Incarnation of the peer.
        incarnation: u64,
        /// How it was lost.
        loss: Loss,
        /// Reason, for people.
        why: String,
    },
    /// A peer has answered a PING while another run of its id waits. The driver calls
    /// [`Links::confirm_alive`](super::Links::confirm_alive), unless the connection has ended already.
    PongReceived {
        /// The connection.
        key: LinkKey,
        /// The peer.
        peer: Id,
    },
    /// A peer has announced a pause, or its end.
    Pause {
        /// The connection.
        key: LinkKey,
        /// The length; zero at the end.
        length: Duration,
    },
}

/// An input for the chain.
#[derive(Debug)]
pub enum Arrival {
    /// An input, unchanged.
    Input(Input),
    /// A lost link, or a failed attempt to open one.
    Lost(LostLink),
}

/// A lost link, or a failed attempt to open one.
#[derive(Debug)]
pub struct LostLink {
    /// The peer.
    pub peer: Id,
    /// Kind of failure for the calls that use the link.
    pub kind: CauseKind,
    /// Reason, for people.
    pub why: String,
    /// Whether no link came up: then none of the messages can have arrived.
    pub unreached: bool,
    /// The requests that the link has not sent and that another link may send. `None` if there are none, if a byte of
    /// the queue was sent, or if the peer has left.
    pub unsent: Option<Box<UnsentRequests>>,
}
