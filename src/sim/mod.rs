//! The simulator: the very same state machine in virtual time, over a network with costs and faults.
//!
//! [`run`] drives unchanged [`chain::Node`](crate::chain::Node)s through one [`Scenario`] and reports what it came to; [`swarm`] does so for many seeds over all cores.
//!
//! - **World.** Time is an integer, nanoseconds. Events come in the order of their time and making. One seed decides everything, so equal scenarios have equal hashes.
//! - **Network.** [LogGP](cost), by class of link; sizes are those of the wire. Beside the messages of calls there are hellos and credits, which cost nothing here, and long messages go as one, not segment by segment; of long replies the head goes first.
//! - **Faults** stand around nodes and network, never in the code under test. Those of time last from a moment to several time limits of the calls. A run with faults has a safety phase in which they happen; what nodes hold after it is looked at
//!   before anything wakes them; and in the liveness phase that follows a call must reach everybody who lives.
//! - **Small worlds** are run [exhaustively](exhaustive()): every crash at every event, every two of them.
//! - **Checkers** ([`check`]) judge from what was seen, apart from the world.
//!
//! It never reads a clock, opens a socket or makes a random choice of its own.
//!
//! Public for drivers and tools of their own, and outside the promise of semantic versioning: any release may change it, but for what stands at the root of the crate.
//!
//! ```
//! use chained_gpc::sim::{Scenario, run};
//! use gpc_trees::Tree;
//!
//! let report = run(&Scenario::new(1000, Tree::Binomial));
//! assert!(report.violations.is_empty());
//! assert_eq!(report.messages, 2 * 999);
//! assert_eq!(report.calls[0].coverage.done, 1000);
//! ```

mod ahead;
mod as_bytes;
mod behind;
mod by_call;
mod carry;
pub mod check;
mod cores;
pub mod cost;
mod exhaustive;
mod faults;
pub mod fit;
mod flows;
mod forged;
mod functions;
mod happen;
mod hosts;
mod linked;
mod malformed;
mod many;
mod path;
pub mod peering;
mod pieces;
mod profile;
mod queue;
mod random;
mod ranked;
mod rooms;
mod run;
mod scenario;
mod spot;
#[cfg(test)]
mod tests;
mod trace;
mod upcoming;
mod world;
pub mod worlds;

pub use cost::{Costs, LinkCost, LinkCostError, Sharing};
pub use exhaustive::{Crash, CrashError, Exhaustive, exhaustive, exhaustive_trees};
pub use faults::{Fault, FaultSet, FaultSetError};
pub use fit::{HostCost, Probe, fit};
pub use linked::{Linking, LinkingError};
pub use many::{FAILURES_MAX, start_threads};
pub use path::Hop;
pub use random::Random;
pub use run::{CallReport, Ended, Report, Swarm, run, run_and_leave, run_observed, swarm, swarm_unless};
pub use scenario::{REPLY_BYTES, Scenario};
