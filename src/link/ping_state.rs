//! State of the PING that a link sends. Only one is sent at a time: a second PING behind queued bytes would give no new
//! information.

/// State of the PING of a link.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum PingState {
    /// No PING is being sent.
    #[default]
    Idle,
    /// The PING ends after this number of queued bytes.
    Queued(usize),
    /// The system has the PING in the buffer of the socket.
    InSocket,
    /// The PING has been sent, and this was not reported yet.
    Sent,
}

impl PingState {
    /// Counts bytes that the system has accepted.
    pub(super) fn mark_written(&mut self, bytes: usize) {
        if let PingState::Queued(left) = self {
            *left = left.saturating_sub(bytes);
            if *left == 0 {
                *self = PingState::InSocket;
            }
        }
    }

    /// Handles free space in the buffer of the socket: the PING has been sent.
    pub(super) fn confirm_sent(&mut self) {
        if *self == PingState::InSocket {
            *self = PingState::Sent;
        }
    }

    /// Returns true once after the PING has been sent.
    pub(super) fn take_sent(&mut self) -> bool {
        let sent = *self == PingState::Sent;
        if sent {
            *self = PingState::Idle;
        }
        sent
    }
}
