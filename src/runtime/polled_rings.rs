//! The set of rings that a node polls: those of links that were in use since its last sleep.

use super::connection::Connection;
use crate::link::peering::LinkKey;
use crate::transport::SharedMemory as _;

/// The links whose rings the node polls.
#[derive(Debug, Default)]
pub(super) struct PolledRings {
    pub(super) keys: Vec<LinkKey>,
    /// Whether some peers may still notify, though they need not.
    pub(super) may_notify: bool,
}

impl PolledRings {
    /// Adds a link that is in use, if its bytes go through rings.
    pub(super) fn add(&mut self, key: LinkKey, connection: &mut Connection) {
        if !connection.is_ring_polled && connection.socket.is_polled() {
            connection.is_ring_polled = true;
            self.keys.push(key);
            self.may_notify = true;
        }
    }

    /// Removes a link.
    pub(super) fn drop_link(&mut self, key: LinkKey) {
        self.keys.retain(|polled| *polled != key);
    }

    /// The link at this index.
    pub(super) fn key(&self, place: usize) -> Option<LinkKey> {
        self.keys.get(place).copied()
    }
}
