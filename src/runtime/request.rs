//! The arguments of functions: the request, a child's reply, and the token of a deferred reply.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gpc_trees::{Id, IdList, Tree};

use super::caller::Caller;
use super::change::Change;
use super::command::{ChangeAnswer, Command, Report};
use super::function_error::{self, FunctionError};
use super::handles::{CallbackHandle, FuncHandle};
use super::host::Host;
use super::mailbox::Mailbox;
use super::metrics::Metrics;
use super::run::{LazyRun, Run};
use crate::chain::{Input, Job, Recording, Reply, Time};
use crate::wire::short::{Particulars, PlanKey};
use crate::wire::{self, CallContext, CallId, CauseKind, Reason, ReplyLimits};

/// The request that an id executes.
///
/// ```
/// use chained_gpc::{Call, Functions, LinkKind, LocalNodes};
///
/// let functions = Functions::new();
/// // Each id takes its share of the data, by its position in the call.
/// let share = functions.func("share", |request, reply| {
///     let (position, total) = (request.position() as usize, request.total() as usize);
///     for byte in request.data().iter().skip(position).step_by(total) {
///         // A long function checks now and then whether its result is still needed.
///         if request.is_cancelled() || request.remaining().is_zero() {
///             return Err("given up".into());
///         }
///         reply.data.push(*byte);
///     }
///     reply.header = format!("id {} below {:?}", request.me(), request.parent()).into_bytes();
///     Ok(())
/// })?;
/// let nodes = LocalNodes::start(3, LinkKind::Unix, &functions)?;
/// let outcome = nodes.root().call(Call::new(share).ids(0..3).data("abcdefg"))?.wait()?;
/// let replies = outcome.replies()?;
/// assert_eq!([&replies[0].data, &replies[1].data, &replies[2].data], ["adg", "be", "cf"]);
/// assert_eq!(replies[2].header, "id 2 below Some(0)");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Request<'a> {
    me: Id,
    parent: Option<Id>,
    call: CallId,
    header: &'a [u8],
    data: Data<'a>,
    data_len: u64,
    ids: &'a IdList,
    position: u32,
    total: u32,
    of: RequestForm<'a>,
    limit: Limit,
    host: &'a dyn Host,
}

/// The data of a request, in the form in which they arrived.
#[derive(Clone, Copy)]
enum Data<'a> {
    /// Reference-counted bytes.
    Shared(&'a Bytes),
    /// Bytes in the buffer of the link.
    Read(&'a [u8]),
}

/// The other parts of a request, in the form in which it arrived.
#[derive(Clone, Copy)]
enum RequestForm<'a> {
    /// A job of the chain, which may be stopped, or answered later.
    Job { request: &'a wire::Request, run: &'a LazyRun },
    /// A short request, executed where it was read, or outside the loop. Only the latter may be stopped.
    Short { plan: &'a PlanKey<'a>, context: &'a CallContext, run: Option<&'a Run> },
}

/// When the call's time limit passes here.
#[derive(Clone, Copy)]
enum Limit {
    At(Time),
    /// This long after func begins.
    In(Duration),
}

