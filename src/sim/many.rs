//! Many runs: over all cores, and what of them is kept.

use std::io;

use super::check::Violation;

/// Failing runs that are kept of many.
pub const FAILURES_MAX: usize = 16;

/// Starts the threads that many runs share, if they are to be started. Where the system gives none, they would be missed in the middle of the runs, with a panic.
///
/// # Errors
/// The system's.
pub fn start_threads() -> io::Result<()> {
    #[cfg(feature = "rayon")]
    if let Err(error) = rayon::ThreadPoolBuilder::new().build_global() {
        // Any other error is that they have been started before.
        let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<io::Error>());
        let same = |error: &io::Error| {
            error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
        };
        return source.map_or(Ok(()), |error| Err(same(error)));
    }
    Ok(())
}

/// What each of them comes to, in their order.
#[cfg(feature = "rayon")]
pub(super) fn each<T: Sync, R: Send>(all: &[T], what: impl Fn(&T) -> R + Sync + Send) -> Vec<R> {
    use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};
    all.par_iter().map(what).collect()
}

/// What each of them comes to, in their order.
#[cfg(not(feature = "rayon"))]
pub(super) fn each<T, R>(all: &[T], what: impl Fn(&T) -> R) -> Vec<R> {
    all.iter().map(what).collect()
}

/// A hash of runs, with one more of them.
pub(super) fn hash_with(hash: u64, run: u64) -> u64 {
    (hash ^ run).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(17)
}

/// Keeps a run that failed, if there is room for it; how many have failed: none or one.
pub(super) fn keep_failure<S>(
    failures: &mut Vec<(S, Vec<Violation>)>,
    scenario: S,
    violations: Vec<Violation>,
) -> u64 {
    let failed = !violations.is_empty();
    if failed && failures.len() < FAILURES_MAX {
        failures.push((scenario, violations));
    }
    failed.into()
}
