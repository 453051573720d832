//! A context: the functions and the node of one id in this process.

use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, TryLockError};
use std::task::{self, Poll, Waker};
use std::time::Duration;

use chained_gpc::bootstrap::{Member, Serving};
use chained_gpc::{
    Call, CallError, CallHandle, Caller, Clock, HostPort, IdReply, Loss, NoReply, Node, Outcome, PolledNode,
    Replies,
};

use crate::abi::exclusive::{Exclusive, Use};
use crate::abi::frames;
use crate::error::{Error, Result};
use crate::handles::{Handle, Kind, Object};
use crate::registry::Registry;
use crate::status::*;

/// A context of C.
#[derive(Default)]
pub(crate) struct Context {
    /// Its own handle, once it has one.
    handle: AtomicU64,
    pub(crate) registry: Registry,
    started: OnceLock<Started>,
    /// Held while the context starts.
    starting: Mutex<()>,
    /// Its id and the number of processes, once they are known: functions may run before the start has ended.
    place: RwLock<Option<(u32, u32)>>,
    /// Where the application delivers messages, if it has a network of its own.
    pub(crate) port: PortCell,
}

/// Where the application delivers messages for a context, once its node starts.
#[derive(Clone, Default)]
pub(crate) struct PortCell(Arc<RwLock<Option<HostPort>>>);

impl PortCell {
    pub(crate) fn set(&self, port: HostPort) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(port);
    }

    pub(crate) fn get(&self) -> Option<HostPort> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Object for Context {
    const KIND: Kind = Kind::Context;
    /// Without its node and its functions, which end before its handle is freed.
    const IS_KEPT: bool = true;
}

/// The node of a context that has been started.
pub(crate) struct Started {
    caller: Caller,
    pub(crate) id: u32,
    /// Number of processes that were started together; 0 if the application has set the ids.
    pub(crate) count: u32,
    pub(crate) address: Option<String>,
    driver: Driver,
}

/// What drives the node.
enum Driver {
    /// A thread of its own.
    Thread(Box<RwLock<Option<Running>>>),
    /// The application.
    Polled(Polled),
}

/// A node with a thread.
pub(crate) enum Running {
    Node(Node),
    Member(Box<Member>, Mutex<Option<Serving>>),
}

impl Deref for Running {
    type Target = Node;

    fn deref(&self) -> &Node {
        match self {
            Running::Node(node) => node,
            Running::Member(member, _) => member.node(),
        }
    }
}

/// A node that the application drives.
pub(crate) enum Driven {
    Node(Box<PolledNode>),
    Member(Box<Member<PolledNode>>),
}

impl Deref for Driven {
    type Target = PolledNode;

    fn deref(&self) -> &PolledNode {
        match self {
            Driven::Node(node) => node,
            Driven::Member(member) => member.node(),
        }
    }
}

impl DerefMut for Driven {
    fn deref_mut(&mut self) -> &mut PolledNode {
        match self {
            Driven::Node(node) => node,
            Driven::Member(member) => member,
        }
    }
}

/// A node that the application drives; `None` once it has ended.
type Polled = Exclusive<Option<Driven>>;

thread_local! {
    /// Its address is the number of this thread.
    static THREAD: u8 = const { 0 };
}

/// A number of this thread, not 0, which no other thread has at the same time.
#[inline]
fn this_thread() -> u64 {
    THREAD.with(|thread| ptr::from_ref(thread).addr() as u64)
}

#[cold]
#[inline(never)]
fn not_started() -> Error {
    Error::new(CGPC_ERR_STATE, "the context has not been started: call cgpc_start or one of its kind")
}

#[cold]
#[inline(never)]
fn ended() -> Error {
    Error::new(CGPC_ERR_ENDED, "the node has been shut down")
}

/// Uses a polled node in this thread.
#[inline]
fn drive(polled: &Polled) -> Result<Use<'_, Option<Driven>>> {
    let me = this_thread();
    polled.try_use(me).map_err(|other| is_driven(other == me))
}

