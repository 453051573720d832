//! The call that a message is about.

use chained_gpc::wire::{CallId, Message};

/// Call that a message is about.
pub(super) fn call_of(message: &Message) -> Option<CallId> {
    match message {
        Message::Request(request) => Some(request.call),
        Message::Response(response) => Some(response.call),
        Message::Cancel(call) | Message::Release(call) | Message::Moved(call) => Some(*call),
        Message::Ping | Message::Pong | Message::Stragglers(_) | Message::Pause(_) => None,
    }
}
