//! Runs a handler in forked children.

/// Runs `handler` in each process that is forked from this one, before anything else runs there. If the system has no
/// memory for it, forks do not count.
pub(crate) fn on_fork(handler: extern "C" fn()) {
    // SAFETY: the handler is a function of this library. The C library forgets it if the library is unloaded.
    unsafe { libc::pthread_atfork(None, None, Some(handler)) };
}
