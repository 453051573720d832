//! Handles the events of links: updates the link, the queues of the node and the inputs of its chain.

use gpc_trees::Id;

use super::event::Event;
use super::event_handling::EventEffects;
use super::links::Links;
use super::output::{Arrival, LinksOutput};
use super::peering::{Book, LinkKey, Proof};
use super::state::Phase;
use super::table::HasLink;
use crate::branch_hint::unlikely;
use crate::chain::{Input, Time};
use crate::wire::{Reason, Request};

impl<B: Book, T: HasLink> Links<B, T> {
    /// Handles one event of a connection. `permits` decides whether a peer with this proof may have a request executed.
    ///
    /// # Errors
    /// If the connection is to be closed. The text is for people.
    pub fn handle_event(
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
            Phase::Connecting(_) | Phase::Greeting => return Err("its first frame is not a hello".into()),
        };
        let before = link.request_deadline;
        let effects =
            link.handle_event(now, (self.me, from), event, |request, proof| permits(request, proof, from));
        let after = link.request_deadline;
        self.update_request_deadline(key, before, after);
        self.apply_effects(key, from, effects?);
        Ok(())
    }

    /// Reports a heartbeat to the chain if a link has received bytes but no message.
    pub fn report_heartbeat(&mut self, key: LinkKey) {
        if let Some(link) = self.table.link_mut(key)
            && let Phase::Up(peer) = link.phase
            && std::mem::take(&mut link.has_heartbeat)
        {
            self.arrivals.push_back(Arrival::Input(Input::Heartbeat(peer)));
        }
    }

    /// Applies the effects of an event beyond its link.
    fn apply_effects(&mut self, key: LinkKey, from: Id, effects: EventEffects) {
        let EventEffects { input, needs_write, has_stream_data, needs_window, has_pong, pause } = effects;
        self.has_stream_data |= has_stream_data;
        if needs_window {
            self.window_grants.push(key);
        }
        if needs_write && let Some(link) = self.table.link_mut(key) {
            link.mark(&mut self.dirty, key);
        }
        if has_pong && unlikely(self.peering.has_waiting_runs()) {
            self.outputs.push_back(LinksOutput::PongReceived { key, peer: from });
        }
        if let Some(length) = pause {
            self.outputs.push_back(LinksOutput::Pause { key, length });
        }
        self.arrivals.extend(input.map(Arrival::Input));
    }
}
