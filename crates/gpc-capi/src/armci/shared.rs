//! The state of this layer: the node of the process, its functions, and what collective operations wait for.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use bytes::Bytes;
use chained_gpc::{Call, CauseKind, Deferred, Outcome};

use super::addresses::Memory;
use super::early_calls::Handlers;
use super::levels::{self, LEVELS, Turn};
use super::lock_queue::Queue;
use super::mutex::lock;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::process::generation;
use crate::status::{CGPC_ERR_ENDED, CGPC_ERR_FORKED, CGPC_ERR_STATE};

/// Time limit of the calls of this layer. Its interface has none: a process may compute for days between two barriers.
const LIMIT: Duration = Duration::from_secs(30 * 24 * 3600);

/// The node of the process, and the numbers of the functions of this layer.
pub(super) struct Layer {
    home: Arc<Home>,
    pub(super) shared: Arc<Shared>,
    generation: usize,
}

impl std::ops::Deref for Layer {
    type Target = Home;

    fn deref(&self) -> &Home {
        &self.home
    }
}

/// What makes calls of this layer.
pub(super) struct Home {
    pub(super) context: Arc<Context>,
    pub(super) me: u32,
    pub(super) count: u32,
    pub(super) numbers: Numbers,
    /// Time limit of the calls of handlers.
    handler_limit: Duration,
}

/// The numbers of the functions of this layer; of those that execute handlers, one for each level.
#[derive(Clone, Copy, Default)]
pub(super) struct Numbers {
    pub(super) exec: [u64; LEVELS],
    pub(super) chained: [u64; LEVELS],
    pub(super) merge: [u64; LEVELS],
    pub(super) early: [u64; LEVELS],
    pub(super) arrive: u64,
    pub(super) leave: u64,
    pub(super) lost: u64,
    pub(super) lock: u64,
    pub(super) unlock: u64,
    pub(super) held: u64,
}

/// What functions of this layer share with the application's threads.
#[derive(Default)]
pub(super) struct Shared {
    /// Set once the node runs, and taken at its end: functions may run before.
    home: Mutex<Option<Arc<Home>>>,
    pub(super) turn: Turn,
    pub(super) handlers: Mutex<Handlers>,
    /// The handlers, or the calls that wait for them, have changed.
    pub(super) changed: Condvar,
    pub(super) memory: Mutex<Memory>,
    pub(super) collective: Mutex<Meeting>,
    /// A collective operation has ended.
    pub(super) met: Condvar,
    pub(super) lock: Mutex<Queue>,
    /// Processes that watch this one, because it has their locks.
    pub(super) watchers: Mutex<Vec<Deferred>>,
}

/// Collective operations, by their numbers: each process takes part in the same ones in the same order.
#[derive(Default)]
pub(super) struct Meeting {
    pub(super) next: u64,
    /// The operations under way: at most the one before `next`, and `next`.
    pub(super) operations: BTreeMap<u64, Operation>,
    /// Why there are no collective operations any more: process 0 has gone.
    pub(super) lost: Option<String>,
}

/// State of a collective operation at this process.
pub(super) enum Operation {
    /// This process takes part with these bytes; the request of process 0 has not arrived.
    Brought(Vec<u8>),
    /// Process 0 waits for the bytes of this process, which does not take part yet.
    Requested(Deferred),
    /// The bytes of all processes, or why the operation failed.
    Ended(std::result::Result<Bytes, String>),
}

static LAYER: Mutex<Option<Arc<Layer>>> = Mutex::new(None);

/// The layer, if it has been started.
///
/// # Errors
/// If it has not, or a process that forked this one has started it.
pub(super) fn layer() -> Result<Arc<Layer>> {
    let not = || Error::new(CGPC_ERR_STATE, "ARMCI has not been initialized: call ARMCI_Init");
    let layer = lock(&LAYER).clone().ok_or_else(not)?;
    if layer.generation != generation() {
        return Err(Error::new(CGPC_ERR_FORKED, "the process that forked this one has initialized ARMCI"));
    }
    Ok(layer)
}

/// Starts the layer, unless it has been started.
///
/// # Errors
/// Those of `start`.
pub(super) fn start(start: impl FnOnce() -> Result<Layer>) -> Result<()> {
    let mut layer = lock(&LAYER);
    if layer.is_none() {
        *layer = Some(Arc::new(start()?));
    }
    Ok(())
}

/// Takes the layer out, to end it.
pub(super) fn take() -> Option<Arc<Layer>> {
    lock(&LAYER).take_if(|layer| layer.generation == generation())
}

impl Layer {
    pub(super) fn new(
        context: Arc<Context>,
        (me, count): (u32, u32),
        numbers: Numbers,
        (shared, handler_limit): (Arc<Shared>, Duration),
    ) -> Layer {
        let home = Arc::new(Home { context, me, count, numbers, handler_limit });
        *lock(&shared.home) = Some(home.clone());
        Layer { home, shared, generation: generation() }
    }

    /// Makes a call and waits for it.
    ///
    /// # Errors
    /// If the call fails, or this thread cannot wait.
    pub(super) fn run(&self, call: Call) -> Result<Outcome> {
        let started = self.context.call(call)?;
        let ended = levels::while_waiting(&self.shared.turn, || self.context.wait(started, None).ended())?;
        match ended {
            Some(Ok(outcome)) => Ok(outcome),
            Some(Err(error)) => Err(self.explained(error.into())),
            None => Err(Error::new(CGPC_ERR_STATE, "the call has no outcome")),
        }
    }

    /// The process will not make or answer calls any more.
    pub(super) fn ends(&self) {
        let mut handlers = lock(&self.shared.handlers);
        (handlers.ended, handlers.changes) = (true, handlers.changes + 1);
        drop(handlers);
        self.shared.changed.notify_all();
        lock(&self.shared.watchers).clear();
        *lock(&self.shared.home) = None;
    }
}

impl Home {
    /// A call of a function of this layer.
    ///
    /// # Errors
    /// If the function is unknown, which it is not.
    pub(super) fn call_of(&self, number: u64) -> Result<Call> {
        let limit = if levels::is_in_handler() { self.handler_limit } else { LIMIT };
        Ok(Call::new(self.context.registry.func(number)?).limit(limit))
    }

    /// A call of a function of this layer at one process.
    ///
    /// # Errors
    /// If there is no such process.
    pub(super) fn call_at(&self, number: u64, proc: i32) -> Result<Call> {
        let id = u32::try_from(proc).ok().filter(|id| *id < self.count);
        let id = id.ok_or_else(|| {
            Error::argument(format!("there is no process {proc}: the processes are 0 to {}", self.count - 1))
        })?;
        let call = self.call_of(number)?.ids([id]);
        Ok(if id == self.me { call } else { call.watch() })
    }

    /// The failure of a call. If the time of a handler has passed, it says what to look for.
    pub(super) fn explained(&self, mut error: Error) -> Error {
        let is_late = error.cause.is_some_and(|cause| cause.kind == CauseKind::TimeLimit.number());
        if is_late && levels::is_in_handler() {
            error.message = format!(
                "a handler of process {} has waited {:?}: do handlers or holders of locks wait for each other? {}",
                self.me, self.handler_limit, error.message
            );
        }
        error
    }
}

impl Shared {
    /// What makes calls, if the layer has been started and has not ended.
    ///
    /// # Errors
    /// If it is not.
    pub(super) fn home(&self) -> Result<Arc<Home>> {
        let not = || Error::new(CGPC_ERR_ENDED, "ARMCI is not initialized at this process");
        lock(&self.home).clone().ok_or_else(not)
    }
}
