//! Where the heartbeat request is that a link has been given: one at a time, since behind bytes that do not leave another would say nothing new.

/// A PING on its way out.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Question {
    /// None is.
    #[default]
    None,
    /// It is behind so many bytes of the outbox, with its own.
    Queued(usize),
    /// It is in the socket, perhaps behind others.
    InSocket,
    /// It has left, and nobody has been told.
    Left,
}

impl Question {
    /// The system has taken so many bytes of the outbox.
    pub(super) fn written(&mut self, bytes: usize) {
        if let Question::Queued(left) = self {
            *left = left.saturating_sub(bytes);
            if *left == 0 {
                *self = Question::InSocket;
            }
        }
    }

    /// Little or nothing is left in the socket.
    pub(super) fn room(&mut self) {
        if *self == Question::InSocket {
            *self = Question::Left;
        }
    }

    /// Says once that it has left.
    pub(super) fn take_left(&mut self) -> bool {
        let left = *self == Question::Left;
        if left {
            *self = Question::None;
        }
        left
    }
}
