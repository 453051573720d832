//! The interface of a process that `gpc run` has started: its [`Process`]. Commands use a [`Tool`].
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
//! All methods take `&self`, and any number of threads may use one `Process` at the same time; each thread waits for
//! its own answers. The node receives the requests of one thread in the order in which the thread sends them.
//!
//! A reader thread of this module receives all messages of the node, in order. It delivers answers to the waiting
//! threads and runs the callbacks of [`Process::subscribe_with`], one at a time.
//!
//! # Time limits
//!
//! Every request has a time limit, which the node enforces. Collective requests use the limit of their caller or
//! [`TimeLimits::collective`], other requests [`TimeLimits::other`]. The client waits [`TimeLimits::margin`] longer;
//! then the request fails with [`TimedOut`](crate::FaultKind::TimedOut). If the node is gone, all requests fail at once
//! with [`Link`](crate::FaultKind::Link).
//!
//! Source: BNR's interface: `BNR_Init` to `BNR_Lookup`.

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

/// Time limits of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeLimits {
    /// For collective requests without a limit of their own, for starting and killing processes, and for the size of an
    /// open group.
    pub collective: Duration,
    /// For all other requests.
    pub other: Duration,
    /// Extra time that the client waits for an answer: the node enforces the limits, and may be busy.
    pub margin: Duration,
}

/// The defaults of [`Limits`], which nodes use as well, and a margin of 60 s.
impl Default for TimeLimits {
    fn default() -> TimeLimits {
        let limits = Limits::default();
        TimeLimits { collective: limits.fence, other: limits.ask, margin: Duration::from_secs(60) }
    }
}