impl<'a> Request<'a> {
    /// Creates a view of a job's request; `data` is empty for a streaming func.
    pub(super) fn of_job(host: &'a dyn Host, job: &'a Job, data: &'a Bytes, run: &'a LazyRun) -> Request<'a> {
        let (me, parent, request) = (job.me, job.parent, &*job.request);
        let (call, header, ids) = (request.call, &request.header, &request.ids);
        let (position, total, data_len) = (request.position, request.total, request.data.len());
        let (of, limit, data) = (RequestForm::Job { request, run }, Limit::At(job.until), Data::Shared(data));
        Request { me, parent, call, header, data, data_len, ids, position, total, of, limit, host }
    }

    /// Creates a view of a short request, where it was read; `ids` is the list of this id and those below it. The
    /// context ends with func: such a request has no replies to merge.
    #[inline(always)]
    pub(super) fn short(
        host: &'a impl Host,
        parent: Option<Id>,
        (plan, of): (&'a PlanKey<'a>, &Particulars<'a>),
        (ids, context): (&'a IdList, &'a CallContext),
    ) -> Request<'a> {
        let (data, data_len) = (Data::Read(of.data), of.data.len() as u64);
        let (me, call, header) = (host.id(), of.call, of.header);
        let (position, total) = (of.position, of.total);
        let limit = Limit::In(Duration::from_micros(of.limit));
        let of = RequestForm::Short { plan, context, run: None };
        Request { me, parent, call, header, data, data_len, ids, position, total, of, limit, host }
    }

    /// The same for a short request whose func runs outside the loop, up to this deadline.
    pub(super) fn for_leader(self, run: &'a Run, until: Time) -> Request<'a> {
        let of = match self.of {
            RequestForm::Short { plan, context, .. } => RequestForm::Short { plan, context, run: Some(run) },
            job => job,
        };
        Request { of, limit: Limit::At(until), ..self }
    }

    /// The id that executes.
    pub fn me(&self) -> Id {
        self.me
    }

    /// The id that sent the request; `None` at the root.
    pub fn parent(&self) -> Option<Id> {
        self.parent
    }

    /// The initiator of the call.
    pub fn root(&self) -> Id {
        self.call.root
    }

    /// The call's id: root and sequence number.
    pub fn call(&self) -> CallId {
        self.call
    }

    /// The request's header: extra arguments, at most 65,535 bytes.
    pub fn header(&self) -> &'a [u8] {
        self.header
    }

    /// The request's complete data. Empty for a [streaming](super::Streaming) func, whose data may have been released.
    pub fn data(&self) -> &'a [u8] {
        match self.data {
            Data::Shared(bytes) => bytes,
            Data::Read(bytes) => bytes,
        }
    }

    /// Length of the request's complete data, bytes.
    pub fn data_len(&self) -> u64 {
        self.data_len
    }

    /// The request's data, to keep: small data are copied, large data are shared.
    pub fn data_bytes(&self) -> Bytes {
        match self.data {
            Data::Shared(bytes) => bytes.clone(),
            Data::Read(bytes) => Bytes::copy_from_slice(bytes),
        }
    }

    /// The ids of this subtree: this one first, then its descendants in tree order.
    pub fn ids(&self) -> &'a IdList {
        self.ids
    }

    /// This id's position in the whole tree, in preorder, which is the caller's order after the root: 0 at the root. A
    /// root that only watches has position 0 as well.
    pub fn position(&self) -> u32 {
        self.position
    }

    /// Number of ids of the whole call, including the root even if it only watches: positions are below it.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// The tree of the call, as far as this subtree is concerned.
    pub fn tree(&self) -> Tree {
        let tree = match self.of {
            RequestForm::Job { request, .. } => request.tree.as_ref().ok().cloned(),
            RequestForm::Short { plan, .. } => plan.tree(),
        };
        // A call with an unknown tree never reaches a function.
        tree.unwrap_or_default()
    }

    /// Whether the caller wants replies. If it does not, the reply of a function is dropped.
    pub fn reply_wanted(&self) -> bool {
        match self.of {
            RequestForm::Job { request, .. } => request.reply_wanted,
            RequestForm::Short { plan, .. } => plan.reply_wanted(),
        }
    }

    /// The limits of the call for what this id writes; [`u64::MAX`] if it has none.
    pub fn reply_limits(&self) -> ReplyLimits {
        match self.of {
            RequestForm::Job { request, .. } => request.reply_limits,
            // A request with limits is no short one.
            RequestForm::Short { .. } => ReplyLimits::UNLIMITED,
        }
    }

    /// The handle of func, which each id of the call executes.
    pub fn func(&self) -> FuncHandle {
        let (func, merges) = self.function_numbers();
        FuncHandle::of_number(func, merges == Some(func))
    }

    /// The handle of the callback that merges the replies; `None` for the default aggregation, and for a func with
    /// phases, which merges them itself.
    pub fn callback(&self) -> Option<CallbackHandle> {
        let (func, merges) = self.function_numbers();
        merges.filter(|merges| *merges != func).map(CallbackHandle::of_number)
    }

    /// The name of func; `None` at a root that only watches and has not registered func.
    pub fn func_name(&self) -> Option<Arc<str>> {
        self.host.name(self.function_numbers().0)
    }

    /// The name of the [callback](Self::callback).
    pub fn callback_name(&self) -> Option<Arc<str>> {
        self.callback().and_then(|callback| self.host.name(callback.number()))
    }

    /// The numbers of func and of the function that merges.
    fn function_numbers(&self) -> (u64, Option<u64>) {
        match self.of {
            RequestForm::Job { request, .. } => (request.func, request.callback),
            RequestForm::Short { plan, .. } => (plan.func(), plan.callback()),
        }
    }

    /// Leaves a value for the callbacks of the same call at this id. A call has one value at an id: a later one
    /// replaces it.
    ///
    /// The value is dropped once, when the call has ended at this id and its function has returned, whatever ended it:
    /// success, a failure, a cancel, a lost link, the time limit, or the end of the node. In a partial call it remains
    /// if another parent adopts this id. If no callback can follow, it may be dropped as soon as func returns. It is
    /// dropped on the thread that drives the node or on a worker, so its drop must be short and never block.
    ///
    /// ```
    /// use chained_gpc::{Call, Functions, LinkKind, LocalNodes, Tree};
    ///
    /// let functions = Functions::new();
    /// let begin = functions.func("begin", |request, _| {
    ///     request.set_context(0_u64);
    ///     Ok(())
    /// })?;
    /// let count = functions.callback("count", |request, _child, own| {
    ///     let merged = request.with_context(|merged: &mut u64| {
    ///         *merged += 1;
    ///         *merged
    ///     });
    ///     own.data = format!("{merged:?}").into_bytes();
    ///     Ok(())
    /// })?;
    /// let nodes = LocalNodes::start(4, LinkKind::Unix, &functions)?;
    /// let call = Call::new(begin).callback(count).ids(0..4).tree(Tree::Flat);
    /// assert_eq!(nodes.root().call(call)?.wait()?.data(), "Some(3)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_context<T: Any + Send>(&self, value: T) {
        self.context().put(value);
    }

    /// Calls `act` with the value that a function of this call has [left](Self::set_context) at this id. `None` if
    /// there is none of this type, or if the call of `act` is nested in another one.
    pub fn with_context<T: Any + Send, R>(&self, act: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.context().with(act)
    }

    /// Takes the value out that a function of this call has [left](Self::set_context) at this id; `None` if there is
    /// none of this type.
    pub fn take_context<T: Any + Send>(&self) -> Option<T> {
        self.context().take()
    }

    fn context(&self) -> &CallContext {
        match self.of {
            RequestForm::Job { request, .. } => &request.local.context,
            RequestForm::Short { context, .. } => context,
        }
    }

    /// The rest of the call's time limit at this id. In an inline function, and on a polled node, the rest at the start
    /// of the function.
    pub fn remaining(&self) -> Duration {
        match self.limit {
            Limit::At(until) => self.host.left(until),
            Limit::In(left) => left,
        }
    }

    /// Whether the call has ended at this id while the function runs: it was cancelled, its time limit has passed, or
    /// it failed elsewhere. The result of the function is then ignored, so a long one checks this now and then, and
    /// returns. A call never ends while an inline function runs.
    pub fn is_cancelled(&self) -> bool {
        match self.of {
            RequestForm::Job { run, .. } => run.is_stopped(),
            RequestForm::Short { run, .. } => run.is_some_and(Run::is_stopped),
        }
    }

    /// Returns a handle for calls whose root is this node. A call without a time limit of its own has the
    /// [rest](Self::remaining) of this one. To wait for a call in a function, see
    /// [`CallHandle::wait`](super::CallHandle::wait).
    pub fn caller(&self) -> Caller {
        Caller::until(self.host.weak(), self.remaining())
    }

    /// Sends a change of the membership to the event loop.
    pub(super) fn change(&self, change: Change, answer: Deferred) {
        let answer = ChangeAnswer::new(move |changed| match changed {
            Ok(()) => answer.reply(Reply::default()),
            Err(why) => answer.fail(why),
        });
        // If the queue is full, the token is dropped, which sends a failure.
        let _ =
            self.host.mailbox().command(Command::Change { change: Box::new(change), answer }, Duration::ZERO);
    }

    /// The metrics of the node.
    pub(super) fn metrics(&self) -> Metrics {
        self.host.metrics()
    }

    /// Requests the records of the flight recorder from the event loop.
    pub(super) fn report(&self, answer: impl FnOnce(Recording) + Send + 'static) {
        let answer = Report(Box::new(answer));
        // If the queue is full, the token in the answer is dropped, which sends a failure.
        let _ = self.host.mailbox().command(Command::Recorder { answer }, Duration::ZERO);
    }

    /// Returns a token for a later reply: for a callback, for a func with phases that merges, and for the end of a
    /// [streaming](super::Streaming) function. The function's return value and reply are then ignored, unless it fails.
    /// A callback takes its own reply along with [`std::mem::take`]. A func that replies later is registered as
    /// [deferring](super::Functions::deferring), and has its token from the beginning: `None` here.
    ///
    /// `None` the second time: a call has one reply.
    pub fn defer(&self) -> Option<Deferred> {
        match self.of {
            RequestForm::Job { run, .. } if run.may_defer.get() => {
                run.may_defer.set(false);
                Some(Deferred::new(self.call, self.host.mailbox(), run.defer()))
            }
            _ => None,
        }
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("call", &self.call)
            .field("me", &self.me)
            .field("parent", &self.parent)
            .field("header_len", &self.header.len())
            .field("data_len", &self.data_len)
            .finish()
    }
}

