//! Queue of the deadlines of connections: last frames of closing connections, and incomplete requests.
//!
//! A priority queue, soonest first: the cost of a turn depends on the number of expired deadlines, not on the number of
//! links or peers.

use std::collections::BTreeSet;

use super::peering::LinkKey;
use crate::chain::Time;

/// The owner of a deadline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DeadlineOwner {
    /// A connection that is being closed.
    Link(LinkKey),
    /// A link with unfinished requests, whose missing parts must arrive before the deadline.
    Request(LinkKey),
}

/// The deadlines, soonest first: one for each connection that is being closed, and one for each link with unfinished
/// requests.
#[derive(Debug, Default)]
pub struct DeadlineQueue(BTreeSet<(Time, DeadlineOwner)>);

impl DeadlineQueue {
    /// Adds a deadline.
    pub fn add(&mut self, at: Time, what: DeadlineOwner) {
        self.0.insert((at, what));
    }

    /// Removes a deadline.
    pub fn remove(&mut self, at: Time, what: DeadlineOwner) {
        self.0.remove(&(at, what));
    }

    /// Number of deadlines.
    #[cfg(feature = "snapshot")]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The soonest deadline.
    pub fn next(&self) -> Option<Time> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Takes the next expired deadline.
    pub fn pop(&mut self, now: Time) -> Option<DeadlineOwner> {
        match self.next() {
            Some(at) if at <= now => self.0.pop_first().map(|(_, what)| what),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expired_deadlines_are_taken_in_order_and_later_ones_stay() {
        let (mut due, at) = (DeadlineQueue::default(), Time::from_nanos);
        let link = |key| DeadlineOwner::Link(LinkKey(key));
        due.add(at(30), link(1));
        due.add(at(10), DeadlineOwner::Request(LinkKey(7)));
        due.add(at(20), link(2));
        due.add(at(20), link(3));
        due.remove(at(20), link(2));
        assert_eq!((due.next(), due.0.len()), (Some(at(10)), 3));
        assert_eq!(due.pop(at(9)), None);
        assert_eq!(
            [due.pop(at(29)), due.pop(at(29)), due.pop(at(29))],
            [Some(DeadlineOwner::Request(LinkKey(7))), Some(link(3)), None]
        );
        assert_eq!((due.pop(at(30)), due.next()), (Some(link(1)), None));
    }
}
