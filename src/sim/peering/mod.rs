//! Who may come in, in virtual time: the very same [`Peering`](crate::peering::Peering) that the runtime drives, in worlds of some nodes, with faults and an attacker.
//!
//! - **World.** Two to a few ids, each a process with the machine and a driver that does what `runtime::greeting` does. Connections are two ordered streams of bytes, with delays and cut anywhere. One seed decides everything.
//! - **Cryptography** is a model in which nobody makes a tag that passes but who has the secret.
//! - **Faults** ([`Fault`]): processes that end, stop, come again or twice; connections that break, cross or are slow; an attacker who sees every byte, replays, reflects, changes, leads elsewhere, and a member who claims another's id.
//!   When they are over, whoever is wanted must be linked within 30 seconds of trying, and nothing may be left.
//! - **Checkers** ([`check`]) judge from what was seen.
//!
//! What is not here: a link in clear, once it stands, belongs to whoever is on its way; so nothing is changed there but to show that it ends.

pub mod check;
mod driver;
mod faults;
mod member;
mod model;
mod network;
mod pipe;
mod scenario;
#[cfg(test)]
mod stories;
#[cfg(test)]
mod tests;
mod world;

pub use super::worlds::{acts_text, exhaustive, parse_acts, run, run_all};
pub use faults::Fault;
pub(super) use model::crypto;
pub use scenario::{Report, Scenario, Swarm};
