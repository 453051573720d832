//! What the links of a node ask of their driver, and what they bring for the chain.

use std::time::Duration;

use gpc_trees::Id;

use super::loss::Loss;
use super::outbox::UnsentRequests;
use super::peering::{LinkKey, NewLink};
use crate::chain::Input;
use crate::wire::CauseKind;

/// An action for the driver, or an event, in order. The driver carries out each before it gives the links anything
/// else.
#[derive(Debug)]
pub enum LinksOutput {
    /// Open a connection to a peer, and report it with [`Links::opened`](super::Links::opened) or
    /// [`Links::not_opened`](super::Links::not_opened).
    Open {
        /// The peer.
        peer: Id,
    },
    /// Close a connection, and take it out with [`Links::remove`](super::Links::remove).
    Close {
        /// The connection.
        key: LinkKey,
    },
    /// The same, once its queued bytes have been written as far as that is possible at once.
    CloseAfterWriting {
        /// The connection.
        key: LinkKey,
    },
    /// A connection is about to become a link: write the rest of its greeting, and change over to its session or its
    /// shared memory. Then report it with [`Links::stands`](super::Links::stands) or
    /// [`Links::fails_to_stand`](super::Links::fails_to_stand).
    Prepare(Box<NewLink>),
    /// A connection was rejected. The reason is for the log: the other side receives less detail.
    Refused {
        /// The connection.
        key: LinkKey,
        /// Reason, for people.
        why: String,
    },
    /// A link is up. For those who listen; the chain has an input.
    Up {
        /// The peer.
        peer: Id,
        /// Incarnation of the peer.
        incarnation: u64,
    },
    /// A link that was up is lost. For those who listen; the chain has an input or knows already.
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
    /// A peer has answered a heartbeat request while another run of its id waits: report it with
    /// [`Links::confirm`](super::Links::confirm), unless the connection has ended already.
    Answered {
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

/// What has come in for the chain.
#[derive(Debug)]
pub enum Arrival {
    /// An input as it is.
    Input(Input),
    /// A link or an attempt to open one is lost.
    Lost(Lost),
}

/// A link, or an attempt to open one, that is lost.
#[derive(Debug)]
pub struct Lost {
    /// The peer.
    pub peer: Id,
    /// Kind of failure for the calls that use the link.
    pub kind: CauseKind,
    /// Reason, for people.
    pub why: String,
    /// Whether no link ever came up: nothing that was sent can have arrived.
    pub unreached: bool,
    /// All that the link still had to send, if that is requests of which no byte has left.
    pub unsent: Option<Box<UnsentRequests>>,
}
