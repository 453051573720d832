//! Contexts: made, started and freed.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::time::Duration;

use chained_gpc::bootstrap::{self, Bootstrap};
use chained_gpc::runtime::Builder;
use chained_gpc::{Heartbeat, Job, LinkKind, Listener, Node, Peers, PrivateKey, Secret, Wait};

use super::callees::no_unwind;
use super::pointers::{Pointers, border, handle, object, opaque};
use super::types::{cgpc_context, cgpc_exchange, cgpc_options};
use crate::context::{Context, Driven, Running, Started};
use crate::error::{Error, Result};
use crate::handles::{get, insert, remove};
use crate::launched::{self, Mode};
use crate::status::*;

/// A flag of cgpc_options: the context has no thread. The application drives it with cgpc_progress and the waits.
pub const CGPC_POLLED: u32 = 1;
/// A flag of cgpc_options: links beyond this host need no secret. Any process that reaches this one can call it.
pub const CGPC_INSECURE: u32 = 2;
/// A flag of cgpc_options: links are proved by the secret, and not encrypted.
pub const CGPC_NO_ENCRYPTION: u32 = 4;
/// A flag of cgpc_options: links over TCP on this host are encrypted as well.
pub const CGPC_ENCRYPT_LOOPBACK: u32 = 8;
/// A flag of cgpc_options: no other process has had this id in this job before.
pub const CGPC_FIRST_RUN: u32 = 16;
/// A flag of cgpc_options: a silent peer is waited for until the time limit of the call.
pub const CGPC_NO_HEARTBEAT: u32 = 32;

/// A wait of cgpc_options: poll as long as that saves time, then sleep.
pub const CGPC_WAIT_ADAPTIVE: i32 = 0;
/// A wait of cgpc_options: sleep at once.
pub const CGPC_WAIT_BLOCK: i32 = 1;
/// A wait of cgpc_options: poll for `spin_us` after each message. For processes with a core each.
pub const CGPC_WAIT_SPIN: i32 = 2;

/// A link of cgpc_options: the fastest kind, shared memory.
pub const CGPC_LINK_DEFAULT: i32 = 0;
/// A link of cgpc_options: TCP.
pub const CGPC_LINK_TCP: i32 = 1;
/// A link of cgpc_options: Unix sockets.
pub const CGPC_LINK_UNIX: i32 = 2;
/// A link of cgpc_options: shared memory.
pub const CGPC_LINK_SHM: i32 = 3;

/// A time limit that never passes. A call ends by its own limit.
pub const CGPC_FOREVER: u64 = u64::MAX;

/// A limit in microseconds.
pub(super) fn limit(limit_us: u64) -> Option<Duration> {
    (limit_us != CGPC_FOREVER).then(|| Duration::from_micros(limit_us))
}

/// Sets all fields to 0, and `size` to `size`: pass sizeof(cgpc_options). May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_options_init(options: *mut cgpc_options, size: usize) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { border(|c| c.clear(options, size)) }
}

/// Makes a context without a node: functions can be registered before other processes can call them. Free it with
/// cgpc_finalize. May be called from any thread, and in a forked child.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_context_new(context: *mut *mut cgpc_context) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            c.needs(context, "context")?;
            let made = Arc::new(Context::default());
            let number = insert(made.clone())?;
            made.set_handle(number);
            c.store(context, opaque(number), "context")?;
            Ok(CGPC_OK)
        })
    }
}

/// Starts the node of a context with these options, or the defaults if they are null. Nothing of the options is used
/// after the call. If it fails, the context can be started again.
///
/// Errors: CGPC_ERR_STATE if it was started, CGPC_ERR_SYSTEM if it cannot listen, CGPC_ERR_ARGUMENT. Not from within
/// functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_start(context: *mut cgpc_context, options: *const cgpc_options) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let context = object::<Context, _>(context)?;
            let options = options_or_default(c, options)?;
            context.start(|| {
                let builder = configure(c, &options, Node::builder(options.id))?;
                context.set_place(options.id, 0);
                let mut builder = listening(c, &options, builder.functions(context.registry.functions()))?;
                if let Some(peers) = c.text_if_any(options.peers, "peers")? {
                    builder = builder.peers(peers.parse::<Peers>()?);
                }
                Ok(match options.flags & CGPC_POLLED {
                    0 => Started::running(Running::Node(builder.start()?), 0),
                    _ => Started::polled(Driven::Node(Box::new(builder.polled()?)), 0),
                })
            })?;
            Ok(CGPC_OK)
        })
    }
}

