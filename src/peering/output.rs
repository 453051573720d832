//! What peering asks of its driver, and what it tells it.

use gpc_trees::Id;

use super::greeting::Proof;
use super::peer::LinkKey;
use super::proof::Session;
use crate::wire::{CauseKind, Hello};

/// What the driver is to do, in this order.
#[derive(Debug)]
pub enum Output {
    /// These bytes go out on a connection, behind those before them.
    Write {
        /// Which connection.
        key: LinkKey,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A connection is closed when what was written has left. Nothing that comes on it counts.
    Finish {
        /// Which connection.
        key: LinkKey,
    },
    /// A connection is closed at once: peering has forgotten it.
    Close {
        /// Which connection.
        key: LinkKey,
    },
    /// Somebody was refused: for the log, since the other side is told less.
    Refused {
        /// Which connection.
        key: LinkKey,
        /// Why, in words.
        why: String,
    },
    /// A connection has become the link to a peer.
    Up(Box<Standing>),
    /// A link that stood is closed for another connection: its other end is told so, as far as that goes out at once.
    Replaced {
        /// Which link.
        key: LinkKey,
        /// With whom.
        peer: Id,
        /// Which run of it.
        incarnation: u64,
    },
    /// A peer is asked for a heartbeat, since another run of it has connected: the driver says with [`Peering::hold_until`](super::Peering::hold_until) how long its answer may take.
    Ask {
        /// The link.
        key: LinkKey,
        /// The peer.
        peer: Id,
    },
    /// There is no link to a peer any more, or the one that was awaited does not come: what waits for it is lost.
    Lost {
        /// The peer.
        peer: Id,
        /// What kind of failure it is for the calls that wait for it.
        kind: CauseKind,
        /// In words.
        why: String,
        /// Whether there was a link: if not, nothing that was sent can have arrived.
        stood: bool,
    },
    /// Our attempt to connect to a peer has failed: what waits for it is lost, and has not arrived.
    Unreached {
        /// The peer.
        peer: Id,
        /// What kind of failure it is for the calls that wait for it.
        kind: CauseKind,
        /// In words, without the address.
        why: String,
    },
}

/// A link that has come to stand.
#[derive(Debug)]
pub struct Standing {
    /// Which connection it is.
    pub key: LinkKey,
    /// What the peer has said.
    pub hello: Hello,
    /// Whether this side has answered, and not been answered.
    pub accepted: bool,
    /// Whether bytes go through rings from here on.
    pub rings: bool,
    /// Whether data go by descriptor then.
    pub extents: bool,
    /// Seals and opens all that follows, where that is encrypted.
    pub session: Option<Box<dyn Session>>,
    /// How the peer was proved to be a member.
    pub proof: Proof,
}