#[cold]
#[inline(never)]
fn is_driven(by_this_thread: bool) -> Error {
    match by_this_thread {
        true => Error::new(
            CGPC_ERR_DEADLOCK,
            "this thread drives the context already, and runs one of its functions: \
            go on in cgpc_call_on_end, or reply later",
        ),
        false => Error::new(CGPC_ERR_BUSY, "another thread drives this context at present: only one can"),
    }
}

impl Context {
    /// A context without a node, whose functions are registered in a table of the program.
    #[cfg(feature = "plugins")]
    pub(crate) fn of(functions: &chained_gpc::Functions) -> Context {
        Context { registry: Registry::of(functions), ..Context::default() }
    }

    /// Stores the handle of the context, for its functions.
    pub(crate) fn set_handle(&self, handle: Handle) {
        self.handle.store(handle.0, Ordering::Release);
    }

    /// The handle of the context.
    pub(crate) fn handle(&self) -> Handle {
        Handle(self.handle.load(Ordering::Acquire))
    }

    /// The started node.
    ///
    /// # Errors
    /// If the context has not been started.
    #[inline]
    pub(crate) fn started(&self) -> Result<&Started> {
        self.started.get().ok_or_else(not_started)
    }

    /// Sets the id and the number of processes, as soon as they are known.
    pub(crate) fn set_place(&self, id: u32, count: u32) {
        *self.place.write().unwrap_or_else(PoisonError::into_inner) = Some((id, count));
    }

    /// The id and the number of processes.
    ///
    /// # Errors
    /// If the context has not been started.
    pub(crate) fn place(&self) -> Result<(u32, u32)> {
        if let Some(started) = self.started.get() {
            return Ok((started.id, started.count));
        }
        self.place.read().unwrap_or_else(PoisonError::into_inner).ok_or_else(not_started)
    }

    /// Starts the node, once.
    ///
    /// # Errors
    /// Those of `start`, after which another attempt is possible, and if the context has been started.
    pub(crate) fn start(&self, start: impl FnOnce() -> Result<Started>) -> Result<()> {
        let again =
            || Error::new(CGPC_ERR_STATE, "the context has been started already, or is being started");
        let _starting = match self.starting.try_lock() {
            Ok(starting) => starting,
            Err(TryLockError::Poisoned(starting)) => starting.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(again()),
        };
        if self.started.get().is_some() {
            return Err(again());
        }
        let started = start().inspect_err(|_| {
            *self.place.write().unwrap_or_else(PoisonError::into_inner) = None;
        })?;
        self.started.set(started).map_err(|_| again())
    }

    /// Starts a call. In a function of this context the call inherits the time limit of the function's call.
    ///
    /// # Errors
    /// As for [`Caller::call`].
    #[inline(always)]
    pub(crate) fn call(&self, call: Call) -> Result<CallHandle> {
        // A function may run before the start has ended.
        if let Some(caller) = frames::innermost(self.handle(), |request| request.caller()) {
            return Ok(caller.call(call)?);
        }
        let started = self.started()?;
        if let Driver::Polled(polled) = &started.driver
            && let Ok(mut driven) = drive(polled)
        {
            return Ok(driven.as_mut().ok_or_else(ended)?.call(call)?);
        }
        Ok(started.caller.call(call)?)
    }

