//! IMPI start-up: the collecting server, its client, and clusters that become one set of nodes through it.
//!
//! # Modules
//!
//! | module | has |
//! |---|---|
//! | [`wire`] | commands, labels, versions, keys, and how bytes become them |
//! | [`server`] | the server as a state machine without I/O |
//! | [`client`] | a client as a state machine without I/O: what it says of its cluster, and what it learns |
//! | [`session`] | a client over TCP |
//!
//! Source: IMPI, "Startup", of the Interoperable MPI protocol, draft of March 1999.
#![deny(unsafe_code)]

pub mod client;
pub mod server;
pub mod session;
pub mod wire;
