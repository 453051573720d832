//! Simulator: runs the protocol's state machine in virtual time, over a network with costs and faults.
//!
//! [`run`] drives unmodified [`chain::Node`](chained_gpc::chain::Node)s through one [`Scenario`] and returns a
//! [`Report`]. [`swarm`] runs many seeds on all cores.
//!
//! - **World.** Time is an integer, in nanoseconds. Events are ordered by time, then by creation. One seed decides
//!   everything, so equal scenarios have equal hashes.
//! - **Network.** [LogGP](cost) costs for each class of link; message sizes are those of the wire. Hellos and credits
//!   cost nothing. A long message travels whole, not in segments; the head of a long reply travels ahead of its data.
//! - **Faults** wrap nodes and network; the code under test is unchanged. Timing faults last from a moment to several
//!   time limits of the calls. A run with faults has a safety phase, in which they happen, and a liveness phase.
//!   Between the two the checkers inspect what idle nodes hold. In the liveness phase a call must reach every live id.
//! - **Small worlds** run [exhaustively](exhaustive()): every crash at every event, and every pair of crashes.
//! - **Checkers** ([`check`]) judge from observations alone; they share no state with the world.
//!
//! The simulator never reads a clock, opens a socket or makes a random choice outside the seed.
//!
//! Like the parts of `chained-gpc` that it drives, this crate is exempt from semantic versioning.
//!
//! # Map of the sources
//!
//! If a line names several files, their descriptions follow in the same order.
//!
//! | file | for |
//! |---|---|
//! | `scenario`, `run` | parameters of a run; runs it, or many |
//! | `world`, `queue` | the loop over events; the events in order of time |
//! | `carry`, `functions` | inputs and outputs of nodes; what functions do |
//! | `spot` | calls on the fast path |
//! | [`cost`], `hosts`, `cores` | cost of messages; work of processes; cores that they share |
//! | `fit`, `path` | costs that explain measurements; the critical path of a call |
//! | `faults`, `happen` | faults: their list, `plan` of a run, `links` that break; injects them |
//! | `profile`, `behind` | properties of a run with faults; history of its nodes |
//! | `forged`, `malformed` | messages of ids without a part in the call; malformed answers |
//! | `flows`, `pieces`, `as_bytes` | long replies; request data in pieces; messages through their bytes |
//! | [`check`] | the checkers, a file for each kind of rule; `book` is their shared state |
//! | `trace` | hash and lines of a run |
//! | `exhaustive`, `many` | every crash at every event; many runs on all cores |
//! | `linked` | links of a world of calls, made by the peering machine (`--links peering`) |
//! | [`peering`] | worlds of peers: who may link, with an attacker (`--peering`) |
//! | `peering/world`, `driver`, `network`, `pipe` | events; a process; connections; one of them |
//! | `peering/model`, `faults`, `member` | a model of the cryptography; faults; a member that violates the protocol |
//! | `peering/check`, `stories`, `scenario` | checkers; regression tests; a kind of worlds |
//! | [`worlds`] | shared by kinds of worlds: scenarios, lists of faults, many runs |
//! | `random`, `ranked`, `by_call` | random numbers; sets with access by rank; a map by call |
//!
//! ```
//! use gpc_sim::{Scenario, run};
//! use gpc_trees::Tree;
//!
//! let report = run(&Scenario::new(1000, Tree::Binomial));
//! assert!(report.violations.is_empty());
//! assert_eq!(report.messages, 2 * 999);
//! assert_eq!(report.calls[0].coverage.done, 1000);
//! ```

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
mod run;
mod scenario;
mod spot;
#[cfg(test)]
mod tests;
mod trace;
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
