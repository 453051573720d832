//! Waits for asynchronous work on the calling thread.

use std::future::Future;

use tokio::runtime::{Handle, Runtime};

use super::error::ClientError;

/// Waits for an answer on this thread.
pub(super) fn block<T>(
    runtime: &Runtime,
    asked: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    match Handle::try_current() {
        Ok(_) => Err(ClientError::OnAsyncThread),
        Err(_) => runtime.block_on(asked),
    }
}
