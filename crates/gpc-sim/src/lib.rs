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
//! | `world`, `event`, `queue` | the loop over events; the events; their order of time |
//! | `calls`, `classes`, `parcel` | calls and their state; their worker classes; a message in flight |
//! | `carry`, `functions` | inputs and outputs of nodes; what functions do |
//! | `spot` | calls on the fast path |
//! | [`cost`], `hosts` | cost of messages; work of processes |
//! | `cores`, `scheduler` | cores that processes share; gives them to processes |
//! | `fit`, `path` | costs that explain measurements; the critical path of a call |
//! | `faults`, `inject` | faults: their list, `plan` of a run, `links` that break; injects them |
//! | `profile` | properties of a run with faults |
//! | `history`, `other_calls` | history of its nodes; calls between the planned ones |
//! | `forged`, `malformed` | messages of ids without a part in the call; malformed answers |
//! | `streaming`, `long_replies` | streaming replies; their steps |
//! | `pieces`, `request_data` | request data on their way in pieces; their steps |
//! | `as_bytes` | messages through their bytes |
//! | [`check`] | the checkers, a file for each kind of rule; `book` is their shared state |
//! | `trace` | hash and lines of a run |
//! | `crash`, `planned_crashes`, `exhaustive` | crashes at events; their steps; every crash at every event |
//! | `many` | many runs on all cores |
//! | `linked` | real links of a world of calls: frames on connections (`--links peering`) |
//! | [`peering`] | worlds of peers: who may link, with an attacker (`--peering`) |
//! | `peering/world`, `event` | the loop over events; the events |
//! | `peering/processes`, `driver` | a process; drives its machine |
//! | `peering/network`, `pipe` | connections; one of them |
//! | `peering/fault`, `faults` | the list of faults; injects them |
//! | `peering/model`, `member` | a model of the cryptography; a member that violates the protocol |
//! | `peering/check`, `stories`, `scenario` | checkers; regression tests; a kind of worlds |
//! | [`worlds`] | shared by kinds of worlds: scenarios, lists of faults, many runs |
//! | `random`, `ranked` | random numbers; sets with access by rank |
//! | `by_call`, `ranges` | a map by call; ranges of keys |
//! | `time`, `large` | virtual time; large worlds |
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
mod by_call;
mod call_of;
mod calls;
mod carry;
pub mod check;
mod classes;
mod cores;
pub mod cost;
mod crash;
mod event;
mod exhaustive;
mod fast_path;
mod faults;
pub mod fit;
mod forged;
mod functions;
mod history;
mod hosts;
mod inject;
mod large;
mod linked;
mod long_replies;
mod malformed;
mod many;
mod other_calls;
mod parcel;
mod path;
pub mod peering;
mod pieces;
mod planned_crashes;
mod profile;
mod queue;
mod random;
mod ranges;
mod ranked;
mod request_data;
mod run;
mod scenario;
mod scheduler;
mod streaming;
#[cfg(test)]
mod tests;
mod time;
mod trace;
mod world;
pub mod worlds;

pub use cost::{Costs, LinkCost, LinkCostError, Sharing};
pub use crash::{Crash, CrashError};
pub use exhaustive::{Exhaustive, exhaustive, exhaustive_trees};
pub use faults::{Fault, FaultSet, FaultSetError};
pub use fit::{HostCost, Probe, fit};
pub use linked::{Linking, LinkingError};
pub use many::{FAILURES_MAX, start_threads};
pub use path::Hop;
pub use random::Random;
pub use run::{CallReport, Ended, Report, Swarm, run, run_and_leave, run_observed, swarm, swarm_unless};
pub use scenario::{REPLY_BYTES, Scenario};

/// The program of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
