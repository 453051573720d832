//! The messages of a chained GPC, as plain values.
//!
//! Source: the ARMCI design of chained GPC (2007), "Send Request to Execute a chained GPC" and "The action for any response to a chained_gpc".

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gpc_trees::{Id, IdList, Tree};

use super::flow::ArrivingReply;
use super::{Body, Failure, Report};

/// Names one chained GPC: who started it, and its number there.
///
/// A root counts its sequences up from its incarnation, so a restarted root never names a new call like an old one.
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

/// What travels on a link between a parent and its child.
#[derive(Clone, Debug)]
pub enum Message {
    /// Parent to child: execute this.
    Request(Arc<Request>),
    /// Child to parent: the subtree is done, or failed.
    Response(Response),
    /// Parent to child: this call is cancelled.
    Cancel(CallId),
    /// Parent to child: the root has what it needs; an answer that is kept for an adopter can go.
    Release(CallId),
    /// Child to a parent that was given up for lost: another parent has adopted it.
    Moved(CallId),
    /// Are you there?
    Ping,
    /// Yes.
    Pong,
    /// The sender answers nothing for so long, since its application computes; zero: it is back.
    Pause(Duration),
}

/// In which order a callback merges the replies of an id's children.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Merging {
    /// In list order: a reply that comes early is held until those before it have been merged.
    #[default]
    InListOrder,
    /// As they come, for a callback whose result does not depend on the order.
    AsTheyCome,
}

/// Which class of a node's workers runs the functions of a request: 0 the default ones, and the event loop; above it executors with names. Each node says it for itself.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Classes {
    /// Of func.
    pub func: u8,
    /// Of callback.
    pub callback: u8,
}

/// A call as one id receives it. Cloning is cheap: what is large is shared.
#[derive(Clone, Debug)]
pub struct Request {
    /// Which call.
    pub call: CallId,
    /// The receiver's position in the whole tree, in preorder: 0 at the root.
    pub position: u32,
    /// The places of the whole tree, the root's among them.
    pub total: u32,
    /// Name of the function that every id executes: the hash of it.
    pub func: u64,
    /// Name of the function that merges replies; `None` for the default aggregation.
    pub callback: Option<u64>,
    /// In which order callback merges the replies here. Each id's own registration of it says so: it does not go over the wire.
    pub merging: Merging,
    /// Which workers run func and callback here, which does not go over the wire either.
    pub classes: Classes,
    /// Whether replies are collected; without, the way up carries bare completions.
    pub reply_wanted: bool,
    /// Forward before executing.
    pub forward_first: bool,
    /// The call goes on without those that are lost.
    pub partial: bool,
    /// A parent that was lost may have sent it before, and this id may have executed it.
    pub adopted: bool,
    /// How many parents were given up between the sender and this id: 0 from the parent in the tree. Who has given up more stands higher, and is the one to answer to.
    pub skipped: u32,
    /// What is left of the call's time limit.
    pub limit: Duration,
    /// How long ago the call began; the time on links is not counted.
    pub age: Duration,
    /// What is left of the root's time limit: as long as that, an adopter may ask for the answer.
    pub left: Duration,
    /// How the list is split; `Err` holds the wire id of a tree that this process does not know.
    pub tree: Result<Tree, u64>,
    /// The receiver's slice: itself first, then its descendants in tree order.
    pub ids: IdList,
    /// The request's header: extra arguments, at most [`frame::HEADER_MAX`](super::frame::HEADER_MAX) bytes.
    pub header: Bytes,
    /// The request's data, perhaps still arriving.
    pub data: Body,
}

impl Request {
    /// A request to these ids with nothing in it: no function, no data, the default tree, replies wanted, no time.
    pub fn new(call: CallId, ids: IdList) -> Request {
        Request {
            call,
            position: 0,
            total: ids.len(),
            func: 0,
            callback: None,
            merging: Merging::default(),
            classes: Classes::default(),
            reply_wanted: true,
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
        }
    }
}

/// A child's answer for its whole subtree.
#[derive(Clone, Debug)]
pub struct Response {
    /// Which call.
    pub call: CallId,
    /// What came of it.
    pub answer: Answer,
}

/// What came of a call in one subtree.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Done, and no reply was asked for.
    Completed,
    /// Done, with the subtree's reply.
    Reply(SubtreeReply),
    /// Done, with the subtree's reply, whose data are still arriving: a failure may come yet, and stands instead of it.
    Arriving(Box<ArrivingReply>),
    /// Some stage failed at some id of the subtree.
    Failed(Box<Failure>),
    /// Of a call that goes on without those that are lost: what there is, and what became of each id.
    Partial(Box<Partial>),
}

impl Answer {
    /// What the application gets of it at the root: the reply, if there is one, or the failure.
    pub fn into_result(self) -> Result<Option<SubtreeReply>, Box<Failure>> {
        match self {
            Answer::Completed => Ok(None),
            Answer::Reply(reply) => Ok(Some(reply)),
            Answer::Partial(partial) => Ok(Some(partial.reply)),
            // None is under way at the root.
            Answer::Arriving(reply) => Ok(reply.whole()),
            Answer::Failed(failure) => Err(failure),
        }
    }
}

/// What there is of a subtree's reply.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Partial {
    /// The reply of the ids that are done; empty if none was asked for. With a callback, level 1 stands for several values that could not be merged.
    pub reply: SubtreeReply,
    /// What became of each id.
    pub report: Report,
}

/// The reply of a subtree: reply header and reply data, side by side.
///
/// With the default aggregation both are level-n data of the same level; with a callback they are what it made, at level 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SubtreeReply {
    /// Height above the leaves.
    pub level: u16,
    /// Reply header.
    pub header: super::Payload,
    /// Reply data.
    pub data: super::Payload,
}

impl SubtreeReply {
    /// Bytes of header and data together.
    pub fn len(&self) -> u64 {
        self.header.len() as u64 + self.data.len() as u64
    }

    /// Whether both are empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
