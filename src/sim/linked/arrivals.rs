//! What chains hear of links, in the order in which the machines say it, and after what the input at hand has brought about.

use gpc_trees::Id;

use crate::chain::Input;
use crate::sim::check::Observation;
use crate::sim::world::World;
use crate::wire::CauseKind;

/// What a chain is to hear.
#[derive(Debug)]
pub(super) enum Arrival {
    /// A link is up, with the run of the peer that began at `incarnation`, as the machine says; the one at its other end began at `begun`.
    Up { peer: Id, incarnation: u64, begun: u64 },
    /// `unreached` when no link ever came up: nothing that was sent can have arrived.
    Lost { peer: Id, kind: CauseKind, why: String, unreached: bool },
}

impl World {
    pub(super) fn is_to_hear(&mut self, id: Id, arrival: Arrival) {
        let run = self.hosts.run(id);
        self.linked().arrivals.push_back((id, run, arrival));
    }

    /// Gives the chains what there is for them.
    pub(in crate::sim) fn take_in_arrivals(&mut self) {
        // Ends: what an arrival brings about is finite, and nothing comes over a connection meanwhile.
        while let Some((id, run, arrival)) = self.linked.as_mut().and_then(|it| it.arrivals.pop_front()) {
            if !self.hosts.is_up(id) || self.hosts.run(id) != run {
                continue;
            }
            match arrival {
                Arrival::Up { peer, incarnation, begun } => {
                    let wrong = self.process(id).told.up(peer, incarnation, begun);
                    self.blame(id, wrong);
                    self.trace.say(
                        self.now,
                        format_args!("{id} is linked with the run of {peer} that began at {incarnation}"),
                    );
                    self.observe(&Observation::LinkUp { at: id, peer });
                    self.input(id, Input::LinkUp { peer, incarnation });
                }
                Arrival::Lost { peer, kind, why, unreached } => {
                    // The chain takes all that it has sent there for lost: what it sent since then goes, too.
                    self.process(id).pending.remove(&peer);
                    let unreached = unreached && self.process(id).peering.up(peer).is_none();
                    let wrong = self.process(id).told.lost(peer, unreached);
                    self.blame(id, wrong);
                    self.lose_link_for(id, peer, kind, why, unreached);
                }
            }
        }
    }
}
