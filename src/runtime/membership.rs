//! Membership: a node learns and forgets peers while it runs.
//!
//! Both are commands in the queue, in order with calls. The table of addresses has no bound of its own: the application
//! sets its length.

use gpc_trees::Id;
use tracing::debug;

use super::Peer;
use super::connections::Connections;
use crate::chain::Time;
use crate::link::peering::Proof;

impl Connections {
    /// Sets the address of a peer. A link that is up stays; an attempt to connect elsewhere restarts, with all messages
    /// that wait for it.
    pub(super) fn learn(&mut self, now: Time, peer: Peer) {
        let Peer { id, address, key } = peer;
        self.announced.remove(&id);
        let before = self.links.peering.book.insert(id, address.clone());
        key.into_iter().for_each(|key| self.links.peering.book.set_key(id, key));
        if let Some(link) = self.links.peering.confirm_key(id).and_then(|key| self.links.table.link_mut(key))
        {
            link.proof = Proof::Key;
        }
        if let Some(link) = self.links.peering.contradicting_link(id) {
            self.close(now, link, "it is known by another key than it has proved");
        }
        if before.as_ref() == Some(&address) {
            return;
        }
        debug!(id = self.links.me, peer = id, %address, "a peer is learned");
        self.local.auto_tree.learn(id, Some(&address));
        self.links.peering.restore_counts(id);
        // Only greetings have been sent there, so the attempt can be replaced.
        if self.links.peering.give_up_attempt(id) {
            self.connect(now, id);
            self.settle(now);
        }
    }

    /// Makes a peer a stranger, and closes its link in order.
    pub(super) fn forget(&mut self, now: Time, id: Id) {
        self.announced.remove(&id);
        self.links.peering.book.remove(id);
        debug!(id = self.links.me, peer = id, "a peer is forgotten");
        self.local.auto_tree.learn(id, None);
        self.links.forget(now, id);
        self.settle(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{LinkKind, Node};

    /// The socket of an abandoned attempt stayed open until the links had another output.
    #[test]
    fn an_attempt_that_is_given_up_is_closed_at_once() {
        let peers = "1 127.0.0.1:9".parse().unwrap();
        let mut node = Node::builder(0).link(LinkKind::Tcp).peers(peers).polled().unwrap();
        let connections = &mut node.event_loop_mut().connections;
        assert_eq!(connections.ensure_link(Time::default(), 1), Some(false));
        let first = connections.links.table.iter().next().unwrap().0;
        connections.learn(Time::default(), Peer::new(1, "127.0.0.1:10".parse().unwrap()));
        assert!(connections.links.table.get(first).is_none());
        assert_eq!((connections.links.table.len(), connections.links.has_outputs()), (1, false));
    }
}
