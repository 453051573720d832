//! Calls: started, waited for, cancelled.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chained_gpc::{Call, CallHandle, Ids, Outcome};

use super::callees::{Argument, no_unwind};
use super::context::limit;
use super::frames;
use super::pointers::{Pointers, border, handle, object, opaque};
use super::types::*;
use crate::calls::{Ended, Finished, InFlight};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::handles::{insert, remove};
use crate::status::*;
use crate::trees::CTree;

/// A flag of cgpc_call_args: the call goes on without ids that fail or are lost.
pub const CGPC_PARTIAL: u32 = 1;
/// A flag of cgpc_call_args: no replies, only completions.
pub const CGPC_NO_REPLY: u32 = 2;
/// A flag of cgpc_call_args: each id forwards the request before it executes. For long data.
pub const CGPC_FORWARD_FIRST: u32 = 4;
/// A flag of cgpc_call_args: the caller only watches; it neither executes nor replies.
pub const CGPC_WATCH: u32 = 8;
/// A flag of cgpc_call_args: `reply_header_max` and `reply_data_max` count. An id that writes more fails with
/// CGPC_KIND_OVER_LIMIT.
pub const CGPC_REPLY_LIMITS: u32 = 16;

/// Sets all fields to 0, and `size` to `size`: pass sizeof(cgpc_call_args). May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_call_args_init(args: *mut cgpc_call_args, size: usize) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { border(|c| c.clear(args, size)) }
}

/// Starts a call, and stores its handle, which cgpc_call_free frees. Nothing of `args` is used afterwards, unless
/// `data_release` is set.
///
/// May be called from any thread and from within functions. In a function of the context the call has the rest of the
/// time limit of the function's call. Errors, and nothing was sent: CGPC_ERR_FUNCTION, CGPC_ERR_IDS, CGPC_ERR_TREE,
/// CGPC_ERR_LENGTH, CGPC_ERR_BUSY, CGPC_ERR_ENDED, CGPC_ERR_STATE, CGPC_ERR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_call_start(
    context: *mut cgpc_context,
    args: *const cgpc_call_args,
    call: *mut *mut cgpc_call,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            c.needs(call, "call")?;
            let context = object::<Context, _>(context)?;
            let started = begin(c, &context, args)?;
            let number = insert(Arc::new(InFlight::new(context.shared(), started)))?;
            c.store(call, opaque(number), "call")?;
            Ok(CGPC_OK)
        })
    }
}

/// Makes a call and waits for its end. Stores the outcome with CGPC_OK and with CGPC_ERR_CALL, and null otherwise;
/// `outcome` may be null. Free it with cgpc_outcome_free.
///
/// May be called where cgpc_call_wait may. Errors are those of cgpc_call_start and cgpc_call_wait. If the wait is
/// impossible, the call is cancelled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_call_run(
    context: *mut cgpc_context,
    args: *const cgpc_call_args,
    outcome: *mut *mut cgpc_outcome,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            c.store_if_wanted(outcome, std::ptr::null_mut());
            match run(c, context, args)? {
                Some(ended) => store_outcome(c, ended, outcome),
                None => Ok(CGPC_PENDING),
            }
        })
    }
}

/// Makes a call, waits for its end, and copies reply header and reply data of the whole tree: of a single id its
/// reply, with a callback the result, otherwise level-n data, which cgpc_level_each takes apart. `header_len` and
/// `data_len` have the lengths of the buffers on entry and of the reply on return. A buffer and its length may be null:
/// that part is not wanted.
///
/// Returns CGPC_ERR_TRUNCATED if a buffer is too short; the outcome has the whole reply. `outcome` may be null. The
/// rest is as for cgpc_call_run. May be called where cgpc_call_wait may.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_call_run_into(
    context: *mut cgpc_context,
    args: *const cgpc_call_args,
    header: *mut c_void,
    header_len: *mut usize,
    data: *mut c_void,
    data_len: *mut usize,
    outcome: *mut *mut cgpc_outcome,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            c.store_if_wanted(outcome, std::ptr::null_mut());
            let room = |len: *mut usize| if len.is_null() { Ok(0) } else { c.load(len, "length") };
            let (header_room, data_room) = (room(header_len)?, room(data_len)?);
            let Some(ended) = run(c, context, args)? else { return Ok(CGPC_PENDING) };
            let copied = match &ended {
                Ok(done) => {
                    let (whole_header, whole_data) = whole(done);
                    let header = copy_part(c, whole_header, header, header_room, header_len);
                    header.and(copy_part(c, whole_data, data, data_room, data_len))
                }
                Err(_) => Ok(CGPC_OK),
            };
            store_outcome(c, ended, outcome).and(copied)
        })
    }
}

