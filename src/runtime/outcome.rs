//! The outcome of a call, for its caller.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;

use bytes::Bytes;
use gpc_trees::sorting::sort_by_key;
use gpc_trees::{Id, IdList};

use super::completion::Success;
use super::plan::Plan;
use super::status_table::StatusTable;
use super::trace::{Trace, Traced};
use crate::chain::{RootParts, RootReply};
use crate::wire::level::{Leaves, LevelError, Limits};
use crate::wire::message::SubtreeReply;
use crate::wire::{Cause, Coverage, Report, Status};

/// The result of a call that every id has executed, or the available results of a [partial](super::Call::partial) one.
///
/// It has all replies, in the caller's order ([`replies`](Self::replies)) or by id ([`reply`](Self::reply)), and the
/// status of each id. The first query for a reply takes time linear in the length of the replies, each later one
/// constant time. If the ids are a range or a few, the time for a status does not grow with their number.
///
/// ```
/// use chained_gpc::{Call, CauseKind, Functions, IdList, LinkKind, LocalNodes, Status, WithCode};
///
/// let functions = Functions::new();
/// let load = functions.func("load", |request, reply| {
///     if request.me() == 2 {
///         return Err(WithCode::new(7, "no sensor").into());
///     }
///     reply.data = vec![request.me() as u8; 3];
///     Ok(())
/// })?;
/// let nodes = LocalNodes::start(4, LinkKind::Unix, &functions)?;
/// let outcome = nodes.root().call(Call::new(load).ids(0..4).partial())?.wait()?;
/// assert_eq!(outcome.reply(3).expect("id 3 is done").data, [3, 3, 3]);
/// assert!(outcome.reply(2).is_none() && !outcome.is_complete());
/// assert_eq!(outcome.status(2), Some(Status::Failed));
/// assert_eq!(outcome.failed(), IdList::range(2..3));
/// let cause = outcome.cause(2).expect("a failed id has a cause");
/// assert_eq!((cause.kind, cause.code), (CauseKind::Failed, 7));
/// // Ids that are safe to call again: none, since each has got the request.
/// assert!(outcome.never_reached().is_empty() && outcome.unknown().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Large, and moved several times on its way to the caller.
    inner: Box<Inner>,
}

/// The results as received; derived values are computed by the first query that needs them.
#[derive(Clone, Debug)]
struct Inner {
    plan: Plan,
    level: u16,
    /// The replies as they arrived, if they are separate parts; then the aggregate is made on demand.
    parts: Option<RootParts>,
    /// Of a partial call.
    report: Option<Box<Report>>,
    /// The times of the ids, if the call was traced.
    trace: Option<Box<Trace>>,
    aggregated: OnceLock<Aggregated>,
    status_table: OnceLock<Box<StatusTable>>,
    index: OnceLock<Box<Index>>,
}

/// The positions of replies and causes by id.
#[derive(Clone, Default, Debug)]
struct Index {
    /// The replies of the ids that are done, in tree order, as ranges of the aggregate.
    replies: Vec<(Range<usize>, Range<usize>)>,
    /// The first cause of each id that has one.
    causes: HashMap<Id, usize>,
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

/// The reply of one id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdReply {
    /// The id.
    pub id: Id,
    /// Reply header.
    pub header: Bytes,
    /// Reply data.
    pub data: Bytes,
}

/// The reply of one id, borrowed from the [`Outcome`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplyRef<'a> {
    /// The id.
    pub id: Id,
    /// Reply header.
    pub header: &'a [u8],
    /// Reply data.
    pub data: &'a [u8],
}

#[cold]
fn trace_of(traced: &Traced, reply: Option<&RootReply>) -> Option<Box<Trace>> {
    match reply {
        Some(RootReply::Aggregated(reply)) => Trace::new(traced, &reply.trace).map(Box::new),
        _ => None,
    }
}

