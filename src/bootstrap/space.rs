//! The key-value space of a launcher: after a fence, all processes can get the values that any process has put before
//! it.
//!
//! Source: BNR's databases (put, fence, get), which PMI-1, PMI-2 and PMIx each offer in a form of their own.

use std::time::Duration;

use gpc_trees::Id;

/// A key-value space that processes of one start share. A process may finish with it on another thread than it began.
pub trait Space: Send {
    /// The name of the launcher, for people: `PMI-1`, `PMIx`.
    fn launcher(&self) -> &'static str;

    /// The id of this process among those that were started together, from 0.
    fn id(&self) -> Id;

    /// Number of processes, at least 1.
    fn count(&self) -> u32;

    /// The launcher's name for this set of processes; unique among sets that run at the same time.
    fn name(&self) -> &str;

    /// Whether all processes are on this host, so that they need no address beyond it; `None` if the launcher does not
    /// report it.
    fn one_host(&self) -> Option<bool> {
        None
    }

    /// Maximum length of a value, bytes; at least 16. Longer values are put in parts.
    fn value_max(&self) -> usize;

    /// Puts a value for the others to get. The key has at most 60 letters, digits, `-` and `.`, and no other process
    /// puts it. The value is printable ASCII without spaces, `=` and `;`.
    ///
    /// # Errors
    /// If the launcher's server refuses it, has gone, or does not respond within the limit.
    fn put(&mut self, key: &str, value: &str, limit: Duration) -> Result<(), SpaceError>;

    /// Waits until all processes have called it as often as this one. Then every process can get all values that were
    /// put before.
    ///
    /// # Errors
    /// If the fence takes longer than the limit, or can no longer complete.
    fn fence(&mut self, limit: Duration) -> Result<(), SpaceError>;

    /// Returns the value that the process of this id has put.
    ///
    /// # Errors
    /// If there is none, or the launcher's server does not respond within the limit.
    fn get(&mut self, of: Id, key: &str, limit: Duration) -> Result<String, SpaceError>;

    /// Notifies the launcher that this process will end normally. Some launchers kill the others otherwise.
    ///
    /// # Errors
    /// If the launcher's server has gone.
    fn finish(&mut self, limit: Duration) -> Result<(), SpaceError>;
}

/// A failed operation of a launcher's space.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{launcher}: {doing}: {why}")]
pub struct SpaceError {
    /// The launcher.
    pub launcher: &'static str,
    /// The operation, in words.
    pub doing: String,
    /// The launcher's error, or that it has not responded; bounded and escaped.
    pub why: String,
}
