//! What the application asks of the event loop.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use gpc_trees::{Id, IdList};

use super::completion::Completion;
use super::events::Listener;
use super::meeting::Absent;
use super::membership::Peer;
use super::request::Deferred;
use super::spreading::Change;
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
    /// Look for a peer at this address from now on.
    Learn(Peer),
    /// Look for these at their addresses from now on.
    LearnAll(Vec<Peer>),
    /// Close the link to this id, and forget its address.
    Forget(Id),
    /// Learn or forget an id as a member says, and answer when that is done.
    Change { change: Change, answer: Deferred },
    /// Say which ids are known.
    Members { answer: Sender<Vec<Id>> },
    /// Tell of links that come and go.
    Listen(Listener),
    /// End the node: take no more calls, give those in flight this long.
    Shutdown { limit: Duration },
}