/// Starts the node of a context as one of the processes that a launcher started, such as mpiexec, mpirun, srun or gpc
/// run: over PMI-1, PMI-2 or PMIx, or by a rule (plain Slurm, Kubernetes). The launcher says which id this process has
/// and how many there are; when the call returns, each id can call each other one. All processes call it. With
/// CGPC_POLLED the calling thread drives the node meanwhile, and nothing has a thread but libpmix, whose calls may
/// block. Of the options, `id`, `listen`, `peers`, `job`, `secret` and `key` are not used.
///
/// Errors: CGPC_ERR_NO_LAUNCHER if the environment names no launcher, CGPC_ERR_BOOTSTRAP if the others are not found
/// within `limit_us`, and those of cgpc_start. Not from within functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_start_launched(
    context: *mut cgpc_context,
    options: *const cgpc_options,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let context = object::<Context, _>(context)?;
            let options = options_or_default(c, options)?;
            context.start(|| {
                let none = || Error::new(CGPC_ERR_NO_LAUNCHER, "the environment names no launcher");
                let bootstrap = launched::launcher(bootstrap_limit(&options))?.ok_or_else(none)?;
                start_member(c, bootstrap, &options, &context)
            })?;
            Ok(CGPC_OK)
        })
    }
}

/// Starts the node of a context as one of the processes of an exchange of the application's own, such as those of an
/// MPI communicator. When the call returns, each id can call each other one. All processes call it; `exchange` is used
/// on this thread, and not after the call. Options and errors are those of cgpc_start_launched. Not from within
/// functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_start_exchange(
    context: *mut cgpc_context,
    exchange: *const cgpc_exchange,
    options: *const cgpc_options,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let context = object::<Context, _>(context)?;
            let options = options_or_default(c, options)?;
            let exchange = c.sized(exchange)?;
            context.start(|| {
                let gather = move |mine: &[u8]| gather(exchange, mine);
                let bootstrap = Bootstrap::with_allgather(exchange.rank, exchange.count, gather)?;
                start_member(c, bootstrap, &options, &context)
            })?;
            Ok(CGPC_OK)
        })
    }
}

/// Serves the calls of the others until id 0 leaves or is lost; returns at once at id 0. For a context that a
/// launcher or an exchange started. Drives a polled context. CGPC_NONE: id 0 was lost, and did not leave in order.
///
/// Not from within functions. Errors: CGPC_ERR_UNSUPPORTED for other contexts, CGPC_ERR_DEADLOCK, CGPC_ERR_BOOTSTRAP.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_serve(context: *mut cgpc_context) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|_| {
            let context = object::<Context, _>(context)?;
            if context.is_inside() {
                return Err(Error::new(CGPC_ERR_DEADLOCK, "a function of a context cannot serve with it"));
            }
            Ok(if context.serve()? { CGPC_OK } else { CGPC_NONE })
        })
    }
}

/// Ends the node of a context in order, and frees the context: calls in flight get `limit_us` microseconds to end, then
/// they end with CGPC_ERR_ENDED. Handles of its calls and outcomes stay valid until they are freed. Releases the
/// arguments of its functions once no call runs them.
///
/// May be called from any thread, but not from a function of the context: CGPC_ERR_DEADLOCK; the context stays then.
/// If another thread drives a polled context, or serves, CGPC_ERR_BUSY; the context stays then, too.
/// CGPC_ERR_BOOTSTRAP: the launcher did not get the farewell. In a forked child it returns CGPC_ERR_FORKED and
/// touches no link; the memory is released when the child ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_finalize(context: *mut cgpc_context, limit_us: u64) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|_| {
            let number = handle(context);
            let context = get::<Context>(number)?;
            if context.is_inside() {
                let message = "a function of a context cannot finalize it";
                return Err(Error::new(CGPC_ERR_DEADLOCK, message));
            }
            let left = context.end(Duration::from_micros(limit_us));
            match left {
                Err(error) if error.status == CGPC_ERR_BUSY => return Err(error),
                _ => {
                    drop(context);
                    remove::<Context>(number)?
                }
            };
            left.map(|()| CGPC_OK)
        })
    }
}

