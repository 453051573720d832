//! Admission of links in virtual time: the [`Peering`](chained_gpc::link::peering::Peering) machine that the runtime
//! drives, in worlds of a few nodes, with faults and an attacker.
//!
//! - **World.** Two to sixteen ids. Each is a process with the machine and a driver that acts as `runtime::greeting`.
//!   Connections are two ordered streams of bytes, delayed and split anywhere. One seed decides everything.
//! - **Cryptography** is a model in which only a process with the secret can make a valid tag.
//! - **Faults** ([`Fault`]): processes end, pause, restart or exist twice; connections break, cross or are slow. An
//!   attacker reads every byte, replays, reflects, changes and redirects; a member claims another's id. After the
//!   faults, every wanted peer must be linked within 30 seconds of attempts, and no other state may be left.
//! - **Checkers** ([`check`]) judge from observations.
//!
//! Outside the model: an established link in clear can be changed by any attacker on its path. Nothing is changed
//! there, except to show that the link ends.

pub mod check;
mod driver;
mod event;
mod fault;
mod faults;
mod member;
mod model;
mod network;
mod pipe;
mod processes;
mod scenario;
#[cfg(test)]
mod stories;
#[cfg(test)]
mod tests;
mod world;

pub use super::worlds::{acts_text, exhaustive, parse_acts, run, run_all};
pub use fault::Fault;
pub(super) use model::crypto;
pub use scenario::{Report, Scenario, Swarm};