impl Outcome {
    pub(super) fn new(plan: Plan, success: Success) -> Outcome {
        let trace = plan.traced.as_ref().and_then(|traced| trace_of(traced, success.reply.as_ref()));
        let Success { reply, report } = success;
        let (level, parts, aggregated) = match reply {
            Some(RootReply::Parts(parts)) => (parts.level(), Some(parts), OnceLock::new()),
            Some(RootReply::Aggregated(reply)) => {
                (reply.level, None, OnceLock::from(Aggregated::from(reply)))
            }
            None => (0, None, OnceLock::new()),
        };
        let (status_table, index) = (OnceLock::new(), OnceLock::new());
        let inner = Inner { plan, level, parts, report, trace, aggregated, status_table, index };
        // The box is allocated first, so the result is written where it stays.
        Outcome { inner: Box::write(Box::new_uninit(), inner) }
    }

    fn aggregated(&self) -> &Aggregated {
        let aggregate = || self.inner.parts.as_ref().map(RootParts::aggregate).unwrap_or_default().into();
        self.inner.aggregated.get_or_init(aggregate)
    }

    fn status_table(&self) -> &StatusTable {
        let Inner { plan: Plan { ids, asked, .. }, report, .. } = &*self.inner;
        self.inner.status_table.get_or_init(|| {
            let whole = || Coverage::all(Status::Done, ids.len());
            let coverage = report.as_ref().map_or_else(whole, |report| report.coverage.clone());
            Box::new(StatusTable::new(ids.clone(), asked.clone(), coverage))
        })
    }

    /// The status of each id, in tree order. Only in a partial call some are not done.
    pub fn coverage(&self) -> &Coverage {
        self.status_table().coverage()
    }

    /// Why ids were left out of a partial call, the first cause first; at most 1,024. If all ids are done, why the call
    /// is still not [complete](Self::is_complete).
    pub fn causes(&self) -> &[Cause] {
        self.inner.report.as_ref().map_or(&[], |report| &report.causes)
    }

    /// Whether every id is done, and the call ended within its time limit. If the last response of a partial call
    /// arrived later, [`causes`](Self::causes) contains that.
    pub fn is_complete(&self) -> bool {
        let is_whole = |report: &Report| report.causes.is_empty() && self.status_table().is_complete();
        self.inner.report.as_deref().is_none_or(is_whole)
    }

    /// What each id did for how long, and the path that decided how long the call took. `None` unless the call was
    /// [traced](super::Call::trace), and if the root had no room for the trace.
    pub fn trace(&self) -> Option<&Trace> {
        self.inner.trace.as_deref()
    }

    /// Level of the aggregated replies: the height of the tree. 0 with a callback, and if no reply was requested.
    pub fn level(&self) -> u16 {
        self.inner.level
    }

    /// Reply header of the whole tree: level-n data, or the result of the callback.
    pub fn header(&self) -> &Bytes {
        &self.aggregated().header
    }

    /// Reply data of the whole tree: level-n data, or the result of the callback.
    pub fn data(&self) -> &Bytes {
        &self.aggregated().data
    }

    /// The ids of the call, in tree order; the parts of [`data`](Self::data) belong to those that are done, in this
    /// order.
    pub fn ids(&self) -> &IdList {
        &self.inner.plan.ids
    }

    /// The status of an id; `None` if it is not of the call. [`Status`] documents which ids are safe to call again.
    pub fn status(&self, id: Id) -> Option<Status> {
        self.status_table().status(id)
    }

    /// Why an id was left out of a partial call, if it is known: the first cause that names it.
    pub fn cause(&self, id: Id) -> Option<&Cause> {
        self.index().causes.get(&id).and_then(|place| self.causes().get(*place))
    }

    /// The ids that are done, in the caller's order.
    pub fn done(&self) -> IdList {
        self.status_table().ids_with(Status::Done)
    }

    /// The ids that the request surely never reached, in the caller's order: safe to call again. If the caller is not
    /// among them, a new call adds it, and it executes, unless it [only watches](super::Call::watch).
    pub fn never_reached(&self) -> IdList {
        self.status_table().ids_with(Status::Unreached)
    }

    /// The ids that may have executed, in the caller's order. To call them again is safe only if executing twice is.
    pub fn unknown(&self) -> IdList {
        self.status_table().ids_with(Status::Unknown)
    }

