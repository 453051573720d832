//! How the links of a node end, and what their messages become.

use std::time::Duration;

use gpc_trees::Id;

use super::deadline_queue::DeadlineOwner;
use super::links::Links;
use super::loss::Loss;
use super::output::{Arrival, LinksOutput, Lost};
use super::peering::{Book, LinkKey, State};
use super::state::Phase;
use super::table::HasLink;
use crate::chain::Time;
use crate::wire::CauseKind;
use crate::wire::head::{Goodbye, GoodbyeReason};

/// Time limit for the last frame of a connection to be written.
pub const CLOSING_LIMIT: Duration = Duration::from_secs(1);

impl<B: Book, T: HasLink> Links<B, T> {
    /// A connection has ended, by whatever side.
    pub fn close(&mut self, now: Time, key: LinkKey, why: &str) {
        let Some(link) = self.table.link(key) else { return };
        let (phase, loss) = (link.phase, link.loss);
        let peer = match phase {
            Phase::Up(peer) if self.up(peer) == Some(key) => Some(peer),
            // Another connection to the peer has taken its place, or it was refused.
            Phase::Up(_) | Phase::Closing => return self.outputs.push_back(LinksOutput::Close { key }),
            Phase::Connecting(_) | Phase::Greeting => None,
        };
        if let Some(peer) = peer {
            // A peer that has left in order is not asked again.
            let link = self.table.link_mut(key).filter(|_| loss != Loss::Left);
            self.unsent = link.and_then(|link| link.outbox.take_unsent()).map(Box::new);
            self.tell_lost(peer, loss, why);
        }
        self.peering.ended(key, peer, CauseKind::LinkLost, why);
        self.settle_peering(now);
        self.unsent = None;
        self.outputs.push_back(LinksOutput::Close { key });
    }

    /// Takes out a connection that the driver closes.
    pub fn remove(&mut self, key: LinkKey) -> Option<T> {
        let connection = self.table.remove(key)?;
        let link = connection.link();
        if let Some(until) = link.deadline {
            self.due.remove(until, DeadlineOwner::Link(key));
        }
        if let Some(at) = link.unfinished {
            self.due.remove(at, DeadlineOwner::Request(key));
        }
        Some(connection)
    }

    /// Closes a connection once its queued bytes have been sent.
    pub(super) fn finish(&mut self, now: Time, key: LinkKey) {
        if let Some(link) = self.table.link_mut(key) {
            link.phase = Phase::Closing;
            link.mark(&mut self.dirty, key);
            self.give_until(key, Some(now.plus(CLOSING_LIMIT)));
        }
    }

    /// Sends the queued short messages and a goodbye, then closes the link.
    pub fn say_goodbye(&mut self, now: Time, key: LinkKey, reason: GoodbyeReason, text: String) {
        if let Some(link) = self.table.link_mut(key) {
            link.outbox.goodbye(&Goodbye { reason, text });
            self.finish(now, key);
        }
    }

    /// Closes the link to a peer that sends no heartbeat. The chain knows already.
    pub fn abandon(&mut self, now: Time, peer: Id) {
        self.pending.forget(peer);
        if let State::Up(key) = self.peering.state(peer) {
            self.tell_lost(peer, Loss::Silent, "it was silent for too long");
            self.outputs.push_back(LinksOutput::Close { key });
        }
        self.peering.abandon(peer);
        self.settle_peering(now);
    }

    /// A peer is a stranger from now on. Its link is closed in order: queued short messages are sent, if the peer takes
    /// them soon, then a goodbye. Calls that use the link are lost.
    pub fn forget(&mut self, now: Time, peer: Id) {
        if let State::Up(key) = self.peering.state(peer) {
            self.tell_lost(peer, Loss::Forgotten, "this node was told to forget it");
            let text = format!("id {} was told to forget id {peer}", self.me);
            self.say_goodbye(now, key, GoodbyeReason::LinkClosed, text);
        }
        self.peering.forget(peer);
        self.settle_peering(now);
    }

    /// Reports the loss of a link that was up to those who listen.
    pub(super) fn tell_lost(&mut self, peer: Id, loss: Loss, why: &str) {
        let incarnation = self.peering.incarnation(peer);
        self.outputs.push_back(LinksOutput::Lost { peer, incarnation, loss, why: why.into() });
    }

    /// Reports a lost peer to the chain, with everything that waited for it.
    pub(super) fn lost(&mut self, peer: Id, kind: CauseKind, why: String, unreached: bool) {
        self.pending.forget(peer);
        let unsent = self.unsent.take();
        self.arrivals.push_back(Arrival::Lost(Lost { peer, kind, why, unreached, unsent }));
    }
}