/// Stores the id of this process. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_id(context: *const cgpc_context, id: *mut u32) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            c.store(id, object::<Context, _>(context)?.place()?.0, "id")?;
            Ok(CGPC_OK)
        })
    }
}

/// Stores the number of processes that were started together; 0 after cgpc_start. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_count(context: *const cgpc_context, count: *mut u32) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            c.store(count, object::<Context, _>(context)?.place()?.1, "count")?;
            Ok(CGPC_OK)
        })
    }
}

/// Copies the address at which the context listens, as text with a final zero; CGPC_NONE if it does not listen.
/// `length` gets the length without the zero; it may be null. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_address(
    context: *const cgpc_context,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| match &object::<Context, _>(context)?.started()?.address {
            Some(address) => c.copy_text(address, (buffer, capacity), length, "buffer"),
            None => Ok(CGPC_NONE),
        })
    }
}

pub(super) fn options_or_default(c: &Pointers<'_>, options: *const cgpc_options) -> Result<cgpc_options> {
    match options.is_null() {
        true => Ok(c.zeroed()),
        false => c.sized(options),
    }
}

/// Applies the options of links, for a context that no launcher starts.
pub(super) fn listening(c: &Pointers<'_>, options: &cgpc_options, builder: Builder) -> Result<Builder> {
    let builder = builder.link(link(options.link)?);
    match c.text_if_any(options.listen, "listen")? {
        Some(listen) => Ok(builder.listener(Listener::bind(&listen.parse()?)?)),
        None => Ok(builder),
    }
}

fn bootstrap_limit(options: &cgpc_options) -> Duration {
    match options.limit_us {
        0 => bootstrap::LIMIT,
        limit => Duration::from_micros(limit),
    }
}

fn link(link: i32) -> Result<LinkKind> {
    match link {
        CGPC_LINK_DEFAULT => Ok(LinkKind::DEFAULT),
        CGPC_LINK_TCP => Ok(LinkKind::Tcp),
        CGPC_LINK_UNIX => Ok(LinkKind::Unix),
        CGPC_LINK_SHM => Ok(LinkKind::Shm),
        other => Err(Error::argument(format!("the field `link` is {other}: use one of CGPC_LINK_..."))),
    }
}

/// Exchanges bytes of different lengths over an exchange of equal ones, in two rounds.
fn gather(exchange: cgpc_exchange, mine: &[u8]) -> std::result::Result<Vec<Vec<u8>>, String> {
    let cgpc_exchange { count, allgather, barrier, arg, .. } = exchange;
    let allgather = allgather.ok_or("`allgather` is null")?;
    let round = |mine: &[u8]| {
        let mut all = vec![0; mine.len() * count as usize];
        // SAFETY: the documentation of `cgpc_exchange` says what the function gets; the buffers have these lengths.
        let code = no_unwind(|| unsafe {
            allgather(mine.as_ptr().cast(), mine.len(), all.as_mut_ptr().cast::<c_void>(), arg)
        });
        match code {
            0 => Ok(all),
            code => Err(format!("`allgather` returned {code}")),
        }
    };
    let lengths = round(&(mine.len() as u32).to_le_bytes())?;
    let lengths: Vec<usize> = lengths
        .chunks_exact(4)
        .map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize)
        .collect();
    let longest = lengths.iter().copied().max().unwrap_or_default();
    if longest > bootstrap::ENTRY_MAX {
        return Err(format!("`allgather` returned a length of {longest}, which no process has sent"));
    }
    let mut padded = mine.to_vec();
    padded.resize(longest, 0);
    let all = round(&padded)?;
    if let Some(barrier) = barrier {
        // SAFETY: as above.
        match no_unwind(|| unsafe { barrier(arg) }) {
            0 => {}
            code => return Err(format!("`barrier` returned {code}")),
        }
    }
    Ok(all.chunks_exact(longest.max(1)).zip(lengths).map(|(part, length)| part[..length].to_vec()).collect())
}

