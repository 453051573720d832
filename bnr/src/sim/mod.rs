//! Groups, fences, databases and death notices in virtual time, under faults.
//!
//! A world has 1 to 16 nodes. Each is a real chain ([`chained_gpc::chain::Node`]) with the machine of a domain above it ([`Domain`](crate::domain::Domain)): what a machine orders is a chained call over a small network with latency, order on each link, losses, cuts and nodes that stand still, so crashes, adoption, partial results, cancels and limits reach the machine as they do with processes. Processes start, ask by the programs of their groups, die, and stray from their programs.
//!
//! - [`run`] runs one [`Scenario`], [`run_all`] many over all cores, [`exhaustive`] has every fault at every event of a small world.
//! - Equal scenarios have equal hashes: no clock, no choice that the seed did not make.
//! - The kind of trouble is drawn first, then the sizes, so that what is rare elsewhere comes often.
//! - Checkers judge from what was seen outside alone: what was asked and answered, who was started and has ended. When all faults are over a new group over all nodes that are left must fence.
//!
//! Outside the promise of semantic versioning.

mod check;
mod config;
mod counts;
mod faults;
mod network;
mod node;
mod processes;
mod programs;
mod scenario;
mod seen;
mod world;

pub use chained_gpc::sim::worlds::{acts_text, exhaustive, parse_acts, run, run_all};
pub use faults::Fault;
pub use scenario::{Report, Scenario, Swarm};
