//! The generation of this process: how many forks lie between it and the process that loaded the library.
//!
//! The generation is a part of each handle, so a forked child recognizes its parent's handles without a system call.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::abi::fork;

/// Number of forks. Only the handler in a forked child changes it, before any other code of the child runs.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Number of generations that handles can tell apart.
pub(crate) const GENERATIONS: usize = 256;

/// The generation of this process, below [`GENERATIONS`].
pub(crate) fn generation() -> usize {
    GENERATION.load(Ordering::Relaxed) as usize % GENERATIONS
}

/// Makes forks count from now on. Called before the first handle is made.
pub(crate) fn watch_forks() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| fork::on_fork(forked));
}

/// Runs in a forked child. It is one atomic addition, so it is safe there.
extern "C" fn forked() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}
