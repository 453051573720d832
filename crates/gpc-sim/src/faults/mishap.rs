//! Faults at their times, and the actions of functions that do not simply reply.

use std::collections::{BTreeMap, BTreeSet};

use gpc_trees::Id;

use crate::ranked::IdSet;
use chained_gpc::wire::Message;

/// A fault at its time.
#[derive(Clone, Debug)]
pub(crate) enum Mishap {
    Crash(Id),
    Restart(Id),
    Pause {
        id: Id,
        until: u64,
    },
    /// A pause that is announced to the linked peers with a length of `stated` nanoseconds.
    Announced {
        id: Id,
        /// Length announced just before, nanoseconds.
        before: Option<u64>,
        stated: u64,
        until: u64,
    },
    Slow {
        id: Id,
        factor: u64,
        until: u64,
    },
    /// Breaks a link that is up at the time: one of the given id's, if it has any.
    Break {
        hard: bool,
        of: Option<Id>,
    },
    Cut {
        ids: IdSet,
        until: u64,
    },
    GiveUp {
        call: usize,
    },
    /// An id refuses connections from one other id, or from all.
    Refuse {
        id: Id,
        from: Option<Id>,
        until: u64,
    },
    /// A process takes no more calls.
    Close(Id),
    /// A message of a link that broke arrives again.
    Again {
        from: Id,
        to: Id,
        runs: [u32; 2],
        message: Box<Message>,
    },
}

/// A fault and its time, nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Timed {
    pub(crate) at: u64,
    pub(crate) mishap: Mishap,
}

/// Action of a func that does not simply reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    Fail,
    /// The function is unknown at this id.
    Refuse,
    /// Keeps its token, and fails with it later.
    FailLater,
    Panic,
    /// Ends after this time, nanoseconds.
    Hang(u64),
    /// Replies later, which is not a fault.
    Defer,
    Twice,
}

/// Actions of the functions of a call that do not simply reply.
#[derive(Clone, Default, Debug)]
pub(crate) struct Acts {
    pub(crate) funcs: BTreeMap<Id, Act>,
    /// Ids whose callback fails.
    pub(crate) callbacks_fail: BTreeSet<Id>,
    /// Ids whose callback defers its reply.
    pub(crate) callbacks_later: BTreeSet<Id>,
}
