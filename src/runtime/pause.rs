//! Announced pauses: an application that will compute for long without driving its node notifies its peers, so that
//! they do not give the node up as silent.
//!
//! Source: docs/wire.md, "PAUSE". The chain decides what silence means. This module sends the announcements, and
//! computes how long another run of a paused id must wait.

use std::time::Duration;

use super::connections::Connections;
use super::event_loop::EventLoop;
use crate::link::peering::LinkKey;
use crate::transport::ByteStream as _;
use crate::wire::Message;

impl EventLoop {
    /// Announces to every linked peer that the node will not respond for `length`; zero ends a pause. Returns the
    /// number of peers notified: a link that takes no bytes at present sends the announcement when the node is driven
    /// again.
    pub(super) fn announce_pause(&mut self, length: Duration) -> usize {
        self.clock.invalidate();
        let peers = self.connections.links.send_to_all(|| Message::Pause(length));
        self.connections.flush(&self.clock);
        peers.into_iter().filter(|key| self.connections.is_written(*key)).count()
    }
}

impl Connections {
    /// Whether all queued bytes of a link have been written.
    fn is_written(&self, key: LinkKey) -> bool {
        self.links.table.link(key).is_some_and(|link| link.outbox.queued() == 0)
    }

    /// Handles the announcement of a pause, or of its end: TCP keepalive allows the same time.
    pub(super) fn allow_pause(&mut self, key: LinkKey, length: Duration) {
        if let Some(keepalive) = self.local.keepalive
            && let Some(connection) = self.links.table.get(key)
        {
            connection.socket.allow_pause(keepalive, length);
        }
    }
}
