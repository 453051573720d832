//! Links over rings in shared memory, as the event loop sees them: the system does not tell what comes in a ring, so the node looks by itself, or says that it sleeps.
//!
//! Only links that have been in use since the node last slept are looked at; the peers of all others ring. So a node with a thousand links pays for those that have something to say.

use std::sync::atomic::{Ordering, fence};

use super::link::Link;
use super::links::Links;
use super::peer::LinkKey;
use super::shm::RingSocket;

/// Notes that a link is in use, if it is one over rings.
pub(super) fn watch(watched: &mut Vec<LinkKey>, key: LinkKey, link: &mut Link) {
    if !link.watched && link.socket.ring().is_some_and(RingSocket::has_rings) {
        link.watched = true;
        watched.push(key);
    }
}

impl Links {
    /// Whether there are rings to look at.
    pub(super) fn has_rings(&self) -> bool {
        !self.watched.is_empty()
    }

    /// Whether something has come in a ring that is looked at.
    pub(super) fn rings_have_come(&self) -> bool {
        self.watched_sockets().any(RingSocket::has_come)
    }

    /// The node is about to look at its rings for a while: no peer need ring.
    pub(super) fn look_at_rings(&self) {
        self.watched_sockets().for_each(RingSocket::wake);
    }

    /// The node is about to sleep: what comes from here on rings. It has to look once more for what came before.
    pub(super) fn rest_rings(&self) {
        if self.has_rings() {
            self.watched_sockets().for_each(RingSocket::sleep);
            // Either the peer sees that this node sleeps, or this node sees what the peer has written.
            fence(Ordering::SeqCst);
        }
    }

    /// The node has slept: only rings in which something has come are looked at, the others ring.
    pub(super) fn forget_rings(&mut self) {
        let links = &mut self.links;
        self.watched.retain(|key| match links.get_mut(key) {
            Some(link) => {
                link.watched = link.socket.ring().is_some_and(RingSocket::has_come);
                link.watched
            }
            None => false,
        });
    }

    fn watched_sockets(&self) -> impl Iterator<Item = &RingSocket> {
        self.watched.iter().filter_map(|key| self.links.get(key)?.socket.ring())
    }
}
