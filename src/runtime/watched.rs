//! Which links over rings a node looks at by itself: those that have been in use since it last slept.

use super::connection::Connection;
use crate::link::peering::LinkKey;
use crate::transport::SharedMemory as _;

/// Links over rings that the node looks at by itself.
#[derive(Debug, Default)]
pub(super) struct Watched {
    pub(super) keys: Vec<LinkKey>,
    /// Whether the peers of some may still ring, though they need not.
    pub(super) may_ring: bool,
}

impl Watched {
    /// Notes that a link is in use, if it is one over rings.
    pub(super) fn watch(&mut self, key: LinkKey, connection: &mut Connection) {
        if !connection.watched && connection.socket.is_polled() {
            connection.watched = true;
            self.keys.push(key);
            self.may_ring = true;
        }
    }

    /// A link is gone.
    pub(super) fn drop_link(&mut self, key: LinkKey) {
        self.keys.retain(|watched| *watched != key);
    }

    /// The link at a place, if there are so many.
    pub(super) fn key(&self, place: usize) -> Option<LinkKey> {
        self.keys.get(place).copied()
    }
}