/// Waits up to `limit_us` microseconds (CGPC_FOREVER: without a limit) for the end of a call. Stores the outcome with
/// CGPC_OK and with CGPC_ERR_CALL; `outcome` may be null. Free it with cgpc_outcome_free. On a polled context it drives
/// the node.
///
/// May be called from any thread and from within functions that run on workers, not from inline functions and
/// continuations: CGPC_ERR_DEADLOCK, also if the call needs the worker that waits; with CGPC_FOREVER the call is
/// cancelled then. CGPC_PENDING: the time has passed, and the call goes on. CGPC_ERR_BUSY: another thread waits for
/// this call, or drives the context. CGPC_ERR_STATE: its outcome was taken before. CGPC_ERR_ENDED: the context has
/// ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_call_wait(
    call: *mut cgpc_call,
    limit_us: u64,
    outcome: *mut *mut cgpc_outcome,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            c.store_if_wanted(outcome, std::ptr::null_mut());
            let limit = limit(limit_us);
            match object::<InFlight, _>(call)?.wait(limit)? {
                Some(ended) => store_outcome(c, ended, outcome),
                None => Ok(CGPC_PENDING),
            }
        })
    }
}

/// Stores the outcome of a call if it has ended, else returns CGPC_PENDING; never waits, and does not drive the node.
/// May be called from anywhere. The rest is as for cgpc_call_wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_call_test(call: *mut cgpc_call, outcome: *mut *mut cgpc_outcome) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            c.store_if_wanted(outcome, std::ptr::null_mut());
            let tested = object::<InFlight, _>(call)?.test(|ended| store_outcome(c, ended, outcome))?;
            Ok(tested.unwrap_or(CGPC_PENDING))
        })
    }
}

/// Sets a function that runs once when the call has ended, and frees the handle. If the call has ended, it runs at
/// once, on this thread. It runs also if the context ends first. May be called from anywhere.
///
/// Errors: CGPC_ERR_BUSY and CGPC_ERR_STATE as for cgpc_call_wait; then `then` does not run, and the handle stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_call_on_end(
    call: *mut cgpc_call,
    then: cgpc_end_fn,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|_| {
            let then = then.ok_or_else(|| Error::argument("`then` is null"))?;
            let flying = object::<InFlight, _>(call)?;
            let (started, context) = (flying.take_handle()?, flying.context());
            drop(flying);
            remove::<InFlight>(handle(call))?;
            let argument = Argument::new(arg, None);
            started.on_end(move |ended| {
                let (mut outcome, argument) = (std::ptr::null_mut(), argument);
                let status = match made(ended) {
                    Ok((made, status)) => {
                        outcome = made;
                        status
                    }
                    Err(error) => error.record(),
                };
                // SAFETY: the application passed this function, with its argument; this is its only call.
                let run = || no_unwind(|| then(status, outcome, argument.pointer()));
                // So that the function cannot finalize its context.
                frames::run_bare(context, run);
            });
            Ok(CGPC_OK)
        })
    }
}

/// Cancels a call: it ends with CGPC_ERR_CALL and stage CGPC_STAGE_CANCELLED, unless it has ended, and ids that have
/// not begun it do not execute it. The outcome can still be waited for. Never waits; may be called from anywhere,
/// also while another thread waits for the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_call_cancel(call: *mut cgpc_call) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|_| {
            object::<InFlight, _>(call)?.cancel();
            Ok(CGPC_OK)
        })
    }
}

/// Lets a call go on without its handle, which is freed; its outcome is dropped. May be called from anywhere. Errors:
/// CGPC_ERR_BUSY and CGPC_ERR_STATE as for cgpc_call_wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_call_detach(call: *mut cgpc_call) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|_| {
            object::<InFlight, _>(call)?.take_handle()?.detach();
            remove::<InFlight>(handle(call))?;
            Ok(CGPC_OK)
        })
    }
}

/// Frees the handle of a call. A call that has not ended is cancelled, unless it has no replies. Never waits; may be
/// called from anywhere. In a forked child it returns CGPC_ERR_FORKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_call_free(call: *mut cgpc_call) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|_| {
            remove::<InFlight>(handle(call))?.abandon();
            Ok(CGPC_OK)
        })
    }
}

fn run(
    c: &Pointers<'_>,
    context: *mut cgpc_context,
    args: *const cgpc_call_args,
) -> Result<Option<Finished>> {
    let context = object::<Context, _>(context)?;
    let started = begin(c, &context, args)?;
    context.wait(started, None).ended()
}

/// Starts the call that the arguments describe.
fn begin(c: &Pointers<'_>, context: &Context, args: *const cgpc_call_args) -> Result<CallHandle> {
    context.call(described(c, context, &c.sized(args)?)?)
}

