//! The process as ARMCI knows it: started, its number, barriers, its end.

use std::ffi::{c_char, c_int};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use chained_gpc::bootstrap;
use chained_gpc::runtime::{Builder, FunctionResult};
use chained_gpc::{ChildReply, Deferred, Node, Placement, Reply, Request};

use super::collective::{arrive, exchange, leave, lost};
use super::early::execute_ready;
use super::executing::{chained, exec, merge};
use super::levels::{self, LEVELS};
use super::locks::{give_back, held, take};
use super::memory::unmap_all;
use super::shared::{self, Layer, Numbers, Shared, layer};
use crate::abi::pointers::{border, opaque};
use crate::abi::types::cgpc_context;
use crate::context::{Context, Running, Started};
use crate::error::Result;
use crate::handles::{insert, remove};
use crate::launched::{self, Mode};
use crate::registry::{Code, Terms};
use crate::status::CGPC_OK;

/// How long calls in flight may take when the process leaves: after the last barrier there are none.
const LEAVE_LIMIT: Duration = Duration::from_secs(1);

/// Time limit of a call that a handler makes: the caller of the handler waits meanwhile, and two handlers may wait for
/// each other's locks.
const HANDLER_LIMIT: Duration = Duration::from_secs(300);

/// The number of this process and their number, which programs ask for also after the end.
static ME: AtomicI32 = AtomicI32::new(0);
static COUNT: AtomicI32 = AtomicI32::new(1);

/// Starts the layer: the launcher says who the processes are; without a launcher there is one. 0, or a negative status.
/// Further calls do nothing.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Init() -> c_int {
    // SAFETY: no pointer is followed.
    unsafe { border(|_| shared::start(|| started(HANDLER_LIMIT)).map(|()| CGPC_OK)) }
}

/// As ARMCI_Init; the arguments are not changed.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Init_args(_argc: *mut c_int, _argv: *mut *mut *mut c_char) -> c_int {
    ARMCI_Init()
}

/// As ARMCI_Init.
#[unsafe(no_mangle)]
pub extern "C" fn armci_msg_init(_argc: *mut c_int, _argv: *mut *mut *mut c_char) {
    let status = ARMCI_Init();
    if status < 0 {
        end_with_error("armci_msg_init", status);
    }
}

/// The number of this process.
#[unsafe(no_mangle)]
pub extern "C" fn armci_msg_me() -> c_int {
    ME.load(Ordering::Relaxed)
}

/// Number of processes.
#[unsafe(no_mangle)]
pub extern "C" fn armci_msg_nproc() -> c_int {
    COUNT.load(Ordering::Relaxed)
}

/// Waits for all processes.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Barrier() {
    // SAFETY: no pointer is followed.
    let status = unsafe { border(|_| exchange(&*layer()?, Vec::new()).map(|_| CGPC_OK)) };
    if status < 0 {
        end_with_error("ARMCI_Barrier", status);
    }
}

/// As ARMCI_Barrier.
#[unsafe(no_mangle)]
pub extern "C" fn armci_msg_barrier() {
    ARMCI_Barrier();
}

/// Does nothing: a call that was waited for has been executed.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_AllFence() {}

/// Ends the process with a message, and so the others: their launcher ends them.
#[unsafe(no_mangle)]
#[allow(clippy::print_stderr, reason = "the last words of a process that ends")]
pub unsafe extern "C" fn ARMCI_Error(message: *mut c_char, code: c_int) {
    // SAFETY: the header demands a text.
    unsafe {
        border(|c| {
            let message = c.text_if_any(message, "message")?.unwrap_or_default();
            eprintln!("{}: {message} {code}", armci_msg_me());
            Ok(CGPC_OK)
        })
    };
    std::process::exit(if code == 0 { 1 } else { code });
}

/// Waits for all processes, and leaves. 0, or a negative status. Further calls do nothing.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Finalize() {
    // SAFETY: no pointer is followed.
    unsafe { border(|_| finish().map(|()| CGPC_OK)) };
}

/// As ARMCI_Finalize.
#[unsafe(no_mangle)]
pub extern "C" fn armci_msg_finalize() {
    ARMCI_Finalize();
}

/// The context of the layer, for functions of chained_gpc.h, such as cgpc_tree_register; null if ARMCI has not been
/// initialized. It belongs to the layer: do not finalize it.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Gpc_context() -> *mut cgpc_context {
    layer().map_or(std::ptr::null_mut(), |layer| opaque(layer.context.handle()))
}

