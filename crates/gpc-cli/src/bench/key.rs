//! Identity of the measured calls: what all have in common, and what distinguishes the rows.

use serde::{Deserialize, Serialize};

/// Common properties of all calls.
#[derive(Clone, Debug)]
pub(super) struct CallSettings {
    pub(super) func: String,
    pub(super) header: String,
    pub(super) forward_first: bool,
}

/// The values that distinguish a kind of call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Key {
    pub(super) n: u32,
    pub(super) tree: String,
    /// Size of the data of a request.
    pub(super) bytes: u32,
    /// Size of the reply of an id, if it is known.
    pub(super) reply_bytes: Option<u32>,
    pub(super) in_flight: u32,
    /// Name of the link, or `joined` for nodes that already ran.
    pub(super) link: String,
    pub(super) wait: String,
    pub(super) root: String,
}
