//! Commands of the application to the event loop.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use gpc_trees::{Id, IdList};

use super::Peer;
use super::absent_peers::Absent;
use super::change::Change;
use super::completion::Completion;
use super::events::Listener;
use crate::chain::{Progress, Recording, Start};
use crate::channel::Sender;

/// A command. Those that are seldom sent are in boxes: the start of a call is moved in and out of queues.
#[derive(Debug)]
pub(super) enum Command {
    /// Start a call; complete `completion` when it ends.
    Start { ticket: u64, start: Box<Start>, completion: Arc<Completion> },
    /// Report for each of these calls the classes of workers that it still needs here, one bit for each class.
    NeedsWorkers { tickets: Vec<u64>, answer: Sender<Vec<u64>> },
    /// Open the missing links to these ids, and report the ids whose links are not up.
    OpenLinks { ids: IdList, answer: Sender<Absent> },
    /// Use this address of a peer from now on.
    Learn(Box<Peer>),
    /// Use these addresses from now on.
    LearnAll(Vec<Peer>),
    /// Close the link to this id, and forget its address.
    Forget(Id),
    /// Learn or forget an id on behalf of a member, then send the reply.
    Change { change: Box<Change>, answer: ChangeAnswer },
    /// Report the known ids.
    Members { answer: Sender<Vec<Id>> },
    /// Report the records of the flight recorder.
    Recorder { answer: Report },
    /// Report what a call that was started here waits for.
    Progress { ticket: u64, answer: Sender<Option<Progress>> },
    /// Report what the node holds.
    #[cfg(feature = "snapshot")]
    Snapshot { answer: Sender<crate::snapshot::Snapshot> },
    /// Subscribe to events of links.
    Listen(Listener),
    /// End the node: accept no more calls, and let those in flight end within this time.
    Shutdown { limit: Duration },
}

/// Passes the records of the flight recorder to the requester.
pub(super) struct Report(pub(super) Box<dyn FnOnce(Recording) + Send>);

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Report")
    }
}

/// Sends the reply to the member that has announced a change. Dropped without a use, it sends a failure.
pub(super) struct ChangeAnswer(Box<dyn FnOnce(Result<(), String>) + Send>);

impl ChangeAnswer {
    pub(super) fn new(send: impl FnOnce(Result<(), String>) + Send + 'static) -> ChangeAnswer {
        ChangeAnswer(Box::new(send))
    }

    /// Replies that the change is carried out, or why it is rejected.
    pub(super) fn send(self, changed: Result<(), String>) {
        (self.0)(changed);
    }
}

impl fmt::Debug for ChangeAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChangeAnswer")
    }
}
