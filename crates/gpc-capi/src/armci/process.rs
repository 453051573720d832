//! The process as ARMCI knows it: started, its number, barriers, its end.

use std::ffi::{c_char, c_int};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use chained_gpc::bootstrap::{self, Bootstrap};
use chained_gpc::runtime::FunctionResult;
use chained_gpc::{ChildReply, Node, Placement, Reply, Request};

use super::collective::{arrive, exchange, leave};
use super::handlers::{chained, exec, merge};
use super::locks::{give_back, take};
use super::memory::unmap_all;
use super::shared::{self, Layer, Numbers, Shared, layer, lock};
use crate::abi::pointers::{border, opaque};
use crate::abi::types::cgpc_context;
use crate::context::{Context, Running, Started};
use crate::error::Result;
use crate::handles::{insert, remove};
use crate::registry::{Code, Terms};
use crate::status::CGPC_OK;

/// How long calls in flight may take when the process leaves: after the last barrier there are none.
const LEAVE_LIMIT: Duration = Duration::from_secs(1);

/// The number of this process and their number, which programs ask for also after the end.
static ME: AtomicI32 = AtomicI32::new(0);
static COUNT: AtomicI32 = AtomicI32::new(1);

/// Starts the layer: the launcher says who the processes are; without a launcher there is one. 0, or a negative status.
/// Further calls do nothing.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Init() -> c_int {
    // SAFETY: no pointer is followed.
    unsafe { border(|_| shared::start(started).map(|()| CGPC_OK)) }
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
    eprintln!("{}: {function} failed with {status}: {}", armci_msg_me(), message.unwrap_or_default());
    std::process::exit(1);
}

fn finish() -> Result<()> {
    let Some(layer) = shared::take() else { return Ok(()) };
    let met = exchange(&layer, Vec::new());
    let left = layer.context.end(LEAVE_LIMIT);
    unmap_all(&layer);
    remove::<Context>(layer.context.handle())?;
    met.map(drop).and(left)
}

/// Starts the node of the layer.
fn started() -> Result<Layer> {
    let context = Arc::new(Context::default());
    let shared = Arc::<Shared>::default();
    let numbers = register(&context, &shared)?;
    context.start(|registry| match bootstrap::from_env()? {
        Some(bootstrap) => member(bootstrap, registry.functions()),
        None => {
            let node = Node::builder(0).functions(registry.functions()).start()?;
            Ok(Started::running(Running::Node(node), 1))
        }
    })?;
    let handle = insert(context.clone())?;
    context.set_handle(handle);
    *lock(&shared.handle) = Some(handle);
    let (me, count) = context.started().map(|started| (started.id, started.count))?;
    ME.store(me as c_int, Ordering::Relaxed);
    COUNT.store(count as c_int, Ordering::Relaxed);
    Ok(Layer::new(context, (me, count), numbers, shared))
}

fn member(bootstrap: Bootstrap, functions: &chained_gpc::Functions) -> Result<Started> {
    let mut member = bootstrap.start(functions, |builder| builder)?;
    let (count, serving) = (member.count(), std::sync::Mutex::new(Some(member.serving())));
    Ok(Started::running(Running::Member(Box::new(member), serving), count))
}

/// Registers the functions of the layer.
fn register(context: &Context, shared: &Arc<Shared>) -> Result<Numbers> {
    type Func = fn(&Shared, &Request<'_>, &mut Reply) -> FunctionResult;
    type Deferring = fn(&Shared, &Request<'_>, chained_gpc::Deferred);
    let add = |name: &str, code, placement| {
        context.registry.register(name, code, Terms { placement, ..Terms::default() })
    };
    let func = |name: &str, func: Func, placement| {
        let shared = shared.clone();
        add(name, Code::Func(Box::new(move |request, reply| func(&shared, request, reply))), placement)
    };
    let deferring = |name: &str, deferring: Deferring| {
        let shared = shared.clone();
        let code = Code::Deferring(Box::new(move |request, token| deferring(&shared, request, token)));
        add(name, code, Placement::Inline)
    };
    let merging = shared.clone();
    let merges = move |request: &Request<'_>, child: &ChildReply<'_>, own: &mut Reply| {
        merge(&merging, request, child, own)
    };
    Ok(Numbers {
        exec: func("gpc.armci.exec", exec, Placement::Default)?,
        chained: func("gpc.armci.chained", chained, Placement::Default)?,
        merge: add("gpc.armci.merge", Code::Callback(Box::new(merges)), Placement::Default)?,
        arrive: deferring("gpc.armci.arrive", arrive)?,
        leave: func("gpc.armci.leave", leave, Placement::Inline)?,
        lock: deferring("gpc.armci.lock", take)?,
        unlock: func("gpc.armci.unlock", give_back, Placement::Inline)?,
    })
}
