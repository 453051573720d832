//! What a call waits for at an id, or how it ended there.

/// What a call in flight waits for, or how it ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CallState {
    /// The data of the request are arriving.
    Data,
    /// func waits for a free worker.
    Queue,
    /// func runs.
    Func,
    /// func has ended, and its reply is given later.
    Deferred,
    /// The request waits to be forwarded.
    Forward,
    /// Children have not answered.
    Children,
    /// callback waits for a free worker.
    CallbackQueue,
    /// callback runs.
    Callback,
    /// The answer has begun to go up, and the data of children's replies are arriving.
    Streaming,
    /// The id has not answered heartbeat requests. Only its parent reports this.
    Silent,
    /// Ended: the whole subtree is done.
    Done,
    /// Ended: a part of the subtree of a partial call is missing.
    Partial,
    /// Ended: it failed here or below.
    Failed,
    /// Ended: it was cancelled, or its parent was lost.
    Cancelled,
    /// Ended: it was rejected before it began.
    Refused,
}

impl CallState {
    /// Every state, in the order of their numbers.
    pub const ALL: [CallState; 15] = [
        CallState::Data,
        CallState::Queue,
        CallState::Func,
        CallState::Deferred,
        CallState::Forward,
        CallState::Children,
        CallState::CallbackQueue,
        CallState::Callback,
        CallState::Streaming,
        CallState::Silent,
        CallState::Done,
        CallState::Partial,
        CallState::Failed,
        CallState::Cancelled,
        CallState::Refused,
    ];

    /// Whether the call has ended at the id.
    pub fn is_ended(self) -> bool {
        self >= CallState::Done
    }
}
