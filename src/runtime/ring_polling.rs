//! Polling of rings in shared memory: epoll does not report bytes in a ring, so the node polls rings, or has peers
//! notify it while it sleeps.
//!
//! Only rings of links that were in use since the last sleep are polled; the peers of all others notify. So a turn of a
//! node with a thousand links costs only what its active links cost.

use std::sync::atomic::{Ordering, fence};

use super::connections::Connections;
use crate::transport::{SharedMemory as _, Socket};

impl Connections {
    /// Whether any rings are polled.
    pub(super) fn has_rings(&self) -> bool {
        !self.polled_rings.keys.is_empty()
    }

    /// Number of polled rings.
    pub(super) fn ring_count(&self) -> usize {
        self.polled_rings.keys.len()
    }

    /// Whether a polled ring has bytes to read, or room for blocked bytes.
    pub(super) fn has_ready_ring(&self) -> bool {
        self.polled_sockets().any(Socket::is_ready)
    }

    /// Tells the peers of polled rings that they need not notify this node.
    pub(super) fn disable_ring_notifications(&mut self) {
        // While the node polls without sleeping, it does not write to words that the peers read.
        if std::mem::take(&mut self.polled_rings.may_notify) {
            self.polled_sockets().for_each(Socket::stop_notifications);
        }
    }

    /// Precedes a sleep: from now on peers notify this node. The caller must check the rings once more for earlier
    /// bytes.
    pub(super) fn enable_ring_notifications(&mut self) {
        if self.has_rings() {
            self.polled_sockets().for_each(Socket::request_notifications);
            self.polled_rings.may_notify = true;
            // Either the peer sees the flag, or this node sees the peer's bytes.
            fence(Ordering::SeqCst);
        }
    }

    /// Follows a sleep: only rings that are ready stay polled; the peers of the others notify.
    pub(super) fn retain_active_rings(&mut self) {
        let links = &mut self.links.table;
        self.polled_rings.keys.retain(|key| match links.get_mut(*key) {
            Some(link) => {
                link.is_ring_polled = link.socket.is_ready();
                link.is_ring_polled
            }
            None => false,
        });
    }

    fn polled_sockets(&self) -> impl Iterator<Item = &Socket> {
        self.polled_rings.keys.iter().filter_map(|key| Some(&self.links.table.get(*key)?.socket))
    }
}
