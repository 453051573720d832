//! What leaves on the links of a node: signs of life that a write brings, links that pass long data on, and windows for
//! the peers that send them.

use super::links::Links;
use super::output::Arrival;
use super::peering::{Book, LinkKey};
use super::state::Phase;
use super::table::HasLink;
use crate::chain::Input;

impl<B: Book, T: HasLink> Links<B, T> {
    /// Whether long messages leave on any link.
    pub fn is_streaming(&self) -> bool {
        !self.streaming.is_empty()
    }

    /// The driver has written on a link what could be written.
    pub fn wrote(&mut self, key: LinkKey) {
        let Some(link) = self.table.link_mut(key) else { return };
        if link.outbox.is_streaming() && !std::mem::replace(&mut link.streams, true) {
            self.streaming.push(key);
        }
        if let Phase::Up(peer) = link.phase {
            let left = link.take_question_left().then_some(Input::PingLeft(peer));
            let heard = std::mem::take(&mut link.heard).then_some(Input::Heard(peer));
            self.arrivals.extend(left.into_iter().chain(heard).map(Arrival::Input));
        }
    }

    /// Tells the senders of long data how far they may continue; returns whether there is any news.
    pub fn grant(&mut self) -> bool {
        let mut granting = std::mem::take(&mut self.granting);
        granting.sort_unstable();
        granting.dedup();
        let mut news = false;
        granting.retain(|key| {
            let Some(link) = self.table.link_mut(*key) else { return false };
            if link.grant_windows() {
                link.mark(&mut self.dirty, *key);
                news = true;
            }
            link.inbox.will_grant()
        });
        self.granting = granting;
        news
    }

    /// Bytes have come for long messages that links pass on: these have something to write.
    pub fn mark_streaming(&mut self) {
        self.forget_streamed();
        for key in &self.streaming {
            if let Some(link) = self.table.link_mut(*key) {
                link.mark(&mut self.dirty, *key);
            }
        }
    }

    /// Forgets the links on which nothing long leaves any more.
    pub fn forget_streamed(&mut self) {
        let table = &mut self.table;
        self.streaming.retain(|key| {
            table.link_mut(*key).is_some_and(|link| {
                link.streams = link.outbox.is_streaming();
                link.streams
            })
        });
    }
}
