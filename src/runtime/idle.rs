//! What an idle node gives back: room that what went through it has left for what comes next.
//!
//! Calls that follow each other use it in turn, so it is kept until nothing has come for a second. Then a node holds little more than before its first call: what links and functions need to go on, and
//! what must not be forgotten.

use std::time::Duration;

use super::event_loop::EventLoop;
use super::links::Links;
use super::shm::give_back;
use crate::chain::Time;

/// How long room is kept for what comes next: longer than most callers take between two calls.
pub(super) const SPARE_LIMIT: Duration = Duration::from_secs(1);

impl EventLoop {
    /// Whether there is memory that an idle node gives back.
    pub(super) fn holds_memory(&self) -> bool {
        self.links.much | self.links.spare.is_held() | self.node.holds_room()
    }

    /// When it is given back, if nothing comes.
    pub(super) fn memory_until(&self) -> Time {
        self.busy_until.plus(SPARE_LIMIT)
    }

    /// Gives it back when nothing has come for a while.
    #[inline(never)]
    pub(super) fn release_memory(&mut self, now: Time) {
        // Whoever drives a node without a pause looks for things that do not come; and that it is time is nothing that has come.
        if std::mem::take(&mut self.links.has_read) || self.has_events() {
            self.busy_until = now;
        } else if now.since(self.busy_until) >= SPARE_LIMIT {
            self.release_room();
        }
    }

    fn release_room(&mut self) {
        self.links.release_room();
        self.node.release_room();
        self.inputs.shrink_to_fit();
        self.outputs.shrink_to_fit();
        self.started.shrink_to_fit();
        self.calls.shrink_to_fit();
        self.ids_room = Vec::new();
        // Whose process has other things to do, and other memory, sees to it by himself.
        if self.trims {
            give_back();
        }
    }
}

impl Links {
    fn release_room(&mut self) {
        self.much = false;
        self.spare.release();
        self.events = Vec::new();
        self.arrivals.shrink_to_fit();
        self.dirty.shrink_to_fit();
        self.granting.shrink_to_fit();
        self.unread.shrink_to_fit();
        for link in self.links.values_mut() {
            link.inbox.release_room();
            link.outbox.release_room();
            link.socket.release_room();
        }
    }
}
