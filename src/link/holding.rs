//! What a link holds for a peer that does not read: long replies, of which those beyond a bound become failures; small frames, beyond a bound of which the link is closed; and one PONG.
//!
//! Nothing waits for room here: what does not fit is refused at once, so that no call depends on another one's peer.

use gpc_trees::Id;

use crate::wire::budget::{Budget, Share};

/// Small frames that may wait for a peer: twice the answers to the requests that it has credit for and the requests that this side has, of 16 KiB each, and what else is said of as many calls.
const SMALL_MAX: usize = 32 << 20;

/// Small frames that may wait though the node has no memory for them: what a busy link has between two writes.
const SMALL_FREE: usize = 64 << 10;

/// What a link holds for its peer.
#[derive(Debug, Default)]
pub(super) struct Holding {
    me: Id,
    replies: Budget,
    /// What waits to be written of small frames, when that was last counted.
    small: Share,
    /// Bytes to be written until the last PONG is.
    pong_left: usize,
    /// Whether a reply was refused, or has taken what was left.
    full: bool,
}

impl Holding {
    pub(super) fn new(me: Id, replies: &Budget, small: &Budget) -> Holding {
        Holding { me, replies: replies.clone(), small: small.share(), pong_left: 0, full: false }
    }

    /// Who refuses.
    pub(super) fn me(&self) -> Id {
        self.me
    }

    /// A share for a long reply of so many bytes; none where it does not fit.
    pub(super) fn reply(&mut self, bytes: u64) -> Option<Share> {
        let mut share = self.replies.share();
        let taken = share.grow(bytes);
        self.full |= !taken || self.replies.is_spent();
        taken.then_some(share)
    }

    /// Why one does not fit, in words.
    pub(super) fn refusal(&self) -> String {
        self.replies.refusal()
    }

    /// Whether there was no room for replies when one last came.
    #[inline(always)]
    pub(super) fn was_full(&self) -> bool {
        self.full
    }

    /// Whether there is no room for replies: from when one was refused until half of it is free.
    pub(super) fn is_full(&mut self) -> bool {
        let half = self.replies.most() / 2;
        self.full = self.full && (self.replies.used() > half || self.replies.is_spent());
        self.full
    }

    /// Whether a PONG is to be queued, behind so many bytes of frames with it: not while one waits to be written.
    pub(super) fn takes_pong(&mut self, queued: usize) -> bool {
        let takes = self.pong_left == 0;
        if takes {
            self.pong_left = queued;
        }
        takes
    }

    /// So many bytes were written, with nothing left behind them if `all`.
    #[inline(always)]
    pub(super) fn written(&mut self, count: usize) {
        self.pong_left = self.pong_left.saturating_sub(count);
    }

    /// Everything was written.
    pub(super) fn drained(&mut self) {
        let _ = self.small.resize(0);
    }

    /// So many bytes of small frames wait for the peer.
    ///
    /// # Errors
    /// When they are too many, in words.
    pub(super) fn waits(&mut self, small: usize) -> Result<(), String> {
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

    fn holding(replies: u64, small: u64) -> Holding {
        Holding::new(3, &Budget::new(replies, "a link"), &Budget::new(small, "id 3"))
    }

    #[test]
    fn one_pong_waits_at_a_time() {
        let mut holding = holding(0, 0);
        assert!(holding.takes_pong(100) && !holding.takes_pong(200));
        holding.written(99);
        assert!(!holding.takes_pong(300));
        holding.written(1);
        assert!(holding.takes_pong(8) && !holding.takes_pong(16));
    }

    #[test]
    fn requests_are_refused_from_the_first_reply_that_does_not_fit_until_half_is_free() {
        let mut holding = holding(100, 0);
        let shares = [holding.reply(30), holding.reply(30), holding.reply(30)].map(Option::unwrap);
        assert!(!holding.is_full() && holding.reply(30).is_none() && holding.is_full());
        let [one, rest @ ..] = shares;
        drop(one);
        assert!(holding.is_full() && holding.was_full());
        drop(rest);
        assert!(!holding.is_full() && !holding.was_full());
        assert!(holding.reply(100).is_some() && !holding.is_full());
    }

    #[test]
    fn small_frames_that_nobody_reads_end_the_link() {
        let mut holding = holding(0, 1 << 20);
        assert!(holding.waits(1 << 20).is_ok() && holding.waits(SMALL_FREE).is_ok());
        assert!(holding.waits((1 << 20) + 1).unwrap_err().contains("id 3 may hold 1048576"));
        let mut rich = Holding::default();
        assert!(rich.waits(SMALL_MAX).is_ok());
        assert!(rich.waits(SMALL_MAX + 1).unwrap_err().contains("does not read"));
    }

    #[test]
    fn what_was_written_is_given_back() {
        let node = Budget::new(SMALL_FREE as u64, "id 3");
        let mut links = [(); 2].map(|()| Holding::new(3, &Budget::unbounded(), &node));
        assert!(links[0].waits(SMALL_FREE).is_ok() && node.is_spent());
        assert!(links[1].waits(SMALL_FREE + 1).is_err(), "the other link has all of it");
        links[0].drained();
        assert_eq!(node.used(), 0);
        assert!(links[1].waits(SMALL_FREE).is_ok() && node.is_spent());
        drop(links);
        assert_eq!(node.used(), 0, "a link that is gone holds nothing");
    }
}
