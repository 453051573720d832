//! Budget for the memory of request bodies in progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Budget for request bodies in progress.
#[derive(Debug)]
pub(super) struct Budget {
    pub(super) left: AtomicU64,
    pub(super) silent: Duration,
}

/// Bytes reserved for a body; dropping it returns them to the budget.
#[derive(Debug)]
pub(super) struct Reservation {
    pub(super) budget: Arc<Budget>,
    pub(super) bytes: u64,
}

impl Budget {
    pub(super) fn new(most: u64, silent: Duration) -> Arc<Budget> {
        Arc::new(Budget { left: AtomicU64::new(most), silent })
    }
}

impl Reservation {
    pub(super) fn more(&mut self, bytes: u64) -> bool {
        let take = |left: u64| left.checked_sub(bytes);
        let taken = self.budget.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        self.bytes += if taken { bytes } else { 0 };
        taken
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.left.fetch_add(self.bytes, Ordering::Relaxed);
    }
}
