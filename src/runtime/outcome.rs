//! What comes of a call, for its caller.

use std::sync::OnceLock;

use bytes::Bytes;
use gpc_trees::{Id, IdList, IdsError};

use super::completion::Success;
use super::functions_error::FunctionsError;
use super::plan::Plan;
use crate::chain::{RootParts, RootReply};
use crate::wire::level::{Leaves, LevelError, Limits};
use crate::wire::message::SubtreeReply;
use crate::wire::{Cause, Coverage, Failure, Report, Status};

/// A call that every id has executed; or of a [partial](super::Call::partial) one, what there is.
#[derive(Clone, Debug)]
pub struct Outcome {
    root: Id,
    /// Tree order.
    ids: IdList,
    /// The caller's order.
    asked: IdList,
    merged: bool,
    level: u16,
    /// The replies as they came, if they did in parts; then what they are aggregated to is made when somebody wants it.
    parts: Option<RootParts>,
    aggregated: OnceLock<Aggregated>,
    report: Report,
}

/// The reply of the whole tree.
#[derive(Clone, PartialEq, Debug)]
struct Aggregated {
    header: Bytes,
    data: Bytes,
}

impl From<SubtreeReply> for Aggregated {
    fn from(reply: SubtreeReply) -> Aggregated {
        Aggregated { header: reply.header.into_bytes(), data: reply.data.into_bytes() }
    }
}

/// One id's reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdReply {
    /// Whose.
    pub id: Id,
    /// Reply header.
    pub header: Bytes,
    /// Reply data.
    pub data: Bytes,
}

/// One id's reply, where it lies in the [`Outcome`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplyRef<'a> {
    /// Whose.
    pub id: Id,
    /// Reply header.
    pub header: &'a [u8],
    /// Reply data.
    pub data: &'a [u8],
}

impl Outcome {
    pub(super) fn new(plan: Plan, success: Success) -> Outcome {
        let Plan { root, ids, asked, merged, .. } = plan;
        let whole = || Report { causes: Vec::new(), coverage: Coverage::all(Status::Done, ids.len()) };
        let report = success.report.map_or_else(whole, |report| *report);
        let (level, parts, aggregated) = match success.reply {
            Some(RootReply::Parts(parts)) => (parts.level(), Some(parts), OnceLock::new()),
            Some(RootReply::Aggregated(reply)) => {
                (reply.level, None, OnceLock::from(Aggregated::from(reply)))
            }
            None => (0, None, OnceLock::from(Aggregated::from(SubtreeReply::default()))),
        };
        Outcome { root, ids, asked, merged, level, parts, aggregated, report }
    }

    fn aggregated(&self) -> &Aggregated {
        let aggregate = || self.parts.as_ref().map(RootParts::aggregate).unwrap_or_default().into();
        self.aggregated.get_or_init(aggregate)
    }

    /// What became of each id, in tree order. Only a partial call leaves any out.
    pub fn coverage(&self) -> &Coverage {
        &self.report.coverage
    }

    /// Why ids were left out of a partial call, the first cause first; at most 1,024.
    pub fn causes(&self) -> &[Cause] {
        &self.report.causes
    }

    /// Whether every id is done.
    pub fn is_complete(&self) -> bool {
        self.report.coverage.counts().done == self.ids.len()
    }

    /// Level of the aggregated replies: the height of the tree. 0 with a callback, and when no reply was asked for.
    pub fn level(&self) -> u16 {
        self.level
    }

    /// Reply header of the whole tree: level-n data, or what the callback made.
    pub fn header(&self) -> &Bytes {
        &self.aggregated().header
    }

    /// Reply data of the whole tree: level-n data, or what the callback made.
    pub fn data(&self) -> &Bytes {
        &self.aggregated().data
    }

    /// The ids that were asked, in tree order; those of them that are done have the parts of [`data`](Self::data) in this order.
    pub fn ids(&self) -> &IdList {
        &self.ids
    }

