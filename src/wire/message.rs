//! The messages of a chained GPC, as plain values.
//!
//! Source: the ARMCI design of chained GPC (2007), "Send Request to Execute a chained GPC" and "The action for any
//! response to a chained_gpc".

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gpc_trees::{Id, IdList, Tree};

use super::streaming_reply::StreamingReply;
pub use super::subtree_reply::SubtreeReply;
use super::{Body, CallContext, Failure, Parts, ReplyLimits, Report, Straggler};

/// Identifier of one chained GPC: the initiator and the initiator's sequence number.
///
/// A root counts its sequences up from its incarnation, so a restarted root never reuses the name of an old call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CallId {
    /// The initiator.
    pub root: Id,
    /// The initiator's number for the call.
    pub sequence: u64,
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.root, self.sequence)
    }
}

/// A message on a link between a parent and its child.
#[derive(Clone, Debug)]
pub enum Message {
    /// Parent to child: execute this call.
    Request(Arc<Request>),
    /// Child to parent: the subtree is done or has failed.
    Response(Response),
    /// Parent to child: the call is cancelled.
    Cancel(CallId),
    /// Parent to child: the root has its result, so the child may drop the answer that it retains for an adopter.
    Release(CallId),
    /// Child to a parent that was given up as lost: another parent has adopted the child.
    Moved(CallId),
    /// Heartbeat request.
    Ping,
    /// Heartbeat.
    Pong,
    /// Child to parent, ahead of a heartbeat: the id that each of these calls waits for below.
    Stragglers(Vec<(CallId, Straggler)>),
    /// The sender stops answering for this long, because its application computes; zero ends the pause.
    Pause(Duration),
}

/// Order in which a callback merges the replies of an id's children.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Merging {
    /// In list order: a reply that arrives early waits until all replies before it are merged.
    #[default]
    InListOrder,
    /// In order of arrival, for a callback whose result does not depend on the order.
    AsTheyCome,
}

/// The class of workers that runs each function of a request: 0 for the default workers and the event loop, higher
/// numbers for named executors. Each node sets it for itself.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Classes {
    /// Class for func.
    pub func: u8,
    /// Class for callback.
    pub callback: u8,
}

/// What each id adds to its request, from its own registration of the functions, and what it does besides. Only the
/// trace is sent, as a flag.
#[derive(Clone, Default, Debug)]
pub struct Local {
    /// Order in which callback merges the replies.
    pub merging: Merging,
    /// Workers that run func and callback.
    pub classes: Classes,
    /// Value that the functions share.
    pub context: CallContext,
    /// The reply brings the times of all ids.
    pub trace: bool,
}

/// A call as one id receives it. Cloning is cheap: large parts are shared.
#[derive(Clone, Debug)]
pub struct Request {
    /// Identifier of the call.
    pub call: CallId,
    /// The receiver's position in the whole tree, in preorder: 0 at the root.
    pub position: u32,
    /// Number of places in the whole tree, including the root's.
    pub total: u32,
    /// Hash of the name of func, the function that every id executes.
    pub func: u64,
    /// Hash of the name of the function that merges replies; `None` for the default aggregation.
    pub callback: Option<u64>,
    /// What this id adds for itself.
    pub local: Local,
    /// Whether replies are collected; if not, only bare completions travel up.
    pub reply_wanted: bool,
    /// Limits for what one id writes.
    pub reply_limits: ReplyLimits,
    /// Forward the request before executing func.
    pub forward_first: bool,
    /// Partial call: it goes on without lost ids.
    pub partial: bool,
    /// A parent that was lost may already have sent this request, so this id may have executed it.
    pub adopted: bool,
    /// Number of parents given up between the sender and this id: 0 if the sender is the parent in the tree. The sender
    /// with the higher number stands higher in the tree, and the id answers to it.
    pub skipped: u32,
    /// Time left of the call's limit.
    pub limit: Duration,
    /// Time since the call began, without the time spent on links.
    pub age: Duration,
    /// Time left of the root's limit: until it has passed, an adopter may ask for the answer.
    pub left: Duration,
    /// How the list is split; `Err` holds the wire id of a tree that this process does not know.
    pub tree: Result<Tree, u64>,
    /// The receiver's slice: itself first, then its descendants in tree order.
    pub ids: IdList,
    /// Request header: extra arguments, at most [`frame::HEADER_MAX`](super::frame::HEADER_MAX) bytes.
    pub header: Bytes,
    /// Request data, which may still be arriving; in a scatter call the receiver's part.
    pub data: Body,
    /// Scatter call: the parts of all ids of the slice.
    pub parts: Option<Box<Parts>>,
}

impl Request {
    /// An empty request to these ids: no function, no data, the default tree, replies wanted, time limit zero.
    pub fn new(call: CallId, ids: IdList) -> Request {
        Request {
            call,
            position: 0,
            total: ids.len(),
            func: 0,
            callback: None,
            local: Local::default(),
            reply_wanted: true,
            reply_limits: ReplyLimits::UNLIMITED,
            forward_first: false,
            partial: false,
            adopted: false,
            skipped: 0,
            limit: Duration::ZERO,
            age: Duration::ZERO,
            left: Duration::ZERO,
            tree: Ok(Tree::default()),
            ids,
            header: Bytes::new(),
            data: Body::default(),
            parts: None,
        }
    }

    /// The data as they travel: those of all ids of the slice in a scatter call.
    pub fn body(&self) -> &Body {
        self.parts.as_ref().map_or(&self.data, |parts| parts.body())
    }

    /// Sets the data as they travel.
    pub fn set_body(&mut self, body: Body) {
        match &mut self.parts {
            None => self.data = body,
            Some(parts) => {
                parts.set_body(body);
                self.data = parts.own();
            }
        }
    }

    /// Returns the same request, whose data are read from their beginning.
    pub fn fork(&self) -> Request {
        self.clone().with_body(self.body().fork())
    }

    /// Returns the same request with these data.
    pub fn with_body(mut self, body: Body) -> Request {
        self.set_body(body);
        self
    }
}

/// A child's answer for its whole subtree.
#[derive(Clone, Debug)]
pub struct Response {
    /// Identifier of the call.
    pub call: CallId,
    /// Result of the call.
    pub answer: Answer,
}

/// Result of a call in one subtree.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Done; no reply was requested.
    Completed,
    /// Done, with the subtree's reply.
    Reply(SubtreeReply),
    /// Done, with the subtree's reply, whose data are still arriving. A failure may still follow and replaces it.
    Arriving(Box<StreamingReply>),
    /// A stage failed at an id of the subtree.
    Failed(Box<Failure>),
    /// Result of a partial call: the available reply, and the state of each id.
    Partial(Box<Partial>),
}

impl Answer {
    /// The result for the application at the root: the reply, if any, or the failure.
    pub fn into_result(self) -> Result<Option<SubtreeReply>, Box<Failure>> {
        match self {
            Answer::Completed => Ok(None),
            Answer::Reply(reply) => Ok(Some(reply)),
            Answer::Partial(partial) => Ok(Some(partial.reply)),
            // At the root every reply has arrived in full.
            Answer::Arriving(reply) => Ok(reply.whole()),
            Answer::Failed(failure) => Err(failure),
        }
    }
}

/// The available part of a subtree's reply.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Partial {
    /// Reply of the ids that are done; empty if no reply was requested. With a callback, level 1 means several values
    /// that could not be merged.
    pub reply: SubtreeReply,
    /// State of each id.
    pub report: Report,
}
