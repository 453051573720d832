//! The state of this layer: the node of the process, its functions, and what collective operations wait for.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use chained_gpc::{Call, Deferred, Outcome};

use crate::calls::Ended;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::handles::Handle;
use crate::process::generation;
use crate::status::{CGPC_ERR_FORKED, CGPC_ERR_STATE};

/// Time limit of the calls of this layer. Its interface has none: a process may compute for days between two barriers.
pub(super) const LIMIT: Duration = Duration::from_secs(30 * 24 * 3600);

/// A function of the application. Its arguments depend on the call that names it.
pub(super) type Handler = unsafe extern "C-unwind" fn() -> i32;

/// The node of the process, and the numbers of the functions of this layer.
pub(super) struct Layer {
    pub(super) context: Arc<Context>,
    pub(super) me: u32,
    pub(super) count: u32,
    pub(super) numbers: Numbers,
    pub(super) shared: Arc<Shared>,
    generation: usize,
}

/// The numbers of the functions of this layer.
#[derive(Clone, Copy, Default)]
pub(super) struct Numbers {
    pub(super) exec: u64,
    pub(super) chained: u64,
    pub(super) merge: u64,
    pub(super) arrive: u64,
    pub(super) leave: u64,
    pub(super) lock: u64,
    pub(super) unlock: u64,
}

/// What functions of this layer share with the application's threads.
#[derive(Default)]
pub(super) struct Shared {
    /// The handle of the context, for functions that run.
    pub(super) handle: Mutex<Option<Handle>>,
    pub(super) handlers: Mutex<Vec<Option<Handler>>>,
    /// A handler was registered.
    pub(super) registered: Condvar,
    /// A collective operation has ended.
    pub(super) met: Condvar,
    pub(super) segments: Mutex<Vec<Segments>>,
    pub(super) collective: Mutex<Meeting>,
    pub(super) lock: Mutex<Queue>,
}

/// Collective operations, by their numbers: each process takes part in the same ones in the same order.
#[derive(Default)]
pub(super) struct Meeting {
    pub(super) next: u64,
    /// What this process has brought, before it was asked.
    pub(super) brought: BTreeMap<u64, Vec<u8>>,
    /// Who asks for what this process has not brought yet.
    pub(super) asked: BTreeMap<u64, Deferred>,
    /// What all have brought, or why they have not.
    pub(super) ended: BTreeMap<u64, std::result::Result<Bytes, String>>,
}

/// The memory of one ARMCI_Malloc: a segment of each process.
pub(super) struct Segments {
    /// By process and owner: the address at which the process has the owner's segment; 0 if it has not.
    pub(super) views: Vec<Vec<u64>>,
    /// The length of each owner's segment.
    pub(super) lengths: Vec<u64>,
}

/// The lock of a process, and those that wait for it.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) holder: Option<u32>,
    pub(super) waiting: VecDeque<(u32, Deferred)>,
}

static LAYER: Mutex<Option<Arc<Layer>>> = Mutex::new(None);

/// No code of the application runs while a lock of this layer is held, so its state is valid after any panic.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

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
        shared: Arc<Shared>,
    ) -> Layer {
        Layer { context, me, count, numbers, shared, generation: generation() }
    }

    /// A call of a function of this layer.
    ///
    /// # Errors
    /// If the function is unknown, which it is not.
    pub(super) fn call_of(&self, number: u64) -> Result<Call> {
        Ok(Call::new(self.context.registry.func(number)?).limit(LIMIT))
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

    /// Makes a call and waits for it.
    ///
    /// # Errors
    /// If the call fails, or this thread cannot wait.
    pub(super) fn run(&self, call: Call) -> Result<Outcome> {
        let started = self.context.call(call)?;
        let ended = self.context.wait(started, None).ended()?;
        match ended.map(Ended::new).transpose()? {
            Some((Ended::Done(outcome, _), _)) => Ok(outcome),
            Some((_, Some(error))) => Err(error),
            _ => Err(Error::new(CGPC_ERR_STATE, "the call has no outcome")),
        }
    }
}

impl Shared {
    /// The handle of the context.
    pub(super) fn context(&self) -> Handle {
        lock(&self.handle).unwrap_or(Handle(0))
    }
}
