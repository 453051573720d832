//! Snapshots of what a node holds, counted by the node. Compiled for tests only (feature `snapshot`).

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use super::command::Command;
use super::connection::Connection;
use super::connections::Connections;
use super::event_loop::EventLoop;
use super::membership_error::CHANGE_LIMIT;
use super::node::Node;
use crate::channel::channel;
use crate::link::Phase;
use crate::snapshot::Snapshot;
use crate::transport::SharedMemory as _;

/// Descriptors of every node: its poll, which it has twice, its waker and its timer.
const OWN: usize = 4;

/// How long the event loop may take to answer: a longer turn is a hang.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

impl Node {
    /// What the node holds; nothing if it has ended.
    ///
    /// # Panics
    /// If the node does not answer.
    #[doc(hidden)]
    pub fn snapshot(&self) -> Snapshot {
        let (answer, snapshot) = channel();
        // A node that has ended drops the sender.
        let _ = self.front().shared.mailbox.command(Command::Snapshot { answer }, CHANGE_LIMIT);
        match snapshot.recv_timeout(ANSWER_LIMIT) {
            Ok(snapshot) => snapshot,
            Err(RecvTimeoutError::Disconnected) => Snapshot::default(),
            Err(RecvTimeoutError::Timeout) => panic!("{self:?} does not turn"),
        }
    }
}

impl EventLoop {
    pub(super) fn snapshot(&self) -> Snapshot {
        let control = usize::from(self.has_control_link());
        self.node.snapshot().and(self.connections.snapshot(OWN + control)).and(Snapshot::new([
            ("queued commands", self.slots.commands.len() + self.calls.started.len()),
            ("queued results", self.slots.results.len()),
            ("queued inputs", self.inputs.len()),
            ("completions", self.calls.completions.len()),
            ("functions", self.executor.runs()),
            ("waiting functions", self.mailbox.waiters.waiting().len()),
            ("waiting tasks", self.mailbox.waiting_tasks()),
            ("reasons", self.calls.reasons.0.len()),
            ("spare memory", usize::from(self.holds_memory())),
        ]))
    }
}

impl Connections {
    /// What the connections hold; `own` descriptors are those of the loop.
    fn snapshot(&self, own: usize) -> Snapshot {
        let links =
            |which: fn(&Connection) -> bool| self.links.table.values().filter(|one| which(one)).count();
        let (sealed, addresses) = self.extents.open_descriptors();
        Snapshot::new([
            ("links up", links(|one| matches!(one.link.phase, Phase::Up(_)))),
            ("links opening", links(|one| matches!(one.link.phase, Phase::Connecting(_) | Phase::Greeting))),
            ("links closing", links(|one| one.link.phase == Phase::Closing)),
            ("links with unsent bytes", links(|one| !one.is_flushed())),
            ("mapped rings", links(|one| one.socket.is_polled())),
            ("peers whose messages wait for a link", self.links.pending.len()),
            ("peers that wait for a descriptor", self.descriptors.waiting.len()),
            ("arrivals", self.links.arrivals.len()),
            ("links to be read", self.unread.len()),
            ("links to be written", self.links.dirty.len()),
            ("connection deadlines", self.links.deadlines.count()),
            ("bytes under way", self.memory.pieces.used() as usize),
            ("sealed files", sealed),
            ("reserved addresses", addresses),
            ("events", self.event_listeners.iter().map(|listener| listener.queued()).sum()),
            ("descriptors", own + self.accepting.listeners.len() + self.links.table.len() + sealed),
        ])
    }
}
