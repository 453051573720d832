//! Sets and handles the deadlines of a node's connections.

use super::deadline_queue::DeadlineOwner;
use super::links::Links;
use crate::chain::{Time, sooner};
use crate::link::peering::LinkKey;

impl Links {
    /// When [`check_deadlines`](Self::check_deadlines) is due.
    #[inline(always)]
    pub(super) fn next_deadline(&self) -> Option<Time> {
        sooner(sooner(self.due.next(), self.accept_again), self.peering.next_deadline())
    }

    /// Sets or clears the deadline of a connection.
    pub(super) fn give_until(&mut self, key: LinkKey, until: Option<Time>) {
        let Some(link) = self.links.link_mut(key) else { return };
        if let Some(before) = std::mem::replace(&mut link.deadline, until) {
            self.due.remove(before, DeadlineOwner::Link(key));
        }
        if let Some(until) = until {
            self.due.add(until, DeadlineOwner::Link(key));
        }
    }

    /// The deadline of a link's unfinished requests has changed.
    pub(super) fn wait_for_rest(&mut self, key: LinkKey, before: Option<Time>, after: Option<Time>) {
        if before == after {
            return;
        }
        if let Some(before) = before {
            self.due.remove(before, DeadlineOwner::Request(key));
        }
        if let Some(after) = after {
            self.due.add(after, DeadlineOwner::Request(key));
        }
    }

    /// Rejects the requests of a link that have not arrived in time.
    fn expire_unfinished(&mut self, now: Time, key: LinkKey) {
        let Some(link) = self.links.link_mut(key) else { return };
        let expired = link.expire_unfinished(now, self.me);
        link.mark(&mut self.dirty, key);
        let next = link.unfinished;
        self.wait_for_rest(key, None, next);
        if let Err(why) = expired {
            self.close(now, key, &why);
        }
    }

    /// Handles expired deadlines.
    pub(super) fn check_deadlines(&mut self, now: Time) {
        if self.accept_again.is_some_and(|at| at <= now) {
            self.accept_again = None;
            self.accept(now);
        }
        self.peering.tick(now);
        self.settle_peering(now);
        // Terminates: later deadlines stay in the queue.
        while let Some(what) = self.due.pop(now) {
            match what {
                DeadlineOwner::Link(key) => drop(self.discard(key)),
                DeadlineOwner::Request(key) => self.expire_unfinished(now, key),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::runtime::{LinkKind, Listener, Node, PolledNode};

    fn at(seconds: u64) -> Time {
        Time::default().plus(Duration::from_secs(seconds))
    }

    /// A node that listens, and the address at which others connect.
    fn listens() -> PolledNode {
        let listener = Listener::bind(&LinkKind::Tcp.fresh_address(1)).unwrap();
        Node::builder(1).link(LinkKind::Tcp).listener(listener).polled().unwrap()
    }

    fn connect(node: &PolledNode) -> std::net::TcpStream {
        std::net::TcpStream::connect(node.address().unwrap().to_string()).unwrap()
    }

    #[test]
    fn a_connection_has_one_deadline_and_none_once_it_is_gone() {
        let mut node = listens();
        let _stranger = connect(&node);
        node.progress(Duration::from_secs(60)).unwrap();
        let links = &mut node.event_loop_mut().links;
        let key = links.links.iter().next().expect("it has connected").0;
        assert_eq!(links.due.next(), None, "a hello is awaited elsewhere");
        for (until, soonest) in [(Some(at(5)), Some(at(5))), (Some(at(8)), Some(at(8))), (None, None)] {
            links.give_until(key, until);
            assert_eq!((links.due.next(), links.links.link(key).unwrap().deadline), (soonest, until));
        }
        links.give_until(key, Some(at(8)));
        links.check_deadlines(at(7));
        assert_eq!((links.links.len(), links.due.next()), (1, Some(at(8))));
        links.check_deadlines(at(8));
        assert_eq!((links.links.len(), links.due.next()), (0, None));
        let _another = connect(&node);
        node.progress(Duration::from_secs(60)).unwrap();
        let links = &mut node.event_loop_mut().links;
        let key = links.links.iter().next().expect("it has connected").0;
        links.give_until(key, Some(at(9)));
        links.due.add(at(7), DeadlineOwner::Request(key));
        links.links.link_mut(key).unwrap().unfinished = Some(at(7));
        assert!(links.discard(key).is_some());
        assert_eq!(links.due.next(), None, "it takes its deadlines along");
        // Nothing is set for a connection that is gone.
        links.give_until(key, Some(at(9)));
        assert_eq!(links.due.next(), None);
    }

    /// The system reports connections that wait once: if there was no descriptor for them, the node must come back.
    #[test]
    fn accepting_is_resumed_when_its_pause_is_over() {
        let mut node = listens();
        let _stranger = connect(&node);
        node.event_loop_mut().links.accept_again = Some(at(70));
        assert_eq!(node.event_loop().next_deadline(), Some(at(70)));
        let links = &mut node.event_loop_mut().links;
        links.check_deadlines(at(69));
        assert_eq!((links.links.len(), links.accept_again), (0, Some(at(70))));
        links.check_deadlines(at(70));
        assert_eq!((links.links.len(), links.accept_again), (1, None));
    }
}