    /// Waits for a call up to `limit`, driving the node if the application drives it.
    pub(crate) fn wait(&self, mut call: CallHandle, limit: Option<Duration>) -> Waited {
        if let Some(ended) = call.test() {
            return Waited::Ended(ended);
        }
        // While the context starts, only its functions have calls: they wait as on any thread but the driving one.
        match (self.started.get().map(|started| &started.driver), limit) {
            (None | Some(Driver::Thread(_)), None) => Waited::Ended(call.wait()),
            (None | Some(Driver::Thread(_)), Some(limit)) => match call.wait_for(limit) {
                Some(Err(error @ (CallError::Deadlock(_) | CallError::NotDriven))) => {
                    Waited::Not(call, Some(error.into()))
                }
                Some(ended) => Waited::Ended(ended),
                None => Waited::Not(call, None),
            },
            (Some(Driver::Polled(polled)), limit) => {
                let mut driven = match drive(polled) {
                    Ok(driven) => driven,
                    Err(error) => return Waited::Not(call, Some(error)),
                };
                match (driven.as_mut(), limit) {
                    (None, _) => Waited::Not(call, Some(ended())),
                    (Some(node), None) => Waited::Ended(node.wait(call)),
                    (Some(node), Some(limit)) => match node.wait_for(&mut call, limit) {
                        Some(ended) => Waited::Ended(ended),
                        None => Waited::Not(call, None),
                    },
                }
            }
        }
    }

    /// Waits up to `limit` for the next reply of a call, driving the node if the application drives it.
    ///
    /// # Errors
    /// If this thread cannot wait for the call.
    pub(crate) fn next_reply(
        &self,
        replies: &mut Replies,
        limit: Option<Duration>,
    ) -> Result<Poll<Option<Arrived>>> {
        let mut task = task::Context::from_waker(Waker::noop());
        let next = replies.poll_next(&mut task);
        if next.is_ready() || limit.is_some_and(|limit| limit.is_zero()) {
            return Ok(next);
        }
        let Some(Driver::Polled(polled)) = self.started.get().map(|started| &started.driver) else {
            return Ok(replies.wait_for(limit)?);
        };
        let mut driven = drive(polled)?;
        let node = driven.as_mut().ok_or_else(ended)?;
        let limit = Clock::system().limit(limit.unwrap_or(Duration::MAX));
        // Ends: the call has a time limit, and so has the wait.
        while let Some(left) = limit.left() {
            node.progress(left)?;
            let next = replies.poll_next(&mut task);
            if next.is_ready() {
                return Ok(next);
            }
        }
        Ok(Poll::Pending)
    }

    /// Uses the node of a context that has a thread, or the polled node.
    ///
    /// # Errors
    /// If the context has not been started or has ended; if the node is polled, and is being driven.
    #[inline]
    pub(crate) fn with_node<T>(
        &self,
        running: impl FnOnce(&Running) -> Result<T>,
        polled: impl FnOnce(&mut Driven) -> Result<T>,
    ) -> Result<T> {
        match &self.started()?.driver {
            Driver::Polled(driven) => polled(drive(driven)?.as_mut().ok_or_else(ended)?),
            Driver::Thread(node) => {
                let node = node.read().unwrap_or_else(PoisonError::into_inner);
                running(node.as_ref().ok_or_else(ended)?)
            }
        }
    }

    /// Serves the calls of the others until id 0 leaves; returns whether it left in order.
    ///
    /// # Errors
    /// If the context was not started together with others, or its node has ended.
    pub(crate) fn serve(&self) -> Result<bool> {
        let alone = || Error::new(CGPC_ERR_UNSUPPORTED, "the context was not started together with others");
        self.with_node(
            |node| match node {
                Running::Node(_) => Err(alone()),
                Running::Member(member, serving) => {
                    let serving = serving.lock().unwrap_or_else(PoisonError::into_inner).take();
                    let loss = serving.map_or(Ok(Loss::Left), |serving| serving.until_left(member.node()))?;
                    Ok(loss == Loss::Left)
                }
            },
            |node| match node {
                Driven::Node(_) => Err(alone()),
                Driven::Member(member) => Ok(member.serve_until_left()? == Loss::Left),
            },
        )
    }

    /// How id 0 has gone; `None` as long as it is there, while another thread serves, and at id 0.
    ///
    /// # Errors
    /// As for [`with_node`](Self::with_node).
    pub(crate) fn root_left(&self) -> Result<Option<Loss>> {
        self.with_node(
            |node| match node {
                Running::Node(_) => Ok(None),
                Running::Member(member, serving) => {
                    let mut serving = serving.lock().unwrap_or_else(PoisonError::into_inner);
                    Ok(serving.as_mut().map_or(Ok(None), |serving| serving.left_by_now(member.node()))?)
                }
            },
            |_| Ok(None),
        )
    }

