//! The last frame of a link: nothing leaves behind it.
//!
//! Source: docs/wire.md, "GOODBYE".

use super::Outbox;
use crate::wire::frame::Kind;
use crate::wire::head::Goodbye;

impl Outbox {
    /// Queues the link's last frame. The rest of long messages, and messages that are queued later, are not sent.
    pub fn goodbye(&mut self, goodbye: &Goodbye) {
        if self.over {
            return;
        }
        self.small_frame(Kind::Goodbye, &goodbye.emit());
        self.ready.push_back(self.tail.split().freeze());
        self.over = true;
        self.drop_what_follows();
    }

    /// Drops the messages that are queued behind the last frame.
    #[cold]
    pub(super) fn drop_what_follows(&mut self) {
        self.queued -= self.tail.len();
        self.tail.clear();
        self.streams.clear();
        self.waiting.clear();
    }
}
