//! Peers that a node learns and forgets while it runs.
//!
//! Both are asked for through the queue of commands, in their order with calls. The table of addresses is as long as the application makes it.

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

/// How long a change waits for room in the queue of commands: a busy loop makes room in milliseconds.
pub(super) const CHANGE_LIMIT: Duration = Duration::from_secs(5);

/// Another node, as an application says who it is and where it listens; see [`Node::learn`](crate::Node::learn).
///
/// More may be said of a peer in later versions: so it is made with [`new`](Self::new).
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
    /// Where it listens.
    pub address: Address,
    /// The key that it is known by; none by default. See [`Peers::set_key`](super::Peers::set_key).
    pub key: Option<PublicKey>,
}

impl Peer {
    /// The node of this id, which listens there.
    pub fn new(id: Id, address: Address) -> Peer {
        Peer { id, address, key: None }
    }

    /// The node that is known by this key.
    pub fn known_by(self, key: PublicKey) -> Peer {
        Peer { key: Some(key), ..self }
    }
}

/// Why a node takes no change of its peers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MembershipError {
    /// It is about the node itself.
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
    /// From now on a peer is looked for at this address. A link that stands stays; an attempt to connect elsewhere begins anew, with all that waits for it.
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
        // Nothing has gone there but a greeting.
        if self.peering.give_up_attempt(id) {
            self.connect(now, id);
        }
    }

    /// From now on a peer is a stranger. Its link is closed in order: what waits for it goes out, if it takes it soon, and a goodbye behind it. Whatever is under way through it is lost.
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

    /// Nothing but what waits, and a goodbye, goes out on a link any more; then it is closed.
    pub(super) fn say_goodbye(&mut self, now: Time, key: LinkKey, reason: GoodbyeReason, text: String) {
        if let Some(link) = self.links.get_mut(key) {
            link.outbox.goodbye(&Goodbye { reason, text });
            self.finish(now, key);
        }
    }
}