    /// The ids that have reported a failure, in the caller's order.
    pub fn failed(&self) -> IdList {
        self.status_table().ids_with(Status::Failed)
    }

    /// The reply of an id. With a callback only the root has one, into which all are merged, unless some values could
    /// not be merged. `None` if the id is not done or not of the call, if no reply was requested, and if the replies
    /// are [not valid](Self::replies).
    pub fn reply(&self, id: Id) -> Option<ReplyRef<'_>> {
        let Aggregated { header, data } = self.aggregated();
        if self.inner.plan.merged {
            let is_whole = id == self.inner.plan.root && self.level() == 0;
            return is_whole.then_some(ReplyRef { id, header, data });
        }
        let (of_header, of_data) = self.index().replies.get(self.status_table().part(id)?)?.clone();
        Some(ReplyRef { id, header: header.get(of_header)?, data: data.get(of_data)? })
    }

    fn index(&self) -> &Index {
        self.inner.index.get_or_init(|| {
            let mut index = Index::default();
            for (place, cause) in self.causes().iter().enumerate() {
                index.causes.entry(cause.id).or_insert(place);
            }
            let Aggregated { header, data } = self.aggregated();
            if !self.inner.plan.merged && !data.is_empty() {
                let replies = self.aggregated_parts().unwrap_or_default();
                let place = |reply: &ReplyRef<'_>| (place(header, reply.header), place(data, reply.data));
                index.replies = replies.iter().map(place).collect();
            }
            Box::new(index)
        })
    }

    /// The reply of each id, in the caller's order (a root that is not in the list comes first). With a callback there
    /// is one reply: the root's, into which all are merged. If a callback failed in a partial call, there may be
    /// several, under the root's id: the values that could not be merged, in tree order. Empty if no reply was
    /// requested.
    ///
    /// Each shares the bytes of [`header`](Self::header) and [`data`](Self::data), and may outlive the outcome.
    /// [`replies_ref`](Self::replies_ref) borrows the replies instead, without an allocation or a reference count for
    /// each.
    ///
    /// # Errors
    /// If the level-n data are invalid or do not have one part for each id: some id's reply was not made by this
    /// protocol.
    pub fn replies(&self) -> Result<Vec<IdReply>, RepliesError> {
        let Aggregated { header, data } = self.aggregated();
        let shared = |reply: ReplyRef<'_>| IdReply {
            id: reply.id,
            header: header.slice_ref(reply.header),
            data: data.slice_ref(reply.data),
        };
        Ok(self.aggregated_replies()?.into_iter().map(shared).collect())
    }

    /// The same as [`replies`](Self::replies), borrowed from the outcome.
    ///
    /// # Errors
    /// As for [`replies`](Self::replies).
    pub fn replies_ref(&self) -> Result<Vec<ReplyRef<'_>>, RepliesError> {
        match self.separate_parts() {
            Some(replies) => Ok(self.in_caller_order(replies)),
            None => self.aggregated_replies(),
        }
    }

    fn aggregated_replies(&self) -> Result<Vec<ReplyRef<'_>>, RepliesError> {
        let Aggregated { header, data } = self.aggregated();
        if self.inner.plan.merged && self.level() > 0 {
            return self.unmerged();
        }
        if self.inner.plan.merged {
            return Ok(vec![ReplyRef { id: self.inner.plan.root, header, data }]);
        }
        if data.is_empty() {
            return Ok(Vec::new());
        }
        let Some(replies) = self.aggregated_parts() else { return Err(self.fault()) };
        Ok(self.in_caller_order(replies))
    }

    /// Sorts replies from tree order into the caller's order.
    fn in_caller_order<'a>(&self, replies: Vec<ReplyRef<'a>>) -> Vec<ReplyRef<'a>> {
        let Plan { ids, asked, .. } = &self.inner.plan;
        if ids != asked {
            let place = |reply: ReplyRef<'a>| (asked.position(reply.id), reply);
            let mut placed: Vec<_> = replies.into_iter().map(place).collect();
            sort_by_key(&mut placed, |(place, _)| *place);
            return placed.into_iter().map(|(_, reply)| reply).collect();
        }
        replies
    }

    /// The parts of all ids, in tree order, if they arrived as separate parts; all ids are done then.
    fn separate_parts(&self) -> Option<Vec<ReplyRef<'_>>> {
        let parts = self.inner.parts.as_ref()?;
        let mut replies = Vec::with_capacity(self.ids().len() as usize);
        let mut ids = self.ids().iter();
        let all =
            parts.parts(|header, data| replies.extend(ids.next().map(|id| ReplyRef { id, header, data })));
        (all && ids.next().is_none()).then_some(replies)
    }

    /// The parts of each id that is done, in tree order; `None` if they are invalid.
    fn aggregated_parts(&self) -> Option<Vec<ReplyRef<'_>>> {
        let Aggregated { header, data } = self.aggregated();
        let [mut headers, mut parts] =
            [header, data].map(|blob| Leaves::new(self.level(), blob, Limits::default()));
        // Bounded by the received bytes: each part has at least two.
        let mut replies = Vec::with_capacity((self.ids().len() as usize).min(data.len()));
        for id in self.done_in_tree_order() {
            let (header, data) = (headers.next()?.ok()?, parts.next()?.ok()?);
            replies.push(ReplyRef { id, header, data });
        }
        (headers.next().is_none() && parts.next().is_none()).then_some(replies)
    }

    /// The error of invalid parts.
    fn fault(&self) -> RepliesError {
        let Aggregated { header, data } = self.aggregated();
        let [headers, data] = [header, data].map(|blob| leaves(self.level(), blob));
        match (headers, data) {
            (Err(error), _) | (_, Err(error)) => error.into(),
            (Ok(headers), Ok(data)) => {
                let ids = self.coverage().counts().done;
                RepliesError::Count { headers: headers.len(), data: data.len(), ids }
            }
        }
    }

    /// The ids that are done, in tree order.
    fn done_in_tree_order(&self) -> impl Iterator<Item = Id> {
        let statuses = self.ids().iter().zip(self.coverage().statuses());
        statuses.filter(|(_, status)| *status == Status::Done).map(|(id, _)| id)
    }

    /// The values that could not be merged, because the callback of some id failed.
    fn unmerged(&self) -> Result<Vec<ReplyRef<'_>>, RepliesError> {
        let Aggregated { header, data } = self.aggregated();
        let (headers, data) = (leaves(self.level(), header)?, leaves(self.level(), data)?);
        let reply = |(header, data)| ReplyRef { id: self.inner.plan.root, header, data };
        Ok(headers.into_iter().zip(data).map(reply).collect())
    }
}

