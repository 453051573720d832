//! A call as the application describes it.
//!
//! Source: the ARMCI design of chained GPC (2007), "Send Request to Execute a chained GPC": func, callback, hdr, data,
//! idlst, Tree.

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

/// Default time limit of a call: long enough for work, short enough that no user takes it for a hang.
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

/// The tree of a call: a split, or a layout over the positions of the list.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CallTree {
    /// A split, which is evaluated at every id.
    Split(Tree),
    /// A layout, which is sent as an explicit shape.
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
    /// Creates a call of `func` with a binary tree, aggregated replies, and a limit of 60 s. Without [`ids`](Self::ids)
    /// it is rejected.
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

    /// Sets the ids that execute, in the caller's order. The caller takes part: it is added as the first id if the list
    /// lacks it, and is the first in the tree at any position of the list.
    ///
    /// The list is a range, a `Vec`, an array, a slice, an [`IdList`], or collected from an iterator: see [`Ids`]. An
    /// empty list, a list with a duplicate, and a backward range are rejected when the call is made
    /// ([`CallError::Ids`]).
    pub fn ids(mut self, ids: impl Into<Ids>) -> Call {
        self.ids = ids.into();
        self
    }

    /// Sets the tree.
    pub fn tree(mut self, tree: impl Into<CallTree>) -> Call {
        self.tree = tree.into();
        self
    }

    /// Sets the callback that merges the replies, instead of the default aggregation: in list order, unless it is
    /// [registered as commutative](super::Functions::commutative). A func with phases merges by itself.
    pub fn callback(mut self, callback: CallbackHandle) -> Call {
        self.callback = Some(callback);
        self
    }

    /// Sets the header of the request: extra arguments, at most 65,536 bytes.
    pub fn header(mut self, header: impl Into<Bytes>) -> Call {
        self.header = header.into();
        self
    }

    /// Sets the data of the request.
    pub fn data(mut self, data: impl Into<Bytes>) -> Call {
        self.data = data.into();
        self
    }

    /// Sets the time limit: 60 s by default. The default of a call that a function makes with
    /// [`Request::caller`](super::Request::caller) is the rest of the time limit of the call that runs the function.
    ///
    /// The limit counts from when the node accepts the call. A call that takes longer does not succeed, even if each id
    /// is done. A failing call waits for the reports of the ids below the root, so that its cause names the id that was
    /// late. It ends at most 1 % of the limit and 100 ms after the limit.
    pub fn limit(mut self, limit: Duration) -> Call {
        self.limit = Some(limit);
        self
    }

    /// Requests no replies: bare completions travel up the tree.
    pub fn no_reply(mut self) -> Call {
        self.replies = false;
        self
    }

    /// Makes each id forward the request before it executes. Long data then flow through the tree while they arrive.
    pub fn forward_first(mut self) -> Call {
        self.forward_first = true;
        self
    }

    /// Makes the call go on without ids that fail or are lost; [`Outcome::coverage`](super::Outcome::coverage) has the
    /// status of each id.
    ///
    /// A lost id's children are adopted by its parent. An id executes at most once, even if the tree is repaired around
    /// it.
    pub fn partial(mut self) -> Call {
        self.partial = true;
        self
    }

    /// Makes the caller only watch: it neither executes nor contributes. With a [callback](Self::callback) it still
    /// merges: the first child's reply is merged into an empty [`Reply`](super::super::Reply).
    pub fn watch(mut self) -> Call {
        self.watch = true;
        self
    }

    /// Checks the call before anything is sent; `left` is the time limit of a call that sets none.
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

    /// Returns the list with the root first, and the list in the caller's order.
    fn lists(watch: bool, asked: Ids, me: Id) -> Result<(IdList, IdList), CallError> {
        let asked = asked.list()?;
        if asked.is_empty() {
            return Err(IdsError::Empty.into());
        }
        let listed = asked.contains(me);
        if watch && listed {
            return Err(CallError::WatcherListed);
        }
        // With the caller, the missing id, the list would have 2^32 ids.
        if !listed && asked.len() == u32::MAX {
            return Err(IdsError::TooMany.into());
        }
        let ids = asked.with_first(me);
        let asked = if watch || listed { asked } else { ids.clone() };
        Ok((ids, asked))
    }
}

/// All ids but the first.
fn rest(ids: &IdList) -> gpc_trees::Group {
    gpc_trees::Group { start: 1, len: ids.len() - 1 }
}
