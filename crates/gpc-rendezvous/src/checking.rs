//! Validates long data on a blocking thread, so that neither the service thread nor the HTTP server waits for it.

use bytes::Bytes;
use tokio::task::spawn_blocking;

use crate::machine::RegistrantData;

/// Longest data that are validated inline, bytes: this takes less than a millisecond.
const AT_ONCE: usize = 64 << 10;

/// Validates data for a resource of this level.
pub(crate) async fn checked(level: u16, data: Bytes) -> RegistrantData {
    if level <= 1 || data.len() <= AT_ONCE {
        return RegistrantData::checked(level, data);
    }
    let kept = data.clone();
    // If no thread is available, the data stay unchecked, and the service validates them itself.
    spawn_blocking(move || RegistrantData::checked(level, data)).await.unwrap_or_else(|_| kept.into())
}
