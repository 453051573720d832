//! A call as the application describes it.
//!
//! Source: the ARMCI design of chained GPC (2007), "Send Request to Execute a chained GPC": func, callback, hdr, data,
//! idlst, Tree.

use std::time::Duration;

use bytes::Bytes;
use gpc_trees::{Ids, Layout, Tree};

use super::handles::{CallbackHandle, FuncHandle};
use crate::wire::ReplyLimits;

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
    pub(super) func: FuncHandle,
    pub(super) callback: Option<CallbackHandle>,
    pub(super) ids: Ids,
    pub(super) tree: CallTree,
    pub(super) header: Bytes,
    pub(super) data: Bytes,
    /// One for each id of the list, in place of `data`.
    pub(super) parts: Option<Vec<Bytes>>,
    pub(super) limit: Option<Duration>,
    pub(super) replies: bool,
    pub(super) reply_limits: ReplyLimits,
    pub(super) forward_first: bool,
    pub(super) partial: bool,
    pub(super) watch: bool,
    pub(super) trace: bool,
}

/// The tree of a call.
#[derive(Clone, Default, Debug)]
#[non_exhaustive]
pub enum CallTree {
    /// The one of a few that is predicted to be the fastest: the default. The root chooses it, from the hosts of the
    /// ids ([`Builder::hosts`](super::Builder::hosts), or their addresses), their number, the length of the data, and
    /// the costs of messages ([`Builder::costs`](super::Builder::costs)). See
    /// [`Tree::choose`](gpc_trees::Tree::choose).
    #[default]
    Auto,
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
    /// Creates a call of `func` with a tree that is [chosen](CallTree::Auto), aggregated replies, and a limit of 60 s.
    /// Without [`ids`](Self::ids) it is rejected.
    pub fn new(func: FuncHandle) -> Call {
        Call {
            func,
            callback: None,
            ids: Ids::from([]),
            tree: CallTree::Auto,
            header: Bytes::new(),
            data: Bytes::new(),
            parts: None,
            limit: None,
            replies: true,
            reply_limits: ReplyLimits::UNLIMITED,
            forward_first: false,
            partial: false,
            watch: false,
            trace: false,
        }
    }

    /// Sets the ids that execute, in the caller's order. The caller takes part: it is added as the first id if the list
    /// lacks it, and is the first in the tree at any position of the list.
    ///
    /// The list is a range, a `Vec`, an array, a slice, an [`IdList`](gpc_trees::IdList), or collected from an
    /// iterator: see [`Ids`]. An empty list, a list with a duplicate, and a backward range are rejected when the call
    /// is made ([`CallError::Ids`](super::CallError::Ids)).
    pub fn ids(mut self, ids: impl Into<Ids>) -> Call {
        self.ids = ids.into();
        self
    }

    /// Sets the tree; by default it is [chosen](CallTree::Auto).
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

    /// Sets the header of the request: extra arguments, at most 65,535 bytes.
    pub fn header(mut self, header: impl Into<Bytes>) -> Call {
        self.header = header.into();
        self
    }

    /// Sets the data of the request, the same for each id.
    pub fn data(mut self, data: impl Into<Bytes>) -> Call {
        (self.data, self.parts) = (data.into(), None);
        self
    }

    /// Gives each id its own data instead: one part for each id of the [list](Self::ids), in the caller's order. A
    /// caller that is not in the list has none.
    ///
    /// Each subtree receives its own parts only. They are copied once, when the call is made. In a
    /// [partial](Self::partial) call each id retains the parts of its subtree until it has answered, for the case that
    /// it adopts the children of a lost id.
    ///
    /// ```
    /// use chained_gpc::{Call, Functions, LinkKind, LocalNodes};
    ///
    /// let functions = Functions::new();
    /// let upper = functions.func("upper", |request, reply| {
    ///     reply.data = request.data().to_ascii_uppercase();
    ///     Ok(())
    /// })?;
    /// let nodes = LocalNodes::start(3, LinkKind::Unix, &functions)?;
    /// let call = Call::new(upper).ids(0..3).scatter(["ab", "", "c"]);
    /// let outcome = nodes.root().call(call)?.wait()?;
    /// assert_eq!(outcome.reply(0).expect("it is done").data, b"AB");
    /// assert_eq!(outcome.reply(2).expect("it is done").data, b"C");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn scatter<P: Into<Bytes>>(mut self, parts: impl IntoIterator<Item = P>) -> Call {
        (self.data, self.parts) = (Bytes::new(), Some(parts.into_iter().map(P::into).collect()));
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

