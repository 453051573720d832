//! Memory that an idle node releases: buffers and capacity that earlier messages have left.
//!
//! Consecutive calls reuse them, so they are kept until no message has arrived for a second. Then a node holds little
//! more than before its first call: the state of links and functions, and the data that it must retain.

use std::time::Duration;

use super::connections::Connections;
use super::event_loop::EventLoop;
use crate::chain::Time;
use crate::transport::{ByteStream as _, trim_heap};

/// How long free memory is kept for reuse: longer than the pause between two calls of most callers.
pub(super) const SPARE_LIMIT: Duration = Duration::from_secs(1);

impl EventLoop {
    /// Whether there is memory that an idle node releases.
    pub(super) fn holds_memory(&self) -> bool {
        self.connections.traffic.has_grown_buffers
            | self.connections.spare.is_held()
            | self.node.has_spare_memory()
    }

    /// When that memory is released, if no message arrives.
    pub(super) fn memory_until(&self) -> Time {
        self.idle.busy_until.plus(SPARE_LIMIT)
    }

    /// Releases memory if no message has arrived for a while.
    #[inline(never)]
    pub(super) fn release_memory(&mut self, now: Time) {
        // A driver that never pauses polls although nothing arrives, and an expired timer is not an arrival: only bytes
        // and other events count.
        if std::mem::take(&mut self.connections.has_read) || self.has_events() {
            self.idle.busy_until = now;
        } else if now.since(self.idle.busy_until) >= SPARE_LIMIT {
            self.release_spare_memory();
        }
    }

    fn release_spare_memory(&mut self) {
        self.connections.release_spare_memory();
        self.node.release_spare_memory();
        self.inputs.shrink_to_fit();
        self.outputs.shrink_to_fit();
        self.calls.started.shrink_to_fit();
        self.calls.completions.release_spare_memory();
        self.calls.key_buffer = Default::default();
        // An application that drives the node itself has memory of its own, and trims the heap itself.
        if self.idle.trims {
            trim_heap();
        }
    }
}

impl Connections {
    fn release_spare_memory(&mut self) {
        self.traffic.has_grown_buffers = false;
        self.spare.release();
        self.events = Vec::new();
        self.links.arrivals.shrink_to_fit();
        self.links.dirty.shrink_to_fit();
        self.links.window_grants.shrink_to_fit();
        self.unread.shrink_to_fit();
        for connection in self.links.table.values_mut() {
            connection.link.inbox.release_spare_memory();
            connection.link.outbox.release_spare_memory();
            connection.socket.release_spare_memory();
        }
    }
}