    /// Uses the polled node.
    ///
    /// # Errors
    /// As for [`with_node`](Self::with_node), and if the node has a thread.
    #[inline]
    pub(crate) fn with_polled<T>(&self, polled: impl FnOnce(&mut Driven) -> Result<T>) -> Result<T> {
        let message = "the context has a thread of its own: start it with CGPC_POLLED to drive it";
        self.with_node(|_| Err(Error::new(CGPC_ERR_UNSUPPORTED, message)), polled)
    }

    /// Whether a function of this context runs on this thread, or this thread drives it.
    pub(crate) fn is_inside(&self) -> bool {
        let drives = match self.started.get().map(|started| &started.driver) {
            Some(Driver::Polled(polled)) => polled.user() == this_thread(),
            _ => false,
        };
        drives || frames::runs(self.handle())
    }

    /// Ends the node in order; calls in flight get `limit` to end.
    ///
    /// # Errors
    /// If another thread drives it, or the launcher's server has gone.
    pub(crate) fn end(&self, limit: Duration) -> Result<()> {
        let left = self.started.get().map_or(Ok(()), |started| Context::leave(started, limit));
        // The node has ended also if the launcher did not get the farewell.
        if !matches!(&left, Err(error) if error.status == CGPC_ERR_BUSY) {
            self.registry.release_all();
        }
        left
    }

    fn leave(started: &Started, limit: Duration) -> Result<()> {
        match &started.driver {
            Driver::Thread(node) => {
                let node = match node.try_write() {
                    Ok(mut node) => node.take(),
                    Err(TryLockError::Poisoned(node)) => node.into_inner().take(),
                    Err(TryLockError::WouldBlock) => {
                        let message = "another thread serves with this context, or changes its membership";
                        return Err(Error::new(CGPC_ERR_BUSY, message));
                    }
                };
                match node {
                    Some(Running::Node(node)) => node.shutdown(limit),
                    Some(Running::Member(member, _)) => member.finish(limit)?,
                    None => {}
                }
            }
            Driver::Polled(polled) => {
                let node = drive(polled)?.take();
                match node {
                    Some(Driven::Node(node)) => node.shutdown(limit)?,
                    Some(Driven::Member(member)) => member.finish(limit)?,
                    None => {}
                }
            }
        }
        Ok(())
    }
}

/// A reply of a call in flight, or an id that has none.
pub(crate) type Arrived = std::result::Result<IdReply, NoReply>;

/// The result of a wait for a call.
pub(crate) enum Waited {
    /// The call has ended.
    Ended(std::result::Result<Outcome, CallError>),
    /// The call goes on: the time has passed, or this thread cannot wait.
    Not(CallHandle, Option<Error>),
}

impl Waited {
    /// The result, if the call has ended. Otherwise its handle is dropped.
    ///
    /// # Errors
    /// Why this thread cannot wait.
    pub(crate) fn ended(self) -> Result<Option<std::result::Result<Outcome, CallError>>> {
        match self {
            Waited::Ended(ended) => Ok(Some(ended)),
            Waited::Not(_, Some(error)) => Err(error),
            Waited::Not(_, None) => Ok(None),
        }
    }
}

impl Started {
    /// The state of a node with a thread.
    pub(crate) fn running(running: Running, count: u32) -> Started {
        let (caller, id) = (running.caller(), running.id());
        let address = running.address().map(ToString::to_string);
        Started { caller, id, count, address, driver: Driver::Thread(Box::new(RwLock::new(Some(running)))) }
    }

    /// The state of a node that the application drives.
    pub(crate) fn polled(node: Driven, count: u32) -> Started {
        let (caller, id) = (node.caller(), node.id());
        let address = node.address().map(ToString::to_string);
        Started { caller, id, count, address, driver: Driver::Polled(Exclusive::new(Some(node))) }
    }
}
