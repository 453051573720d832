//! Whether the id on which a process depends is there: its parent in the tree, and id 0 when that has gone.
#![allow(clippy::disallowed_methods, reason = "a peer is waited for by the clock, each wait with a limit")]

use std::time::{Duration, Instant};

use gpc_trees::Id;

use super::BootstrapError;
use crate::runtime::{Address, Events, Loss, NoEvent, Node, PeerEventKind};

/// How long a process may take to show that it is there, on another host.
const PROBE_LIMIT: Duration = Duration::from_secs(1);

/// How long nothing may be heard of a link before somebody asks whether there is anybody: nodes come up one after the other.
const PROBE_AFTER: Duration = Duration::from_millis(500);

/// How long a link that was closed for lack of descriptors may take to come back.
const MEET_LIMIT: Duration = Duration::from_secs(5);

/// How long an attempt to link may take before it is asked whether anybody is there.
const MEET_TURN: Duration = Duration::from_millis(100);

/// Longest single wait for an event: what ends it is an event.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// What is known of the link with the watched id.
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
    /// What is said of one that cannot be linked with.
    missing: Loss,
    /// When the next question is due whether anybody is there.
    probe: Instant,
}

impl Watch {
    /// Watches an id that listens there, from now on.
    pub(super) fn new(node: &Node, watched: Id, address: Address) -> Result<Watch, BootstrapError> {
        let (events, probe) = (node.events()?, Instant::now() + PROBE_AFTER);
        Ok(Watch { events, watched, address, link: Link::None, missing: Loss::Broken, probe })
    }

    /// Who is watched.
    pub(super) fn watched(&self) -> Id {
        self.watched
    }

    /// Whether it has gone, as far as is known by now.
    pub(super) fn has_gone(&mut self) -> bool {
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

    /// Hears what has happened until now.
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

    /// Waits until the link with the watched id is lost for good, and says how; opens it where it is closed.
    fn until_lost(&mut self, node: &Node) -> Loss {
        // Ends: with the link.
        loop {
            self.catch_up();
            match self.link {
                Link::Lost(loss) if !is_passing(loss) => return loss,
                Link::Up => {}
                Link::None | Link::Lost(_) => {
                    // The events say what came of it, unless there was nothing to lose.
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

    /// Links with the watched id, as long as somebody answers at its address.
    fn meets(&self, node: &Node) -> bool {
        let begun = Instant::now();
        // Ends: the time passes.
        while begun.elapsed() < MEET_LIMIT {
            match node.wait_for_peers([self.watched], MEET_TURN) {
                Ok(()) => return true,
                Err(_) if !self.address.is_answered(PROBE_LIMIT) => return false,
                Err(_) => {}
            }
        }
        false
    }

    /// Waits until id 0, which listens there, has gone: the watched id goes when id 0 does, or by itself, and then id 0 is watched.
    pub(super) fn until_left(mut self, node: &Node, root: &Address) -> Result<Loss, BootstrapError> {
        // Ends: each turn waits for the end of a link, and id 0's is the last one.
        loop {
            let loss = if self.events.missed() > 0 {
                // What was missed may have been its end.
                self =
                    Watch { missing: self.missing, ..Watch::new(node, self.watched, self.address.clone())? };
                self.until_lost(node)
            } else {
                self.until_lost(node)
            };
            if self.watched == 0 || !root.is_answered(PROBE_LIMIT) {
                return Ok(loss);
            }
            // Id 0 may still answer for a moment when it has left, and the one that is lost heard of it before.
            self = Watch { missing: loss, ..Watch::new(node, 0, root.clone())? };
        }
    }
}

/// Whether a link that was lost so may come back: its other side goes on.
fn is_passing(loss: Loss) -> bool {
    matches!(loss, Loss::Replaced | Loss::Forgotten | Loss::Closed)
}
