//! Broadcasts through the clients' own nodes: the machines with each other in memory, peers that do what they should not, and real nodes.
#![allow(clippy::unwrap_used, reason = "in a test an error is a failure")]

mod clusters;
mod hostile;
mod sockets;
mod worlds;
