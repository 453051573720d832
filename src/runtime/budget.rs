//! How much a turn of the event loop does: all there is, or about as much as its driver gives it.
//!
//! What a turn leaves is found by the next one without a word of the system, which tells of it once: links are noted, rings and queues are looked at anew.

use super::event_loop::{EventLoop, MAIL_BUDGET};

/// The budget of a turn that has none.
pub(super) const UNBOUNDED: usize = usize::MAX;

/// Bytes of a short message: a request or a reply with next to no data.
const SHORT_MESSAGE: usize = 64;

/// Bytes that a turn with a budget reads at least, so that long messages do not come in crumbs; some ten short ones.
const READ_MIN: usize = 1 << 10;

impl EventLoop {
    /// Whether this turn has done enough.
    #[inline(always)]
    pub(super) fn has_done_enough(&self) -> bool {
        self.done >= self.budget
    }

    /// Things of one kind that may be taken in this turn: one at least, so that none waits for ever behind the others.
    pub(super) fn share(&self) -> usize {
        MAIL_BUDGET.min(self.budget.saturating_sub(self.done)).max(1)
    }

    /// Of a turn with a budget: links that the last one left come first, and half is for calls and results that wait.
    #[cold]
    pub(super) fn begin_bounded(&mut self) {
        let budget = self.budget;
        if self.has_mail() || !self.started.is_empty() {
            self.budget = budget.div_ceil(2);
        }
        self.read_more();
    }

    /// Reads on where there was more than one turn allows.
    #[inline(never)]
    pub(super) fn read_more(&mut self) {
        let mut keys = std::mem::take(&mut self.links.unread);
        let mut read = 0;
        while let Some(key) = keys.get(read).copied().filter(|_| !self.has_done_enough()) {
            read += 1;
            self.links.takes_up(key);
            self.read_link(key, true);
        }
        // Those that have had no turn are before those that have more.
        keys.drain(..read);
        keys.append(&mut self.links.unread);
        self.links.unread = keys;
    }

    /// Bytes that hold about as many short messages as this turn may still take.
    #[cold]
    pub(super) fn bytes_within_budget(&self) -> usize {
        self.budget.saturating_sub(self.done).saturating_mul(SHORT_MESSAGE).max(READ_MIN)
    }
}
