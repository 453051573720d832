//! Membership: a node learns and forgets peers while it runs.
//!
//! Both are commands in the queue, in order with calls. The table of addresses has no bound of its own: the application
//! sets its length.

use gpc_trees::Id;
use tracing::debug;

use super::Peer;
use super::links::Links;
use crate::chain::Time;
use crate::link::Loss;
use crate::link::peering::{LinkKey, Proof, State};
use crate::wire::head::{Goodbye, GoodbyeReason};

impl Links {
    /// Sets the address of a peer. A link that is up stays; an attempt to connect elsewhere restarts, with all messages
    /// that wait for it.
    pub(super) fn learn(&mut self, now: Time, peer: Peer) {
        let Peer { id, address, key } = peer;
        self.announced.remove(&id);
        let before = self.peering.book.insert(id, address.clone());
        key.into_iter().for_each(|key| self.peering.book.set_key(id, key));
        if let Some(link) = self.peering.confirms(id).and_then(|key| self.links.link_mut(key)) {
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
        if let Some(link) = self.links.link_mut(key) {
            link.outbox.goodbye(&Goodbye { reason, text });
            self.finish(now, key);
        }
    }
}
