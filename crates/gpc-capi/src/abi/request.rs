//! What a function asks of its request. A request is valid while its function runs, on the thread that runs it.

use std::ffi::{c_char, c_int, c_void};

use chained_gpc::Request;

use super::callees::Value;
use super::frames;
use super::pointers::{border, handle, opaque};
use super::types::{cgpc_context, cgpc_function, cgpc_release_fn, cgpc_request};
use crate::error::Result;
use crate::handles::Handle;
use crate::status::{CGPC_NONE, CGPC_OK};

/// Stores the context that runs the function, which this does not pass on: it is finalized elsewhere. Only from within
/// its function, on its thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_request_context(
    request: *const cgpc_request,
    context: *mut *mut cgpc_context,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            c.store(context, opaque(frames::context(handle(request))?), "context")?;
            Ok(CGPC_OK)
        })
    }
}

/// Stores the id that executes. Only from within its function, on its thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_request_me(request: *const cgpc_request, id: *mut u32) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { number(request, id, |request| request.me()) }
}

/// Stores the id that sent the request; CGPC_NONE at the root. Only from within its function, on its thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_request_parent(request: *const cgpc_request, id: *mut u32) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| match with(request, |request| request.parent())? {
            Some(parent) => c.store(id, parent, "id").map(|()| CGPC_OK),
            None => Ok(CGPC_NONE),
        })
    }
}

/// Stores the id that made the call. Only from within its function, on its thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_request_root(request: *const cgpc_request, id: *mut u32) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { number(request, id, |request| request.root()) }
}

/// Stores the root's number of the call: with the root's id it names the call. Only from within its function, on its
/// thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_request_sequence(request: *const cgpc_request, sequence: *mut u64) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { number(request, sequence, |request| request.call().sequence) }
}

/// Stores the position of this id in the tree, in preorder: 0 at the root. It is the caller's order after the root.
/// Only from within its function, on its thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_request_position(request: *const cgpc_request, position: *mut u32) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { number(request, position, |request| request.position()) }
}

/// Stores the number of ids of the whole call. Only from within its function, on its thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_request_total(request: *const cgpc_request, total: *mut u32) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { number(request, total, |request| request.total()) }
}

/// Stores where the header is, while the function runs, and its length. Only from within its function, on its thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_request_header(
    request: *const cgpc_request,
    header: *mut *const c_void,
    length: *mut usize,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { view(request, header, length, |request| request.header()) }
}

/// Stores where the data are, while the function runs, and their length. A streaming function has none here. Only from
/// within its function, on its thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_request_data(
    request: *const cgpc_request,
    data: *mut *const c_void,
    length: *mut usize,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { view(request, data, length, |request| request.data()) }
}

/// Stores the length of the whole data, bytes; also for a streaming function. Only from within its function, on its
/// thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_request_data_length(request: *const cgpc_request, length: *mut u64) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { number(request, length, |request| request.data_len()) }
}

/// Copies the ids of this subtree, this id first. `count` gets their number. Errors: CGPC_ERR_TRUNCATED if `ids` has
/// room for fewer; it has the first ones then. Only from within its function, on its thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_request_ids(
    request: *const cgpc_request,
    ids: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| c.copy_ids(&with(request, |request| request.ids().clone())?, (ids, capacity), count))
    }
}

/// Stores the number of the func. `function` of a phased one, too. Only from within its function, on its thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_request_func(
    request: *const cgpc_request,
    function: *mut cgpc_function,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { number(request, function, |request| request.func().number()) }
}

/// Stores the number of the callback, or 0 if the call has none or the func is phased. Only from within its function,
/// on its thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_request_callback(
    request: *const cgpc_request,
    function: *mut cgpc_function,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { number(request, function, |request| request.callback().map_or(0, |callback| callback.number())) }
}

/// Stores the limits of what one id may write as reply header and reply data: see cgpc_call_args. UINT64_MAX: no limit.
/// Either may be null. Only from within its function, on its thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_request_reply_limits(
    request: *const cgpc_request,
    header_max: *mut u64,
    data_max: *mut u64,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let limits = with(request, |request| request.reply_limits())?;
            c.store_if_wanted(header_max, limits.header_max);
            c.store_if_wanted(data_max, limits.data_max);
            Ok(CGPC_OK)
        })
    }
}

/// Copies the name of the tree, as text with a final zero; `length` gets its length without the zero. Only from within
/// its function, on its thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_request_tree(
    request: *const cgpc_request,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let tree = with(request, |request| request.tree().to_string())?;
            c.copy_text(&tree, (buffer, capacity), length, "buffer")
        })
    }
}

/// Keeps a value of the application for this call at this id, which the functions of the call find with
/// cgpc_request_value: func, callback, both phases, and streaming functions. It replaces an earlier value. `release`
/// may be null; otherwise it runs exactly once: when the value is replaced, or the call ends at this id in any way.
/// Only from within its function, on its thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_request_set_value(
    request: *const cgpc_request,
    value: *mut c_void,
    release: cgpc_release_fn,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|_| {
            with(request, |request| request.set_context(Value::new(value, release)))?;
            Ok(CGPC_OK)
        })
    }
}

/// Stores the value that a function of this call has kept at this id; the value stays kept. CGPC_NONE if no function
/// has kept one. Only from within its function, on its thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_request_value(request: *const cgpc_request, value: *mut *mut c_void) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let kept = with(request, |request| request.with_context(|kept: &mut Value| kept.pointer()))?;
            match kept {
                Some(kept) => c.store(value, kept, "value").map(|()| CGPC_OK),
                None => Ok(CGPC_NONE),
            }
        })
    }
}

/// Stores 1 if the caller wants replies, else 0: then the reply is dropped. Only from within its function, on its
/// thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_request_reply_wanted(
    request: *const cgpc_request,
    wanted: *mut c_int,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { number(request, wanted, |request| request.reply_wanted().into()) }
}

/// Stores the rest of the time limit, microseconds. Only from within its function, on its thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_request_remaining(request: *const cgpc_request, left_us: *mut u64) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        number(request, left_us, |request| u64::try_from(request.remaining().as_micros()).unwrap_or(u64::MAX))
    }
}

/// Stores 1 if the call has ended at this id while the function runs, else 0. A long function asks now and then. Only
/// from within its function, on its thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_request_is_cancelled(
    request: *const cgpc_request,
    cancelled: *mut c_int,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { number(request, cancelled, |request| request.is_cancelled().into()) }
}

fn with<T>(request: *const cgpc_request, look: impl FnOnce(&Request<'_>) -> T) -> Result<T> {
    let number: Handle = handle(request);
    frames::with_request(number, |request| look(request))
}

/// Stores a number of a request.
///
/// # Safety
/// As for [`border`].
unsafe fn number<T: Copy>(
    request: *const cgpc_request,
    place: *mut T,
    look: impl FnOnce(&Request<'_>) -> T,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        border(|c| {
            c.store(place, frames::with_request(handle(request), look)?, "result")?;
            Ok(CGPC_OK)
        })
    }
}

/// Stores where bytes of a request are.
///
/// # Safety
/// As for [`border`].
unsafe fn view(
    request: *const cgpc_request,
    place: *mut *const c_void,
    length: *mut usize,
    look: impl for<'r> FnOnce(&'r Request<'_>) -> &'r [u8],
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        border(|c| {
            let (start, len) = frames::with_request(handle(request), |request| {
                let bytes = look(request);
                (bytes.as_ptr().cast(), bytes.len())
            })?;
            c.needs(length, "length")?;
            c.store(place, start, "place")?;
            c.store(length, len, "length")?;
            Ok(CGPC_OK)
        })
    }
}
