//! Sends on the links of a node: windows for the senders of long data, forwarded data, and the results of writes.

use gpc_trees::sorting::sort_by;

use super::links::Links;
use super::output::Arrival;
use super::peering::{Book, LinkKey};
use super::state::Phase;
use super::table::HasLink;
use crate::chain::Input;

impl<B: Book, T: HasLink> Links<B, T> {
    /// Whether a long message is being sent on any link.
    pub fn is_streaming(&self) -> bool {
        !self.streaming.is_empty()
    }

    /// Handles the end of a write by the driver: registers the link for forwarded data, and reports a sent PING or a
    /// heartbeat.
    pub fn finish_write(&mut self, key: LinkKey) {
        let Some(link) = self.table.link_mut(key) else { return };
        if link.outbox.is_streaming() && !std::mem::replace(&mut link.is_streaming, true) {
            self.streaming.push(key);
        }
        if let Phase::Up(peer) = link.phase {
            let ping_sent = link.take_ping_sent().then_some(Input::PingLeft(peer));
            let heartbeat = std::mem::take(&mut link.has_heartbeat).then_some(Input::Heartbeat(peer));
            self.arrivals.extend(ping_sent.into_iter().chain(heartbeat).map(Arrival::Input));
        }
    }

    /// Queues windows for the senders of long data; returns whether there were any.
    pub fn send_windows(&mut self) -> bool {
        let mut window_grants = std::mem::take(&mut self.window_grants);
        sort_by(&mut window_grants, Ord::cmp);
        window_grants.dedup();
        let mut any = false;
        window_grants.retain(|key| {
            let Some(link) = self.table.link_mut(*key) else { return false };
            if link.grant_windows() {
                link.mark(&mut self.dirty, *key);
                any = true;
            }
            link.inbox.owes_window()
        });
        self.window_grants = window_grants;
        any
    }

    /// Marks the links that forward long data: more bytes have arrived for them.
    pub fn mark_streaming(&mut self) {
        self.prune_streaming();
        for key in &self.streaming {
            if let Some(link) = self.table.link_mut(*key) {
                link.mark(&mut self.dirty, *key);
            }
        }
    }

    /// Removes the links that send no long message any more.
    pub fn prune_streaming(&mut self) {
        let table = &mut self.table;
        self.streaming.retain(|key| {
            table.link_mut(*key).is_some_and(|link| {
                link.is_streaming = link.outbox.is_streaming();
                link.is_streaming
            })
        });
    }
}
