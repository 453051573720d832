//! Simulation of groups, fences, databases and death notices in virtual time, under faults.
//!
//! A world has 1 to 16 nodes. Each node is a real chain ([`chained_gpc::chain::Node`]) with the state machine of a
//! domain above it ([`Domain`](crate::domain::Domain)). The orders of a machine are chained calls over a simulated
//! network with latency, order on each link, losses, partitions and paused nodes. So crashes, adoption, partial
//! results, cancels and time limits reach the machine as they do between real processes. Processes start, send the
//! requests of their group's program, die, and deviate from the program.
//!
//! - [`run`] runs one [`Scenario`], [`run_all`] many on all cores, [`exhaustive`] tries every fault at every event of a
//!   small world.
//! - Equal scenarios have equal hashes: there is no clock, and the seed determines every choice.
//! - The kind of trouble is drawn first, then the sizes, so that rare trouble occurs often.
//! - Checkers use only external events: requests and answers, starts and ends of processes. When all faults are over,
//!   a new group over all remaining nodes must complete a fence.
//!
//! This module is outside the promise of semantic versioning.

mod check;
mod config;
mod counts;
mod driver;
mod events;
mod faults;
mod inject;
mod lasting;
mod network;
mod node;
mod processes;
mod programs;
mod record;
mod scenario;
mod seen;
mod time;
mod totals;
mod world;

pub use faults::Fault;
pub use gpc_sim::worlds::{acts_text, exhaustive, parse_acts, run, run_all};
pub use scenario::{Report, Scenario, Swarm};
