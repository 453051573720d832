//! Limits of the send queues of a link whose peer does not read. Long replies beyond a limit become failures; small
//! frames beyond a limit close the link; at most one PONG is queued.
//!
//! Nothing waits for space here: what does not fit is refused at once, so a call never depends on the peer of another
//! call.

use gpc_trees::Id;

use crate::wire::budget::{Budget, Share};

/// Maximum number of bytes of small frames that wait for a peer. Half of it holds the responses to the requests that
/// the peer has credit for, and the requests that this node has credit for, of 16 KiB each. The rest is for other
/// frames of as many calls.
const SMALL_MAX: usize = 32 << 20;

/// Bytes of small frames that may wait even if the budget of the node is spent: as many as a busy link queues between
/// two writes.
const SMALL_FREE: usize = 64 << 10;

/// Limits and fill levels of the send queues of a link.
#[derive(Debug, Default)]
pub(super) struct QueueLimits {
    me: Id,
    replies: Budget,
    /// Share of the budget for small frames, as last charged.
    small: Share,
    /// Bytes that remain to be written up to the end of the queued PONG; 0 without a PONG.
    pong_bytes: usize,
    /// Whether a reply was refused or has spent the budget. Cleared once half of the budget is free.
    full: bool,
}

impl QueueLimits {
    pub(super) fn new(me: Id, replies: &Budget, small: &Budget) -> QueueLimits {
        QueueLimits { me, replies: replies.clone(), small: small.share(), pong_bytes: 0, full: false }
    }

    /// The id of the node, for its refusals.
    pub(super) fn me(&self) -> Id {
        self.me
    }

    /// Reserves memory for a long reply; `None` if it does not fit.
    pub(super) fn reserve_reply(&mut self, bytes: u64) -> Option<Share> {
        let mut share = self.replies.share();
        let taken = share.grow(bytes);
        self.full |= !taken || self.replies.is_spent();
        taken.then_some(share)
    }

    /// The reason why a reply does not fit, for people.
    pub(super) fn refusal(&self) -> String {
        self.replies.refusal()
    }

    /// Whether the replies were over their limit at the last check.
    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// Checks whether the replies are still over their limit: from the first refusal until half of the budget is free.
    pub(super) fn update_full(&mut self) -> bool {
        let half = self.replies.most() / 2;
        self.full = self.full && (self.replies.used() > half || self.replies.is_spent());
        self.full
    }

    /// Registers a PONG that ends after `queued` bytes. Returns false, and registers nothing, if one is queued already.
    pub(super) fn admit_pong(&mut self, queued: usize) -> bool {
        let is_admitted = self.pong_bytes == 0;
        if is_admitted {
            self.pong_bytes = queued;
        }
        is_admitted
    }

    /// Whether a PONG is queued.
    pub(super) fn is_pong_queued(&self) -> bool {
        self.pong_bytes > 0
    }

    /// Counts written bytes.
    #[inline(always)]
    pub(super) fn mark_written(&mut self, count: usize) {
        self.pong_bytes = self.pong_bytes.saturating_sub(count);
    }

    /// Releases the memory of the small frames: all of them have been written.
    pub(super) fn release_small(&mut self) {
        let _ = self.small.resize(0);
    }

    /// Charges the small frames that wait for the peer, in bytes.
    ///
    /// # Errors
    /// If they exceed the limit; the text is for people.
    pub(super) fn charge_small(&mut self, small: usize) -> Result<(), String> {
        if small > SMALL_MAX {
            return Err(format!("it does not read: {small} bytes of small frames wait for it"));
        }
        if self.small.resize(small as u64) || small <= SMALL_FREE {
            return Ok(());
        }
        Err(format!("it does not read, and {}", self.small.budget().refusal()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(replies: u64, small: u64) -> QueueLimits {
        QueueLimits::new(3, &Budget::new(replies, "a link"), &Budget::new(small, "id 3"))
    }

    #[test]
    fn at_most_one_pong_is_queued() {
        let mut limits = limits(0, 0);
        assert!(limits.admit_pong(100) && !limits.admit_pong(200));
        limits.mark_written(99);
        assert!(!limits.admit_pong(300));
        limits.mark_written(1);
        assert!(limits.admit_pong(8) && !limits.admit_pong(16));
    }

    #[test]
    fn requests_are_rejected_from_the_first_refused_reply_until_half_is_free() {
        let mut limits = limits(100, 0);
        let shares = [limits.reserve_reply(30), limits.reserve_reply(30), limits.reserve_reply(30)]
            .map(Option::unwrap);
        assert!(!limits.update_full() && limits.reserve_reply(30).is_none() && limits.update_full());
        let [one, rest @ ..] = shares;
        drop(one);
        assert!(limits.update_full() && limits.is_full());
        drop(rest);
        assert!(!limits.update_full() && !limits.is_full());
        assert!(limits.reserve_reply(100).is_some() && !limits.update_full());
    }

    #[test]
    fn unread_small_frames_close_the_link() {
        let mut limits = limits(0, 1 << 20);
        assert!(limits.charge_small(1 << 20).is_ok() && limits.charge_small(SMALL_FREE).is_ok());
        assert!(limits.charge_small((1 << 20) + 1).unwrap_err().contains("id 3 may hold 1048576"));
        let mut rich = QueueLimits::default();
        assert!(rich.charge_small(SMALL_MAX).is_ok());
        assert!(rich.charge_small(SMALL_MAX + 1).unwrap_err().contains("does not read"));
    }

    #[test]
    fn written_frames_are_released() {
        let node = Budget::new(SMALL_FREE as u64, "id 3");
        let mut links = [(); 2].map(|()| QueueLimits::new(3, &Budget::unbounded(), &node));
        assert!(links[0].charge_small(SMALL_FREE).is_ok() && node.is_spent());
        assert!(links[1].charge_small(SMALL_FREE + 1).is_err(), "the other link has all of it");
        links[0].release_small();
        assert_eq!(node.used(), 0);
        assert!(links[1].charge_small(SMALL_FREE).is_ok() && node.is_spent());
        drop(links);
        assert_eq!(node.used(), 0, "a link that is gone holds nothing");
    }
}
