//! What the event loop remembers from turn to turn, by role: how it looks for what may come, what a turn has done, the
//! calls of this node's own callers, and when it was last busy.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use mio::Events;

use super::absent_peers::Reasons;
use super::command::Command;
use super::completion::Completion;
use super::quick_hash::QuickHash;
use super::wait::{PollPolicy, Wait};
use crate::chain::Time;

/// Events taken from the system in one turn.
pub(super) const EVENTS: usize = 1024;

/// The budget of a turn without a limit.
pub(super) const UNBOUNDED: usize = usize::MAX;

/// How the loop looks for what may come, and sleeps.
pub(super) struct Looking {
    /// What the system has said; taken out while it is carried out.
    pub(super) events: Option<Events>,
    pub(super) policy: PollPolicy,
    /// When the system was last asked for events by one who looks at rings too.
    pub(super) asked: Time,
    /// How long after that it is to be asked again.
    pub(super) ask_every: Duration,
    /// The last short answer that came in this turn was not its call's last.
    pub(super) awaits_more: bool,
    /// Whether peers and other threads have been told that the node sleeps, by one who waits for its descriptor.
    pub(super) armed: bool,
    /// Whether a turn has begun with something to do since the node slept last: then more may come soon.
    pub(super) active: bool,
    /// How long the node has looked for what may come before the alarm rang: that is no reason to look anew.
    pub(super) looked: Duration,
}

impl Looking {
    pub(super) fn new(wait: Wait) -> Looking {
        Looking {
            events: Some(Events::with_capacity(EVENTS)),
            policy: PollPolicy::new(wait),
            asked: Time::default(),
            ask_every: Duration::ZERO,
            awaits_more: false,
            armed: false,
            active: false,
            looked: Duration::ZERO,
        }
    }
}

/// What a turn has done.
pub(super) struct Turn {
    /// Things done: what came on links, calls started, results of other threads, deadlines.
    pub(super) done: usize,
    /// How many of them are enough.
    pub(super) budget: usize,
    /// Whether the alarm has rung, or need not, since something is due.
    pub(super) rang: bool,
}

impl Default for Turn {
    fn default() -> Turn {
        Turn { done: 0, budget: UNBOUNDED, rang: false }
    }
}

/// The calls that start at this node.
#[derive(Default)]
pub(super) struct OwnCalls {
    /// Calls to start that did not come by mail.
    pub(super) started: VecDeque<Command>,
    /// Where their callers wait, by ticket.
    pub(super) completions: HashMap<u64, Arc<Completion>, QuickHash>,
    /// Why ids are absent that somebody waits for.
    pub(super) reasons: Reasons,
    /// Followed calls whose func runs outside the loop, before the chain knows them.
    pub(super) to_follow: Vec<u64>,
    /// Room for the ids of a call that starts.
    pub(super) ids_room: Vec<u8>,
    /// How many children the last call went to that was started on the fast path.
    pub(super) children: usize,
}

/// When the node was busy, for the memory that it gives back.
pub(super) struct Idle {
    /// When something last came, or the system had something to say, of the turns while there is memory to give back.
    pub(super) busy_until: Time,
    /// Whether free memory goes back to the system when the node is idle.
    pub(super) trims: bool,
}
