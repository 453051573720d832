//! Sets and handles the deadlines of a node's connections.

use super::deadline_queue::DeadlineOwner;
use super::links::Links;
use super::output::LinksOutput;
use super::peering::{Book, LinkKey};
use super::table::HasLink;
use crate::chain::{Time, sooner};

impl<B: Book, T: HasLink> Links<B, T> {
    /// When [`tick`](Self::tick) must be called.
    #[inline(always)]
    pub fn next_deadline(&self) -> Option<Time> {
        sooner(self.deadlines.next(), self.peering.next_deadline())
    }

    /// Sets or clears the deadline of a connection.
    pub fn set_deadline(&mut self, key: LinkKey, until: Option<Time>) {
        let Some(link) = self.table.link_mut(key) else { return };
        if let Some(before) = std::mem::replace(&mut link.deadline, until) {
            self.deadlines.remove(before, DeadlineOwner::Link(key));
        }
        if let Some(until) = until {
            self.deadlines.add(until, DeadlineOwner::Link(key));
        }
    }

    /// Moves the queue entry of a link whose request deadline has changed.
    pub(super) fn update_request_deadline(
        &mut self,
        key: LinkKey,
        before: Option<Time>,
        after: Option<Time>,
    ) {
        if before == after {
            return;
        }
        if let Some(before) = before {
            self.deadlines.remove(before, DeadlineOwner::Request(key));
        }
        if let Some(after) = after {
            self.deadlines.add(after, DeadlineOwner::Request(key));
        }
    }

    /// Rejects the requests of a link that have not arrived in time.
    fn expire_unfinished(&mut self, now: Time, key: LinkKey) {
        let Some(link) = self.table.link_mut(key) else { return };
        let expired = link.expire_unfinished(now, self.me);
        link.mark(&mut self.dirty, key);
        let next = link.request_deadline;
        self.update_request_deadline(key, None, next);
        if let Err(why) = expired {
            self.close(now, key, &why);
        }
    }

    /// Handles expired deadlines.
    pub fn tick(&mut self, now: Time) {
        self.peering.tick(now);
        self.settle_peering(now);
        // Terminates: later deadlines stay in the queue.
        while let Some(what) = self.deadlines.pop(now) {
            match what {
                DeadlineOwner::Link(key) => self.outputs.push_back(LinksOutput::Close { key }),
                DeadlineOwner::Request(key) => self.expire_unfinished(now, key),
            }
        }
    }
}
