//! Deadlines of a node's connections.

use super::connections::Connections;
use crate::chain::{Time, sooner};

impl Connections {
    /// When [`check_deadlines`](Self::check_deadlines) is due.
    #[inline(always)]
    pub(super) fn next_deadline(&self) -> Option<Time> {
        sooner(self.accepting.again, self.links.next_deadline())
    }

    /// Handles expired deadlines.
    pub(super) fn check_deadlines(&mut self, now: Time) {
        if self.accepting.again.is_some_and(|at| at <= now) {
            self.accepting.again = None;
            self.accept(now);
        }
        self.links.tick(now);
        self.settle(now);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::link::DeadlineOwner;
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
        let links = &mut node.event_loop_mut().connections;
        let key = links.links.table.iter().next().expect("it has connected").0;
        assert_eq!(links.links.deadlines.next(), None, "a hello is awaited elsewhere");
        for (until, soonest) in [(Some(at(5)), Some(at(5))), (Some(at(8)), Some(at(8))), (None, None)] {
            links.links.set_deadline(key, until);
            assert_eq!(
                (links.links.deadlines.next(), links.links.table.link(key).unwrap().deadline),
                (soonest, until)
            );
        }
        links.links.set_deadline(key, Some(at(8)));
        links.check_deadlines(at(7));
        assert_eq!((links.links.table.len(), links.links.deadlines.next()), (1, Some(at(8))));
        links.check_deadlines(at(8));
        assert_eq!((links.links.table.len(), links.links.deadlines.next()), (0, None));
        let _another = connect(&node);
        node.progress(Duration::from_secs(60)).unwrap();
        let links = &mut node.event_loop_mut().connections;
        let key = links.links.table.iter().next().expect("it has connected").0;
        links.links.set_deadline(key, Some(at(9)));
        links.links.deadlines.add(at(7), DeadlineOwner::Request(key));
        links.links.table.link_mut(key).unwrap().request_deadline = Some(at(7));
        assert!(links.discard(key).is_some());
        assert_eq!(links.links.deadlines.next(), None, "it takes its deadlines along");
        // Nothing is set for a connection that is gone.
        links.links.set_deadline(key, Some(at(9)));
        assert_eq!(links.links.deadlines.next(), None);
    }

    /// epoll reports pending connections once. If no descriptor was free, the node must try again.
    #[test]
    fn accepting_is_resumed_when_its_pause_is_over() {
        let mut node = listens();
        let _stranger = connect(&node);
        node.event_loop_mut().connections.accepting.again = Some(at(70));
        assert_eq!(node.event_loop().next_deadline(), Some(at(70)));
        let links = &mut node.event_loop_mut().connections;
        links.check_deadlines(at(69));
        assert_eq!((links.links.table.len(), links.accepting.again), (0, Some(at(70))));
        links.check_deadlines(at(70));
        assert_eq!((links.links.table.len(), links.accepting.again), (1, None));
    }
}
