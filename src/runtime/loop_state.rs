//! State of the event loop between turns: its polling, the counters of a turn, this node's own calls, and idle memory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use mio::Events;

use super::absent_peers::Reasons;
use super::command::Command;
use super::completion::Completion;
use super::wait::{PollPolicy, Wait};
use crate::chain::Time;
use crate::chain::tickets::Tickets;
use crate::wire::short::KeyBuffer;

/// Maximum number of epoll events per turn.
pub(super) const EVENTS: usize = 1024;

/// The budget of a turn without a limit.
pub(super) const UNBOUNDED: usize = usize::MAX;

/// State of polling and sleeping.
pub(super) struct Polling {
    /// The last events of epoll; taken out while they are handled.
    pub(super) events: Option<Events>,
    pub(super) policy: PollPolicy,
    /// Time of the last call of epoll while polling.
    pub(super) last_epoll: Time,
    /// Minimum time from that call to the next one.
    pub(super) epoll_interval: Duration,
    /// Whether the last short answer of this turn was not the last of its call.
    pub(super) expects_more: bool,
    /// Whether the driver waits for the descriptor: peers and other threads wake it.
    pub(super) is_armed: bool,
    /// Whether a turn since the last sleep began with work: more may arrive soon.
    pub(super) is_active: bool,
    /// How long the node polled before the alarm expired. The next polling continues from there.
    pub(super) polled_for: Duration,
}

impl Polling {
    pub(super) fn new(wait: Wait) -> Polling {
        Polling {
            events: Some(Events::with_capacity(EVENTS)),
            policy: PollPolicy::new(wait),
            last_epoll: Time::default(),
            epoll_interval: Duration::ZERO,
            expects_more: false,
            is_armed: false,
            is_active: false,
            polled_for: Duration::ZERO,
        }
    }
}

/// Counters of a turn.
pub(super) struct Turn {
    /// Handled items: messages, started calls, results of other threads, deadlines.
    pub(super) done: usize,
    /// Number of items after which the turn ends.
    pub(super) budget: usize,
    /// Whether a deadline has passed.
    pub(super) is_due: bool,
}

impl Default for Turn {
    fn default() -> Turn {
        Turn { done: 0, budget: UNBOUNDED, is_due: false }
    }
}

/// The calls that start at this node.
#[derive(Default)]
pub(super) struct OwnCalls {
    /// Calls of the driver, which did not pass the mailbox.
    pub(super) started: VecDeque<Command>,
    /// Completions of calls, by ticket.
    pub(super) completions: Tickets<Arc<Completion>>,
    /// Why awaited ids have no link.
    pub(super) reasons: Reasons,
    /// Followed calls that the chain does not know yet, since their func runs outside the loop.
    pub(super) to_follow: Vec<u64>,
    /// Buffer for the key of a call that starts.
    pub(super) key_buffer: Option<Box<KeyBuffer>>,
    /// Number of children of the last call that started here on the fast path.
    pub(super) children: usize,
}

/// When an idle node releases memory.
pub(super) struct Idle {
    /// Time of the last event, recorded only while there is memory to release.
    pub(super) busy_until: Time,
    /// Whether an idle node returns free memory to the system.
    pub(super) trims: bool,
}
