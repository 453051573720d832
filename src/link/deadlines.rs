//! Sets and handles the deadlines of a node's connections.

use super::deadline_queue::DeadlineOwner;
use super::links::Links;
use super::output::LinksOutput;
use super::peering::{Book, LinkKey};
use super::table::HasLink;
use crate::chain::{Time, sooner};

impl<B: Book, T: HasLink> Links<B, T> {
    /// When [`tick`](Self::tick) is due.
    #[inline(always)]
    pub fn next_deadline(&self) -> Option<Time> {
        sooner(self.due.next(), self.peering.next_deadline())
    }

    /// Sets or clears the deadline of a connection.
    pub fn give_until(&mut self, key: LinkKey, until: Option<Time>) {
        let Some(link) = self.table.link_mut(key) else { return };
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
        let Some(link) = self.table.link_mut(key) else { return };
        let expired = link.expire_unfinished(now, self.me);
        link.mark(&mut self.dirty, key);
        let next = link.unfinished;
        self.wait_for_rest(key, None, next);
        if let Err(why) = expired {
            self.close(now, key, &why);
        }
    }

    /// Handles expired deadlines.
    pub fn tick(&mut self, now: Time) {
        self.peering.tick(now);
        self.settle_peering(now);
        // Terminates: later deadlines stay in the queue.
        while let Some(what) = self.due.pop(now) {
            match what {
                DeadlineOwner::Link(key) => self.outputs.push_back(LinksOutput::Close { key }),
                DeadlineOwner::Request(key) => self.expire_unfinished(now, key),
            }
        }
    }
}
