//! Links over rings in shared memory, as the event loop sees them: the system does not tell what comes in a ring, so
//! the node looks by itself, or says that it sleeps.
//!
//! Only links that have been in use since the node last slept are looked at; the peers of all others ring. So a node
//! with a thousand links pays for those that have something to say.

use std::sync::atomic::{Ordering, fence};

use super::connections::Connections;
use crate::transport::{SharedMemory as _, Socket};

impl Connections {
    /// Whether there are rings to look at.
    pub(super) fn has_rings(&self) -> bool {
        !self.watched.keys.is_empty()
    }

    /// How many rings there are to look at.
    pub(super) fn rings(&self) -> usize {
        self.watched.keys.len()
    }

    /// Whether something has come in a ring that is looked at.
    pub(super) fn rings_have_come(&self) -> bool {
        self.watched_sockets().any(Socket::has_come)
    }

    /// The node is about to look at its rings for a while: no peer need ring.
    pub(super) fn look_at_rings(&mut self) {
        // Whoever looks all the time does not write to words that the peers read each time.
        if std::mem::take(&mut self.watched.may_ring) {
            self.watched_sockets().for_each(Socket::wake);
        }
    }

    /// The node is about to sleep: what comes from here on rings. It has to look once more for what came before.
    pub(super) fn rest_rings(&mut self) {
        if self.has_rings() {
            self.watched_sockets().for_each(Socket::sleep);
            self.watched.may_ring = true;
            // Either the peer sees that this node sleeps, or this node sees what the peer has written.
            fence(Ordering::SeqCst);
        }
    }

    /// The node has slept: only rings in which something has come are looked at, the others ring.
    pub(super) fn forget_rings(&mut self) {
        let links = &mut self.links.table;
        self.watched.keys.retain(|key| match links.get_mut(*key) {
            Some(link) => {
                link.watched = link.socket.has_come();
                link.watched
            }
            None => false,
        });
    }

    fn watched_sockets(&self) -> impl Iterator<Item = &Socket> {
        self.watched.keys.iter().filter_map(|key| Some(&self.links.table.get(*key)?.socket))
    }
}
