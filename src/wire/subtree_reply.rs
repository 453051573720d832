//! Reply of a subtree with complete data, as messages carry it and as the root returns it.

use bytes::Bytes;

use super::Payload;

/// Reply of a subtree: reply header and reply data, side by side.
///
/// With the default aggregation both are level-n data of the same level. With a callback both are its level-0 result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SubtreeReply {
    /// Height above the leaves.
    pub level: u16,
    /// Reply header.
    pub header: Payload,
    /// Reply data.
    pub data: Payload,
    /// Times of the ids of the subtree, if the call asks for them: see [`trace`](super::trace). Empty if they are
    /// unknown.
    pub trace: Bytes,
}

impl SubtreeReply {
    /// Length of header, data and trace together, in bytes.
    pub fn len(&self) -> u64 {
        self.header.len() as u64 + self.data.len() as u64 + self.trace.len() as u64
    }

    /// Whether all of it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