    /// Limits the lengths of what one id writes, in bytes: its own reply, and with a callback its combined reply. An id
    /// that exceeds a limit fails, with [`OverLimit`](crate::CauseKind::OverLimit) at the stage of the function. A
    /// function reads the limits with [`Request::reply_limits`](super::Request::reply_limits). [`u64::MAX`] sets no
    /// limit.
    ///
    /// The limits do not bind the default aggregate, which grows with the number of ids, nor the replies of a call
    /// [without replies](Self::no_reply), which are dropped. A request with limits is 16 bytes longer. It does not take
    /// the fast path.
    ///
    /// ```
    /// use chained_gpc::{Call, CauseKind, Functions, LinkKind, LocalNodes, Stage};
    ///
    /// let functions = Functions::new();
    /// let fill = functions.func("fill", |request, reply| {
    ///     let room = request.reply_limits().data_max.min(100);
    ///     reply.data = vec![7; usize::try_from(room)?];
    ///     Ok(())
    /// })?;
    /// let join = functions.callback("join", |_, child, own| {
    ///     own.data.extend_from_slice(child.data);
    ///     Ok(())
    /// })?;
    /// let nodes = LocalNodes::start(3, LinkKind::Unix, &functions)?;
    /// let call = || Call::new(fill).ids(0..3).reply_limits(0, 4);
    /// assert_eq!(nodes.root().call(call())?.wait()?.replies()?.len(), 3);
    /// let error = nodes.root().call(call().callback(join))?.wait().unwrap_err();
    /// let cause = error.cause().expect("the call failed at an id");
    /// assert_eq!((cause.id, cause.stage, cause.kind), (0, Stage::Callback, CauseKind::OverLimit));
    /// assert_eq!(cause.message, "the reply data of callback has 8 bytes, and the call takes 4");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reply_limits(mut self, header_max: u64, data_max: u64) -> Call {
        self.reply_limits = ReplyLimits { header_max, data_max };
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

    /// Brings the times of all ids back with the replies: [`Outcome::trace`](super::Outcome::trace) has them. They take
    /// 20 bytes for each id, which count as a part of the reply: where a subtree's reply would be too long with them,
    /// they are missing. A call [without replies](Self::no_reply) has no trace. A traced call does not take the fast
    /// path.
    ///
    /// ```
    /// use chained_gpc::{Call, Functions, LinkKind, LocalNodes, Tree};
    /// use std::time::Duration;
    ///
    /// let functions = Functions::new();
    /// let work = functions.func("work", |request, _| {
    ///     std::thread::sleep(Duration::from_millis(if request.me() == 5 { 30 } else { 1 }));
    ///     Ok(())
    /// })?;
    /// let nodes = LocalNodes::start(8, LinkKind::Unix, &functions)?;
    /// let call = Call::new(work).ids(0..8).tree(Tree::Binary).trace();
    /// let outcome = nodes.root().call(call)?.wait()?;
    /// let trace = outcome.trace().expect("the call was traced");
    /// assert_eq!(trace.stragglers(1)[0].id, 5);
    /// assert!(trace.path().iter().any(|one| one.id == 5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn trace(mut self) -> Call {
        self.trace = true;
        self
    }

    /// Makes the caller only watch: it neither executes nor contributes. With a [callback](Self::callback) it still
    /// merges: the first child's reply is merged into an empty [`Reply`](super::super::Reply).
    pub fn watch(mut self) -> Call {
        self.watch = true;
        self
    }
}
