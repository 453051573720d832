//! Links through shared memory: two byte rings in memory that two processes of one host share.
//!
//! [`ring`](self::ring) is the algorithm, over any memory made of atomic words. [`mapping`](self::mapping) is the
//! memory itself, sealed against truncation; with `launchers/inherited` it is the only module of the crate with unsafe
//! code. [`scm_rights`](self::scm_rights) sends its descriptor. [`socket`](self::socket) has the interface of a socket.
//! Source: docs/wire.md, "Shared rings".
//!
//! The peer may write anything into the memory at any time. So no reference to plain bytes ever points there, and bytes
//! are copied out before they are parsed. Each side trusts only its own indices, and checks those of the other at each
//! read. An invalid index ends the link.
//!
//! Long data of requests travel beside the rings, in sealed memory that no process can change:
//! [`extents`](self::extents) creates and maps it, and the sockets pass its descriptors.

mod descriptor_passing;
mod extents;
#[allow(unsafe_code)]
mod mapping;
mod ring;
mod scm_rights;
mod socket;

pub(crate) use extents::Extents;
pub(crate) use mapping::trim_heap;
pub use mapping::{large_apart, one_heap};
pub(super) use socket::RingSocket;
