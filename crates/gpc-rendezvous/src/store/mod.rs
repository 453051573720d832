//! Persistent storage for a service.

#[cfg(feature = "store")]
mod file;
#[cfg(feature = "store")]
mod record;

#[cfg(feature = "store")]
pub use file::FileStore;

use crate::machine::{Change, Millis, StoredState};

/// Persistent storage. Stored changes survive a crash of the process and of the machine.
pub trait Store: Send {
    /// Reads the stored state.
    ///
    /// # Errors
    /// Returns an error if the state cannot be read, or was not written by a service.
    fn load(&mut self) -> Result<StoredState, StoreError>;

    /// Stores the time and either all of these changes, in order, or none, and returns when they are safe on disk.
    /// After an error the caller retries with the same changes and newer ones.
    ///
    /// # Errors
    /// Returns an error if the changes are not stored.
    fn save(&mut self, now: Millis, changes: &[Change]) -> Result<(), StoreError>;
}

/// A failure to store or read state: the file and the reason.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}: {why}")]
pub struct StoreError {
    /// The file.
    pub file: String,
    /// The reason.
    pub why: String,
}
