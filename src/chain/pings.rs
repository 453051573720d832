//! Asks the peers whose answers are awaited for heartbeats, and gives up those that stay silent.
//!
//! The driver reports a lost connection at once; heartbeats detect peers that are silent on an open connection, because
//! they are stopped or cut off. Suspicion is not death: a peer is asked several times before it is given up, and
//! anything that arrives from it counts as a heartbeat. Heartbeats run only while calls are in flight.

use std::collections::BTreeMap;

use gpc_trees::Id;

use super::liveness::Question;
use super::{Heartbeat, Node, Output, Time};
use crate::wire::{CauseKind, Message};

impl Node {
    /// Returns the peers whose answers are awaited, and for each when the first call began that awaits one.
    fn awaited(&self) -> BTreeMap<Id, Time> {
        let mut awaited = BTreeMap::new();
        let mut note = |peer, begun: Time| {
            awaited.entry(peer).and_modify(|first: &mut Time| *first = begun.min(*first)).or_insert(begun);
        };
        for fast_call in self.fast_calls.iter().flat_map(|fast_calls| fast_calls.iter()) {
            fast_call.awaited_ids().for_each(|peer| note(peer, fast_call.times.came));
        }
        for call in self.calls.iter() {
            call.awaited_ids().for_each(|peer| note(peer, call.times.came));
        }
        awaited
    }

    /// Asks the peers whose answers are awaited, and gives up those that have been silent for too long.
    pub(super) fn run_heartbeats(&mut self) {
        let Some(heartbeat) = self.config.heartbeat else { return };
        let Some(due) = self.liveness.next.filter(|at| *at <= self.now) else { return };
        // This id itself was stopped: messages of the others are still unread, and they were not asked.
        if self.now.since(due) > heartbeat.every {
            self.liveness.forget_all();
            self.liveness.asked = self.now;
        }
        let gave_up = self.give_up_silent(&heartbeat);
        if self.liveness.next.is_none() {
            // The last call has ended with the peers that were given up.
            return;
        }
        if self.liveness.asks <= self.now {
            self.ask(&heartbeat, gave_up);
        }
        let awaited = self.awaited();
        let watched = self.liveness.watched.iter().filter(|(peer, _)| awaited.contains_key(peer));
        let back = |peer| self.liveness.pauses.get(peer).copied();
        let dies = watched.filter_map(|(peer, watched)| watched.dies(&heartbeat, back(peer))).min();
        self.liveness.next = Some(dies.map_or(self.liveness.asks, |at| at.min(self.liveness.asks)));
    }

    /// Gives up the awaited peers that have been silent for too long, then those of their children that are awaited now
    /// and have been silent as long. Returns whether there were any.
    fn give_up_silent(&mut self, heartbeat: &Heartbeat) -> bool {
        let mut any = false;
        // Ends: each iteration removes watched peers, and none is added.
        loop {
            let silent = self.liveness.silent(&self.awaited(), heartbeat, self.now);
            if silent.is_empty() {
                return any;
            }
            any = true;
            for (peer, silent) in silent {
                self.liveness.forget(peer);
                self.emit(Output::Abandon { peer });
                let why = format!("it sent no heartbeat for {silent:?}");
                self.link_lost(peer, CauseKind::LinkLost, &why, false);
            }
        }
    }

    /// Asks all awaited peers, and the descendants of those that have not answered the last question. `gave_up`: a
    /// silent peer has just been given up.
    fn ask(&mut self, heartbeat: &Heartbeat, gave_up: bool) {
        // Where requests are delayed, their receivers are awaited soon, and asking before would forget their silence.
        // The questions wait once in each interval, and again after each time that a peer is given up: delayed requests
        // do not hold them back for good.
        let (latest, soon) = (self.liveness.asked.plus(heartbeat.every), heartbeat.every / 4);
        let waits = self.now < latest.plus(soon) || gave_up;
        if waits && self.calls.iter().any(|call| call.unasked.is_some()) {
            self.liveness.asks = latest.max(self.now).plus(soon);
            return;
        }
        let awaited = self.awaited();
        let descendants = self.descendants_of_suspects(&awaited, heartbeat);
        self.liveness.watch(&awaited, descendants);
        let now = self.now;
        (self.liveness.asked, self.liveness.asks) = (now, now.plus(heartbeat.every));
        let asked: Vec<Id> = self.liveness.watched.keys().copied().collect();
        for peer in asked {
            // It answers after the end of its pause.
            if self.liveness.is_paused(peer, now) {
                continue;
            }
            if let Some(watched) = self.liveness.watched.get_mut(&peer) {
                watched.question.get_or_insert(Question { at: now, left: false });
            }
            self.emit(Output::Send { to: peer, message: Message::Ping });
        }
    }
}
