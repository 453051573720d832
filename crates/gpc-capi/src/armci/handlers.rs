//! Registers and releases handlers.

use std::ffi::c_int;

use super::mutex::lock;
use super::shared::{Shared, layer};
use super::types::Handler;
use crate::abi::pointers::border;
use crate::error::{Error, Result};
use crate::status::{CGPC_ERR_FUNCTION, CGPC_OK};

/// Registers a handler, and returns its number, which is negative; processes that register in the same order have the
/// same numbers. No process waits for another one. 0: `func` is null, or ARMCI has not been initialized.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Gpc_register(func: Option<Handler>) -> c_int {
    let mut number = 0;
    // SAFETY: no pointer is followed.
    unsafe {
        border(|_| {
            let shared = layer()?.shared.clone();
            let func = func.ok_or_else(|| Error::argument("`func` is null"))?;
            let mut handlers = lock(&shared.handlers);
            number = handlers.table.add(func);
            handlers.changes += 1;
            drop(handlers);
            shared.changed.notify_all();
            Ok(CGPC_OK)
        })
    };
    number
}

/// Releases a handler: calls that reach this process later fail here. Its number is not used again.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Gpc_release(handle: c_int) {
    // SAFETY: no pointer is followed.
    unsafe {
        border(|_| {
            let layer = layer()?;
            lock(&layer.shared.handlers).table.release(handle);
            Ok(CGPC_OK)
        })
    };
}

/// Whether this process has registered a handler.
pub(super) fn check(shared: &Shared, handle: c_int) -> Result<()> {
    match lock(&shared.handlers).table.one(handle) {
        Ok(_) => Ok(()),
        Err(_) => {
            Err(Error::new(CGPC_ERR_FUNCTION, format!("{handle} is not the number of a registered function")))
        }
    }
}
