//! Runs many scenarios on all cores, and keeps their failures.

use std::io;

use super::check::Violation;

/// Largest number of failed runs that are kept.
pub const FAILURES_MAX: usize = 16;

/// Starts the shared threads before the runs: a thread that cannot be started later would cause a panic among them.
///
/// # Errors
/// The system's.
pub fn start_threads() -> io::Result<()> {
    if let Err(error) = rayon::ThreadPoolBuilder::new().build_global() {
        // Any other error means that the threads were already started.
        let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<io::Error>());
        let same = |error: &io::Error| {
            error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
        };
        return source.map_or(Ok(()), |error| Err(same(error)));
    }
    Ok(())
}

/// Maps `what` over all items; results are in their order.
pub(super) fn each<T: Sync, R: Send>(all: &[T], what: impl Fn(&T) -> R + Sync + Send) -> Vec<R> {
    use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};
    all.par_iter().map(what).collect()
}

/// Adds a run to a hash of runs.
pub(super) fn hash_with(hash: u64, run: u64) -> u64 {
    (hash ^ run).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(17)
}

/// Keeps a failed run if there is room; returns the number of failures, 0 or 1.
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
