//! Announced pauses: an application that will compute for long without driving its node notifies its peers, so that
//! they do not take its silence for death.
//!
//! Source: docs/wire.md, "PAUSE". The chain decides what silence means. This module sends the announcements, and knows
//! how long another run of a paused id must wait.

use std::time::Duration;

use super::event_loop::EventLoop;
use super::links::Links;
use crate::chain::Time;
use crate::link::peering::LinkKey;
use crate::transport::ByteStream as _;
use crate::wire::Message;

impl EventLoop {
    /// Announces to every linked peer that the node will not respond for `length`; zero ends a pause. Returns the
    /// number of peers notified: a link that takes no bytes at present sends the announcement when the node is driven
    /// again.
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
            if let Some(link) = self.links.link_mut(*key) {
                link.push(Message::Pause(length));
                link.mark(&mut self.dirty, *key);
            }
        }
        keys
    }

    /// Whether all queued bytes of a link have been written.
    fn is_written(&self, key: LinkKey) -> bool {
        self.links.link(key).is_some_and(|link| link.outbox.queued() == 0)
    }

    /// A peer has announced a pause, or its end: the system gives it that time, too.
    pub(super) fn allow_pause(&mut self, key: LinkKey, length: Duration) {
        if let Some(keepalive) = self.local.keepalive
            && let Some(connection) = self.links.get(key)
        {
            connection.socket.allow_pause(keepalive, length);
        }
    }

    /// When the peer of a link can respond: now, or at the end of its announced pause.
    pub(super) fn answers_from(&self, now: Time, key: LinkKey) -> Time {
        self.links.link(key).map_or(now, |link| link.answers_from(now))
    }
}
