//! A request that is being received: the gathered ids, shape and header, then the writer of its data.

use crate::chain::Time;
use crate::wire::BodyWriter;
use crate::wire::body::Chunk;
use crate::wire::budget::Counted;
use crate::wire::head::RequestHead;

/// A request whose body is not complete.
#[derive(Debug)]
pub(super) enum IncomingRequest {
    Prefix {
        head: RequestHead,
        flags: u8,
        bytes: Counted<Vec<u8>>,
        /// When all of it must have arrived.
        deadline: Option<Time>,
    },
    Data(BodyWriter),
}

impl IncomingRequest {
    /// The deadline for its ids, shape and header; `None` once they are complete.
    pub(super) fn deadline(&self) -> Option<Time> {
        match self {
            IncomingRequest::Prefix { deadline, .. } => *deadline,
            IncomingRequest::Data(_) => None,
        }
    }

    pub(super) fn chunk(&self) -> Option<Chunk> {
        match self {
            IncomingRequest::Prefix { .. } => None,
            IncomingRequest::Data(writer) => writer.chunk(),
        }
    }
}
