//! IMPI start-up: the collecting server, its client, and clusters that become one set of nodes through it.
//!
//! # Modules
//!
//! | module | has |
//! |---|---|
//! | [`wire`] | commands, labels, versions, keys, and how bytes become them |
//! | [`server`] | the server as a state machine without I/O |
//! | [`serve`] | that server over sockets |
//! | [`client`] | a client as a state machine without I/O: what it says of its cluster, and what it learns |
//! | [`session`] | a client over TCP, and with [`RelayOptions`] a node of its own through which broadcasts go |
//! | [`hosts_file`] | the hosts and processes that a client speaks for, as a file |
//! | [`book`] | the addresses of all processes, by id |
//! | [`bootstrap`] | processes of several clusters become one set of nodes |
//!
//! Source: IMPI, "Startup", of the Interoperable MPI protocol, draft of March 1999.
#![deny(unsafe_code)]

pub mod book;
pub mod bootstrap;
pub mod client;
pub mod hosts_file;
mod relay;
pub mod serve;
pub mod server;
pub mod session;
mod silence;
pub mod wire;

pub use relay::RelayOptions;
