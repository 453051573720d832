//! What comes on the links of a node: events change their link, and what lies beyond it.

use gpc_trees::Id;

use super::event::Event;
use super::heeding::Heeded;
use super::links::Links;
use super::output::{Arrival, LinksOutput};
use super::peering::{Book, LinkKey, Proof};
use super::state::Phase;
use super::table::HasLink;
use crate::chain::{Input, Time};
use crate::hint::unlikely;
use crate::wire::{Reason, Request};

impl<B: Book, T: HasLink> Links<B, T> {
    /// Handles one event of a connection. `permits` decides whether a request may be executed for a peer that is proved
    /// in this way.
    ///
    /// # Errors
    /// If the connection is to be closed. The text is for people.
    pub fn heed(
        &mut self,
        now: Time,
        key: LinkKey,
        event: Event,
        permits: impl FnOnce(&Request, Proof, Id) -> Result<(), Reason>,
    ) -> Result<(), String> {
        let Some(link) = self.table.link_mut(key) else { return Ok(()) };
        let from = match link.phase {
            Phase::Closing => return Ok(()),
            Phase::Up(peer) => peer,
            // Earlier bytes are handled by peering.
            Phase::Connecting(_) | Phase::Greeting => return Err("its first frame is no hello".into()),
        };
        let before = link.unfinished;
        let heeded = link.heed(now, (self.me, from), event, |request, proof| permits(request, proof, from));
        let after = link.unfinished;
        self.wait_for_rest(key, before, after);
        self.carry_out(key, from, heeded?);
        Ok(())
    }

    /// Bytes have come on a link that were no message: a sign of life of its peer.
    pub fn take_heard(&mut self, key: LinkKey) {
        if let Some(link) = self.table.link_mut(key)
            && let Phase::Up(peer) = link.phase
            && std::mem::take(&mut link.heard)
        {
            self.arrivals.push_back(Arrival::Input(Input::Heard(peer)));
        }
    }

    /// Carries out what an event of a link changes beyond it.
    fn carry_out(&mut self, key: LinkKey, from: Id, heeded: Heeded) {
        let Heeded { input, writes, stirs, grants, answers, pause } = heeded;
        self.stirred |= stirs;
        if grants {
            self.granting.push(key);
        }
        if writes && let Some(link) = self.table.link_mut(key) {
            link.mark(&mut self.dirty, key);
        }
        if answers && unlikely(self.peering.has_waiting_runs()) {
            self.outputs.push_back(LinksOutput::Answered { key, peer: from });
        }
        if let Some(length) = pause {
            self.outputs.push_back(LinksOutput::Pause { key, length });
        }
        self.arrivals.extend(input.map(Arrival::Input));
    }
}
