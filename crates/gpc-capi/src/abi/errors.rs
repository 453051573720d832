//! Version, texts of statuses, and the last error.

use std::ffi::{c_char, c_int};

use super::pointers::border;
use super::types::cgpc_error;
use crate::error::with_last;
use crate::status::{self, CGPC_OK};

/// Version of the interface that the header describes: major * 1000000 + minor * 1000 + patch.
pub const CGPC_VERSION: u32 = 1000;

/// The version of the library that the program runs with. It has all functions of the headers of this version and of
/// lower ones with the same major number. May be called from anywhere.
#[unsafe(no_mangle)]
pub extern "C" fn cgpc_version() -> u32 {
    CGPC_VERSION
}

/// The text of a status, which is valid for ever. May be called from anywhere.
#[unsafe(no_mangle)]
pub extern "C" fn cgpc_strerror(status: c_int) -> *const c_char {
    status::text(status).as_ptr()
}

/// The message of the last error of the calling thread; empty if none has failed. It belongs to the thread, and is
/// valid until a function of this library fails on it. May be called from anywhere.
#[unsafe(no_mangle)]
pub extern "C" fn cgpc_last_message() -> *const c_char {
    with_last(|last| last.message.as_ptr()).unwrap_or(c"".as_ptr())
}

/// Stores the last error of the calling thread. A function that succeeds does not change it; its status is 0 if none
/// has failed. Set `error->size` before. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_last_error(error: *mut cgpc_error) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            c.needs(error, "error")?;
            let last = with_last(|last| {
                let origin = last.cause.unwrap_or_default();
                cgpc_error {
                    size: 0,
                    status: last.status,
                    // A fault of a service has no stage.
                    has_cause: last.cause.is_some_and(|cause| cause.stage > 0).into(),
                    id: origin.id,
                    stage: origin.stage.into(),
                    kind: origin.kind.into(),
                    code: origin.code,
                    message: last.message.as_ptr(),
                }
            })?;
            c.fill_sized(error, &last)?;
            Ok(CGPC_OK)
        })
    }
}
