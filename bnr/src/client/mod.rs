//! The interface of a process that `gpc run` has started: its [`Process`]. Commands have a [`Tool`].
//!
//! ```no_run
//! use gpc_bnr::client::Process;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let process = Process::init()?;
//!     let (database, rank) = (process.database(), process.rank());
//!     process.put(database, format!("card-{rank}"), format!("I am {rank}"), None)?;
//!     process.commit(database)?;
//!     process.fence(&process.everybody(), None)?;
//!     let next = (rank + 1) % process.size();
//!     let card = process.get(database, format!("card-{next}"))?;
//!     println!("{rank}: {}", String::from_utf8_lossy(&card));
//!     process.finalize()?;
//!     Ok(())
//! }
//! ```
//!
//! # Threads
//!
//! All methods take `&self`, and any number of threads may use one `Process` at a time; each waits for its own answers. What one thread asks is taken by the node in the order in which it asks. One thread of this module reads what the node says: it hands answers to those who wait, and runs the callbacks of [`Process::subscribe_with`], one after the other, in the order in which the node has said all this.
//!
//! # Waits
//!
//! Every request has a time limit: a collective one that of its caller or [`Waits::collective`], others [`Waits::other`]. The node keeps it; here it is waited for [`Waits::margin`] longer, and then the request has failed with [`TimedOut`](crate::FaultKind::TimedOut). When the node is gone, all requests fail at once with [`Link`](crate::FaultKind::Link).
//!
//! Source: BNR's interface: `BNR_Init` to `BNR_Lookup`.
#![allow(clippy::disallowed_methods, reason = "a node is waited for by the clock, each wait with a limit")]

mod answers;
mod error;
mod link;
mod notices;
mod process;
mod puts;
mod snapshot;
mod tool;

use std::time::Duration;

use crate::limits::Limits;

pub use answers::Spawned;
pub use error::ClientError;
pub use notices::Deaths;
pub use process::Process;
pub use snapshot::Snapshot;
pub use tool::Tool;

/// How long requests wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waits {
    /// For the other members of a collective request that does not say itself, for processes to be started or killed, and for the size of a group that is open.
    pub collective: Duration,
    /// For all other answers.
    pub other: Duration,
    /// How much longer an answer is waited for here: it is the node that keeps the others, and it may be busy.
    pub margin: Duration,
}

/// Those of [`Limits`], which are what nodes have by themselves; and a margin of 60 s.
impl Default for Waits {
    fn default() -> Waits {
        let limits = Limits::default();
        Waits { collective: limits.fence, other: limits.ask, margin: Duration::from_secs(60) }
    }
}
