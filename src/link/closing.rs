//! Closes links, and reports lost peers with the requests that the link had not sent.

use std::time::Duration;

use gpc_trees::Id;

use super::deadline_queue::DeadlineOwner;
use super::links::Links;
use super::loss::Loss;
use super::output::{Arrival, LinksOutput, LostLink};
use super::peering::{Book, LinkKey, State};
use super::state::Phase;
use super::table::HasLink;
use crate::chain::Time;
use crate::wire::CauseKind;
use crate::wire::head::{Goodbye, GoodbyeReason};

/// Time limit for the last frame of a connection to be written.
pub const CLOSING_LIMIT: Duration = Duration::from_secs(1);

impl<B: Book, T: HasLink> Links<B, T> {
    /// Handles the end of a connection, whichever side closed it.
    pub fn close(&mut self, now: Time, key: LinkKey, why: &str) {
        let Some(link) = self.table.link(key) else { return };
        let (phase, loss) = (link.phase, link.loss);
        let peer = match phase {
            Phase::Up(peer) if self.up(peer) == Some(key) => Some(peer),
            // Another connection has replaced it, or it was rejected.
            Phase::Up(_) | Phase::Closing => return self.outputs.push_back(LinksOutput::Close { key }),
            Phase::Connecting(_) | Phase::Greeting => None,
        };
        if let Some(peer) = peer {
            // A peer that left in order gets no request again.
            let link = self.table.link_mut(key).filter(|_| loss != Loss::Left);
            self.unsent = link.and_then(|link| link.outbox.take_unsent()).map(Box::new);
            self.report_lost(peer, loss, why);
        }
        self.peering.ended(key, peer, CauseKind::LinkLost, why);
        self.settle_peering(now);
        self.unsent = None;
        self.outputs.push_back(LinksOutput::Close { key });
    }

    /// Removes a connection that the driver closes.
    pub fn remove(&mut self, key: LinkKey) -> Option<T> {
        let connection = self.table.remove(key)?;
        let link = connection.link();
        if let Some(until) = link.deadline {
            self.deadlines.remove(until, DeadlineOwner::Link(key));
        }
        if let Some(at) = link.request_deadline {
            self.deadlines.remove(at, DeadlineOwner::Request(key));
        }
        Some(connection)
    }

    /// Closes a connection once its queued bytes have been sent.
    pub(super) fn finish(&mut self, now: Time, key: LinkKey) {
        if let Some(link) = self.table.link_mut(key) {
            link.phase = Phase::Closing;
            link.mark(&mut self.dirty, key);
            self.set_deadline(key, Some(now.plus(CLOSING_LIMIT)));
        }
    }

    /// Sends the queued short messages and a goodbye, then closes the link.
    pub fn close_with_goodbye(&mut self, now: Time, key: LinkKey, reason: GoodbyeReason, text: String) {
        if let Some(link) = self.table.link_mut(key) {
            link.outbox.push_goodbye(&Goodbye { reason, text });
            self.finish(now, key);
        }
    }

    /// Closes the link to a peer that sends no heartbeat. The chain has detected the loss itself.
    pub fn abandon(&mut self, now: Time, peer: Id) {
        self.pending.remove(peer);
        if let State::Up(key) = self.peering.state(peer) {
            self.report_lost(peer, Loss::Silent, "it was silent for too long");
            self.outputs.push_back(LinksOutput::Close { key });
        }
        self.peering.abandon(peer);
        self.settle_peering(now);
    }

    /// Removes a peer. Its link is closed in order: queued short messages are sent, if the peer reads them soon, then a
    /// goodbye. Calls that use the link are lost.
    pub fn forget(&mut self, now: Time, peer: Id) {
        if let State::Up(key) = self.peering.state(peer) {
            self.report_lost(peer, Loss::Forgotten, "this node was told to forget it");
            let text = format!("id {} was told to forget id {peer}", self.me);
            self.close_with_goodbye(now, key, GoodbyeReason::LinkClosed, text);
        }
        self.peering.forget(peer);
        self.settle_peering(now);
    }

    /// Reports the loss of a link that was up to the subscribers of peer events.
    pub(super) fn report_lost(&mut self, peer: Id, loss: Loss, why: &str) {
        let incarnation = self.peering.incarnation(peer);
        self.outputs.push_back(LinksOutput::Lost { peer, incarnation, loss, why: why.into() });
    }

    /// Reports a lost peer to the chain, with the requests that its link had not sent. Drops the messages that waited
    /// for a link.
    pub(super) fn lose_peer(&mut self, peer: Id, kind: CauseKind, why: String, unreached: bool) {
        self.pending.remove(peer);
        let unsent = self.unsent.take();
        self.arrivals.push_back(Arrival::Lost(LostLink { peer, kind, why, unreached, unsent }));
    }
}
