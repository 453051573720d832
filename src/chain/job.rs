//! The jobs of a node: functions that its driver runs, and their results.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use gpc_trees::Id;

use super::{Reply, Time};
use crate::wire::message::SubtreeReply;
use crate::wire::{CallId, Reason, Request};

/// A function to run.
#[derive(Debug)]
pub struct Job {
    /// The call.
    pub call: CallId,
    /// The executing id.
    pub me: Id,
    /// The parent; `None` at the root.
    pub parent: Option<Id>,
    /// The request, with complete data, or with part of the data that func takes as they arrive.
    pub request: Arc<Request>,
    /// When the call's time limit passes here.
    pub until: Time,
    /// The function to run.
    pub work: Work,
}

/// Intermediate state of a func that takes its data as they arrive. The chain stores it between two jobs and does not
/// inspect it.
pub struct FuncState(pub Box<dyn Any + Send>);

impl fmt::Debug for FuncState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Taken")
    }
}

/// The function of a job.
#[derive(Debug)]
pub enum Work {
    /// func, with an empty reply.
    Func,
    /// func continues: more of the data that it takes as they arrive are present, or all of them.
    More(FuncState),
    /// callback, to merge a child's reply into the node's own.
    Callback {
        /// The child.
        from: Id,
        /// The child's reply.
        child: Box<SubtreeReply>,
        /// The node's own reply so far.
        own: Reply,
    },
}

/// The result of a job.
#[derive(Debug)]
pub enum JobResult {
    /// The function succeeded; this is the node's own reply now.
    Replied(Reply),
    /// func or callback has kept a token, and answers once, later, with [`Input::Answered`](super::Input::Answered).
    Deferred,
    /// func has taken the available data, and continues when more arrive.
    Taken(FuncState),
    /// The function failed.
    Failed(Box<Reason>),
    /// The function was not run, for example because it is unknown here.
    Refused(Box<Reason>),
}
