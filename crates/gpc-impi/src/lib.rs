//! IMPI start-up: the collecting server, its client, and the bootstrap that makes several clusters one set of nodes.
//!
//! # Modules
//!
//! | module | contents |
//! |---|---|
//! | [`wire`] | commands, labels, versions, keys, and the reader that decodes them |
//! | [`server`] | the server as a state machine without I/O |
//! | [`serve`] | the server over sockets |
//! | [`client`] | the client as a state machine without I/O: sends its cluster's values, and interprets those of all |
//! | [`session`] | a client over TCP; with [`RelayOptions`] broadcasts go through a node of the client |
//! | [`hosts_file`] | the file with the hosts and processes that a client speaks for |
//! | [`book`] | the addresses of all processes, by id |
//! | [`bootstrap`] | makes the processes of several clusters one set of nodes |
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
