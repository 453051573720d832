//! Error of a node or a helper that receives invalid bytes from the other.

/// Error: received bytes are not valid frames.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}; the node and its PMIx helper must be of one build: restart the node")]
pub struct ProtocolError(pub(super) String);

impl ProtocolError {
    pub(super) fn new(what: &str) -> ProtocolError {
        ProtocolError(what.to_owned())
    }
}
