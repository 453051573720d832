//! Membership: a node learns and forgets peers while it runs.
//!
//! Both are commands in the queue, in order with calls. The table of addresses has no bound of its own: the application
//! sets its length.

use std::time::Duration;

use gpc_trees::Id;
use tracing::debug;

use super::Address;
use super::events::Loss;
use super::links::Links;
use super::mailbox::Unsent;
use crate::chain::Time;
use crate::peering::{LinkKey, Proof, PublicKey, State};
use crate::wire::head::{Goodbye, GoodbyeReason};

/// How long a change waits for a place in the queue of commands: a busy loop frees one in milliseconds.
pub(super) const CHANGE_LIMIT: Duration = Duration::from_secs(5);

/// Another node: its id, its address and its key; see [`Node::learn`](crate::Node::learn).
///
/// Made with [`new`](Self::new), since later versions may add fields.
///
/// ```
/// use chained_gpc::Peer;
///
/// let peer = Peer::new(7, "127.0.0.1:7007".parse()?);
/// assert_eq!((peer.id, peer.address.to_string()), (7, "127.0.0.1:7007".to_string()));
/// # Ok::<(), chained_gpc::runtime::AddressError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Peer {
    /// Its id.
    pub id: Id,
    /// Its address.
    pub address: Address,
    /// The key that authenticates it; none by default. See [`Peers::set_key`](super::Peers::set_key).
    pub key: Option<PublicKey>,
}

impl Peer {
    /// Creates a peer with this id and address.
    pub fn new(id: Id, address: Address) -> Peer {
        Peer { id, address, key: None }
    }

    /// Sets the key that authenticates the peer.
    pub fn known_by(self, key: PublicKey) -> Peer {
        Peer { key: Some(key), ..self }
    }
}

/// Why a node rejects a change of its peers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MembershipError {
    /// The change is about the node itself.
    #[error("id {0} is the node itself: a node neither learns nor forgets where it listens itself")]
    Own(Id),
    /// The queue to the event loop stayed full.
    #[error("the node is busy: its queue of commands is full. Try again, or start fewer calls at once")]
    Busy,
    /// The node has ended.
    #[error("the node has been shut down")]
    Ended,
}

impl From<Unsent> for MembershipError {
    fn from(unsent: Unsent) -> MembershipError {
        match unsent {
            Unsent::Full => MembershipError::Busy,
            Unsent::Ended => MembershipError::Ended,
        }
    }
}

impl Links {
    /// Sets the address of a peer. A link that is up stays; an attempt to connect elsewhere restarts, with all messages
    /// that wait for it.
    pub(super) fn learn(&mut self, now: Time, peer: Peer) {
        let Peer { id, address, key } = peer;
        self.announced.remove(&id);
        let before = self.peering.book.insert(id, address.clone());
        key.into_iter().for_each(|key| self.peering.book.set_key(id, key));
        if let Some(link) = self.peering.confirms(id).and_then(|key| self.links.get_mut(key)) {
            link.proof = Proof::Key;
        }
        if let Some(link) = self.peering.contradicts(id) {
            self.close(now, link, "it is known by another key than it has proved");
        }
        if before.as_ref() == Some(&address) {
            return;
        }
        debug!(id = self.me, peer = id, %address, "a peer is learned");
        self.peering.learned(id);
        // Only greetings have been sent there, so the attempt can be replaced.
        if self.peering.give_up_attempt(id) {
            self.connect(now, id);
        }
    }

    /// Makes a peer a stranger. Its link is closed in order: queued messages are sent, if the peer takes them soon,
    /// then a goodbye. Calls that use the link are lost.
    pub(super) fn forget(&mut self, now: Time, id: Id) {
        self.announced.remove(&id);
        self.peering.book.remove(id);
        if let State::Up(key) = self.peering.state(id) {
            debug!(id = self.me, peer = id, "a peer is forgotten");
            self.tell_lost(id, Loss::Forgotten, "this node was told to forget it");
            let text = format!("id {} was told to forget id {id}", self.me);
            self.say_goodbye(now, key, GoodbyeReason::LinkClosed, text);
        }
        self.peering.forget(id);
        self.settle_peering(now);
    }

    /// Sends the queued messages and a goodbye, then closes the link.
    pub(super) fn say_goodbye(&mut self, now: Time, key: LinkKey, reason: GoodbyeReason, text: String) {
        if let Some(link) = self.links.get_mut(key) {
            link.outbox.goodbye(&Goodbye { reason, text });
            self.finish(now, key);
        }
    }
}
