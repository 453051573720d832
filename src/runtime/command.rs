//! What the application asks of the event loop.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use gpc_trees::IdList;

use super::completion::Completion;
use super::meeting::Absent;
use crate::chain::Start;

/// One thing to do.
#[derive(Debug)]
pub(super) enum Command {
    /// Start a call, and complete this when it ends.
    Start { ticket: u64, start: Box<Start>, completion: Arc<Completion> },
    /// Say of each of these calls which classes of workers it still needs here, a bit for each.
    NeedsWorkers { tickets: Vec<u64>, answer: Sender<Vec<u64>> },
    /// Open links to these ids where there are none, and say which are not up.
    Meet { ids: IdList, answer: Sender<Absent> },
    /// End the node: take no more calls, give those in flight this long.
    Shutdown { limit: Duration },
}
