//! Events of a connection, and what names its ends.

use gpc_trees::Id;

/// Number of a connection.
pub(super) type PipeId = u32;

/// One end of a connection: the connection, and the side.
pub(super) type Place = (PipeId, usize);

/// An event of a connection, or an item of its stream.
#[derive(Debug)]
pub(crate) enum ConnectionEvent {
    /// The attempt reaches the host.
    Opens,
    /// The process there learns of it.
    Accepted,
    /// The opening side learns that it is connected.
    Stands,
    /// The opening side learns that it was refused.
    Refused,
    /// Bytes of hellos, their proofs, and frames.
    Bytes(Vec<u8>),
    /// The other side has read bytes: there is room for more.
    Room,
    /// End of the stream.
    Ends,
}

/// An event at one end of a connection.
#[derive(Debug)]
pub(crate) struct Step {
    pub(super) pipe: PipeId,
    /// The side where it happens.
    pub(super) side: usize,
    pub(crate) from: Id,
    pub(crate) to: Id,
    pub(super) what: ConnectionEvent,
}
