//! The times of heartbeats: when a silent peer is asked, and when it is given up.

use std::time::Duration;

/// Maximum pause that a peer may announce: longer than an application computes without polling its node. If a peer
/// announces a pause and then dies unnoticed (a host without power), this is detected only after the pause. So the
/// pause is no longer than an operator waits for a call that hangs.
pub const PAUSE_MAX: Duration = Duration::from_secs(600);

/// When a silent peer is asked for a heartbeat, and when it is given up.
///
/// ```
/// use std::time::Duration;
///
/// use chained_gpc::{Heartbeat, Node};
///
/// let heartbeat = Heartbeat::dead_after(Duration::from_secs(5));
/// assert_eq!(heartbeat.every, Duration::from_secs(1));
/// let node = Node::builder(0).heartbeat(Some(heartbeat)).start()?;
/// # let _ = node;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heartbeat {
    /// Interval at which each peer whose answer is awaited is asked for a heartbeat; at most a third of `dead_after`.
    pub every: Duration,
    /// How long a peer may be silent before it is given up. The first request is sent at the first check after its last
    /// heartbeat. If the request takes time to leave, the peer has that much longer.
    pub dead_after: Duration,
}

impl Heartbeat {
    /// Returns a heartbeat that asks four times before it gives a peer up, so that a single late answer is tolerated.
    pub fn dead_after(dead_after: Duration) -> Heartbeat {
        Heartbeat { every: dead_after / 5, dead_after }
    }

    /// Returns the heartbeat with an interval short enough that a peer is asked more than once before it is given up.
    pub(crate) fn asking_often(self) -> Heartbeat {
        Heartbeat { every: self.every.min(self.dead_after / 3), ..self }
    }

    /// How long a question may stay unanswered. It was asked at most `every` after the last heartbeat, and both times
    /// together are [`dead_after`](Self::dead_after).
    pub(super) fn patience(&self) -> Duration {
        self.dead_after.saturating_sub(self.every)
    }
}
