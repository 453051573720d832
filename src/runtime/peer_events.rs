//! Reports links that come up or are lost to the listeners of a node.

use gpc_trees::Id;

use super::connections::Connections;
use super::events::{Listener, PeerEvent, PeerEventKind};
use crate::link::Loss;

impl Connections {
    /// Adds a listener, which first receives the links that are up.
    pub(super) fn listen(&mut self, listener: Listener) {
        self.event_listeners.retain(|listener| listener.has_receiver());
        let up: Vec<(Id, u64)> = self.links.peering.all_up().collect();
        listener.add_room(up.len());
        for (id, incarnation) in up {
            listener.tell(PeerEvent { id, incarnation, kind: PeerEventKind::Up });
        }
        self.event_listeners.push(listener);
    }

    /// Reports that the link with a peer is up.
    pub(super) fn report_up(&mut self, id: Id, incarnation: u64) {
        self.traffic.metrics.links_up.add(1);
        if !self.event_listeners.is_empty() {
            self.tell(&PeerEvent { id, incarnation, kind: PeerEventKind::Up });
        }
    }

    /// Reports that the link with a run of a peer, which was up, is lost.
    pub(super) fn report_lost(&mut self, id: Id, incarnation: u64, loss: Loss, reason: &str) {
        self.traffic.metrics.links_ended.add(1);
        self.traffic.metrics.peers_lost.add(u64::from(matches!(loss, Loss::Broken | Loss::Silent)));
        if self.event_listeners.is_empty() {
            return;
        }
        let kind = PeerEventKind::Lost { loss, reason: reason.into() };
        self.tell(&PeerEvent { id, incarnation, kind });
    }

    fn tell(&mut self, event: &PeerEvent) {
        self.event_listeners.retain(|listener| listener.tell(event.clone()));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::runtime::events::{EVENTS_MAX, Events};
    use crate::runtime::{LinkKind, Listener as Bound, Node, PolledNode};

    /// A node with a link to id 1.
    fn linked() -> [PolledNode; 2] {
        let listener = Bound::bind(&LinkKind::Unix.fresh_address(1)).unwrap();
        let peers = [(1, listener.address().unwrap())].into_iter().collect();
        let mut nodes = [
            Node::builder(0).peers(peers).polled().unwrap(),
            Node::builder(1).listener(listener).polled().unwrap(),
        ];
        let up = (0..10_000).any(|_| {
            nodes.iter_mut().for_each(|node| {
                node.progress(Duration::ZERO).unwrap();
            });
            nodes[0].event_loop_mut().open_links(&gpc_trees::IdList::range(1..2)) == Ok(Vec::new())
        });
        assert!(up, "they never meet");
        nodes
    }

    #[test]
    fn a_listener_begins_with_the_links_that_are_up_beside_its_bound() {
        let [mut node, _other] = linked();
        let links = &mut node.event_loop_mut().connections;
        let (events, listener) = Events::new();
        links.listen(listener);
        let up = events.try_recv().unwrap();
        assert_eq!((up.id, up.kind), (1, PeerEventKind::Up));
        (0..=EVENTS_MAX as Id).for_each(|id| links.report_up(id, 7));
        assert_eq!(events.missed(), 0, "the place of the first one is free for another");
        links.report_up(1, 7);
        assert_eq!(events.missed(), 1);
    }

    #[test]
    fn every_listener_gets_every_event_and_one_that_is_gone_is_forgotten() {
        let [mut node, _other] = linked();
        let links = &mut node.event_loop_mut().connections;
        let listen = |links: &mut Connections| {
            let (events, listener) = Events::new();
            links.listen(listener);
            events.try_recv().unwrap();
            events
        };
        let [one, two] = [listen(links), listen(links)];
        links.report_lost(5, 77, Loss::Silent, "silent");
        let kind = PeerEventKind::Lost { loss: Loss::Silent, reason: "silent".into() };
        let lost = PeerEvent { id: 5, incarnation: 77, kind };
        assert_eq!([one.try_recv(), two.try_recv()], [Ok(lost.clone()), Ok(lost)]);
        drop(one);
        let _three = listen(links);
        assert_eq!(links.event_listeners.len(), 2);
        drop(two);
        links.report_up(5, 78);
        assert_eq!(links.event_listeners.len(), 1);
    }

    #[test]
    fn a_forgotten_peer_is_an_event_and_its_link_is_gone() {
        let [mut node, mut other] = linked();
        let events = [&node, &other].map(|node| node.events().unwrap());
        for node in [&mut node, &mut other] {
            node.progress(Duration::ZERO).unwrap();
        }
        node.forget(1).unwrap();
        for _ in 0..10 {
            node.progress(Duration::ZERO).unwrap();
            other.progress(Duration::ZERO).unwrap();
        }
        let lost = events.map(|events| {
            assert_eq!(events.try_recv().unwrap().kind, PeerEventKind::Up);
            match events.try_recv().unwrap().kind {
                PeerEventKind::Lost { loss, .. } => loss,
                PeerEventKind::Up => panic!("it is lost"),
            }
        });
        assert_eq!(lost, [Loss::Forgotten, Loss::Closed]);
        for node in [&node, &other] {
            assert!(node.event_loop().connections.links.peers_up().is_empty());
        }
        assert_eq!(node.event_loop_mut().connections.ensure_link(crate::chain::Time::default(), 1), None);
    }
}