impl PartialEq for Outcome {
    /// Compares the aggregates, whether or not they have been made.
    fn eq(&self, other: &Outcome) -> bool {
        let plan = |outcome: &Outcome| (outcome.inner.plan.root, outcome.inner.plan.merged, outcome.level());
        plan(self) == plan(other)
            && self.status_table() == other.status_table()
            && self.aggregated() == other.aggregated()
            && self.causes() == other.causes()
    }
}

/// The range of a part in a blob.
fn place(blob: &[u8], part: &[u8]) -> Range<usize> {
    // An empty part may point anywhere.
    let start = (part.as_ptr() as usize).saturating_sub(blob.as_ptr() as usize).min(blob.len());
    start..start + part.len()
}

/// The level-0 parts of a blob.
fn leaves(level: u16, blob: &[u8]) -> Result<Vec<&[u8]>, LevelError> {
    Leaves::new(level, blob, Limits::default()).collect()
}

/// Aggregated replies that are not valid in this protocol.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepliesError {
    /// They are not level-n data.
    #[error(transparent)]
    Level(#[from] LevelError),
    /// They have too few parts, or too many.
    #[error("{headers} reply headers and {data} reply data came of {ids} ids")]
    Count {
        /// Number of parts of the header.
        headers: usize,
        /// Number of parts of the data.
        data: usize,
        /// Number of ids that executed.
        ids: u32,
    },
}

#[cfg(test)]
mod tests;