    /// The reply of each id, in the order in which the caller listed them (a root that the list left out comes first). With a callback, one reply: the root's, into which all are merged.
    /// Empty when no reply was asked for.
    ///
    /// Each shares the bytes of [`header`](Self::header) and [`data`](Self::data), and may outlive the outcome. [`replies_ref`](Self::replies_ref) gives the same without making these, and without
    /// counting who shares what.
    ///
    /// # Errors
    /// When the level-n data are bad or have not one part for each id: some id's reply was not made by this protocol.
    pub fn replies(&self) -> Result<Vec<IdReply>, RepliesError> {
        let Aggregated { header, data } = self.aggregated();
        let shared = |reply: ReplyRef<'_>| IdReply {
            id: reply.id,
            header: header.slice_ref(reply.header),
            data: data.slice_ref(reply.data),
        };
        Ok(self.aggregated_replies()?.into_iter().map(shared).collect())
    }

    /// What [`replies`](Self::replies) gives, borrowed: for a caller that is done with them before the outcome goes.
    ///
    /// # Errors
    /// As [`replies`](Self::replies).
    pub fn replies_ref(&self) -> Result<Vec<ReplyRef<'_>>, RepliesError> {
        match self.parts_as_they_came() {
            Some(replies) => Ok(self.as_asked(replies)),
            None => self.aggregated_replies(),
        }
    }

    fn aggregated_replies(&self) -> Result<Vec<ReplyRef<'_>>, RepliesError> {
        let Aggregated { header, data } = self.aggregated();
        if self.merged && self.level > 0 {
            return self.unmerged();
        }
        if self.merged {
            return Ok(vec![ReplyRef { id: self.root, header, data }]);
        }
        if data.is_empty() {
            return Ok(Vec::new());
        }
        let Some(replies) = self.aggregated_parts() else { return Err(self.fault()) };
        Ok(self.as_asked(replies))
    }

    /// From tree order into the caller's.
    fn as_asked<'a>(&self, mut replies: Vec<ReplyRef<'a>>) -> Vec<ReplyRef<'a>> {
        if self.asked != self.ids {
            replies.sort_by_cached_key(|reply| self.asked.position(reply.id));
        }
        replies
    }

    /// The parts of all ids, in tree order, if they came as parts; all ids are done then.
    fn parts_as_they_came(&self) -> Option<Vec<ReplyRef<'_>>> {
        let parts = self.parts.as_ref()?;
        let mut replies = Vec::with_capacity(self.ids.len() as usize);
        let mut ids = self.ids.iter();
        let all =
            parts.parts(|header, data| replies.extend(ids.next().map(|id| ReplyRef { id, header, data })));
        (all && ids.next().is_none()).then_some(replies)
    }

    /// The parts of each id that is done, in tree order; none if something is wrong with them.
    fn aggregated_parts(&self) -> Option<Vec<ReplyRef<'_>>> {
        let Aggregated { header, data } = self.aggregated();
        let [mut headers, mut parts] =
            [header, data].map(|blob| Leaves::new(self.level, blob, Limits::default()));
        // No more than came: each part has two bytes or more.
        let mut replies = Vec::with_capacity((self.ids.len() as usize).min(data.len()));
        for id in self.done() {
            let (header, data) = (headers.next()?.ok()?, parts.next()?.ok()?);
            replies.push(ReplyRef { id, header, data });
        }
        (headers.next().is_none() && parts.next().is_none()).then_some(replies)
    }

    /// What is wrong with the parts.
    fn fault(&self) -> RepliesError {
        let Aggregated { header, data } = self.aggregated();
        let [headers, data] = [header, data].map(|blob| leaves(self.level, blob));
        match (headers, data) {
            (Err(error), _) | (_, Err(error)) => error.into(),
            (Ok(headers), Ok(data)) => {
                let ids = self.coverage().counts().done;
                RepliesError::Count { headers: headers.len(), data: data.len(), ids }
            }
        }
    }

    /// The ids that are done, in tree order.
    fn done(&self) -> impl Iterator<Item = Id> {
        let statuses = self.ids.iter().zip(self.coverage().statuses());
        statuses.filter(|(_, status)| *status == Status::Done).map(|(id, _)| id)
    }

    /// The values that could not be merged, because the callback of some id failed.
    fn unmerged(&self) -> Result<Vec<ReplyRef<'_>>, RepliesError> {
        let Aggregated { header, data } = self.aggregated();
        let (headers, data) = (leaves(self.level, header)?, leaves(self.level, data)?);
        let reply = |(header, data)| ReplyRef { id: self.root, header, data };
        Ok(headers.into_iter().zip(data).map(reply).collect())
    }
}

