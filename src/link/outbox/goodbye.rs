//! GOODBYE, the last frame of a link: no frame follows it.
//!
//! Source: docs/wire.md, "GOODBYE".

use super::Outbox;
use crate::wire::frame::Kind;
use crate::wire::head::Goodbye;

impl Outbox {
    /// Queues the link's last frame. The rest of long messages, and messages that are queued later, are not sent.
    pub fn push_goodbye(&mut self, goodbye: &Goodbye) {
        if self.is_closed {
            return;
        }
        self.push_small_frame(Kind::Goodbye, &goodbye.emit());
        self.ready.push_back(self.tail.split().freeze());
        self.is_closed = true;
        self.drop_queued();
    }

    /// Drops the messages that were queued after the last frame.
    #[cold]
    pub(super) fn drop_queued(&mut self) {
        self.queued -= self.tail.len();
        self.tail.clear();
        self.streams.clear();
        self.waiting_requests.clear();
    }
}
