//! A call as the application describes it.
//!
//! Source: the ARMCI design of chained GPC (2007), "Send Request to Execute a chained GPC": func, callback, hdr, data, idlst, Tree.

use std::time::Duration;

use bytes::Bytes;
use gpc_trees::{Id, IdList, Ids, IdsError, Layout, Tree};

use super::call_error::CallError;
use super::handles::{CallbackHandle, FuncHandle};
use super::plan::Plan;
use super::side::Side;
use crate::chain::Start;
use crate::wire::Body;
use crate::wire::frame::HEADER_MAX;

/// Time limit of a call that sets none: long enough for work, short enough that nobody takes it for a hang.
const LIMIT: Duration = Duration::from_secs(60);

/// One chained GPC to make.
///
/// ```
/// # use chained_gpc::{Call, Functions, Tree};
/// # let functions = Functions::new();
/// let func = functions.func("hello", |_, _| Ok(()))?;
/// let call = Call::new(func).ids(0..64).tree(Tree::Binomial).header("from the root");
/// # let _ = call;
/// # Ok::<(), chained_gpc::FunctionsError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Call {
    func: FuncHandle,
    callback: Option<CallbackHandle>,
    ids: Ids,
    tree: CallTree,
    header: Bytes,
    data: Bytes,
    limit: Option<Duration>,
    replies: bool,
    forward_first: bool,
    partial: bool,
    watch: bool,
}

/// The tree of a call: a split, or one that was laid out over the positions of the list.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CallTree {
    /// Evaluated at every id.
    Split(Tree),
    /// Sent as an explicit shape.
    Layout(Layout),
}

impl From<Tree> for CallTree {
    fn from(tree: Tree) -> CallTree {
        CallTree::Split(tree)
    }
}

impl From<Layout> for CallTree {
    fn from(layout: Layout) -> CallTree {
        CallTree::Layout(layout)
    }
}

impl Call {
    /// A call of `func` at the ids that [`ids`](Self::ids) names, and refused without: binary tree, replies aggregated, a limit of 60 s.
    pub fn new(func: FuncHandle) -> Call {
        Call {
            func,
            callback: None,
            ids: Ids::from([]),
            tree: Tree::default().into(),
            header: Bytes::new(),
            data: Bytes::new(),
            limit: None,
            replies: true,
            forward_first: false,
            partial: false,
            watch: false,
        }
    }

    /// The ids that execute, in the caller's order. The caller takes part: it is put first if the list leaves it out, and is the first in the tree wherever it stands.
    ///
    /// A range, a `Vec`, an array, a slice, an [`IdList`], or what an iterator is collected to: see [`Ids`]. A list without an id, one that has an id twice, and a backward range are refused when the call is made
    /// ([`CallError::Ids`]).
    pub fn ids(mut self, ids: impl Into<Ids>) -> Call {
        self.ids = ids.into();
        self
    }

    /// The tree.
    pub fn tree(mut self, tree: impl Into<CallTree>) -> Call {
        self.tree = tree.into();
        self
    }

    /// What merges the replies, instead of aggregating them: in list order, unless it is [registered as commutative](super::Functions::commutative). A func with phases merges by itself.
    pub fn callback(mut self, callback: CallbackHandle) -> Call {
        self.callback = Some(callback);
        self
    }

    /// The request's header: extra arguments, at most 65,536 bytes.
    pub fn header(mut self, header: impl Into<Bytes>) -> Call {
        self.header = header.into();
        self
    }

    /// The request's data.
    pub fn data(mut self, data: impl Into<Bytes>) -> Call {
        self.data = data.into();
        self
    }

    /// When the call must have ended. By default after 60 s; of a call that a function makes by [`Request::caller`](super::Request::caller), when the call must have ended that it serves.
    ///
    /// The limit counts from when the node takes the call. A call that takes longer does not succeed, even if each id is done. One that fails waits for the reports of the ids below the root, so that its cause names the id that
    /// held it up: it ends at most 1 % of the limit and 100 ms after it.
    pub fn limit(mut self, limit: Duration) -> Call {
        self.limit = Some(limit);
        self
    }

    /// No replies: the way up carries bare completions.
    pub fn no_reply(mut self) -> Call {
        self.replies = false;
        self
    }

    /// Each id forwards before it executes, and long data flow through the tree while they arrive.
    pub fn forward_first(mut self) -> Call {
        self.forward_first = true;
        self
    }

    /// The call goes on without ids that fail or are lost; [`Outcome::coverage`](super::Outcome::coverage) says what became of each.
    ///
    /// A lost id's children are adopted by its parent. An id executes at most once, whatever is repaired around it.
    pub fn partial(mut self) -> Call {
        self.partial = true;
        self
    }

    /// The caller only watches: it neither executes nor contributes. With a [callback](Self::callback) it still merges, and begins with an empty [`Reply`](super::super::Reply) of its own: the callback gets that with the first child's reply.
    pub fn watch(mut self) -> Call {
        self.watch = true;
        self
    }

    /// Checks everything that can be checked before anything is sent; `left` is the time limit of a call that does not say it.
    pub(super) fn prepare(self, side: &Side, left: Option<Duration>) -> Result<(Start, Plan), CallError> {
        let me = side.id;
        let class = |placement: &_| side.executors.class(placement).unwrap_or_default();
        let (classes, merging) = side.functions.of_call(self.func, self.callback, self.watch, class)?;
        if self.header.len() > HEADER_MAX {
            return Err(CallError::Header(self.header.len()));
        }
        let (ids, asked) = Call::lists(self.watch, self.ids, me)?;
        let (tree, ids) = match self.tree {
            CallTree::Split(tree) => (tree, ids),
            CallTree::Layout(layout) => (layout.tree(), layout.apply(&ids)?),
        };
        tree.check(ids.len(), &side.limits)?;
        let phased = self.func.is_phased().then_some(self.func.number());
        let callback = self.callback.map(CallbackHandle::number).or(phased);
        let executing = if self.watch { ids.slice(rest(&ids)) } else { ids.clone() };
        let merged = callback.is_some() && self.replies;
        let (func, replies) = (self.func.number(), self.replies);
        let plan = Plan { root: me, ids: executing, asked, merged, func, replies, workers: 0 };
        let start = Start {
            callback,
            merging,
            classes,
            reply_wanted: self.replies,
            forward_first: self.forward_first,
            partial: self.partial,
            watch: self.watch,
            limit: self.limit.or(left).unwrap_or(LIMIT),
            tree,
            ids,
            header: self.header,
            data: Body::whole(self.data),
            ..Start::new(self.func.number())
        };
        Ok((start, plan))
    }

    /// The list with the root first, and the list as asked.
    fn lists(watch: bool, asked: Ids, me: Id) -> Result<(IdList, IdList), CallError> {
        let asked = asked.list()?;
        if asked.is_empty() {
            return Err(IdsError::Empty.into());
        }
        let listed = asked.contains(me);
        if watch && listed {
            return Err(CallError::WatcherListed);
        }
        // Together with the caller, who is the one that is missing.
        if !listed && asked.len() == u32::MAX {
            return Err(IdsError::TooMany.into());
        }
        let ids = asked.with_first(me);
        let asked = if watch || listed { asked } else { ids.clone() };
        Ok((ids, asked))
    }
}

/// All but the first.
fn rest(ids: &IdList) -> gpc_trees::Group {
    gpc_trees::Group { start: 1, len: ids.len() - 1 }
}
