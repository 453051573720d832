//! Watches the id that a process depends on: its parent in the tree, and id 0 once the parent has gone.
#![allow(clippy::disallowed_methods, reason = "a peer is waited for by the clock, each wait with a limit")]

use std::time::{Duration, Instant};

use gpc_trees::Id;

use super::BootstrapError;
use crate::runtime::{Address, Events, Loss, NoEvent, Node, PeerEventKind};

/// Time limit of a connection attempt, for a process on another host.
const PROBE_LIMIT: Duration = Duration::from_secs(1);

/// How long a link may be absent before the watched address is probed: nodes start one after the other.
const PROBE_AFTER: Duration = Duration::from_millis(500);

/// How long a link that was closed for lack of descriptors may take to reconnect.
const MEET_LIMIT: Duration = Duration::from_secs(5);

/// Time limit of one attempt to link before the address is probed.
const MEET_TURN: Duration = Duration::from_millis(100);

/// Maximum time of a single wait for an event; an event ends the wait.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// State of the link with the watched id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Link {
    /// It has not been up since the watch began.
    None,
    Up,
    Lost(Loss),
}

/// Watches one id.
#[derive(Debug)]
pub(super) struct Watch {
    events: Events,
    watched: Id,
    address: Address,
    link: Link,
    /// The loss that is reported if the watched id cannot be linked with.
    missing: Loss,
    /// When the address is probed next.
    probe: Instant,
}

impl Watch {
    /// Watches an id with this address from now on.
    pub(super) fn new(node: &Node, watched: Id, address: Address) -> Result<Watch, BootstrapError> {
        let (events, probe) = (node.events()?, Instant::now() + PROBE_AFTER);
        Ok(Watch { events, watched, address, link: Link::None, missing: Loss::Broken, probe })
    }

    /// The watched id.
    pub(super) fn watched(&self) -> Id {
        self.watched
    }

    /// Processes the events of the link, and probes the address if that is due. Returns whether the watched id has
    /// gone, as far as this process can detect it now.
    pub(super) fn detect_loss(&mut self) -> bool {
        self.catch_up();
        match self.link {
            Link::Lost(loss) => !is_passing(loss),
            Link::Up => false,
            Link::None if Instant::now() < self.probe => false,
            Link::None => {
                self.probe = Instant::now() + PROBE_AFTER;
                !self.address.is_answered(PROBE_LIMIT)
            }
        }
    }

    /// Processes all events that have arrived.
    fn catch_up(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            self.heed(event.id, &event.kind);
        }
    }

    fn heed(&mut self, id: Id, kind: &PeerEventKind) {
        if id == self.watched {
            self.link = match kind {
                PeerEventKind::Up => Link::Up,
                PeerEventKind::Lost { loss, .. } => Link::Lost(*loss),
            };
        }
    }

    /// Waits until the link with the watched id is lost for good, and returns the loss. Reopens the link if it was
    /// closed.
    fn until_lost(&mut self, node: &Node) -> Loss {
        // Terminates when the link is lost for good.
        loop {
            self.catch_up();
            match self.link {
                Link::Lost(loss) if !is_passing(loss) => return loss,
                Link::Up => {}
                Link::None | Link::Lost(_) => {
                    // Later events report the state of the link, unless no link could be made.
                    if !self.meets(node) {
                        return self.missing;
                    }
                    self.link = Link::Up;
                }
            }
            match self.events.recv_within(WAIT_MAX) {
                Ok(event) => self.heed(event.id, &event.kind),
                Err(NoEvent::Yet) => {}
                Err(NoEvent::Ended) => return Loss::Left,
            }
        }
    }

    /// Links with the watched id; returns false if no process listens at its address.
    fn meets(&self, node: &Node) -> bool {
        let begun = Instant::now();
        // Terminates: the time limit passes.
        while begun.elapsed() < MEET_LIMIT {
            match node.wait_for_peers([self.watched], MEET_TURN) {
                Ok(()) => return true,
                Err(_) if !self.address.is_answered(PROBE_LIMIT) => return false,
                Err(_) => {}
            }
        }
        false
    }

    /// Waits until id 0, whose address is `root`, has gone. If the watched id goes while id 0 stays, id 0 is watched
    /// instead.
    pub(super) fn until_left(mut self, node: &Node, root: &Address) -> Result<Loss, BootstrapError> {
        // Terminates: each iteration waits for the end of a link, and id 0's is the last.
        loop {
            let loss = if self.events.missed() > 0 {
                // A missed event may have been the loss of the watched link.
                self =
                    Watch { missing: self.missing, ..Watch::new(node, self.watched, self.address.clone())? };
                self.until_lost(node)
            } else {
                self.until_lost(node)
            };
            if self.watched == 0 || !root.is_answered(PROBE_LIMIT) {
                return Ok(loss);
            }
            // Id 0 may still accept connections for a moment after it has left. The watched id may have left because id
            // 0 has, so its loss is reported if no link with id 0 comes up.
            self = Watch { missing: loss, ..Watch::new(node, 0, root.clone())? };
        }
    }
}

/// Whether the other side is alive, so that the lost link may come back.
fn is_passing(loss: Loss) -> bool {
    matches!(loss, Loss::Replaced | Loss::Forgotten | Loss::Closed)
}
