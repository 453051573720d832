//! Transport over the network of the program, in place of sockets: the program sends and delivers messages, and reports
//! lost peers.
//!
//! [`HostNetwork`] is what the program implements, and [`HostPort`] what it calls. Links see a [`HostSocket`]: messages
//! carry the bytes of connections, so hellos, credit and windows are those of all links. [`MemoryNetwork`] is such a
//! network between nodes of one process.

mod connection;
mod inbound;
mod memory;
mod network;
mod port;
mod record;
mod socket;

pub(crate) use inbound::{ConnectionEvent, Inbound};
pub use memory::MemoryNetwork;
pub(crate) use network::Network;
pub use network::{HostNetwork, NotSent};
pub use port::{HostPort, NotDelivered};
pub(crate) use socket::HostSocket;

#[cfg(test)]
mod tests;
