//! How a call ends at an id, for the flight recorder and for metrics.

/// How a call ended at an id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// The whole subtree is done.
    Done,
    /// A partial call: a part of the subtree is missing.
    Partial,
    /// It failed here or below.
    Failed,
    /// It was cancelled, or its parent is lost.
    Cancelled,
    /// It was rejected before it began.
    Refused,
}