/// A child's reply, the argument of a callback.
#[derive(Clone, Copy, Debug)]
pub struct ChildReply<'a> {
    /// The child.
    pub from: Id,
    /// Reply header of its subtree.
    pub header: &'a [u8],
    /// Reply data of its subtree.
    pub data: &'a [u8],
}

/// The token of a function that replies later. Dropping it without a reply fails the call at this id.
///
/// ```
/// use chained_gpc::{Functions, Reply};
///
/// let functions = Functions::new();
/// let slow = functions.deferring("slow", |request, deferred| {
///     let header = request.header().to_vec();
///     std::thread::spawn(move || {
///         if !deferred.is_cancelled() {
///             deferred.reply(Reply { header, ..Reply::default() });
///         }
///     });
/// })?;
/// # let _ = slow;
/// # Ok::<(), chained_gpc::FunctionsError>(())
/// ```
///
/// A tokio task replies, and another one awaits the call:
///
/// ```
/// use chained_gpc::{Call, Functions, LinkKind, LocalNodes, Reply};
///
/// let tokio = tokio::runtime::Builder::new_current_thread().build()?;
/// let tasks = tokio.handle().clone();
/// let functions = Functions::new();
/// let greet = functions.deferring("greet", move |request, token| {
///     let me = request.me();
///     tasks.spawn(async move {
///         token.reply(Reply { data: format!("a task of id {me}").into_bytes(), ..Reply::default() });
///     });
/// })?;
/// let nodes = LocalNodes::start(3, LinkKind::Unix, &functions)?;
/// let outcome = tokio.block_on(async { nodes.root().call(Call::new(greet).ids(0..3))?.await })?;
/// assert_eq!(outcome.reply(2).expect("it is done").data, b"a task of id 2");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping the token fails the call at this id"]
pub struct Deferred {
    call: CallId,
    run: Arc<Run>,
    /// `None` once it has been answered.
    mailbox: Option<Arc<Mailbox>>,
}

