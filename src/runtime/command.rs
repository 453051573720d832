//! What the application asks of the event loop.

use std::sync::Arc;
use std::time::Duration;

use super::completion::Completion;
use crate::chain::Start;

/// One thing to do.
#[derive(Debug)]
pub(super) enum Command {
    /// Start a call, and complete this when it ends.
    Start { ticket: u64, start: Box<Start>, completion: Arc<Completion> },
    /// Give up a call.
    GiveUp { ticket: u64 },
    /// End the node: take no more calls, give those in flight this long.
    Shutdown { limit: Duration },
}
