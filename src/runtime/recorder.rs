//! The flight recorder's interface for applications: the records of a node, with the names of its functions.

use std::time::Duration;

use super::caller::Caller;
use super::command::{Command, Report};
use super::deadlock_check;
use super::event_loop::EventLoop;
use super::mailbox::Mailbox;
use super::node::Node;
use super::polled::PolledNode;
use crate::chain::{Progress, Recording};
use crate::channel::channel;

/// How long the event loop may take to answer. It answers in its next turn; only an inline function that blocks keeps
/// it from that.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Requests the records from the event loop of a mailbox.
fn ask(mailbox: &Mailbox) -> Option<Recording> {
    // The thread that drives the node would wait for itself.
    if deadlock_check::is_driving() || mailbox.waiters.is_driver() {
        return None;
    }
    let (answer, recording) = channel();
    // The caller may have given up.
    let answer = Report(Box::new(move |recording| drop(answer.send(recording))));
    mailbox.command(Command::Recorder { answer }, ANSWER_LIMIT).ok()?;
    recording.recv_timeout(ANSWER_LIMIT).ok()
}

impl Node {
    /// Records of the flight recorder: the calls in flight at this id, what each waits for and since when, and the last
    /// calls that ended here. Every node [records](super::Builder::recorder) by default.
    ///
    /// `None` if the node has ended, on the thread that drives it, and if it does not answer within 5 s because an
    /// inline function blocks it.
    ///
    /// ```
    /// use chained_gpc::{Call, CallState, Functions, LinkKind, LocalNodes};
    ///
    /// let functions = Functions::new();
    /// let nothing = functions.func("nothing", |_, _| Ok(()))?;
    /// let nodes = LocalNodes::start(3, LinkKind::Unix, &functions)?;
    /// nodes.root().call(Call::new(nothing).ids(0..3))?.wait()?;
    /// let recording = nodes.root().recorder().expect("it runs");
    /// let last = recording.calls.last().expect("there was a call");
    /// assert_eq!((last.func_name.as_deref(), last.state), (Some("nothing"), CallState::Done));
    /// assert_eq!(last.answers.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recorder(&self) -> Option<Recording> {
        ask(&self.front().shared.mailbox)
    }
}

impl PolledNode {
    /// What the flight recorder has: see [`Node::recorder`].
    pub fn recorder(&self) -> Recording {
        self.recording()
    }
}

impl Caller {
    /// What the flight recorder of the node has: see [`Node::recorder`].
    pub fn recorder(&self) -> Option<Recording> {
        ask(self.host()?.mailbox())
    }
}

impl EventLoop {
    pub(super) fn progress(&self, ticket: u64) -> Option<Progress> {
        let mut progress = self.node.progress(ticket, self.clock.reading())?;
        progress.call.func_name = self.shared.functions.name(progress.call.func);
        Some(progress)
    }

    pub(super) fn recording(&self) -> Recording {
        let mut recording = self.node.recording(self.clock.reading());
        for call in &mut recording.calls {
            call.func_name = self.shared.functions.name(call.func);
        }
        recording
    }
}
