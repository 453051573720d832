//! Signs of life: a child whose answer is awaited must give one now and then.
//!
//! A lost connection is told by the driver at once; this is for peers that are silent on a connection that stands: stopped, or cut off. Suspicion is not death: a peer is asked
//! several times before it is given up, and whatever comes from it counts as a sign. Runs only while calls are in flight.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gpc_trees::Id;

use super::call::Call;
use super::{Node, Output, Time};
use crate::hint::unlikely;
use crate::wire::Message;

/// When a silent peer is asked, and when it is given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heartbeat {
    /// How often peers are asked whose answers are awaited.
    pub every: Duration,
    /// How long one may be silent.
    pub dead_after: Duration,
}

impl Heartbeat {
    /// Asks five times before it gives a peer up: one answer that is late is no death.
    pub fn dead_after(dead_after: Duration) -> Heartbeat {
        Heartbeat { every: dead_after / 5, dead_after }
    }
}

/// Who is watched, and when each was last heard. Bounded by the peers whose answers are awaited.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    heard: BTreeMap<Id, Time>,
    /// When the peers are looked at next; none without calls.
    next: Option<Time>,
}

impl Liveness {
    pub(super) fn next(&self) -> Option<Time> {
        self.next
    }

    /// Whether signs of life are noted at present.
    pub(super) fn watches(&self) -> bool {
        !self.heard.is_empty()
    }

    /// Something came from a peer.
    pub(super) fn heard(&mut self, from: Id, now: Time) {
        if let Some(heard) = self.heard.get_mut(&from) {
            *heard = now;
        }
    }

    /// A call has begun.
    pub(super) fn begin(&mut self, at: Time) {
        self.next.get_or_insert(at);
    }

    /// No call is in flight any more.
    pub(super) fn end(&mut self) {
        if unlikely(self.watches()) {
            self.heard.clear();
        }
        self.next = None;
    }
}

impl Node {
    /// The peers whose answers are awaited.
    fn awaited(&self) -> BTreeSet<Id> {
        let spots = self.spots.iter().flat_map(|spots| spots.iter());
        let of_spots = spots.flat_map(|spot| spot.awaited_ids());
        self.calls.iter().flat_map(Call::awaited_ids).chain(of_spots).collect()
    }

    /// Asks the peers whose answers are awaited, and gives up those that have been silent for too long.
    pub(super) fn beat(&mut self) {
        let Some(Heartbeat { every, dead_after }) = self.config.heartbeat else { return };
        let Some(due) = self.liveness.next.filter(|at| *at <= self.now) else { return };
        self.liveness.next = Some(self.now.plus(every));
        // This id itself was stopped: what the others have said meanwhile is still to be read, and they were not asked.
        if self.now.since(due) > every {
            self.liveness.heard.clear();
        }
        let awaited = self.awaited();
        self.liveness.heard.retain(|peer, _| awaited.contains(peer));
        for &peer in &awaited {
            let heard = *self.liveness.heard.entry(peer).or_insert(self.now);
            let silent = self.now.since(heard);
            if silent >= dead_after {
                self.liveness.heard.remove(&peer);
                self.emit(Output::Abandon { peer });
                self.link_lost(peer, &format!("it gave no sign of life for {silent:?}"), false);
            }
        }
        // The calls of some may have ended with those that were given up.
        let still = self.awaited();
        // Who is not awaited any more is not kept in mind: when it is awaited again, however much later, it is as if for the first time.
        self.liveness.heard.retain(|peer, _| still.contains(peer));
        for &peer in awaited.intersection(&still) {
            self.emit(Output::Send { to: peer, message: Message::Ping });
        }
    }
}
