//! Reports links that come up or are lost to the listeners of a node.

use gpc_trees::Id;

use super::events::{Listener, Loss, PeerEvent, PeerEventKind};
use super::links::Links;

impl Links {
    /// Adds a listener, which first receives the links that are up.
    pub(super) fn listen(&mut self, listener: Listener) {
        self.listeners_of_events.retain(|listener| listener.has_receiver());
        let up: Vec<(Id, u64)> = self.peering.all_up().collect();
        listener.add_room(up.len());
        for (id, incarnation) in up {
            listener.tell(PeerEvent { id, incarnation, kind: PeerEventKind::Up });
        }
        self.listeners_of_events.push(listener);
    }

    /// Reports that the link with a peer is up.
    pub(super) fn tell_up(&mut self, id: Id, incarnation: u64) {
        if !self.listeners_of_events.is_empty() {
            self.tell(&PeerEvent { id, incarnation, kind: PeerEventKind::Up });
        }
    }

    /// Reports that the link with a peer, which was up, is lost.
    pub(super) fn tell_lost(&mut self, id: Id, loss: Loss, reason: &str) {
        self.tell_lost_run(id, self.peering.incarnation(id), loss, reason);
    }

    /// Reports that the link with an earlier run of a peer is lost.
    pub(super) fn tell_lost_run(&mut self, id: Id, incarnation: u64, loss: Loss, reason: &str) {
        if self.listeners_of_events.is_empty() {
            return;
        }
        let kind = PeerEventKind::Lost { loss, reason: reason.into() };
        self.tell(&PeerEvent { id, incarnation, kind });
    }

    fn tell(&mut self, event: &PeerEvent) {
        self.listeners_of_events.retain(|listener| listener.tell(event.clone()));
    }
}
