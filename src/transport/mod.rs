//! Transports: how the bytes of a link reach a peer.
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
mod nosignal;
mod sealed;
mod shm;
mod socket;
mod tcp;
mod unix;

pub(crate) use address::UNIX_PATH;
pub use address::{Address, AddressError};
pub(crate) use byte_stream::{ByteStream, Descriptors, SharedMemory};
pub(crate) use host::{ConnectionEvent, HostSocket, Inbound, Network};
pub use host::{HostNetwork, HostPort, MemoryNetwork, NotDelivered, NotSent};
pub(crate) use keepalive::Keepalive;
pub(crate) use listener::Accepting;
pub use listener::Listener;
pub(crate) use shm::{Extents, trim_heap};
pub use shm::{large_apart, one_heap};
pub(crate) use socket::Socket;
