//! What a loss takes along: requests of which no byte has left go out on the next link, once, unless the peer has left.

use gpc_trees::Id;

use super::step::Place;
use crate::world::World;
use chained_gpc::link::peering::LinkKey;
use chained_gpc::link::{Arrival, Loss, Phase};

impl World {
    /// Closes a connection of a process, and checks what it keeps of the requests on it.
    pub(super) fn close_link(&mut self, id: Id, key: LinkKey, why: &str) {
        let now = self.time();
        let link = self.process(id).links.table.get(key);
        let stands = link.map(|it| (it.place, it.link.phase, it.link.loss));
        let stands = stands.filter(
            |(_, phase, _)| matches!(phase, Phase::Up(peer) if self.process(id).links.up(*peer) == Some(key)),
        );
        let before = self.process(id).links.arrivals.len();
        self.process(id).links.close(now, key, why);
        let came = self.process(id).links.arrivals.range(before..);
        let kept = came.clone().any(|it| matches!(it, Arrival::Lost(lost) if lost.unsent.is_some()));
        let wrong = stands.and_then(|(place, _, loss)| self.wrong_with_loss(place, loss, kept));
        self.blame(id, wrong);
        self.settle_links(id);
    }

    /// Returns the rule that the loss of a link violates, in words.
    fn wrong_with_loss(&mut self, (pipe, side): Place, loss: Loss, kept: bool) -> Option<String> {
        let there = self.linked().end((pipe, 1 - side));
        let peer = there.id;
        let untouched = there.rules.rests_since(there.rested_at);
        let unsent = if untouched { there.given.unsent() } else { None };
        let what = match (loss, kept, unsent) {
            (Loss::Left, true, _) => "keeps requests for",
            (Loss::Left, ..) => return None,
            (_, true, Some(true)) => "keeps requests a second time for",
            (_, false, Some(false)) => "loses requests of which nothing has left, to",
            _ => return None,
        };
        Some(format!("{what} {peer}, lost as {loss:?}"))
    }
}
