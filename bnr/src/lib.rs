//! BNR: process groups, databases in a domain, fence, spawn and kill.
//!
//! A *domain* is a set of nodes, one for each host. One of them, the *head*, has begun it, and the domain ends with it. Each node starts processes and answers them; what crosses nodes is a chained call.
//!
//! # Modules
//!
//! | module | has |
//! |---|---|
//! | [`names`] | groups, ranks, members, sets |
//! | [`request`] | what a process asks its node for, and what the node answers |
//! | [`order`] | what nodes say to each other |
//! | [`codec`] | both as bytes |
//! | [`speak`] | the node's side of a connection: who speaks there |
//! | [`native`] | one that speaks this project's own frames |
//! | [`pmi`] | one that speaks PMI-1 or PMI-2 |
//! | [`client`] | the interface of a process, and of commands |
//! | [`domain`] | one node of a domain as a state machine without I/O |
//! | [`keeper`] | the process that starts a host's processes, and ends all that they leave |
//! | [`streams`] | what processes write, in pieces, on its way to the head |
//!
//! Source: BNR, "Classic Groups", "Thoughts from David and Brian", "Thoughts about BNR Domains".
#![deny(unsafe_code)]

mod causes;
pub mod client;
pub mod codec;
pub mod domain;
mod exit;
mod fault;
pub mod host;
pub mod keeper;
mod limits;
pub mod names;
pub mod native;
mod open_mpi;
pub mod order;
pub mod pmi;
pub mod request;
#[cfg(feature = "sim")]
pub mod sim;
pub mod speak;
mod spec;
mod start_error;
pub mod streams;

pub use exit::{Death, Exit};
pub use fault::{Fault, FaultKind};
pub use limits::Limits;
pub use spec::{Block, LEFT_OUT, Layout, OnDeath, Spec};
pub use start_error::{StartError, StartFailure};
