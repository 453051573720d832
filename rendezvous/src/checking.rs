//! Has long data checked beside the threads that answer others: neither the service's own nor the server's wait for it.

use bytes::Bytes;
use tokio::task::spawn_blocking;

use crate::machine::Brought;

/// Longest data that are checked where they are, bytes: that takes less than a millisecond.
const AT_ONCE: usize = 64 << 10;

/// Data that are checked for a resource of this level.
pub(crate) async fn checked(level: u16, data: Bytes) -> Brought {
    if level <= 1 || data.len() <= AT_ONCE {
        return Brought::checked(level, data);
    }
    let kept = data.clone();
    // If there is no thread for it, the service checks them itself.
    spawn_blocking(move || Brought::checked(level, data)).await.unwrap_or_else(|_| kept.into())
}
