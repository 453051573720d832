//! The error of a change of the peers, and how long a command about the membership waits.

use std::time::Duration;

use gpc_trees::Id;

use super::mailbox::CommandError;

/// How long a command about the membership waits for a place in the queue, and for its answer: a busy loop frees a
/// place in milliseconds.
pub(super) const CHANGE_LIMIT: Duration = Duration::from_secs(5);

/// Why a node rejects a change of its peers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MembershipError {
    /// The change is about the node itself.
    #[error("id {0} is the node itself: a node neither learns nor forgets where it listens itself")]
    Own(Id),
    /// The queue to the event loop stayed full.
    #[error("the node is busy: its queue of commands is full. Try again, or start fewer calls at once")]
    Busy,
    /// The node has ended.
    #[error("the node has been shut down")]
    Ended,
}

impl From<CommandError> for MembershipError {
    fn from(unsent: CommandError) -> MembershipError {
        match unsent {
            CommandError::Full => MembershipError::Busy,
            CommandError::Ended => MembershipError::Ended,
        }
    }
}
