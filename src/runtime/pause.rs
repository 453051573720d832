//! Announced pauses: an application that will compute for long without driving its node notifies its peers, so that
//! they do not take its silence for death.
//!
//! Source: docs/wire.md, "PAUSE". The chain decides what silence means. This module sends the announcements, and knows
//! how long another run of a paused id must wait.

use std::time::Duration;

use super::event_loop::EventLoop;
use super::links::Links;
use crate::chain::{PAUSE_MAX, Time};
use crate::link::peering::LinkKey;
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

    /// A peer has announced a pause, or its end.
    pub(super) fn peer_pauses(&mut self, now: Time, key: LinkKey, length: Duration) {
        if let Some(connection) = self.links.get_mut(key) {
            let length = length.min(PAUSE_MAX);
            connection.link.back = (!length.is_zero()).then(|| now.plus(length));
            if let Some(keepalive) = self.local.keepalive {
                keepalive.allow_pause(&connection.socket, length);
            }
        }
    }

    /// When the peer of a link can respond: now, or at the end of its announced pause.
    pub(super) fn answers_from(&self, now: Time, key: LinkKey) -> Time {
        let back = self.links.link(key).and_then(|link| link.back);
        back.map_or(now, |back| back.max(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{LinkKind, Listener, Node};

    #[test]
    fn a_pause_counts_up_to_its_bound_and_until_its_end() {
        let listener = Listener::bind(&LinkKind::Tcp.fresh_address(1)).unwrap();
        let mut node = Node::builder(1).link(LinkKind::Tcp).listener(listener).polled().unwrap();
        let _stranger = std::net::TcpStream::connect(node.address().unwrap().to_string()).unwrap();
        node.progress(Duration::from_secs(60)).unwrap();
        let links = &mut node.event_loop_mut().links;
        let key = links.links.iter().next().expect("it has connected").0;
        let now = Time::default().plus(Duration::from_secs(1));
        assert_eq!(links.answers_from(now, key), now);
        for length in [Duration::from_secs(5), PAUSE_MAX, PAUSE_MAX + Duration::from_secs(1)] {
            links.peer_pauses(now, key, length);
            let back = now.plus(length.min(PAUSE_MAX));
            assert_eq!(links.answers_from(now, key), back);
            let late = back.plus(Duration::from_secs(1));
            assert_eq!(links.answers_from(late, key), late, "it has passed");
        }
        links.peer_pauses(now, key, Duration::ZERO);
        assert_eq!(links.answers_from(now, key), now);
    }
}
