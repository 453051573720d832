//! Announced pauses: an application that is about to compute for long without a look at its node tells its peers so, who then do not take its silence for death.
//!
//! Source: docs/wire.md, "PAUSE". What silence means, the chain decides; here is who is told, and what another run of a paused id has to wait for.

use std::time::Duration;

use super::event_loop::EventLoop;
use super::links::Links;
use crate::chain::{PAUSE_MAX, Time};
use crate::peering::LinkKey;
use crate::wire::Message;

impl EventLoop {
    /// Tells every linked peer that the node answers nothing for so long; zero: that it is back. Returns how many have been told: a link that takes no bytes at present tells its peer later, when the node is driven again.
    pub(super) fn announce_pause(&mut self, length: Duration) -> usize {
        self.clock.go_on();
        let peers = self.links.announce_pause(length);
        self.links.flush(&self.clock);
        peers.into_iter().filter(|key| self.links.is_written(*key)).count()
    }
}

impl Links {
    /// Queues the announcement for every peer whose link is up.
    pub(super) fn announce_pause(&mut self, length: Duration) -> Vec<LinkKey> {
        let keys: Vec<LinkKey> = self.peers_up().into_iter().filter_map(|peer| self.up(peer)).collect();
        for key in &keys {
            if let Some(link) = self.links.get_mut(*key) {
                link.push(Message::Pause(length));
                link.mark(&mut self.dirty, *key);
            }
        }
        keys
    }

    /// Whether all that was queued on a link has been written.
    fn is_written(&self, key: LinkKey) -> bool {
        self.links.get(key).is_some_and(|link| link.outbox.queued() == 0)
    }

    /// A peer has announced a pause, or its end.
    pub(super) fn peer_pauses(&mut self, now: Time, key: LinkKey, length: Duration) {
        if let Some(link) = self.links.get_mut(key) {
            let length = length.min(PAUSE_MAX);
            link.back = (!length.is_zero()).then(|| now.plus(length));
            if let Some(keepalive) = self.local.keepalive {
                keepalive.allow_pause(&link.socket, length);
            }
        }
    }

    /// When the peer of a link can be asked for an answer: now, or when the pause ends that it has announced.
    pub(super) fn answers_from(&self, now: Time, key: LinkKey) -> Time {
        let back = self.links.get(key).and_then(|link| link.back);
        back.map_or(now, |back| back.max(now))
    }
}
