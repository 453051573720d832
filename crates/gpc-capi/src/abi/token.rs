//! Replies that are sent later.

use std::ffi::{c_char, c_int, c_void};

use chained_gpc::Reply;

use super::frames;
use super::pointers::{border, handle, object, opaque};
use super::types::{cgpc_request, cgpc_token};
use crate::handles::{get, insert, remove};
use crate::status::{CGPC_NONE, CGPC_OK};
use crate::tokens::Token;

/// Stores a token for a later reply of a callback, of a phased function that merges, or of the end of a streaming
/// function. What the function then does with its reply is not sent; it copies what it needs before. Returns CGPC_NONE
/// the second time, and for a func, which is registered as deferring instead. cgpc_token_reply, cgpc_token_fail or
/// cgpc_token_free frees the token. Only from within its function, on its thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_request_defer(
    request: *const cgpc_request,
    token: *mut *mut cgpc_token,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            c.needs(token, "token")?;
            let deferred = frames::with_request(handle(request), |request| request.defer())?;
            let Some(deferred) = deferred else { return Ok(CGPC_NONE) };
            c.store(token, opaque(insert(std::sync::Arc::new(Token::new(deferred)))?), "token")?;
            Ok(CGPC_OK)
        })
    }
}

/// Sends the reply of an id, and frees the token. Header and data are copied. If the call has ended at this id,
/// nothing is sent, and this is no error. May be called from any thread; never waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_token_reply(
    token: *mut cgpc_token,
    header: *const c_void,
    header_len: usize,
    data: *const c_void,
    data_len: usize,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            get::<Token>(handle(token))?;
            let header = c.bytes(header, header_len, "header")?.to_vec();
            let data = c.bytes(data, data_len, "data")?.to_vec();
            remove::<Token>(handle(token))?.reply(Reply { header, data, ..Reply::default() });
            Ok(CGPC_OK)
        })
    }
}

/// Fails the call at this id, with a code other than 0 and a message, which may be null; frees the token. As
/// cgpc_token_reply. May be called from any thread; never waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_token_fail(token: *mut cgpc_token, code: i64, message: *const c_char) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            get::<Token>(handle(token))?;
            let message = c.text_if_any(message, "message")?;
            let message = message.map_or_else(|| format!("the function failed with {code}"), str::to_owned);
            remove::<Token>(handle(token))?.fail(code, &message);
            Ok(CGPC_OK)
        })
    }
}

/// Stores 1 if the call has ended at this id, so that the reply is not needed, else 0. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_token_is_cancelled(token: *const cgpc_token, cancelled: *mut c_int) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let is = object::<Token, _>(token)?.with(|deferred| deferred.is_cancelled())?;
            c.store(cancelled, is.into(), "cancelled")?;
            Ok(CGPC_OK)
        })
    }
}

/// Frees a token without a reply: the call fails at this id, with CGPC_KIND_NO_ANSWER. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_token_free(token: *mut cgpc_token) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|_| {
            remove::<Token>(handle(token))?;
            Ok(CGPC_OK)
        })
    }
}
