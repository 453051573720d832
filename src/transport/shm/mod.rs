//! Links through shared memory: two rings of bytes in one piece of memory that two processes of one host share.
//!
//! [`ring`](self::ring) is the algorithm, over any memory made of atomic words; [`mapping`](self::mapping) is the
//! memory itself, sealed against truncation, and, with `launchers/inherited`, the only module of the crate with unsafe
//! code; [`handover`](self::handover) sends its descriptor; [`socket`](self::socket) puts all of it behind the face of
//! a socket. Source: docs/wire.md, "Shared rings".
//!
//! The peer may write anything into the memory at any time. So no reference to plain bytes ever points there, bytes are
//! copied out before they are looked at, each side trusts only its own indices, and what it reads of the other's is
//! checked at each look: a lie ends the link with an error.
//!
//! Long data of requests go beside the rings, in memory of their own that is sealed against every change:
//! [`extents`](self::extents) makes it and takes it, and the sockets hand it over.

mod extents;
mod handover;
mod lane;
#[allow(unsafe_code)]
mod mapping;
mod ring;
mod socket;

pub(crate) use extents::Extents;
pub(crate) use mapping::give_back;
pub use mapping::{large_apart, one_heap};
pub(super) use socket::RingSocket;
