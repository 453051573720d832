//! Inputs about links for the chains: in the order in which the machines report them, and after the outputs of the
//! current input.

use gpc_trees::Id;

use super::arrival::Arrival;
use crate::check::Observation;
use crate::world::World;
use chained_gpc::chain::Input;

impl World {
    pub(super) fn queue_arrival(&mut self, id: Id, arrival: Arrival) {
        let run = self.hosts.run(id);
        self.linked().arrivals.push_back((id, run, arrival));
    }

    /// Gives the chains their pending inputs.
    pub(crate) fn take_in_arrivals(&mut self) {
        // This loop ends: an arrival causes finitely many others, and no connection delivers meanwhile.
        while let Some((id, run, arrival)) = self.linked.as_mut().and_then(|it| it.arrivals.pop_front()) {
            if !self.hosts.is_up(id) || self.hosts.run(id) != run {
                continue;
            }
            match arrival {
                Arrival::Up { peer, incarnation, begun } => {
                    let wrong = self.process(id).announced.up(peer, incarnation, begun);
                    self.blame(id, wrong);
                    self.trace.say(
                        self.now,
                        format_args!("{id} is linked with the run of {peer} that began at {incarnation}"),
                    );
                    self.observe(&Observation::LinkUp { at: id, peer });
                    self.input(id, Input::LinkUp { peer, incarnation });
                }
                Arrival::Lost { peer, kind, why, unreached } => {
                    // The chain counts all its messages on this link as lost, so drop the pending ones.
                    self.process(id).pending.remove(&peer);
                    let unreached = unreached && self.process(id).peering.up(peer).is_none();
                    let wrong = self.process(id).announced.lost(peer, unreached);
                    self.blame(id, wrong);
                    self.lose_link_for(id, peer, kind, why, unreached);
                }
            }
        }
    }
}
