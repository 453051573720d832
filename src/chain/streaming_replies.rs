//! The streaming replies of a call: those whose data are still arriving.

use gpc_trees::Id;

use crate::wire::Body;
use crate::wire::streaming_reply::StreamingReply;

/// The streaming replies of a call, at most one for each child.
#[derive(Debug, Default)]
pub(super) struct StreamingReplies {
    /// The replies that have not gone up, with the places of their children in the list.
    pub(super) replies: Vec<(u32, StreamingReply)>,
    /// The arriving bodies and their senders; in list order once they go up.
    pub(super) bodies: Vec<(u32, Id, Body)>,
    /// Number of children whose data are incomplete.
    pub(super) coming: usize,
}

impl StreamingReplies {
    /// Whether no reply of the call has streamed.
    pub(super) fn is_empty(&self) -> bool {
        self.bodies.is_empty()
    }
}