#[allow(clippy::print_stderr, reason = "the last words of a process that ends")]
fn end_with_error(function: &str, status: c_int) {
    let message = crate::error::with_last(|last| last.message.to_string_lossy().into_owned());
    let message = message.unwrap_or_default();
    // One text, so that lines of several processes stay whole.
    let line = format!("{}: {function} failed with {status}: {message}\n", armci_msg_me());
    eprint!("{line}");
    std::process::exit(1);
}

fn finish() -> Result<()> {
    levels::outside_handlers("the end of the layer")?;
    let Some(layer) = shared::take() else { return Ok(()) };
    let met = exchange(&layer, Vec::new());
    met.map(drop).and(end(&layer))
}

/// Ends the node of the layer.
pub(super) fn end(layer: &Layer) -> Result<()> {
    layer.ends();
    let left = layer.context.end(LEAVE_LIMIT);
    unmap_all(layer);
    remove::<Context>(layer.context.handle())?;
    left
}

/// Starts the node of the layer; calls of handlers have this time limit.
pub(super) fn started(handler_limit: Duration) -> Result<Layer> {
    let context = Arc::new(Context::default());
    let shared = Arc::<Shared>::default();
    let numbers = register(&context, &shared)?;
    context.start(|| match launched::launcher(bootstrap::LIMIT)? {
        Some(found) => launched::start(found, &context, Mode::Thread, Box::new(with_workers)),
        None => {
            let node = with_workers(Node::builder(0)).functions(context.registry.functions()).start()?;
            Ok(Started::running(Running::Node(node), 1))
        }
    })?;
    let handle = insert(context.clone())?;
    context.set_handle(handle);
    let (me, count) = context.started().map(|started| (started.id, started.count))?;
    ME.store(me as c_int, Ordering::Relaxed);
    COUNT.store(count as c_int, Ordering::Relaxed);
    Ok(Layer::new(context, (me, count), numbers, (shared, handler_limit)))
}

/// A worker for each level; the default workers have nothing to do.
fn with_workers(builder: Builder) -> Builder {
    (0..LEVELS).fold(builder, |builder, level| builder.executor(levels::executor(level), 1))
}

/// Registers the functions of the layer.
fn register(context: &Context, shared: &Arc<Shared>) -> Result<Numbers> {
    let at = |placement| Terms { placement, ..Terms::default() };
    let add = |name: &str, code| {
        context.registry.register(&format!("gpc.armci.{name}"), code, at(Placement::Inline))
    };
    let mut numbers = Numbers {
        arrive: add("arrive", deferring(shared, arrive))?,
        leave: add("leave", func(shared, leave))?,
        lost: add("lost", func(shared, lost))?,
        lock: add("lock", deferring(shared, take))?,
        unlock: add("unlock", func(shared, give_back))?,
        held: add("held", deferring(shared, held))?,
        ..Numbers::default()
    };
    for level in 0..LEVELS {
        let add = |name: &str, code| {
            let placement = Placement::Executor(levels::executor(level).into());
            context.registry.register(&format!("gpc.armci.{name}.{level}"), code, at(placement))
        };
        let plain = move |shared: &Arc<_>, request: &Request<'_>, token| exec(shared, level, request, token);
        let chains =
            move |shared: &Arc<_>, request: &Request<'_>, token| chained(shared, level, request, token);
        let merging = shared.clone();
        let merges = move |request: &Request<'_>, child: &ChildReply<'_>, own: &mut Reply| {
            merge(&merging, level, request, child, own)
        };
        let early = move |shared: &Arc<Shared>, _: &Request<'_>, _: &mut Reply| {
            execute_ready(shared, level);
            Ok(())
        };
        numbers.exec[level] = add("exec", deferring(shared, plain))?;
        numbers.chained[level] = add("chained", deferring(shared, chains))?;
        numbers.merge[level] = add("merge", Code::Callback(Box::new(merges)))?;
        numbers.early[level] = add("early", func(shared, early))?;
    }
    Ok(numbers)
}

fn func(
    shared: &Arc<Shared>,
    func: impl Fn(&Arc<Shared>, &Request<'_>, &mut Reply) -> FunctionResult + Send + Sync + 'static,
) -> Code {
    let shared = shared.clone();
    Code::Func(Box::new(move |request, reply| func(&shared, request, reply)))
}

fn deferring(
    shared: &Arc<Shared>,
    deferring: impl Fn(&Arc<Shared>, &Request<'_>, Deferred) + Send + Sync + 'static,
) -> Code {
    let shared = shared.clone();
    Code::Deferring(Box::new(move |request, token| deferring(&shared, request, token)))
}