impl Deferred {
    pub(super) fn new(call: CallId, mailbox: &Arc<Mailbox>, run: Arc<Run>) -> Deferred {
        Deferred { call, run, mailbox: Some(mailbox.clone()) }
    }

    /// The call that waits for the reply.
    pub fn call(&self) -> CallId {
        self.call
    }

    /// Whether the call has ended at this id meanwhile, so that the reply is no longer needed.
    pub fn is_cancelled(&self) -> bool {
        self.run.is_stopped()
    }

    /// Registers a callback that runs if the call ends at this id before the reply; at once if it has ended already. It
    /// runs on the thread that drives the node, so it must be short and never block. One call keeps 64 callbacks: any
    /// further one runs at once.
    pub fn on_cancel(&self, hook: impl FnOnce() + Send + 'static) {
        self.run.on_stop(Box::new(hook));
    }

    /// Sends the id's own reply. If the call has ended meanwhile, this has no effect.
    pub fn reply(mut self, reply: Reply) {
        self.settle(Ok(reply));
    }

    /// Fails the call at this id, as if func had returned this error: with its code if it is a
    /// [`WithCode`](super::WithCode).
    pub fn fail(mut self, error: impl Into<FunctionError>) {
        self.settle(Err(function_error::failed(error)));
    }

    fn settle(&mut self, result: Result<Reply, Box<Reason>>) {
        if let Some(mailbox) = self.mailbox.take() {
            mailbox.result(Input::Answered { call: self.call, result });
        }
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        if self.mailbox.is_some() {
            let message = "the token of its deferred reply was dropped without an answer";
            self.settle(Err(Box::new(Reason::new(CauseKind::NoAnswer, message))));
        }
    }
}

impl fmt::Debug for Deferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Deferred({})", self.call)
    }
}
