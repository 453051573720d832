//! BNR: process groups, databases in a domain, fence, spawn and kill.
//!
//! A *domain* is a set of nodes, one for each host. The *head* is the node that begins the domain; when the head ends,
//! the domain ends. Each node starts processes and answers their requests. Nodes reach each other by chained calls.
//!
//! # Modules
//!
//! | module | has |
//! |---|---|
//! | [`names`] | groups, ranks, members, sets |
//! | [`request`] | requests of a process to its node, and the answers |
//! | [`order`] | messages between nodes |
//! | [`codec`] | the encoding of both |
//! | [`speak`] | the node's side of a connection: detects the protocol |
//! | [`native`] | a connection that uses this project's own frames |
//! | [`pmi`] | a connection that uses PMI-1 or PMI-2 |
//! | [`client`] | the interface of a process, and of commands |
//! | [`domain`] | one node of a domain as a state machine without I/O |
//! | [`keeper`] | the supervisor: starts a host's processes and ends everything they leave behind |
//! | [`streams`] | output of processes, in pieces, on its way to the head |
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
