//! Transports: the ways that the bytes of a link take to a peer.
//!
//! [`ByteStream`] and [`SharedMemory`] are what a link asks of its transport. [`Socket`] is a connection by any of
//! them: [`tcp`], [`sealed`] (TCP with encrypted records), [`unix`], [`shm`] (a Unix socket with rings in shared
//! memory), and [`host`] (messages over the network of the program). Source: docs/wire.md, "Records", "Shared rings"
//! and "Messages over the program's network".

mod address;
mod byte_stream;
mod host;
mod keepalive;
mod listener;
mod sealed;
mod sending;
mod shm;
mod socket;
mod tcp;
mod unix;

pub(crate) use address::UNIX_PATH;
pub use address::{Address, AddressError};
pub(crate) use byte_stream::{ByteStream, Descriptors, SharedMemory};
pub use host::{HostNetwork, HostPort, MemoryNetwork, NotDelivered, NotSent};
pub(crate) use host::{HostSocket, Inbound, Network, Told};
pub(crate) use keepalive::Keepalive;
pub(crate) use listener::Accepting;
pub use listener::Listener;
pub(crate) use shm::{Extents, give_back};
pub use shm::{large_apart, one_heap};
pub(crate) use socket::Socket;
