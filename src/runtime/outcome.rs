//! What comes of a call, for its caller.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;

use bytes::Bytes;
use gpc_trees::{Id, IdList};

use super::by_id::ById;
use super::completion::Success;
use super::plan::Plan;
use crate::chain::{RootParts, RootReply};
use crate::wire::level::{Leaves, LevelError, Limits};
use crate::wire::message::SubtreeReply;
use crate::wire::{Cause, Coverage, Report, Status};

/// A call that every id has executed; or of a [partial](super::Call::partial) one, what there is.
///
/// Its replies come all at once, in the caller's order ([`replies`](Self::replies)), or one by one, by id ([`reply`](Self::reply)); and of each id it says what became of it. The first question for a reply takes time
/// linear in the length of the replies, each one after it constant time; what became of an id does not take longer for more ids where these are a range or a few.
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
/// let cause = outcome.cause(2).expect("it said why");
/// assert_eq!((cause.kind, cause.code), (CauseKind::Failed, 7));
/// // Ids that are safe to call again: none, since each has got the request.
/// assert!(outcome.never_reached().is_empty() && outcome.unknown().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Outcome {
    root: Id,
    by_id: ById,
    merged: bool,
    level: u16,
    /// The replies as they came, if they did in parts; then what they are aggregated to is made when somebody wants it.
    parts: Option<RootParts>,
    aggregated: OnceLock<Aggregated>,
    /// Of a partial call.
    causes: Vec<Cause>,
    /// Made when somebody asks by id.
    index: OnceLock<Box<Index>>,
}

/// Where things lie that are asked for by id.
#[derive(Clone, Default, Debug)]
struct Index {
    /// The replies of the ids that are done, in tree order, in the aggregate.
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
        let Report { causes, coverage } = success.report.map_or_else(whole, |report| *report);
        let by_id = ById::new(ids, asked, coverage);
        let (level, parts, aggregated) = match success.reply {
            Some(RootReply::Parts(parts)) => (parts.level(), Some(parts), OnceLock::new()),
            Some(RootReply::Aggregated(reply)) => {
                (reply.level, None, OnceLock::from(Aggregated::from(reply)))
            }
            None => (0, None, OnceLock::from(Aggregated::from(SubtreeReply::default()))),
        };
        let index = OnceLock::new();
        Outcome { root, by_id, merged, level, parts, aggregated, causes, index }
    }

    fn aggregated(&self) -> &Aggregated {
        let aggregate = || self.parts.as_ref().map(RootParts::aggregate).unwrap_or_default().into();
        self.aggregated.get_or_init(aggregate)
    }

    /// What became of each id, in tree order. Only a partial call leaves any out.
    pub fn coverage(&self) -> &Coverage {
        self.by_id.coverage()
    }

    /// Why ids were left out of a partial call, the first cause first; at most 1,024. Where all ids are done, why the call is not [complete](Self::is_complete) all the same.
    pub fn causes(&self) -> &[Cause] {
        &self.causes
    }

    /// Whether every id is done, and the call ended within its time limit. Of a partial call whose last answer came later, [`causes`](Self::causes) say so.
    pub fn is_complete(&self) -> bool {
        self.by_id.is_complete() && self.causes.is_empty()
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
        self.by_id.ids()
    }

    /// What became of an id; none if it is not of the call. [`Status`] says which are safe to call again.
    pub fn status(&self, id: Id) -> Option<Status> {
        self.by_id.status(id)
    }

    /// Why an id was left out of a partial call, if it is known: the first cause that names it.
    pub fn cause(&self, id: Id) -> Option<&Cause> {
        self.index().causes.get(&id).and_then(|place| self.causes.get(*place))
    }

    /// The ids that are done, in the caller's order.
    pub fn done(&self) -> IdList {
        self.by_id.those(Status::Done)
    }

    /// The ids that the request surely never reached, in the caller's order: safe to call again. A caller that is not among them is added to a call, and executes, unless it [only watches](super::Call::watch).
    pub fn never_reached(&self) -> IdList {
        self.by_id.those(Status::Unreached)
    }

    /// The ids that may have executed, in the caller's order: to call them again is safe only if to execute twice is.
    pub fn unknown(&self) -> IdList {
        self.by_id.those(Status::Unknown)
    }

    /// The ids that have said that they failed, in the caller's order.
    pub fn failed(&self) -> IdList {
        self.by_id.those(Status::Failed)
    }

    /// The reply of an id. With a callback the root has the one there is, into which all are merged, unless values were left that could not be merged. None of an id that is not done or not of the call, where no reply was asked for,
    /// and where the replies are [not what this protocol makes](Self::replies).
    pub fn reply(&self, id: Id) -> Option<ReplyRef<'_>> {
        let Aggregated { header, data } = self.aggregated();
        if self.merged {
            return (id == self.root && self.level == 0).then_some(ReplyRef { id, header, data });
        }
        let (of_header, of_data) = self.index().replies.get(self.by_id.part(id)?)?.clone();
        Some(ReplyRef { id, header: header.get(of_header)?, data: data.get(of_data)? })
    }

    fn index(&self) -> &Index {
        self.index.get_or_init(|| {
            let mut index = Index::default();
            for (place, cause) in self.causes.iter().enumerate() {
                index.causes.entry(cause.id).or_insert(place);
            }
            let Aggregated { header, data } = self.aggregated();
            if !self.merged && !data.is_empty() {
                let replies = self.aggregated_parts().unwrap_or_default();
                let place = |reply: &ReplyRef<'_>| (place(header, reply.header), place(data, reply.data));
                index.replies = replies.iter().map(place).collect();
            }
            Box::new(index)
        })
    }

    /// The reply of each id, in the order in which the caller listed them (a root that the list left out comes first). With a callback, one reply: the root's, into which all are merged. Of a partial call in which a callback failed there may be several, under the root's id: values that could not be merged, in tree order.
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
        let (ids, asked) = (self.by_id.ids(), self.by_id.asked());
        if ids != asked {
            replies.sort_by_cached_key(|reply| asked.position(reply.id));
        }
        replies
    }

    /// The parts of all ids, in tree order, if they came as parts; all ids are done then.
    fn parts_as_they_came(&self) -> Option<Vec<ReplyRef<'_>>> {
        let parts = self.parts.as_ref()?;
        let mut replies = Vec::with_capacity(self.ids().len() as usize);
        let mut ids = self.ids().iter();
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
        let mut replies = Vec::with_capacity((self.ids().len() as usize).min(data.len()));
        for id in self.done_in_tree_order() {
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
    fn done_in_tree_order(&self) -> impl Iterator<Item = Id> {
        let statuses = self.ids().iter().zip(self.coverage().statuses());
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
        (self.root, &self.by_id, self.merged) == (other.root, &other.by_id, other.merged)
            && (self.level, self.aggregated(), &self.causes)
                == (other.level, other.aggregated(), &other.causes)
    }
}

/// Where a part of a blob lies in it.
fn place(blob: &[u8], part: &[u8]) -> Range<usize> {
    // A part that is empty may lie anywhere.
    let start = (part.as_ptr() as usize).saturating_sub(blob.as_ptr() as usize).min(blob.len());
    start..start + part.len()
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