fn start_member(
    c: &Pointers<'_>,
    bootstrap: Bootstrap,
    options: &cgpc_options,
    context: &Context,
) -> Result<Started> {
    // Checked before the exchange, in which the others take part.
    configure(c, options, Node::builder(0))?;
    let bootstrap = bootstrap.limit(bootstrap_limit(options)).link(link(options.link)?);
    let mut failed = None;
    let build = |builder| {
        let none = std::ptr::null();
        let options = cgpc_options { secret: none, secret_len: 0, key: none, job: none, ..*options };
        configure(c, &options, builder).unwrap_or_else(|error| {
            failed = Some(error);
            Node::builder(0)
        })
    };
    let mode = if options.flags & CGPC_POLLED == 0 { Mode::Thread } else { Mode::Polled };
    let started = launched::start(bootstrap, context, mode, Box::new(build))?;
    failed.map_or(Ok(started), Err)
}

/// Applies the options that do not depend on how the context starts.
pub(super) fn configure(c: &Pointers<'_>, options: &cgpc_options, mut builder: Builder) -> Result<Builder> {
    let cgpc_options { flags, workers, executors, executor_count, .. } = *options;
    let known = CGPC_POLLED
        | CGPC_INSECURE
        | CGPC_NO_ENCRYPTION
        | CGPC_ENCRYPT_LOOPBACK
        | CGPC_FIRST_RUN
        | CGPC_NO_HEARTBEAT;
    if flags & !known != 0 {
        return Err(Error::argument(format!("the field `flags` has unknown bits: {:#x}", flags & !known)));
    }
    if workers > 0 {
        builder = builder.workers(workers as usize);
    }
    for executor in c.items(executors, executor_count as usize, "executors")? {
        builder = builder.executor(c.text(executor.name, "name of an executor")?, executor.workers as usize);
    }
    builder = builder.wait(match options.wait {
        CGPC_WAIT_ADAPTIVE => Wait::Adaptive,
        CGPC_WAIT_BLOCK => Wait::Block,
        CGPC_WAIT_SPIN => Wait::Spin(Duration::from_micros(options.spin_us)),
        other => {
            return Err(Error::argument(format!("the field `wait` is {other}: use one of CGPC_WAIT_...")));
        }
    });
    if flags & CGPC_NO_HEARTBEAT != 0 {
        builder = builder.heartbeat(None);
    } else if options.heartbeat_us > 0 {
        let silence = Duration::from_micros(options.heartbeat_us);
        builder = builder.heartbeat(Some(Heartbeat::dead_after(silence)));
    }
    for (value, set) in [
        (options.memory_max, Builder::memory_max as fn(Builder, u64) -> Builder),
        (options.data_max, Builder::data_max),
        (options.reply_max, Builder::reply_max),
    ] {
        if value > 0 {
            builder = set(builder, value);
        }
    }
    for (flag, set) in [
        (CGPC_INSECURE, Builder::insecure as fn(Builder) -> Builder),
        (CGPC_NO_ENCRYPTION, Builder::no_encryption),
        (CGPC_ENCRYPT_LOOPBACK, Builder::encrypt_loopback),
        (CGPC_FIRST_RUN, Builder::first_run),
    ] {
        if flags & flag != 0 {
            builder = set(builder);
        }
    }
    identify(c, options, builder)
}

/// Applies job, secret and key.
fn identify(c: &Pointers<'_>, options: &cgpc_options, mut builder: Builder) -> Result<Builder> {
    if !options.job.is_null() {
        let job = c.items(options.job, 16, "job")?;
        builder = builder.job(Job(job.try_into().unwrap_or_default()));
    }
    if !options.secret.is_null() || options.secret_len > 0 {
        if !cfg!(feature = "noise") {
            return Err(Error::new(
                CGPC_ERR_UNSUPPORTED,
                "this library was built without the feature `noise`",
            ));
        }
        let secret = Secret::new(c.items(options.secret, options.secret_len, "secret")?);
        builder = builder.secret(secret.map_err(|error| Error::argument(error.to_string()))?);
    }
    if !options.key.is_null() {
        let key: [u8; 32] = c.items(options.key, 32, "key")?.try_into().unwrap_or_default();
        builder = builder.key(PrivateKey::new(key));
    }
    Ok(builder)
}
