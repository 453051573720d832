//! The deadlines of a node's connections: last frames of closing connections, and missing parts of unfinished requests.
//!
//! A priority queue, soonest first: the cost of a turn depends on the number of expired deadlines, not on the number of
//! links or peers.

use std::collections::BTreeSet;

use super::links::Links;
use crate::chain::{Time, sooner};
use crate::peering::LinkKey;

/// The owner of a deadline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Due {
    /// A connection that is being closed.
    Link(LinkKey),
    /// A link with unfinished requests, whose missing parts must arrive before the deadline.
    Request(LinkKey),
}

/// The deadlines, soonest first: one for each connection that is being closed, and one for each link with unfinished
/// requests.
#[derive(Debug, Default)]
pub(super) struct DueTimes(BTreeSet<(Time, Due)>);

impl DueTimes {
    pub(super) fn add(&mut self, at: Time, what: Due) {
        self.0.insert((at, what));
    }

    pub(super) fn remove(&mut self, at: Time, what: Due) {
        self.0.remove(&(at, what));
    }

    /// The soonest deadline.
    fn next(&self) -> Option<Time> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Takes the next expired deadline.
    fn pop(&mut self, now: Time) -> Option<Due> {
        match self.next() {
            Some(at) if at <= now => self.0.pop_first().map(|(_, what)| what),
            _ => None,
        }
    }
}

impl Links {
    /// When [`check_deadlines`](Self::check_deadlines) is due.
    #[inline(always)]
    pub(super) fn next_deadline(&self) -> Option<Time> {
        sooner(sooner(self.due.next(), self.accept_again), self.peering.next_deadline())
    }

    /// Sets or clears the deadline of a connection.
    pub(super) fn give_until(&mut self, key: LinkKey, until: Option<Time>) {
        let Some(link) = self.links.get_mut(key) else { return };
        if let Some(before) = std::mem::replace(&mut link.deadline, until) {
            self.due.remove(before, Due::Link(key));
        }
        if let Some(until) = until {
            self.due.add(until, Due::Link(key));
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
                Due::Link(key) => drop(self.discard(key)),
                Due::Request(key) => self.expire_unfinished(now, key),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_comes_in_its_order_and_what_is_not_stays() {
        let (mut due, at) = (DueTimes::default(), Time::from_nanos);
        let link = |key| Due::Link(LinkKey(key));
        due.add(at(30), link(1));
        due.add(at(10), Due::Request(LinkKey(7)));
        due.add(at(20), link(2));
        due.add(at(20), link(3));
        due.remove(at(20), link(2));
        assert_eq!((due.next(), due.0.len()), (Some(at(10)), 3));
        assert_eq!(due.pop(at(9)), None);
        assert_eq!(
            [due.pop(at(29)), due.pop(at(29)), due.pop(at(29))],
            [Some(Due::Request(LinkKey(7))), Some(link(3)), None]
        );
        assert_eq!((due.pop(at(30)), due.next()), (Some(link(1)), None));
    }
}
