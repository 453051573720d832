//! Checks the kind of a loss when another link replaces a link. If that link is with another run of the peer, the
//! incarnation is lost, not only a link.

use std::collections::BTreeMap;

use gpc_trees::Id;

use super::observation::{Observation, Process};
use chained_gpc::wire::CauseKind;

/// Run of the peer of each link.
#[derive(Default, Debug)]
pub(super) struct LossKinds {
    runs: BTreeMap<(Process, Id), u64>,
    /// Links replaced in this step: run of the peer, and the reported kind of the loss.
    replaced: BTreeMap<(Process, Id), (u64, Option<CauseKind>)>,
}

impl LossKinds {
    /// Handles an observation; returns what is wrong with it.
    pub(super) fn observe(&mut self, seen: &Observation) -> Option<String> {
        match *seen {
            Observation::Replaced { end, peer, .. } => {
                let run = *self.runs.get(&(end.process, peer))?;
                self.replaced.insert((end.process, peer), (run, None));
            }
            Observation::LostBy(process, peer, kind) => {
                self.replaced.get_mut(&(process, peer))?.1 = Some(kind);
            }
            Observation::Up { end, peer, incarnation, .. } => {
                self.runs.insert((end.process, peer), incarnation);
                let (before, kind) = self.replaced.remove(&(end.process, peer))?;
                // If exactly one of two links has a key, the standing link is also asked before it is replaced; both
                // may be of the same run.
                let wrong = before != incarnation && kind == Some(CauseKind::LinkLost);
                return wrong.then(|| {
                    format!("the link of run {before} of id {peer} is lost as a link alone, and run {incarnation} takes its place at {end:?}")
                });
            }
            // The replacing link may have been refused.
            Observation::Settled(process, _) => self.replaced.retain(|(of, _), _| *of != process),
            _ => {}
        }
        None
    }
}
