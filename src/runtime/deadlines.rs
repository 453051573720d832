//! Sets and handles the deadlines of a node's connections.

use super::deadline_queue::DeadlineOwner;
use super::links::Links;
use crate::chain::{Time, sooner};
use crate::peering::LinkKey;

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
            self.due.remove(before, DeadlineOwner::Link(key));
        }
        if let Some(until) = until {
            self.due.add(until, DeadlineOwner::Link(key));
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
