//! Locks of the state of this layer.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// No code of the application runs while a lock of this layer is held, so its state is valid after any panic.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