/// The reply header and the reply data of the whole tree. Those of one id are its own, not a list of one part.
fn whole(done: &Outcome) -> (&[u8], &[u8]) {
    let only = done.ids().first().filter(|_| done.ids().len() == 1);
    // None with a callback at a caller that only watches: the result is the whole.
    match only.and_then(|id| done.reply(id)) {
        Some(reply) => (reply.header, reply.data),
        None => (done.header(), done.data()),
    }
}

fn copy_part(
    c: &Pointers<'_>,
    part: &[u8],
    buffer: *mut c_void,
    room: usize,
    length: *mut usize,
) -> Result<c_int> {
    match length.is_null() {
        true => Ok(CGPC_OK),
        false => c.copy(part, (buffer, room), length, "buffer"),
    }
}

/// The handle of the outcome of a call, and the status that goes with it.
fn made(ended: Finished) -> Result<(*mut cgpc_outcome, c_int)> {
    let (ended, failure) = Ended::new(ended)?;
    let outcome = opaque(insert(ended)?);
    Ok((outcome, failure.map_or(CGPC_OK, Error::record)))
}

fn store_outcome(c: &Pointers<'_>, ended: Finished, place: *mut *mut cgpc_outcome) -> Result<c_int> {
    if place.is_null() {
        return Ok(Ended::new(ended)?.1.map_or(CGPC_OK, Error::record));
    }
    let (outcome, status) = made(ended)?;
    c.store(place, outcome, "outcome")?;
    Ok(status)
}

/// Data that the application lends until they are released.
struct Lent {
    start: *const u8,
    len: usize,
    _release: Argument,
}

// SAFETY: the documentation of `data_release` says that the data stay unchanged until then, so any thread can read
// them.
unsafe impl Send for Lent {}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: checked to be valid when it was made, and lent until `_release` is dropped.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

/// The call that the arguments describe. Inlined into the only caller: a call is large, and would be copied.
#[inline(always)]
fn described(c: &Pointers<'_>, context: &Context, args: &cgpc_call_args) -> Result<Call> {
    let known = CGPC_PARTIAL | CGPC_NO_REPLY | CGPC_FORWARD_FIRST | CGPC_WATCH | CGPC_REPLY_LIMITS;
    if args.flags & !known != 0 {
        return Err(Error::argument(format!(
            "the field `flags` has unknown bits: {:#x}",
            args.flags & !known
        )));
    }
    let data = c.bytes(args.data, args.data_len, "data")?;
    let header = c.bytes(args.header, args.header_len, "header")?;
    // With these errors the data stay the application's; with those below they are released.
    let ids = match ids(c, args) {
        Err(error) if error.status == CGPC_ERR_ARGUMENT => return Err(error),
        ids => ids,
    };
    let tree = match args.tree.is_null() {
        true => None,
        false => Some(object::<CTree, _>(args.tree)?),
    };
    let data = match args.data_release {
        Some(_) => {
            let release = Argument::new(args.data_release_arg, args.data_release);
            Bytes::from_owner(Lent { start: data.as_ptr(), len: data.len(), _release: release })
        }
        None => Bytes::copy_from_slice(data),
    };
    let mut call = Call::new(context.registry.func(args.func)?).ids(ids?).data(data);
    if !header.is_empty() {
        call = call.header(Bytes::copy_from_slice(header));
    }
    if args.callback != 0 {
        call = call.callback(context.registry.callback(args.callback)?);
    }
    if let Some(tree) = tree {
        call = call.tree(tree.0.clone());
    }
    if args.limit_us > 0 {
        call = call.limit(Duration::from_micros(args.limit_us));
    }
    if args.flags & CGPC_REPLY_LIMITS != 0 {
        call = call.reply_limits(args.reply_header_max, args.reply_data_max);
    }
    if args.flags == 0 {
        return Ok(call);
    }
    for (flag, set) in [
        (CGPC_PARTIAL, Call::partial as fn(Call) -> Call),
        (CGPC_NO_REPLY, Call::no_reply),
        (CGPC_FORWARD_FIRST, Call::forward_first),
        (CGPC_WATCH, Call::watch),
    ] {
        if args.flags & flag != 0 {
            call = set(call);
        }
    }
    Ok(call)
}

fn ids(c: &Pointers<'_>, args: &cgpc_call_args) -> Result<Ids> {
    if !args.ids.is_null() {
        return Ok(c.items(args.ids, args.id_count, "ids")?.into());
    }
    let beyond = || {
        Error::new(
            CGPC_ERR_IDS,
            format!("{} ids from {} on are more than there are", args.id_count, args.first_id),
        )
    };
    let count = u32::try_from(args.id_count).map_err(|_| beyond())?;
    let end = args.first_id.checked_add(count).ok_or_else(beyond)?;
    Ok((args.first_id..end).into())
}
