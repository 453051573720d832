//! What a function does with its reply. A reply is valid while its function runs, on the thread that runs it.

use std::ffi::{c_char, c_int, c_void};

use super::frames;
use super::pointers::{border, handle};
use super::types::cgpc_reply;
use crate::error::Error;
use crate::status::{CGPC_ERR_LENGTH, CGPC_OK};

/// Sets the reply header: copies the bytes. Only from within its function, on its thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_reply_set_header(
    reply: *mut cgpc_reply,
    header: *const c_void,
    length: usize,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let header = c.bytes(header, length, "header")?.to_vec();
            frames::with_reply(handle(reply), |reply| {
                reply.header = header;
                Ok(CGPC_OK)
            })
        })
    }
}

/// Sets the reply data: copies the bytes, which may be a part of the reply itself. Only from within its function, on
/// its thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_reply_set_data(
    reply: *mut cgpc_reply,
    data: *const c_void,
    length: usize,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let data = c.bytes(data, length, "data")?.to_vec();
            frames::with_reply(handle(reply), |reply| {
                *reply.own_data() = data;
                Ok(CGPC_OK)
            })
        })
    }
}

/// Appends to the reply data: copies the bytes, which are not a part of the reply itself. Only from within its
/// function, on its thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_reply_append(
    reply: *mut cgpc_reply,
    data: *const c_void,
    length: usize,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let data = c.bytes(data, length, "data")?;
            frames::with_reply(handle(reply), |reply| {
                reply.own_data().extend_from_slice(data);
                Ok(CGPC_OK)
            })
        })
    }
}

/// Sets the length of the reply data, and stores where they are, to be written in place. New bytes are 0. The place is
/// valid until another function changes this reply.
///
/// Errors: CGPC_ERR_LENGTH if there is no memory for them. Only from within its function, on its thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_reply_resize(
    reply: *mut cgpc_reply,
    length: usize,
    data: *mut *mut c_void,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            c.needs(data, "data")?;
            let start = frames::with_reply(handle(reply), |reply| {
                let own = reply.own_data();
                let more = length.saturating_sub(own.len());
                own.try_reserve(more).map_err(|_| {
                    Error::new(CGPC_ERR_LENGTH, format!("there is no memory for a reply of {length} bytes"))
                })?;
                own.resize(length, 0);
                Ok(own.as_mut_ptr())
            })?;
            c.store(data, start.cast(), "data")?;
            Ok(CGPC_OK)
        })
    }
}

/// Stores where the reply data are, which a callback may change in place, and their length. The place is valid until
/// another function changes this reply. Only from within its function, on its thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_reply_data(
    reply: *mut cgpc_reply,
    data: *mut *mut c_void,
    length: *mut usize,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            c.needs(data, "data")?;
            c.needs(length, "length")?;
            let (start, len) = frames::with_reply(handle(reply), |reply| {
                let own = reply.own_data();
                Ok((own.as_mut_ptr(), own.len()))
            })?;
            c.store(data, start.cast(), "data")?;
            c.store(length, len, "length")?;
            Ok(CGPC_OK)
        })
    }
}

/// Stores where the reply header is, which a callback may change in place, and its length; as cgpc_reply_data. Only
/// from within its function, on its thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_reply_header(
    reply: *mut cgpc_reply,
    header: *mut *mut c_void,
    length: *mut usize,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            c.needs(header, "header")?;
            c.needs(length, "length")?;
            let (start, len) = frames::with_reply(handle(reply), |reply| {
                Ok((reply.header.as_mut_ptr(), reply.header.len()))
            })?;
            c.store(header, start.cast(), "header")?;
            c.store(length, len, "length")?;
            Ok(CGPC_OK)
        })
    }
}

/// Sets the message of a failure, which callers get with the code that the function returns. The text is copied, and
/// cut at 1024 bytes. Only from within its function, on its thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_reply_explain(reply: *mut cgpc_reply, message: *const c_char) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            frames::explain(handle(reply), c.text(message, "message")?)?;
            Ok(CGPC_OK)
        })
    }
}

/// Sets the message of the failure that the running function is about to return, as cgpc_reply_explain does. For
/// functions without a reply: deferring ones, and the begin and the segment of streaming ones. From within functions
/// alone: CGPC_ERR_STATE elsewhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_explain(message: *const c_char) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            frames::explain_innermost(c.text(message, "message")?)?;
            Ok(CGPC_OK)
        })
    }
}
