//! Where a service keeps what outlives its process.

#[cfg(feature = "store")]
mod file;
#[cfg(feature = "store")]
mod record;

#[cfg(feature = "store")]
pub use file::FileStore;

use crate::machine::{Change, Kept, Millis};

/// A place to keep things in. What was kept is there after a crash of the process, and of the machine.
pub trait Store: Send {
    /// All that was kept.
    ///
    /// # Errors
    /// When it cannot be read, or is none of ours.
    fn load(&mut self) -> Result<Kept, StoreError>;

    /// Keeps all of these changes, in their order, or none, and what time it is; returns when they are safe. After an error it is called again with the same changes, and others.
    ///
    /// # Errors
    /// When they are not.
    fn keep(&mut self, now: Millis, changes: &[Change]) -> Result<(), StoreError>;
}

/// Why something cannot be kept, or what was kept cannot be read: where, and what is wrong.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}: {why}")]
pub struct StoreError {
    /// The file.
    pub file: String,
    /// What is wrong.
    pub why: String,
}