impl PartialEq for Outcome {
    /// Whether what came is aggregated yet makes no difference.
    fn eq(&self, other: &Outcome) -> bool {
        (self.root, &self.ids, &self.asked, self.merged)
            == (other.root, &other.ids, &other.asked, other.merged)
            && (self.level, self.aggregated(), &self.report)
                == (other.level, other.aggregated(), &other.report)
    }
}

/// The level-0 parts of a blob.
fn leaves(level: u16, blob: &[u8]) -> Result<Vec<&[u8]>, LevelError> {
    Leaves::new(level, blob, Limits::default()).collect()
}

/// Aggregated replies that are not what this protocol makes.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepliesError {
    /// They are no level-n data.
    #[error(transparent)]
    Level(#[from] LevelError),
    /// They have too few parts, or too many.
    #[error("{headers} reply headers and {data} reply data came of {ids} ids")]
    Count {
        /// Parts of the header.
        headers: usize,
        /// Parts of the data.
        data: usize,
        /// Ids that executed.
        ids: u32,
    },
}

/// Why there is no outcome.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The call failed at some id.
    #[error(transparent)]
    Failed(Box<Failure>),
    /// The function cannot be called; nothing was sent.
    #[error(transparent)]
    Function(#[from] FunctionsError),
    /// The tree is bad; nothing was sent.
    #[error("the tree is refused: {0}")]
    Tree(#[from] gpc_trees::TreeError),
    /// The list of ids is bad, or there is none; nothing was sent.
    #[error("the list of ids is refused: {0}")]
    Ids(#[from] IdsError),
    /// The caller only watches, but is one of the ids that execute; nothing was sent.
    #[error("the caller only watches, but stands in the list of ids")]
    WatcherListed,
    /// The header is too long; nothing was sent.
    #[error("a header of {0} bytes is over the limit of 65536: send it as data")]
    Header(usize),
    /// The node takes no more calls at the moment; nothing was sent.
    #[error("the node is busy: its queue of calls is full; a polled node makes room in progress()")]
    Busy,
    /// The node has ended.
    #[error("the node has been shut down")]
    Ended,
    /// The node is a polled one, and only its holder drives it.
    #[error("this node runs only while its application calls progress(): wait with PolledNode::wait")]
    NotDriven,
    /// The wait could not end before the call's time limit, since the call waits for who would wait. Nothing was waited for.
    #[error(transparent)]
    Deadlock(Deadlock),
    /// The outcome has been taken from this handle before.
    #[error("the outcome of this call was taken before")]
    Taken,
}

/// Why a wait for a call is refused: the call cannot end while somebody waits there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Deadlock {
    /// The thread that drives a node, where inline functions and continuations run, waits for nothing.
    #[error(
        "the thread that drives a node cannot wait for a call, which would wait for it: go on in `CallHandle::on_end`, answer later by a deferring function, or place the function on an executor"
    )]
    Driver,
    /// A function waits on the last worker, or the only one, that the call needs at this node.
    #[error(
        "this function would wait for a call that needs the worker which waits: place one of the two on another executor, give this one more workers, go on in `CallHandle::on_end`, or answer later by a deferring function"
    )]
    Workers,
}

impl CallError {
    /// The first cause and the coverage, if the call got under way and failed.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            CallError::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    /// What became of each id, if the call got under way.
    pub fn coverage(&self) -> Option<&Coverage> {
        self.failure().map(|failure| &failure.coverage)
    }

    /// Whether nothing was sent: the call was refused here.
    pub fn is_refusal(&self) -> bool {
        match self {
            CallError::Function(_) | CallError::Tree(_) | CallError::Header(_) => true,
            CallError::Ids(_) | CallError::WatcherListed | CallError::Busy => true,
            CallError::Failed(_) | CallError::Ended | CallError::NotDriven => false,
            CallError::Deadlock(_) | CallError::Taken => false,
        }
    }
}
