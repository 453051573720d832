//! The key-value space of a launcher: what processes put there before a fence, all of them can get behind it.
//!
//! Source: BNR's databases (put, fence, get), which PMI-1, PMI-2 and PMIx each have in a form of their own.

use std::time::Duration;

use gpc_trees::Id;

/// What processes that were started together share before they know each other. A process may end its part of it on another thread than it began.
pub trait Space: Send {
    /// Which launcher it is of, for people: `PMI-1`, `PMIx`.
    fn launcher(&self) -> &'static str;

    /// The place of this process among those that were started together, from 0.
    fn id(&self) -> Id;

    /// How many there are, at least 1.
    fn count(&self) -> u32;

    /// What the launcher calls this set of processes; no other set that runs at the same time has the same name.
    fn name(&self) -> &str;

    /// Whether all these processes are on this host, so that no address beyond it is needed; `None` if the launcher does not say.
    fn one_host(&self) -> Option<bool> {
        None
    }

    /// Longest value, bytes; at least 16. What is longer is put in parts.
    fn value_max(&self) -> usize;

    /// Puts a value for the others to get: a key of at most 60 letters, digits, `-` and `.`, which nobody else puts, and a value of printable ASCII without spaces, `=` and `;`.
    ///
    /// # Errors
    /// When the launcher's server refuses it, or is gone.
    fn put(&mut self, key: &str, value: &str) -> Result<(), SpaceError>;

    /// Returns when all processes have called it as often as this one has: then everybody can get what was put before.
    ///
    /// # Errors
    /// When that takes longer than the limit, or cannot happen any more.
    fn fence(&mut self, limit: Duration) -> Result<(), SpaceError>;

    /// The value that the process of this id has put.
    ///
    /// # Errors
    /// When there is none, or the launcher's server does not answer within the limit.
    fn get(&mut self, of: Id, key: &str, limit: Duration) -> Result<String, SpaceError>;

    /// Tells the launcher that this process will end in order; some kill the others otherwise.
    ///
    /// # Errors
    /// When the launcher's server is gone.
    fn finish(&mut self, limit: Duration) -> Result<(), SpaceError>;
}

/// What went wrong with a launcher's space: what was asked, and what came back.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{launcher}: {doing}: {why}")]
pub struct SpaceError {
    /// Which launcher.
    pub launcher: &'static str,
    /// What was asked of it, in words.
    pub doing: String,
    /// What it answered, or that it did not; bounded and escaped.
    pub why: String,
}
